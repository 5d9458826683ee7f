"""Masks: what must hold of masked rows, exactly where it can, within 5 sigma where it is drawn.

    stored      The  quick  brown  fox  jumps  </s>
    input_ids   The <mask>  brown  cat  jumps  </s>
    labels       .   quick    .    fox  jumps   .

Labels put back over the inputs give the stored row; they lie where a token may be selected and nowhere
else; a changed input is the mask or an ordinary id. Counts follow the binomial law: how many positions
are selected, how many of them are masked, random or kept, how many two epochs share, how many two
neighbouring rows share. The last two are what tells independent draws from repeated ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from stages.findings import Finding
from stages.objectives.laws.chance import binomial, deviation
from stages.objectives.mlm import MaskedLM, Selection, expected_counts
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.vocabulary import Vocabulary


@dataclass(frozen=True)
class MaskCounts:
    """Sums over rows, of epoch 0 unless said otherwise."""

    maskable: int = 0
    """Positions that may be selected."""
    selected: int = 0
    masked: int = 0
    random: int = 0
    """Selected positions that show another id than the mask and their own."""
    label_on_padding: int = 0
    label_on_special: int = 0
    not_restored: int = 0
    """Positions that inputs and labels do not give back."""
    special_shown: int = 0
    """Selected positions that show a special id other than the mask, or none of the vocabulary's."""
    wrong_rows: int = 0
    """Rows in which not exactly as many are selected as `exact` wants; 0 for bernoulli."""
    epochs_shared: int = 0
    """Positions selected in both epochs."""
    epochs_mean: float = 0.0
    epochs_variance: float = 0.0
    rows_shared: int = 0
    """Positions selected in both of two neighbouring rows; each row is in one pair."""
    rows_mean: float = 0.0
    rows_variance: float = 0.0

    def __add__(self, other: "MaskCounts") -> "MaskCounts":
        """Return the sums over the rows of both."""
        return MaskCounts(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class MaskTally:
    """The counts of masks that are drawn for each position by itself."""

    def __init__(self, objective: MaskedLM, vocabulary: Vocabulary) -> None:
        self._objective = objective
        self._vocabulary = vocabulary
        self._counts = MaskCounts()

    def add(self, rows: StoredRows, epochs: Sequence[Columns]) -> None:
        """Count the next rows, as stored and as the loader gives them in two epochs."""
        self._counts += count_masks(
            np.asarray(rows.input_ids, np.int64),
            rows.covered,
            [(columns["input_ids"], columns["labels"]) for columns in epochs],
            objective=self._objective,
            vocabulary=self._vocabulary,
        )

    def findings(self) -> list[Finding]:
        """Return where the counts of a shard break the laws."""
        return mask_findings(self._counts, self._objective, self._vocabulary)


def count_masks(
    stored: NDArray[np.integer],
    covered: NDArray[np.bool_],
    epochs: Sequence[tuple[NDArray[np.integer], NDArray[np.integer]]],
    *,
    objective: MaskedLM,
    vocabulary: Vocabulary,
) -> MaskCounts:
    """Count what the laws are about in some rows.

    Args:
        stored: (N, L) the ids on disk.
        covered: (N, L) where a segment lies.
        epochs: (input_ids, labels), each (N, L), of two epochs.
        objective: the objective.
        vocabulary: of the tokenizer.
    """
    input_ids, labels = epochs[0]
    maskable = covered & ~vocabulary.special(stored)
    selected = labels != IGNORED
    masked = selected & (input_ids == vocabulary.named("mask"))
    random = selected & ~masked & (input_ids != stored)
    outside = (input_ids < 0) | (input_ids >= vocabulary.size)
    restored = np.where(selected, labels, input_ids)
    counts = np.count_nonzero(maskable, axis=1)
    rates = _rates(counts, objective)
    wanted = np.round(counts * rates).astype(np.int64)
    exact = objective.selection is Selection.EXACT
    both = epochs[1][1] != IGNORED
    pairs = slice(0, len(stored) // 2 * 2, 2), slice(1, None, 2)
    joint = maskable[pairs[0]] & maskable[pairs[1]]
    joint_counts, joint_rates = np.count_nonzero(joint, axis=1), rates[pairs[0]] * rates[pairs[1]]
    return MaskCounts(
        maskable=int(counts.sum()),
        selected=int(np.count_nonzero(selected)),
        masked=int(np.count_nonzero(masked)),
        random=int(np.count_nonzero(random)),
        label_on_padding=int(np.count_nonzero(selected & ~covered)),
        label_on_special=int(np.count_nonzero(selected & covered & ~maskable)),
        not_restored=int(np.count_nonzero(restored != stored)),
        special_shown=int(np.count_nonzero(random & (outside | vocabulary.special(input_ids)))),
        wrong_rows=int(np.count_nonzero(np.count_nonzero(selected, axis=1) != wanted)) if exact else 0,
        epochs_shared=int(np.count_nonzero(selected & both)),
        epochs_mean=float((counts * rates**2).sum()),
        epochs_variance=float((counts * rates**2 * (1 - rates**2)).sum()),
        rows_shared=int(np.count_nonzero(selected[pairs[0]] & selected[pairs[1]])),
        rows_mean=float((joint_counts * joint_rates).sum()),
        rows_variance=float((joint_counts * joint_rates * (1 - joint_rates)).sum()),
    )


def _rates(counts: NDArray[np.intp], objective: MaskedLM) -> NDArray[np.float64]:
    """Return the share of each row's maskable positions that is selected, in the mean."""
    if objective.selection is Selection.BERNOULLI:
        return np.full(len(counts), objective.mask_probability)
    return expected_counts(counts.astype(np.int64), objective.mask_probability) / np.maximum(counts, 1)


def mask_findings(counts: MaskCounts, objective: MaskedLM, vocabulary: Vocabulary) -> list[Finding]:
    """Hold the counts of a shard to the laws."""
    return [*_exact(counts), *_drawn(counts, objective, vocabulary)]


def _exact(counts: MaskCounts) -> Iterable[Finding]:
    laws = (
        ("label_on_padding", counts.label_on_padding, "labels lie on padding"),
        ("label_on_special", counts.label_on_special, "labels lie on special ids"),
        ("not_restored", counts.not_restored, "positions are not given back by inputs and labels"),
        ("special_shown", counts.special_shown, "random replacements are special ids, or no ids at all"),
        ("mask_count", counts.wrong_rows, "rows have another number of masks than the exact share"),
    )
    for check, number, what in laws:
        if number:
            yield Finding(check, f"{number:,} {what}")


def _drawn(counts: MaskCounts, objective: MaskedLM, vocabulary: Vocabulary) -> Iterable[Finding]:
    probability, selected = objective.mask_probability, counts.selected
    same = objective.random_share / len(vocabulary.ordinary)
    kept = 1 - objective.mask_share - objective.random_share + same
    laws = [
        ("mask_share", counts.masked, *binomial(selected, objective.mask_share), "masked"),
        ("random_share", counts.random, *binomial(selected, objective.random_share - same), "random"),
        ("kept_share", selected - counts.masked - counts.random, *binomial(selected, kept), "kept"),
        (
            "epoch_overlap",
            counts.epochs_shared,
            counts.epochs_mean,
            counts.epochs_variance,
            "selected in two epochs",
        ),
        (
            "row_overlap",
            counts.rows_shared,
            counts.rows_mean,
            counts.rows_variance,
            "selected in two neighbouring rows",
        ),
    ]
    if objective.selection is Selection.BERNOULLI:
        laws.append(("mask_rate", selected, *binomial(counts.maskable, probability), "selected"))
    for check, found, mean, variance, what in laws:
        allowed = deviation(variance)
        if abs(found - mean) > allowed:
            yield Finding(
                check, f"{found:,} positions are {what}; the law says {mean:,.1f} +- {allowed:,.1f}"
            )
