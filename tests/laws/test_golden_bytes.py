"""What the version of a step promises: the step's bytes change only together with it.

`python -m tests.laws.test_golden_bytes` writes the digests anew; do it only after raising the version of
the first step that changed, since those after it follow.
"""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

import pytest

from pipeline.steps.table import STEPS, step_of
from stages.store.token_store import SUMS
from tests.conftest import digests, run_small, write_small_corpus

GOLDEN = Path(__file__).with_name("golden.json")
FOLDERS = {
    "ingest": "ingest",
    "dedup": "dedup",
    "tokenizer": "tokenizer",
    "split": "split",
    "tokenize": "tokens",
    "shard": "datasets",
}
INGEST = {"unit_size": "200KiB", "min_chars": 20}
"""As it was when golden.json was written first: the bytes of units depend on it."""
PARTS = ("dedup/decided/", "dedup/names/", "dedup/rows/")
# Sums are left out, and what dedup decides in parts: they came later, and a run without them is one of
# the same version.
DRAWN_FOLDERS = {"sentences": "sentences", "draw": "datasets"}
"""Of a run with other datasets, since most runs have neither step."""
OTHERS = ("decontaminate", "cut", "replay", "mix", "decode", "verify")
"""Steps without golden bytes: checks, and those whose laws compare their bytes with a count by hand."""
DRAWN = [
    {"name": "nsp", "objective": {"kind": "nsp"}},
    {"name": "fim", "objective": {"kind": "fim", "level": "character"}},
    {"name": "mbart", "objective": {"kind": "bart", "preset": "mbart"}},
    {"name": "t5", "materialized_epochs": 1, "objective": {"kind": "span_corruption"}},
]


def digests_by_step(output: Path, folders: dict[str, str]) -> dict[str, list[str]]:
    """Give, for each step, its version and one digest over all its files."""
    result = {}
    for step, folder in folders.items():
        every = digests(output, folder)
        later = {key for key in every if key.endswith(f"/{SUMS}") or key.startswith(PARTS)}
        written = {key: digest for key, digest in every.items() if key not in later}
        assert written, f"the run has no file of {step} in {folder}: switch the step on"
        files = json.dumps(written, sort_keys=True).encode()
        result[step] = [str(step_of(step).version), hashlib.sha256(files).hexdigest()]
    return result


def digests_of_today(corpus: Path, output: Path) -> dict[str, list[str]]:
    """Run, and then again with datasets that need further steps in the place of the first one."""
    run_small(corpus, output, ingest=INGEST)
    found = digests_by_step(output, FOLDERS)
    shutil.rmtree(output / "datasets")
    run_small(corpus, output, ingest=INGEST, datasets=DRAWN, until="draw", replace=True)
    return found | digests_by_step(output, DRAWN_FOLDERS)


@pytest.fixture(scope="module")
def found(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The digests of today's code."""
    return digests_of_today(small_corpus, tmp_path_factory.mktemp("golden") / "run")


def test_every_step_has_golden_bytes_or_is_named_here() -> None:
    compared = {*FOLDERS, *DRAWN_FOLDERS}
    assert compared | {*OTHERS} == {step.name for step in STEPS}
    assert json.loads(GOLDEN.read_text()).keys() == compared


@pytest.mark.parametrize("step", [*FOLDERS, *DRAWN_FOLDERS])
def test_the_bytes_of_a_step_are_those_of_its_version(step: str, found: dict[str, list[str]]) -> None:
    golden = json.loads(GOLDEN.read_text())
    assert found[step] == golden.get(step), (
        f"the bytes of {step} changed, or it is new: raise its version in its step.py, unless it is new,"
        " then write golden.json anew: PYTHONPATH=. .venv/bin/python -m tests.laws.test_golden_bytes"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        write_small_corpus(Path(folder) / "corpus")
        written = digests_of_today(Path(folder) / "corpus", Path(folder) / "run")
        GOLDEN.write_text(json.dumps(written, indent=1) + "\n")
