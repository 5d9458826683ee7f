"""Drawn columns: what must hold of the rows of every objective, whatever it makes of them.

    stored row  -- drawn -->  columns  -- restored -->  the same tokens

The columns that the loader gives, put together again, are the stored row: all rows, in both epochs. Rows
spread over each part are drawn once more by the plain functions, bit by bit, so an epoch that repeats
another is found too; no id leaves the vocabulary. Kinds that need more than a row stand on disk, where
all rows are drawn again as they were (pipeline/steps/verify/columns.py), but those that a model drew.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from stages.findings import Finding
from stages.objectives.drawing import draw_material, draw_plainly, matches
from stages.objectives.laws.shown import ShownRows
from stages.objectives.material import Material
from stages.objectives.objective import Objective
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.table import traits_of
from stages.objectives.vocabulary import Vocabulary
from stages.verify.columns import count_outside

_REDRAWN = 256
"""Rows of each part that are drawn again by the plain functions, which are slow: up to 1 us a token."""


def drawn_findings(
    objective: Objective,
    items: Iterable[ShownRows],
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    material: Material | None = None,
) -> list[Finding]:
    """Check the items of a shard against what the objective makes of its rows.

    Args:
        objective: as the manifest has it.
        items: the rows, in order, each once.
        vocabulary: of the tokenizer.
        widths: of the rows.
        material: what rows of a materialised kind are drawn with.
    """
    wrong = dict.fromkeys(_LAWS, 0)
    for part in items:
        for epoch, columns in enumerate(part.epochs):
            stored = replace(part.stored, epoch=epoch)
            back = matches(stored, columns, objective, vocabulary, material)
            wrong["ids_in_range"] += count_outside(columns, vocabulary)
            wrong["not_restored"] += int(np.count_nonzero(~back))
            if not traits_of(objective).model:
                wrong["redrawn"] += not_redrawn(
                    stored, columns, objective, vocabulary, widths, material=material
                )
    return broken_laws(wrong)


_LAWS = {
    "ids_in_range": "ids are none of the vocabulary's",
    "not_restored": "rows are not the stored ones when their columns are put together",
    "redrawn": "rows are not what the objective draws",
}


def broken_laws(wrong: Mapping[str, int]) -> list[Finding]:
    """Return a finding for each law that so many rows or ids break."""
    return [Finding(check, f"{count:,} {_LAWS[check]}") for check, count in wrong.items() if count]


def not_redrawn(
    stored: StoredRows,
    columns: Columns,
    objective: Objective,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    material: Material | None = None,
) -> int:
    """Count rows, of some spread over all, that the plain functions draw otherwise.

    Args:
        stored: the rows, keyed for their epoch.
        columns: what the loader gives of them.
        objective: as the manifest has it.
        vocabulary: of the tokenizer.
        widths: of the rows.
        material: what rows of a materialised kind are drawn with.
    """
    count = len(stored.numbers)
    some = np.arange(min(_REDRAWN, count)) * count // max(min(_REDRAWN, count), 1)
    few = stored.take(some)
    if material is None:
        again = draw_plainly(few, objective, vocabulary, widths)
    else:
        again = draw_material(few, objective, vocabulary, widths, material=material, plainly=True)
    wrong = np.zeros(len(some), np.bool_)
    for name, column in again.items():
        wrong |= (_flat(columns[name][some]) != _flat(column)).any(axis=1)
    return int(np.count_nonzero(wrong))


def _flat(column: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return a column with one axis for a row, whatever its shape."""
    return column.reshape(len(column), math.prod(column.shape[1:]))
