"""What candidate pairs promise: the same however few of them are held at a time."""

from pathlib import Path

import numpy as np
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup import edges as expand
from pipeline.steps.dedup.containment import _counted
from stages.store.arrays import write_array

DOCUMENTS, PIECES = 12, 5


def write_pieces(folder: Path) -> list[tuple[int, int]]:
    """Write pieces of buckets, some of long slices, and return all their pairs (better, worse)."""
    rng, pairs = np.random.default_rng(2), []
    for piece in range(PIECES):
        heads, members = np.sort(rng.choice(DOCUMENTS, 6, replace=False)), []
        for worse in range(DOCUMENTS):
            for start in (0, 3):
                count = int(np.searchsorted(heads[start : start + 3], worse))
                members.append((worse, start, count))
                pairs += [(int(better), worse) for better in heads[start : start + count]]
        (folder / str(piece)).mkdir()
        write_array(folder / f"{piece}/members.npy", np.array(members, np.int64))
        write_array(folder / f"{piece}/heads.npy", heads.astype(np.int64))
    return pairs


@pytest.mark.parametrize(("heads", "batch"), [(1 << 22, 1 << 20), (4, 3), (1, 1)])
def test_pairs_are_the_same_however_few_are_held(
    heads: int, batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expand, "MAX_HEADS", heads)
    monkeypatch.setattr(expand, "BATCH_PAIRS", batch)
    every = write_pieces(tmp_path)
    workspace, names = Workspace(tmp_path, tmp_path), [str(piece) for piece in range(PIECES)]
    parts = expand.expanded(workspace, names, 0, DOCUMENTS, code=expand.PLAIN)
    found = [int(pair) for part in parts for pair in part]
    assert sorted(found) == sorted({better << 32 | worse for better, worse in every})


def test_counts_of_parts_are_those_of_the_whole() -> None:
    whole = np.random.default_rng(1).integers(0, 50, 300).astype(np.uint64)
    found, counts = _counted(np.split(whole, [0, 7, 100, 101]))
    values, times = np.unique(whole, return_counts=True)
    assert found.tolist() == values.tolist()
    assert counts.tolist() == times.tolist()
