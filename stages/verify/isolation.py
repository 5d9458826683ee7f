"""Isolation: what stands in one document of a row changes no bit of what a model says of another.

    row        A A A A </s> B B B          two documents, the end of one and the start of the next
    changed    x x x x  x   B B B          every token of A is another
    logits     . . . .  .   = = =          those of B are the same, to the bit

Where a document ends is read off its EOS and not off the segments, so that segments which run over an
end are found. Rows whose attention is across documents (prefix, encoder_decoder, views) have nothing to
isolate. The other way round, without segments, the logits of B must change, or nothing was shown.

Axes: N windows around an end, W tokens of one.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from stages.verify.gates import Gate, at_least, at_most
from stages.verify.model import TinyTransformer, autocast, known_of
from stages.verify.rows import PADDING, LabelledRows, compact_ids

MAX_WINDOWS = 64
"""Ends that are looked at."""
REACH = 32
"""Tokens on either side of an end."""


@dataclass(frozen=True)
class IsolationResult:
    """How far logits of one document move when its neighbour changes."""

    ends: int
    """Ends of documents that were looked at."""
    max_change: float
    """Largest change of a logit of the other document; 0 exactly if documents are isolated."""
    max_change_without: float
    """The same if the row is taken for one document: it must not be 0, or the test shows nothing."""

    @property
    def gates(self) -> tuple[Gate, ...]:
        """Hold both to their bounds."""
        return (
            at_most("isolation", self.max_change, 0.0),
            at_least("isolation_shown", self.max_change_without, 1e-6),
        )


def ends_of_documents(rows: LabelledRows, eos: int, *, inside: bool = False) -> NDArray[np.int64]:
    """Return (row, place) of the first token of each document that another one's EOS stands before.

    Args:
        rows: as the loader gives them.
        eos: closes each document.
        inside: whether it stands inside of documents too, as it closes answers of dialogues. Then ends
            are where segments end as well.
    """
    ended = (rows.input_ids[:, :-1] == eos) & (rows.segment_ids[:, 1:] != PADDING)
    if inside:
        ended &= rows.segment_ids[:, 1:] != rows.segment_ids[:, :-1]
    ends: NDArray[np.int64] = np.argwhere(ended) + np.array([0, 1])
    return ends


def windows_at(rows: LabelledRows, ends: NDArray[np.int64]) -> LabelledRows:
    """Return the tokens around each end: (N, 2 REACH), the second document's first one at REACH."""
    row, place = ends[:, 0], ends[:, 1]
    places = place[:, None] + np.arange(-REACH, REACH)
    inside = (places >= 0) & (places < rows.input_ids.shape[1])
    places = np.where(inside, places, 0)

    def cut(column: NDArray[np.int64], fill: int) -> NDArray[np.int64]:
        return np.where(inside, column[row[:, None], places], fill)

    return replace(
        rows,
        input_ids=cut(rows.input_ids, 0),
        labels=cut(rows.labels, PADDING),
        segment_ids=cut(rows.segment_ids.astype(np.int64), PADDING).astype(np.int32),
        position_ids=cut(rows.position_ids.astype(np.int64), 0).astype(np.int32),
        in_prefix=None if rows.in_prefix is None else cut(rows.in_prefix, 0),
    )


def check_isolation(
    model: TinyTransformer,
    rows: LabelledRows,
    *,
    kept: NDArray[np.int64],
    eos: int,
    inside: bool = False,
) -> IsolationResult | None:
    """Change what stands on one side of an end; give how far logits on the other side move.

    Args:
        model: trained on compact ids, so that its logits depend on what it reads.
        rows: as the loader gives them, not cut.
        kept: the ids that the model knows by their own.
        eos: closes each document.
        inside: as of `ends_of_documents`.

    Returns:
        None if documents need not be isolated, or no row holds two.
    """
    if not rows.attention.endswith("within_document"):
        return None
    ends = ends_of_documents(rows, eos, inside=inside)
    if not len(ends):
        return None
    ends = ends[np.linspace(0, len(ends) - 1, min(len(ends), MAX_WINDOWS)).astype(np.int64)]
    windows = compact_ids(windows_at(rows, ends), kept)
    without_mask = replace(windows, segment_ids=np.minimum(windows.segment_ids, 0))
    changes = [_changes(model, windows, len(kept) + 1), _changes(model, without_mask, len(kept) + 1)]
    return IsolationResult(len(ends), *changes)


@torch.no_grad()
def _changes(model: TinyTransformer, rows: LabelledRows, num_ids: int) -> float:
    """Return the largest change of a logit across the end, whichever side is changed."""
    before = _logits(model, rows)
    largest = 0.0
    for changed, other in (
        (slice(None, REACH), slice(REACH, None)),
        (slice(REACH, None), slice(None, REACH)),
    ):
        input_ids = rows.input_ids.copy()
        input_ids[:, changed] = (input_ids[:, changed] + num_ids // 2) % num_ids
        after = _logits(model, replace(rows, input_ids=input_ids))
        here = torch.from_numpy(rows.segment_ids[:, other] != PADDING).to(after.device)
        moved = (after - before)[:, other][here].abs()
        largest = max(largest, moved.max().item() if moved.numel() else 0.0)
    return largest


def _logits(model: TinyTransformer, rows: LabelledRows) -> torch.Tensor:
    with autocast(model):
        return model.logits(known_of(model, rows)).float()
