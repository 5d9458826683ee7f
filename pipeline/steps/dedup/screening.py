"""Screening: of earlier documents, only those band keys that a document of this run has, too.

    marks      once                     -> a Bloom filter of this run's keys for each band
    keys       runs of earlier units    -> the keys that pass it

An old document whose key no new one has is compared with none. So of most old documents nothing is
written, and no table of keys holds them.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.blocks import by_piece
from pipeline.steps.dedup.equal import compared_documents
from pipeline.steps.dedup.pieces import RunKeys, SignedRun, keys_key, read_keys
from pipeline.steps.records import UnitRecord
from stages.dedup.bloom_filter import add_keys, empty_filter, may_hold
from stages.store.arrays import array_writer, open_array, write_array

_MARKS = "dedup/keys/marks.npy"


@dataclass(frozen=True)
class MarkedKeys:
    """Whose band keys are marked."""

    runs: tuple[int, ...]
    """Numbers of the runs of units of this run."""
    bands: int


def mark_keys(workspace: Workspace, work: MarkedKeys) -> UnitRecord:
    """Write a Bloom filter of the keys of each band: (B, W) uint64."""
    count = sum(read_keys(workspace, run).shape[1] for run in work.runs)
    empty = empty_filter(count)
    with array_writer(workspace.create(_MARKS), dtype="<u8", shape=empty.shape) as append:
        for band in range(work.bands):
            words = empty.copy()
            for run in work.runs:
                add_keys(words, read_keys(workspace, run)[band])
            append(words[None])
    return UnitRecord()


def cut_screened_keys(workspace: Workspace, work: RunKeys) -> UnitRecord:
    """Order the band keys of earlier documents that may be those of new ones by piece.

    keys (K,), documents (K,) of all bands, and where each piece begins in each band, ptr (B, P + 1).
    """
    documents = compared_documents(workspace, work.run, pieces=work.pieces, rules=work.rules)
    marks = open_array(workspace.path(_MARKS), dtype="<u8").astype(np.uint64, copy=False)
    signed = SignedRun(workspace, work)
    folder = workspace.create(keys_key(work.run.number))
    pointers, written = [], 0
    with (
        array_writer(folder / "keys.npy", dtype="<u8") as append_keys,
        array_writer(folder / "documents.npy", dtype="<u4") as append_documents,
    ):
        for band, words in enumerate(marks):
            keys = signed.keys(band)[documents]
            passed = np.flatnonzero(may_hold(words, keys))
            order, ptr = by_piece(keys[passed], work.pieces)
            append_keys(keys[passed[order]])
            append_documents(documents[passed[order]].astype("<u4"))
            pointers.append(written + ptr)
            written += len(passed)
    write_array(folder / "ptr.npy", np.stack(pointers))
    return UnitRecord()
