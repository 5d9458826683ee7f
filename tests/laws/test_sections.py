"""What a run promises of sections: damage to them is found, and none that was left behind is read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.session.verifying import verify_session
from tests.conftest import run_small
from tests.laws.sectioned import SOURCES, write_sections

DATASETS = [{"name": "prompts", "objective": {"kind": "prefix_lm", "split": "source"}}]
SETTINGS: dict[str, Any] = {
    "sources": SOURCES[1:],
    "datasets": DATASETS,
    "tokenizer": {"train": {"vocab_size": 2048}},
    "packing": {"seq_len": 128, "shards": 1},
    "validation": {"fraction": 0.0},
    "verify": {"learning": False},
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of three sections."""
    folder = tmp_path_factory.mktemp("sections")
    write_sections(folder / "sections", [], each=5)
    return folder


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over them to its end."""
    output = tmp_path_factory.mktemp("finished") / "run"
    assert run_small(corpus, output, until=None, **SETTINGS)["verify"]["prompts"]["findings"] == []
    return output


def add_one(place: int) -> Callable[[NDArray[np.integer]], NDArray[np.integer]]:
    """Move one end by a token."""

    def change(ends: NDArray[np.integer]) -> NDArray[np.integer]:
        ends[place] += 1
        return ends

    return change


def no_id(ids: NDArray[np.integer]) -> NDArray[np.integer]:
    """Put an id where none of the vocabulary is."""
    ids[3] = 65_000
    return ids


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("sections/ends", add_one(0)),
        ("sections/ends", add_one(2)),
        ("sections/ends", lambda ends: ends[:-1]),
        ("sections/ptr", add_one(1)),
        ("ids", no_id),
    ],
)
def test_damage_to_the_sections_of_the_store_is_found(
    finished: Path, tmp_path: Path, name: str, change: Callable[..., NDArray[np.integer]]
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    path = min((tmp_path / "run" / "tokens").glob(f"*/*/{name}.npy"))
    np.save(path, change(np.load(path)))
    verdict = verify_session(tmp_path / "run", workers=0, address=None, stream=None)["verify"]["prompts"]
    assert not verdict["passed"]
    assert {"sections", "readable", "text"} & {finding["check"] for finding in verdict["findings"]}
    assert any(finding["file"].startswith("tokens/") for finding in verdict["findings"])


def test_sections_that_a_stopped_run_left_behind_are_not_read(corpus: Path, tmp_path: Path) -> None:
    plain = [{**SOURCES[1], "name": "also", "section_columns": []}]
    both = {**SETTINGS, "sources": [*SETTINGS["sources"], *plain]}
    sectioned = {**SETTINGS, "sources": [*SETTINGS["sources"], {**SOURCES[1], "name": "also"}]}
    settings: dict[str, Any] = {"dedup": {"exact": False, "near": False}}
    run_small(corpus, tmp_path / "run", until="tokenize", **sectioned, **settings)
    for path in (tmp_path / "run" / "commits" / "tokenize").glob("also*"):
        path.unlink()
    (tmp_path / "run" / "commits" / "tokenize" / "_step.json").unlink()
    report = run_small(corpus, tmp_path / "run", until=None, replace=True, **both, **settings)
    run_small(corpus, tmp_path / "fresh", **both, **settings)
    assert report["verify"]["prompts"]["findings"] == []
    assert report["verify"]["prompts"]["passed"]
    found, wanted = (
        json.loads((tmp_path / name / "datasets/prompts/train/dataset.json").read_text())["fingerprint"]
        for name in ("run", "fresh")
    )
    assert found == wanted
