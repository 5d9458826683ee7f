"""Drawing: the columns that a trainer gets of stored rows, and whether they tell those rows again.

Where numba is installed compiled kernels draw, else plain functions: the same bits. Rows of kinds that
need more than themselves are drawn once, with that material, and written out by epochs.
"""

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.objectives.components import draw_by_component, restore_by_component
from stages.objectives.material import Material
from stages.objectives.rows import Columns, Restored, StoredRows, Widths, lengths_without_eos
from stages.objectives.table import components_of, kind_of, traits_of
from stages.objectives.traits import TARGETS, Objective
from stages.objectives.vocabulary import Vocabulary


def draw_columns(
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the columns that a trainer gets of some rows, each (N, ...), in the dtypes of the disk.

    Raises:
        FormatError: only epochs on disk can be opened of this kind.
    """
    return _draw(rows, objective, vocabulary, widths, plainly=False)


def draw_plainly(
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the same columns, drawn by numpy alone."""
    return _draw(rows, objective, vocabulary, widths, plainly=True)


def _draw(
    rows: StoredRows,
    objective: Objective,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    plainly: bool,
) -> Columns:
    refuse_to_draw(objective)
    parts = components_of(objective)
    if parts:
        return draw_by_component(
            rows,
            len(parts),
            lambda n, some: _draw(some, parts[n], vocabulary, widths, plainly=plainly),
        )
    return kind_of(objective).drawn_by(plainly=plainly)(rows, objective, vocabulary, widths)


def refuse_to_draw(objective: Objective) -> None:
    """Refuse kinds of which only epochs on disk can be opened.

    Raises:
        FormatError: says why.
    """
    why = traits_of(objective).written_for
    if why:
        raise FormatError(
            f"{objective.kind}: rows of this kind cannot be drawn when they are read, for {why}; open"
            " an epoch that stands on disk, or set materialized_epochs higher and run again"
        )


def draw_material(
    rows: StoredRows,
    objective: Objective,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    material: Material,
    plainly: bool = False,
) -> Columns:
    """Return the columns of rows that need more than themselves, each (N, ...), in the disk's dtypes.

    What is theirs alone is drawn by plain functions: reading text, encoding it or asking a model takes
    longer than what a kernel would save. The masks and noises that they share with other kinds are
    compiled, unless `plainly`, which gives the same bits.
    """
    epoch_draws = kind_of(objective).epoch_draws
    assert epoch_draws is not None, f"{objective.kind} is drawn when it is read"
    return epoch_draws.draw(rows, objective, vocabulary, widths, material=material, plainly=plainly)


def count_drawn(columns: Columns, objective: Objective) -> dict[str, int]:
    """Return what must be known of drawn rows beside their tokens, by name: nothing, for most kinds."""
    if not traits_of(objective).written_for:
        return {}
    epoch_draws = kind_of(objective).epoch_draws
    return {} if epoch_draws is None else epoch_draws.count(columns, objective)


def matches(
    rows: StoredRows,
    columns: Columns,
    objective: Objective,
    vocabulary: Vocabulary,
    material: Material | None = None,
) -> NDArray[np.bool_]:
    """Return of which rows the columns, put together again, give the stored tokens: (N,) bool.

    Nothing may be missing and nothing added: the body of a row where inputs and targets have an EOS of
    their own, all of its tokens elsewhere.

    Args:
        rows: as stored, keyed for their epoch.
        columns: what was drawn of them.
        objective: of the dataset.
        vocabulary: of the tokenizer.
        material: what rows that need more than themselves were drawn with.
    """
    if not components_of(objective):
        kind = kind_of(objective)
        if (
            material is not None
            and kind.epoch_draws is not None
            and kind.epoch_draws.matches is not None
        ):
            return kind.epoch_draws.matches(rows, columns, objective, vocabulary, material=material)
        if kind.matches is not None:
            return kind.matches(rows, columns, objective, vocabulary)
    targets = traits_of(objective).label_convention == TARGETS
    counts = lengths_without_eos(rows, vocabulary.named("eos")) if targets else None
    return rows.match(restore_rows(columns, objective, vocabulary), counts)


def restore_rows(columns: Columns, objective: Objective, vocabulary: Vocabulary) -> Restored:
    """Return the clean tokens of every row, (N, W), and how many, (N,)."""
    parts = components_of(objective)
    if not parts:
        return kind_of(objective).restore(columns, objective, vocabulary)
    return restore_by_component(
        columns,
        len(parts),
        lambda n, some: restore_rows(some, parts[n], vocabulary),
        pad=vocabulary.named("pad"),
    )
