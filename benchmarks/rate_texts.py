"""Laws of texts that are shown as they stand: `clm`, `simcse`, and the pairs of `nsp` and `sop`.

Not counted: where the crops of `simcse` begin, which its columns do not say; how many chunks of `nsp`
borrow or are short (random_rate, short_rate), for those of a single sentence always borrow, and rows do
not say which those are.
"""

import numpy as np
from numpy.typing import NDArray
from rate_masks import Text, count_masked, count_overlap
from rate_parts import Part
from rate_tally import Tally

from stages.loading.dataset import Batch
from stages.objectives.clm import CausalLM
from stages.objectives.rows import IGNORED
from stages.objectives.sentence_pairs import NextSentence, SentenceOrder
from stages.objectives.simcse import SimCSE


def count_clm(tally: Tally, config: CausalLM, part: Part) -> None:
    """Count rows with other labels than their own tokens, unshifted."""
    ids, covered = part.stored.input_ids, part.stored.covered
    for batch in part.shown:
        said = covered & (batch["position_ids"] > 0) if config.mask_first_token else covered
        tally.exact("inputs are the row", (batch["input_ids"] != ids).any(axis=1))
        wanted = np.where(said, ids.astype(np.int64), IGNORED)
        tally.exact("labels are the row, unshifted", (batch["labels"] != wanted).any(axis=1))


def count_simcse(tally: Tally, config: SimCSE, part: Part) -> None:
    """Count views of another length or of another text."""
    filled = part.stored.filled
    for batch in part.shown:
        views, lengths = batch["input_ids"], batch["input_length"]
        shown = np.arange(views.shape[2]) < lengths[:, :, None]
        beyond = ~shown & (views != part.vocabulary.named("pad"))
        tally.exact("views are padded", beyond.any(axis=(1, 2)))
        if config.from_source:
            _count_sections(tally, part, batch)
            continue
        ratio = 1.0 if config.views == "identical" else config.crop_ratio
        wanted = np.ceil(ratio * filled).astype(np.int64)
        tally.exact("tokens of a view", (lengths != wanted[:, None]).any(axis=1))
        if ratio == 1.0:
            differ = (views != part.stored.input_ids[:, None]).any(axis=(1, 2))
            tally.exact("views are the row", differ)


def _count_sections(tally: Tally, part: Part, batch: Batch) -> None:
    """Count rows whose views are not their texts, or their only one twice, an EOS behind each."""
    stored, views = part.stored, batch["input_ids"]
    counts = np.diff(stored.segment_ptr)
    eos, pad = part.vocabulary.named("eos"), part.vocabulary.named("pad")
    place = np.arange(views.shape[2])
    wrong = (counts != 1) & (counts != views.shape[1])
    ends = np.concatenate([[0], np.cumsum(stored.segment_length)])
    row_begin = ends[stored.segment_ptr[:-1]]
    for view in range(views.shape[1]):
        alone = counts == 1
        segment = stored.segment_ptr[:-1] + np.where(alone, 0, np.minimum(view, counts - 1))
        begin = ends[segment] - row_begin
        length = np.minimum(ends[segment + 1] - row_begin, part.lengths_without_eos) - begin
        length = np.where(alone & (view > 1), 0, length)
        at = np.minimum(begin[:, None] + place, stored.input_ids.shape[1] - 1)
        text = np.take_along_axis(stored.input_ids, at, axis=1)
        wanted = np.where(place < length[:, None], text, pad)
        wanted[(place == length[:, None]) & (length[:, None] > 0)] = eos
        wrong |= (views[:, view] != wanted).any(axis=1)
        wrong |= batch["input_length"][:, view] != length + (length > 0)
    tally.exact("views are the document's sections", wrong)


def _halves(part: Part) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tokens of each row's own halves: (N,) each."""
    first = part.stored.segment_length[part.stored.segment_ptr[:-1]]
    first = np.minimum(first, part.lengths_without_eos)
    return first, part.lengths_without_eos - first


