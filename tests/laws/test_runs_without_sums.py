"""Runs of an earlier version have no sums beside their arrays: they are resumed and verified."""

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.commands import api
from pipeline.steps import partitions
from stages.store import arrays, token_store
from stages.store.token_store import SUMS
from tests.laws.tiny_run import tiny_run, write_tiny_corpus


def test_a_run_without_sums_is_resumed_and_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_array(path: Path, array: NDArray[np.generic]) -> None:
        if path.name != SUMS:
            arrays.write_array(path, array)

    write_tiny_corpus(tmp_path / "corpus")
    paths = [str(tmp_path / "corpus" / "*.jsonl")]
    source = {"name": "s", "paths": paths, "language": {"column": "lang"}}
    run, out = tiny_run(sources=[source], dedup={"near": True}), tmp_path / "out"
    with monkeypatch.context() as earlier:
        for module in (partitions, token_store):
            earlier.setattr(module, "write_array", write_array)
        api.run(run, out, workers=0, until="tokenize")
    assert not list(out.rglob(SUMS))
    assert api.run(run, out, workers=0)["passed"]
    assert not list(out.rglob(SUMS)), "nothing was made again"
    assert api.verify(out, workers=0)["passed"]
