"""Causal language modelling: predict each token from those before it.

    input_ids   The quick brown fox </s> .    .
    labels      The quick brown fox </s> -100 -100        (. is padding)

Labels are *unshifted*: the model shifts them by one, as transformers' models do. The rows hold
`input_ids` alone; labels follow from them and from the segments.

Source: objectives of GPT, Radford et al. 2018, section 3.1.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stages.config import Config

IGNORED = -100
"""The label of a position without loss, as torch's cross entropy has it."""


class CausalLM(Config):
    """Causal language modelling."""

    kind: Literal["clm"] = "clm"
    """Names the objective."""
    mask_first_token: bool = False
    """No loss on the first token of a segment, which nothing in its document comes before."""


def causal_labels(
    input_ids: NDArray[np.int64], segment_ids: NDArray[np.int32], config: CausalLM
) -> NDArray[np.int64]:
    """Give the labels of packed rows.

    Args:
        input_ids: (N, L) int64.
        segment_ids: (N, L) int32, -1 on padding.
        config: the objective.

    Returns:
        (N, L) int64, the ids themselves, or -100 where there is no loss.
    """
    silent = segment_ids < 0
    if config.mask_first_token:
        first = np.ones_like(silent)
        first[:, 1:] = segment_ids[:, 1:] != segment_ids[:, :-1]
        silent = silent | first
    return np.where(silent, IGNORED, input_ids)
