"""Causal language modelling: predict each token from those before it.

    input_ids   The quick brown fox </s> .    .
    labels      The quick brown fox </s> -100 -100        (. is padding)

Labels are *unshifted*: the model shifts them by one, as transformers' models do. The rows hold
`input_ids` alone; labels follow from them and from the segments. Nothing is drawn. An end that closes a
row and no document has no label: no text ends there.

Source: objectives of GPT, Radford et al. 2018, section 3.1.
"""

from typing import Literal

import numpy as np

from stages.objectives.objective import Objective
from stages.objectives.rows import IGNORED, Columns, StoredRows, segment_starts


class CausalLM(Objective):
    """Causal language modelling."""

    kind: Literal["clm"] = "clm"
    """Names the objective."""
    mask_first_token: bool = False
    """No loss on the first token of a segment, which nothing in its document comes before."""


def label_causally(rows: StoredRows, config: CausalLM) -> Columns:
    """Return `input_ids` (N, L) as stored and `labels` (N, L) int32: the ids, or -100 without loss."""
    labels, filled = rows.input_ids.astype(np.int32), rows.filled
    for padded in np.flatnonzero(filled < labels.shape[1]).tolist():  # few: most rows are full
        labels[padded, filled[padded] :] = IGNORED
    if config.mask_first_token:
        row, start = segment_starts(rows)
        labels[row, start] = IGNORED
    if rows.added_end is not None:
        labels[rows.added_ends] = IGNORED
    return {"input_ids": rows.input_ids, "labels": labels}
