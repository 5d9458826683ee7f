"""Labels: what must hold of the columns that the loader makes of a shard, for each objective.

The checks see rows as stored and as the loader gives them, some at a time, and count; a finding is
made at the end, over all of the shard.
"""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from stages.objectives.clm import IGNORED, CausalLM, segment_starts
from stages.objectives.material import Material
from stages.objectives.mlm import MaskedLM, Selection
from stages.objectives.rows import Widths
from stages.objectives.table import Objective, traits_of
from stages.objectives.vocabulary import Vocabulary
from stages.verify.columns import ColumnTally
from stages.verify.drawn import Items, broken_laws, drawn_findings, not_redrawn
from stages.verify.masking import MaskCounts, count_masks, mask_findings
from stages.verify.mechanics import Finding, check_labels

_OFFSETS = {"unshifted": 0, "shifted": 1}
"""What a label convention says: labels[t] is input_ids[t + offset]."""


def num_epochs(objective: Objective) -> int:
    """Give how many epochs of each row the checks want to see."""
    return 2 if traits_of(objective).dynamic else 1


def label_findings(
    objective: Objective,
    items: Iterable[Items],
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
    if not isinstance(objective, CausalLM) and convention != traits_of(objective).label_convention:
        return [_unknown(convention)]
    tally = ColumnTally(objective, vocabulary)
    watched = tally.watch(items)
    if isinstance(objective, CausalLM):
        found = _causal(objective, watched, convention=convention)
    elif isinstance(objective, MaskedLM) and objective.selection in (
        Selection.BERNOULLI,
        Selection.EXACT,
    ):  # positions are selected alone, so counts follow the binomial law
        found = _masked(objective, watched, vocabulary, widths)
    else:
        found = drawn_findings(objective, watched, vocabulary, widths, material=material)
    return [*found, *tally.findings()]


def _masked(
    objective: MaskedLM, items: Iterable[Items], vocabulary: Vocabulary, widths: Widths
) -> list[Finding]:
    counts, wrong = MaskCounts(), 0
    for part in items:
        counts += count_masks(
            np.asarray(part.rows.input_ids, np.int64),
            part.rows.covered,
            [(epoch["input_ids"], epoch["labels"]) for epoch in part.epochs],
            objective=objective,
            vocabulary=vocabulary,
        )
        for epoch, columns in enumerate(part.epochs):
            stored = replace(part.rows, epoch=epoch)
            wrong += not_redrawn(stored, columns, objective, vocabulary, widths)
    return [*mask_findings(counts, objective, vocabulary), *broken_laws({"redrawn": wrong})]


def _causal(objective: CausalLM, items: Iterable[Items], *, convention: str) -> list[Finding]:
    if convention not in _OFFSETS:
        return [_unknown(convention)]
    for part in items:
        (columns,) = part.epochs
        changed = int(np.count_nonzero(columns["input_ids"] != part.rows.input_ids))
        if changed:
            return [Finding("inputs", f"{changed:,} inputs are not the ids that are stored")]
        found = check_labels(
            columns["input_ids"],
            columns["labels"],
            covered=part.rows.covered,
            declared_offset=_OFFSETS[convention],
            every_token=not objective.mask_first_token,
        )
        if found:
            return found
        if objective.mask_first_token:
            wanted = part.rows.covered.copy()
            wanted[segment_starts(part.rows)] = False
            wrong = int(np.count_nonzero((columns["labels"] != IGNORED) != wanted))
            if wrong:
                message = f"{wrong:,} tokens have no label, or are the first of a document and have one"
                return [Finding("label_missing", message)]
    return []


def _unknown(convention: str) -> Finding:
    return Finding("label_convention", f"unknown: {convention!r}")
