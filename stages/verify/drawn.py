"""Drawn columns: what must hold of the rows of every objective, whatever it makes of them.

    stored row  -- drawn -->  columns  -- restored -->  the same tokens

The columns that the loader gives, put together again, are the stored row: all rows, in both epochs. Rows
spread over each part are drawn once more by the plain functions, bit by bit, so an epoch that repeats
another is found too; no id leaves the vocabulary. Kinds that need more than a row stand on disk, where
all rows are drawn again as they were (pipeline/steps/verify/columns.py), but those that a model drew.

Labels: what must hold of the columns that the loader makes of a shard, for each objective.

The checks see rows as stored and as the loader gives them, some at a time, and count; a finding is
made at the end, over all of the shard.
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
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.table import tally_of, traits_of
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.verify.columns import ColumnTally, count_outside

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


def num_epochs(objective: Objective) -> int:
    """Return how many epochs of each row the checks want to see."""
    return 2 if traits_of(objective).dynamic else 1


def label_findings(
    objective: Objective,
    items: Iterable[ShownRows],
    *,
    convention: str,
    vocabulary: Vocabulary,
    widths: Widths,
    material: Material | None = None,
) -> list[Finding]:
    """Check the items of a shard against its objective.

    Args:
        objective: as the manifest has it.
        items: the rows, in order, each once.
        convention: the label convention that the manifest declares.
        vocabulary: of the tokenizer.
        widths: of the rows.
        material: what rows of a materialised kind are drawn with.
    """
    traits = traits_of(objective)
    if convention not in (traits.label_convention, *traits.other_conventions):
        return [Finding("label_convention", f"unknown: {convention!r}")]
    columns = ColumnTally(objective, vocabulary)
    watched = columns.watch(items)
    own = tally_of(objective, vocabulary, convention)
    if own is None:
        found = drawn_findings(objective, watched, vocabulary, widths, material=material)
        return [*found, *columns.findings()]
    wrong = 0
    for part in watched:
        own.add(part.stored, part.epochs)
        for epoch, drawn in enumerate(part.epochs) if traits.dynamic else ():
            stored = replace(part.stored, epoch=epoch)
            wrong += not_redrawn(stored, drawn, objective, vocabulary, widths)
    return [*own.findings(), *broken_laws({"redrawn": wrong}), *columns.findings()]
