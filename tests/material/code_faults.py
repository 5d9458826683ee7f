"""Faults of the code that draws, orders and fills in rows: shards are sound, what a trainer gets is not.

Each is planted by putting other code in the place of what the loader calls, until the copy is gone.
Epochs that are written out are made anew, as a run with that code would have made them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from pipeline.steps.draw.step import draw_rows, material_of
from stages.loading import dataset as loader
from stages.loading.mapped import ShardRows
from stages.loading.order import EpochOrder
from stages.loading.split_reader import SplitReader
from stages.objectives.clm.config import CausalLM
from stages.objectives.kind import Draw, Kind
from stages.objectives.rows import IGNORED, Columns, StoredRows
from tests.material.fault_copies import NUMBER, SPLIT, Array, Copy, NoPlaceError
from tests.material.stored_faults import Plant

LATE = 16
"""Rows from this one on are drawn otherwise, so that the first ones show nothing."""
FAR = 1001
"""An epoch in which code that knows two of them draws the second again."""

Change = Callable[[StoredRows], StoredRows]


def _rows_of(copy: Copy, *, epoch: int) -> Columns:
    """Return what the objective makes of the shard."""
    reader = SplitReader(copy.split, copy.manifest, check="size")
    folder = f"datasets/{copy.name}/{SPLIT}"
    extra = material_of(copy.workspace, reader, folder, number=NUMBER, with_model=True)
    return draw_rows(reader, NUMBER, np.arange(copy.manifest.shards[NUMBER].rows), epoch, extra)


def _drawn(change: Change, *, epoch: int = 1) -> Plant:
    """Let kernels draw late rows as if something else keyed them."""

    def otherwise(real: Draw[Any]) -> Draw[Any]:
        def draw(rows: StoredRows, *rest: Any) -> Columns:
            columns, others = real(rows, *rest), real(change(rows), *rest)
            late = rows.numbers >= LATE
            return {
                name: np.where(late.reshape(-1, *[1] * (column.ndim - 1)), others[name], column)
                for name, column in columns.items()
            }

        return draw

    def plant(copy: Copy) -> None:
        if epoch >= FAR and copy.traits.written_for:
            raise NoPlaceError
        before = _rows_of(copy, epoch=epoch)
        real = Kind.drawn_by

        def drawn_by(kind: Kind[Any], *, plainly: bool) -> Draw[Any]:
            sound = real(kind, plainly=plainly)
            return sound if plainly else otherwise(sound)

        copy.undo.enter_context(patch.object(Kind, "drawn_by", drawn_by))
        after = _rows_of(copy, epoch=epoch)
        if all(np.array_equal(column, after[name]) for name, column in before.items()):
            raise NoPlaceError
        if copy.written:
            copy.remake()

    return plant


def _half_the_rows(copy: Copy) -> None:
    """Let an epoch give every second row twice."""
    real = EpochOrder.rows

    def rows(order: EpochOrder, positions: Array) -> Array:
        return real(order, positions // 2 * 2)

    copy.undo.enter_context(patch.object(EpochOrder, "rows", rows))


def _keyed_by_the_first(copy: Copy) -> None:
    """Let a batch of several shards be drawn as if all of it stood in the first."""
    if copy.written or not copy.traits.dynamic:
        raise NoPlaceError

    def parts_of(
        reader: SplitReader, parts: Sequence[ShardRows], epoch: int
    ) -> Iterator[tuple[ShardRows, Columns]]:
        stored = reader.gathered(parts, epoch)
        for part in parts:
            keyed = reader._keyed(stored.take(part.places), parts[0].shard)  # noqa: SLF001  # as it is
            yield part, reader.drawn_of(keyed)

    copy.undo.enter_context(patch.object(SplitReader, "drawn_parts", parts_of))


def _labelled(change: Callable[[Array, Array], None], *, first: bool | None = None) -> Plant:
    """Let the kernel of causal language modelling label other tokens.

    Args:
        change: of the labels (N, L) of the batch and the places (n,) that were filled in.
        first: whether first tokens are to go without, as the kernel is told; None leaves it.
    """

    def plant(copy: Copy) -> None:
        objective, real = copy.objective, loader.row_kernels()
        if copy.written or not isinstance(objective, CausalLM) or real is None:
            raise NoPlaceError
        if not copy.traits.copied:  # the loader draws these rows
            raise NoPlaceError
        if first is not None and first == objective.mask_first_token:
            raise NoPlaceError

        def fill(shard: Any, rows: Array, places: Array, columns: Array, masked: bool) -> None:  # noqa: FBT001
            real.fill_causal(shard, rows, places, columns, masked if first is None else first)
            change(columns[1], places)

        kernels = SimpleNamespace(fill_causal=fill, fill_segments=real.fill_segments)
        copy.undo.enter_context(patch.object(loader, "row_kernels", lambda: kernels))

    return plant


def _every_second(labels: Array, places: Array) -> None:
    labels[places[:, None], np.arange(1, labels.shape[1], 2)] = IGNORED


CODE: dict[str, Plant] = {
    "kernels: late rows drawn by another key": _drawn(lambda rows: replace(rows, seed=rows.seed + 1)),
    "kernels: late rows drawn alike": _drawn(
        lambda rows: replace(rows, numbers=np.zeros_like(rows.numbers))
    ),
    "kernels: the epoch ignored": _drawn(lambda rows: replace(rows, epoch=0)),
    "kernels: the third epoch is the first again": _drawn(
        lambda rows: replace(rows, epoch=rows.epoch % 2), epoch=FAR
    ),
    "kernels: every second label missing": _labelled(_every_second),
    "kernels: first tokens labelled or not": _labelled(lambda *_: None, first=False),
    "kernels: the loss mask ignored": _drawn(
        lambda rows: (
            rows if rows.loss_mask is None else replace(rows, loss_mask=np.ones_like(rows.loss_mask))
        )
    ),
    "loader: half the rows of an epoch twice": _half_the_rows,
    "loader: a batch drawn as if of one shard": _keyed_by_the_first,
}
"""What is planted into code."""
