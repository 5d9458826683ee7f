"""Causal language modelling: predict each token from those before it.

    input_ids   The quick brown fox </s> .    .
    labels      The quick brown fox </s> -100 -100        (. is padding)

Labels are *unshifted*: the model shifts them by one, as transformers' models do. The rows hold
`input_ids` alone; labels follow from them and from the segments. Nothing is drawn. An end that closes a
row and no document has no label: no text ends there.

With loss = "targets" the rows hold `loss_mask` too, and labels are where it is 1: on the last section of
documents whose source names sections, on the chosen turns of dialogues, on all of any other document.

    document    Where is it ? In a box </s> Lone text </s>          prompt and target; one section
    loss_mask   0     0  0  0 1  1 1   1    1    1    1

Source: objectives of GPT, Radford et al. 2018, section 3.1.
"""

from typing import Literal

import numpy as np
from pydantic import JsonValue, SerializerFunctionWrapHandler, model_serializer

from stages.errors import FormatError
from stages.objectives.rows import IGNORED, Columns, StoredRows, segment_starts
from stages.objectives.traits import Objective


class CausalLM(Objective):
    """Causal language modelling."""

    kind: Literal["clm"] = "clm"
    """Names the objective."""
    mask_first_token: bool = False
    """No loss on the first token of a segment, because no token of its document comes before it."""
    loss: Literal["all", "targets"] = "all"
    """With `all`, every token has a loss. With `targets`, only the last section of a document and its
    EOS have a loss, in sources with `section_columns`. In sources with `chat`, only the chosen turns
    have one. Documents of other sources have a loss on every token."""

    @model_serializer(mode="wrap")
    def _as_before(self, content: SerializerFunctionWrapHandler) -> dict[str, JsonValue]:
        """Name `loss` only where it is not the default, so that manifests of before stay as they are."""
        named: dict[str, JsonValue] = content(self)
        if self.loss == "all":
            named.pop("loss", None)
        return named


def label_causally(rows: StoredRows, config: CausalLM) -> Columns:
    """Return `input_ids` (N, L) as stored and `labels` (N, L) int32: the ids, or -100 without loss.

    Raises:
        FormatError: a loss on targets alone is asked of rows that do not say where these are.
    """
    labels, filled = rows.input_ids.astype(np.int32), rows.filled
    for padded in np.flatnonzero(filled < labels.shape[1]).tolist():  # few: most rows are full
        labels[padded, filled[padded] :] = IGNORED
    if config.loss == "targets":
        if rows.loss_mask is None:
            raise FormatError(
                'rows of clm with loss = "targets" have a column loss_mask, but the manifest names none;'
                " make the dataset anew"
            )
        labels[rows.loss_mask == 0] = IGNORED
    if config.mask_first_token:
        row, start = segment_starts(rows)
        labels[row, start] = IGNORED
    if rows.added_end is not None:
        labels[rows.added_ends] = IGNORED
    return {"input_ids": rows.input_ids, "labels": labels}
