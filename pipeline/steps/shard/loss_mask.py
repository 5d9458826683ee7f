"""Shard, the part of losses: which tokens of rows have one, as the sections of their documents say."""

from pathlib import Path

from pipeline.steps.shard.merge import MergedGroup
from stages.packing.layout import Layout
from stages.packing.sections import learned_runs
from stages.ragged import batches, runs
from stages.store.mapped import mapped_npy

_BLOCK = 1 << 20
"""Tokens that are marked together."""


def write_loss_mask(path: Path, layout: Layout, group: MergedGroup) -> None:
    """Write 1 for each token with a loss, 0 for all else: (rows, length) |u1, through a mapped file."""
    assert group.sections is not None
    assert group.learned is not None
    shape = (layout.num_rows, layout.row_length)
    places, counts = learned_runs(layout, group.sections, group.learned)
    flat = mapped_npy(path, "|u1", shape).reshape(-1)
    for first, last in batches(counts, _BLOCK):
        flat[runs(places[first:last], counts[first:last])] = 1