def count_sop(tally: Tally, config: SentenceOrder, part: Part) -> None:
    """Count pairs that changed places, and their masks."""
    first, second = _halves(part)
    paired = second > 0
    swapped = []
    for batch in part.shown:
        label = batch["sentence_order_label"]
        known = np.where(paired, (label == 0) | (label == 1), label == IGNORED)
        tally.exact("pairs have a label, no others do", ~known)
        a, b = np.where(label == 1, (second, first), (first, second))
        wrong = (_shown(batch, 0) != a + 2) | (_shown(batch, 1) != b + (b > 0))
        tally.exact("halves stand as labelled", wrong)
        tally.share("swapped of pairs", int(paired.sum()), int((label == 1).sum()), config.swap_rate)
        swapped.append(label == 1)
    if len(swapped) > 1:
        both = int((swapped[0] & swapped[1]).sum())
        tally.share("swapped in both epochs", int(paired.sum()), both, config.swap_rate**2)
    _count_masks(tally, config, part)


def _shown(batch: Batch, half: int) -> NDArray[np.int64]:
    """Return how many positions of each row show a half, CLS and SEP included: (N,)."""
    found = (batch["token_type_ids"] == half) & (batch["segment_ids"] >= 0)
    return np.asarray(np.count_nonzero(found, axis=1), np.int64)


def count_nsp(tally: Tally, config: NextSentence, part: Part) -> None:
    """Count borrowed halves and their lenders, and the masks."""
    assert part.stored.room is not None, "packed for another objective"
    own = part.documents[part.stored.segment_ptr[:-1]]
    lenders = np.flatnonzero(part.shard.whole.lengths > 1)
    place = np.searchsorted(lenders, own)
    lends = (place < len(lenders)) & (lenders[np.minimum(place, len(lenders) - 1)] == own)
    others = len(lenders) - lends
    first, second = _halves(part)
    borrows = (part.stored.room > 0) & (first > 0) & (others > 0)
    wanted = np.where(borrows, 1, np.where(second > 0, 0, IGNORED))
    rows, choices = np.flatnonzero(borrows), others[borrows]
    drawn = []
    for batch in part.shown:
        lender = batch["borrowed_doc"]
        tally.exact("rows with room borrow, no others do", batch["next_sentence_label"] != wanted)
        known = np.isin(lender, lenders) & (batch["borrowed_offset"] >= 0)
        tally.exact(
            "lenders are other documents", np.where(borrows, (lender == own) | ~known, lender >= 0)
        )
        b = _shown(batch, 1)
        wrong = (_shown(batch, 0) != first + 2) | (~borrows & (b != second + (second > 0)))
        wrong |= borrows & ((b <= 1) | (b > part.stored.input_ids.shape[1] - first))
        tally.exact("halves are as long as they must be", wrong)
        number = np.searchsorted(lenders, lender[rows]) - (lends & (lender > own))[rows]
        mean = (number + 0.5) / choices
        tally.draws("number of the lender, of all others", mean, 0.5, (1.0 - choices**-2.0) / 12.0)
        drawn.append(lender)
    if len(drawn) > 1:
        same = (drawn[0] == drawn[1])[rows]
        tally.draws("the same lender in both epochs", same, 1.0 / choices)
    _count_masks(tally, config, part)


def _count_masks(tally: Tally, config: NextSentence | SentenceOrder, part: Part) -> None:
    """Count the masks of pairs, on the rows as they are shown."""
    texts, chosen = [], []
    for batch in part.shown:
        selected = batch["labels"] != IGNORED
        clean = np.where(selected, batch["labels"], batch["input_ids"])
        text = Text.of(clean, batch, batch["segment_ids"] >= 0, part.vocabulary)
        count_masked(tally, config.mask, text, batch, selected)
        texts.append(text)
        chosen.append(selected)
    if len(chosen) > 1:
        same = (texts[0].ids == texts[1].ids).all(axis=1)
        pair = chosen[0][same], chosen[1][same]
        count_overlap(tally, config.mask, texts[0].take(same), pair)
