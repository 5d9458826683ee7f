"""What BYTES_VERSIONS promises: a step's bytes change only together with its number.

`python -m tests.laws.test_golden_bytes` writes the digests anew; do it only after raising the number of
the first step that changed, since those after it follow.
"""

import hashlib
import json
import tempfile
from pathlib import Path

import pytest

from pipeline.plan import BYTES_VERSIONS
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


def digests_by_step(output: Path) -> dict[str, list[str]]:
    """Give, for each step, its version and one digest over all its files."""
    result = {}
    for step, folder in FOLDERS.items():
        files = json.dumps(digests(output, folder), sort_keys=True).encode()
        result[step] = [str(BYTES_VERSIONS[step]), hashlib.sha256(files).hexdigest()]
    return result


@pytest.mark.parametrize("step", FOLDERS)
def test_the_bytes_of_a_step_are_those_of_its_version(step: str, reference: Path) -> None:
    golden = json.loads(GOLDEN.read_text())
    assert digests_by_step(reference)[step] == golden[step], (
        f"the bytes of {step} changed: raise its number in BYTES_VERSIONS, then write golden.json anew"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        corpus = Path(folder) / "corpus"
        corpus.mkdir()
        write_small_corpus(corpus)
        run_small(corpus, Path(folder) / "run")
        GOLDEN.write_text(json.dumps(digests_by_step(Path(folder) / "run"), indent=1) + "\n")
