"""Causal labels: what must hold of rows whose columns are copied from the stored ones."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stages.findings import Finding
from stages.objectives.clm.config import CausalLM
from stages.objectives.rows import IGNORED, Columns, StoredRows, segment_starts
from stages.objectives.vocabulary import Vocabulary

OFFSETS = {"unshifted": 0, "shifted": 1}
"""What a label convention says: labels[t] is input_ids[t + offset]."""


class CausalTally:
    """What is wrong with the first rows of which anything is."""

    def __init__(self, objective: CausalLM, vocabulary: Vocabulary, convention: str) -> None:
        del vocabulary
        self._starts = not objective.mask_first_token
        self._offset = OFFSETS[convention]
        self._found: list[Finding] = []

    def add(self, rows: StoredRows, epochs: Sequence[Columns]) -> None:
        """Look at the next rows, as stored and as the loader gives them."""
        self._found = self._found or self._wrong(rows, epochs[0])

    def findings(self) -> list[Finding]:
        """Return what was found."""
        return self._found

    def _wrong(self, rows: StoredRows, columns: Columns) -> list[Finding]:
        changed = int(np.count_nonzero(columns["input_ids"] != rows.input_ids))
        if changed:
            return [Finding("inputs", f"{changed:,} inputs are not the ids that are stored")]
        every_token = self._starts and rows.loss_mask is None and rows.added_end is None
        found = check_labels(
            columns["input_ids"],
            columns["labels"],
            covered=rows.covered,
            declared_offset=self._offset,
            every_token=every_token,
        )
        if found or every_token:
            return found
        wanted = rows.covered if rows.loss_mask is None else rows.covered & (rows.loss_mask == 1)
        if not self._starts:
            wanted[segment_starts(rows)] = False
        wanted[rows.added_ends] = False
        wrong = int(np.count_nonzero((columns["labels"] != IGNORED) != wanted))
        if not wrong:
            return []
        message = f"{wrong:,} tokens have no label, or are to have none and have one"
        return [Finding("label_missing", message)]


def copy_shares(
    input_ids: NDArray[np.integer], labels: NDArray[np.integer], offsets: Sequence[int]
) -> dict[int, float]:
    """Return, for each offset k, the share of labels that equal the input k positions on.

    Unshifted labels have share 1 at k = 0; labels shifted once have it at k = 1.

    Args:
        input_ids: (N, L).
        labels: (N, L), -100 where there is no loss.
        offsets: each at least 0.
    """
    shares: dict[int, float] = {}
    for offset in offsets:
        ahead = input_ids[:, offset:]
        label = labels[:, : labels.shape[1] - offset]
        labelled = label != IGNORED
        equal = int(np.count_nonzero(labelled & (label == ahead)))
        shares[offset] = equal / max(1, int(np.count_nonzero(labelled)))
    return shares


def check_labels(
    input_ids: NDArray[np.integer],
    labels: NDArray[np.integer],
    *,
    covered: NDArray[np.bool_],
    declared_offset: int,
    every_token: bool,
) -> list[Finding]:
    """Labels are the inputs at the declared offset, none lies on padding, and none is missing."""
    findings = []
    missing = int(np.count_nonzero(covered & (labels == IGNORED))) if every_token else 0
    if missing:
        findings.append(Finding("label_missing", f"{missing:,} tokens have no label"))
    on_padding = int(np.count_nonzero(~covered & (labels != IGNORED)))
    if on_padding:
        findings.append(Finding("label_on_padding", f"{on_padding:,} labels lie on padding"))
    if not (labels != IGNORED).any():  # pieces of prompts alone
        return findings
    shares = copy_shares(input_ids, labels, range(3))
    if shares[declared_offset] < 1.0:
        best = max(shares, key=lambda offset: shares[offset])
        findings.append(
            Finding(
                "label_alignment",
                f"labels[t] equals input_ids[t + {declared_offset}] for"
                f" {shares[declared_offset]:.2%} of labels instead of all; best is offset {best} with"
                f" {shares[best]:.2%}",
            )
        )
    return findings
