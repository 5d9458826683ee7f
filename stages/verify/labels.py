"""Labels: what must hold of the columns that the loader makes of a shard, for each objective.

The checks see rows as stored and as the loader gives them, some at a time, and count; a finding is
made at the end, over all of the shard.
"""

from collections.abc import Iterable
from dataclasses import replace

from stages.findings import Finding
from stages.objectives.laws.shown import ShownRows
from stages.objectives.material import Material
from stages.objectives.objective import Objective
from stages.objectives.rows import Widths
from stages.objectives.table import tally_of, traits_of
from stages.objectives.vocabulary import Vocabulary
from stages.verify.columns import ColumnTally
from stages.verify.drawn import broken_laws, drawn_findings, not_redrawn


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
