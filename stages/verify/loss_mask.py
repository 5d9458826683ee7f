"""Loss masks: tokens have a loss where the sections of their documents say so, and nothing else has one.

    sections    p p p t t E        the token store's; the second has a loss
    wanted      0 0 0 1 1 1
    found       0 0 0 1 1 1        put together again from the mask of the rows

Documents are put together from the rows as their tokens are, so nothing here follows the code that laid
the mask out.
"""

import numpy as np
from numpy.typing import NDArray

from stages.findings import Finding
from stages.ragged import Ragged, batches
from stages.verify.mechanics import Reassembly, SegmentedRows

_BATCH_TOKENS = 1 << 18
"""Tokens of documents that are compared together."""


def check_loss_mask(
    mask: SegmentedRows,
    *,
    lengths: NDArray[np.int64],
    sections: Ragged,
    learned: NDArray[np.bool_],
) -> list[Finding]:
    """Each document has the losses that its sections say, and no padding has one.

    Args:
        mask: the loss mask in the place of ids, with sound segments that hold each document whole.
        lengths: (D,) tokens of each document.
        sections: of each document, after how many of its tokens each ends, the last with its length.
        learned: (S,) of each section, whether it has a loss.
    """
    found = Reassembly(mask, lengths)
    wrong = documents = marked = 0
    example = -1
    for first, last in batches(lengths, _BATCH_TOKENS):
        low, high = sections.ptr[first], sections.ptr[last]
        inner = sections.ptr[first:last] - low
        sizes = np.diff(sections.values[low:high], prepend=0)
        sizes[inner] = sections.values[low:high][inner]
        flags = found.tokens(first, last)
        marked += int(np.count_nonzero(flags))
        differ = np.cumsum(flags != np.repeat(learned[low:high], sizes))
        counts = np.diff(np.concatenate([[0], differ])[np.cumsum(lengths[first:last])], prepend=0)
        if counts.any() and example < 0:
            example = first + int(np.argmax(counts > 0))
        wrong, documents = wrong + int(counts.sum()), documents + int(np.count_nonzero(counts))
    findings = []
    if wrong:
        message = (
            f"{wrong:,} tokens of {documents:,} documents have a loss and are to have none, or the other"
            f" way round; the first is in document {example}"
        )
        findings.append(Finding("loss_mask", message))
    outside = _count_marked(mask.input_ids) - marked
    if outside:
        findings.append(Finding("loss_mask", f"{outside:,} positions of padding have a loss"))
    return findings


def _count_marked(mask: NDArray[np.integer]) -> int:
    """Count the positions of a mask that are not 0, some rows at a time."""
    step = max(1, _BATCH_TOKENS // max(1, mask.shape[1]))
    return sum(int(np.count_nonzero(mask[n : n + step])) for n in range(0, len(mask), step))
