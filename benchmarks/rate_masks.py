"""Laws of masks and replacements: `mlm`, `electra`, and the masks of `nsp` and `sop`.

    bernoulli    each eligible token alone at mask_probability, in two epochs at its square
    exact        floor(mask_probability n + 1/2) of n, one at least; in two epochs hypergeometrically
    whole_word   each word alone, wholly or not at all
    ngram        at most as many as exact, and no word left out that would still have had room

What is shown at a selected position is drawn by the position under every selection, so it is counted
by tokens, not by words. Not counted: how long n-grams are, since two neighbours look like one, and what
they share in two epochs; what a model drew.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from rate_parts import Part
from rate_tally import Tally

from stages.loading.dataset import Batch
from stages.objectives.electra import Generator, ReplacedTokens
from stages.objectives.mlm import MaskedLM, Selecting, Selection
from stages.objectives.rows import IGNORED
from stages.objectives.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class Text:
    """N rows of L tokens before anything was selected."""

    ids: NDArray[np.integer]
    """(N, L)."""
    eligible: NDArray[np.bool_]
    """(N, L) neither special nor padding."""
    starts: NDArray[np.bool_]
    """(N, L) where segments begin."""
    vocabulary: Vocabulary

    @classmethod
    def of(
        cls, ids: NDArray[np.integer], batch: Batch, covered: NDArray[np.bool_], vocabulary: Vocabulary
    ) -> "Text":
        """Return the text of rows whose columns are these."""
        return cls(ids, covered & ~vocabulary.special(ids), batch["position_ids"] == 0, vocabulary)

    def take(self, chosen: NDArray[np.bool_]) -> "Text":
        """Return some of the rows."""
        return Text(self.ids[chosen], self.eligible[chosen], self.starts[chosen], self.vocabulary)

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """Eligible tokens of each row: (N,)."""
        return np.asarray(np.count_nonzero(self.eligible, axis=1), np.int64)

    @cached_property
    def begins(self) -> NDArray[np.bool_]:
        """Where words begin: (N, L)."""
        assert self.vocabulary.starts_word is not None
        apart = self.starts | self.vocabulary.starts_word[self.ids]
        apart[:, 1:] |= ~self.eligible[:, :-1]
        apart[:, 0] = True
        begins: NDArray[np.bool_] = self.eligible & apart
        return begins

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """The word of each eligible token, counted through all rows."""
        return np.cumsum(self.begins)[self.eligible.ravel()] - 1

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Tokens of each word: (W,)."""
        return np.bincount(self.words, minlength=int(np.count_nonzero(self.begins)))

    def taken(self, selected: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return how many tokens of each word are selected: (W,)."""
        return np.bincount(self.words[selected[self.eligible]], minlength=len(self.sizes))


def count_mlm(tally: Tally, config: MaskedLM, part: Part) -> None:
    """Count the masks of rows."""
    ids, covered = part.stored.input_ids, part.stored.covered
    selected = []
    for batch in part.shown:
        text = Text.of(ids, batch, covered, part.vocabulary)
        chosen = batch["labels"] != IGNORED
        clean = np.where(chosen, batch["labels"], batch["input_ids"])
        tally.exact("labels and inputs together are the row", (clean != ids).any(axis=1))
        count_masked(tally, config, text, batch, chosen)
        selected.append(chosen)
    if len(selected) > 1:
        count_overlap(tally, config, text, (selected[0], selected[1]))


def count_masked(
    tally: Tally, config: MaskedLM, text: Text, batch: Batch, selected: NDArray[np.bool_]
) -> None:
    """Count what is selected and what is shown there."""
    count_selected(tally, config, text, selected)
    vocabulary = text.vocabulary
    place = np.flatnonzero(selected)
    stood, shown = batch["labels"].ravel()[place], batch["input_ids"].ravel()[place]
    masked = shown == vocabulary.named("mask")
    other = ~masked & (shown != stood)
    different = 1.0 - 1.0 / len(vocabulary.ordinary)
    tally.share("mask shown of selected", len(place), int(masked.sum()), config.mask_share)
    rate = config.random_share * different
    tally.share("another id shown of selected", len(place), int(other.sum()), rate)
    _count_random(tally, vocabulary, stood[other], shown[other])
    bad = place[other][vocabulary.special(shown[other])]
    tally.exact("no special id is drawn", _rows_of(bad, selected.shape))


def _rows_of(places: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Say which rows hold any of these flat places: (N,)."""
    rows = np.zeros(shape[0], np.bool_)
    rows[places // max(1, shape[1])] = True
    return rows


def _count_random(
    tally: Tally, vocabulary: Vocabulary, stood: NDArray[np.integer], shown: NDArray[np.integer]
) -> None:
    """Count where among the ordinary ids, but the one that stood there, the drawn ones are."""
    rank = np.cumsum(~vocabulary.is_special) - 1
    choices = len(vocabulary.ordinary) - 1
    drawn = rank[shown] - (rank[shown] > rank[stood])
    tally.draws("rank of another id, of all", (drawn + 0.5) / choices, 0.5, (1.0 - choices**-2.0) / 12.0)


def expected_selected(text: Text, probability: float) -> NDArray[np.int64]:
    """Return how many tokens of each row `exact` selects: (N,)."""
    wanted = np.maximum(np.floor(probability * text.counts + 0.5), 1.0).astype(np.int64)
    found: NDArray[np.int64] = np.minimum(wanted, text.counts)
    return found


def count_selected(tally: Tally, config: Selecting, text: Text, selected: NDArray[np.bool_]) -> None:
    """Count what is selected."""
    probability = config.mask_probability
    tally.exact("nothing special is selected", np.any(selected & ~text.eligible, axis=1))
    counts = np.asarray(np.count_nonzero(selected, axis=1), np.int64)
    match config.selection:
        case Selection.BERNOULLI:
            tally.share(
                "selected of eligible tokens", int(text.counts.sum()), int(counts.sum()), probability
            )
        case Selection.EXACT:
            tally.exact("tokens selected in a row", counts != expected_selected(text, probability))
        case Selection.WHOLE_WORD:
            taken = text.taken(selected)
            split = (taken > 0) & (taken < text.sizes)
            wrong = np.zeros(len(counts), np.bool_)
            wrong[np.nonzero(text.begins)[0][split]] = True
            tally.exact("words are selected wholly or not", wrong)
            tally.share("selected of words", len(taken), int((taken > 0).sum()), probability)
        case Selection.NGRAM:
            wanted = expected_selected(text, probability)
            wrong = _wrong_ngrams(text, text.taken(selected), wanted, counts)
            tally.exact("n-grams are whole and fill the row's share", wrong)


def _wrong_ngrams(
    text: Text, taken: NDArray[np.int64], wanted: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Say which rows have another selection than whole words until no other fits: (N,).

    A word is passed over only if it is longer than what may still be selected, which never grows. Only
    where every word is longer than all of it, one is selected in part.
    """
    row = np.nonzero(text.begins)[0]
    most = np.iinfo(np.int64).max
    passed, shortest = np.full(len(counts), most), np.full(len(counts), most)
    np.minimum.at(passed, row[taken == 0], text.sizes[taken == 0])
    np.minimum.at(shortest, row, text.sizes)
    split = np.bincount(row[(taken > 0) & (taken < text.sizes)], minlength=len(counts))
    left = wanted - counts
    cut = (split != 1) | (shortest <= wanted) | (left != 0)
    wrong: NDArray[np.bool_] = np.where(split > 0, cut, (left < 0) | (passed <= left))
    return wrong


def count_overlap(
    tally: Tally,
    config: Selecting,
    text: Text,
    selected: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> None:
    """Count what is selected in both epochs, of rows that show the same text in both."""
    law, square = "selected in both epochs", config.mask_probability**2
    match config.selection:
        case Selection.BERNOULLI:
            found = int(np.count_nonzero(selected[0] & selected[1]))
            tally.share(law, int(text.counts.sum()), found, square)
        case Selection.EXACT:
            n, k = text.counts, expected_selected(text, config.mask_probability)
            share = k / np.maximum(n, 1)
            mean = k * share / np.maximum(n, 1)
            spread = (share * (1.0 - share)) ** 2 / np.maximum(n - 1, 1)
            both = np.count_nonzero(selected[0] & selected[1], axis=1) / np.maximum(n, 1)
            tally.draws(law, both, mean, spread)
        case Selection.WHOLE_WORD:
            both = (text.taken(selected[0]) > 0) & (text.taken(selected[1]) > 0)
            tally.share(law, len(both), int(np.count_nonzero(both)), square)


def count_electra(tally: Tally, config: ReplacedTokens, part: Part) -> None:
    """Count replaced tokens."""
    ids, covered, chosen = part.stored.input_ids, part.stored.covered, []
    for batch in part.shown:
        text = Text.of(ids, batch, covered, part.vocabulary)
        selected = batch["selected"].astype(np.bool_)
        replaced = batch["input_ids"] != ids
        labels = np.where(covered, replaced, IGNORED)
        tally.exact("original_ids are the row", (batch["original_ids"] != ids).any(axis=1))
        tally.exact("labels say what was replaced", (batch["labels"] != labels).any(axis=1))
        tally.exact("nothing else is replaced", (replaced & ~selected).any(axis=1))
        count_selected(tally, config, text, selected)
        place = np.flatnonzero(selected)
        stood, shown = ids.ravel()[place], batch["input_ids"].ravel()[place]
        special = _rows_of(place[part.vocabulary.special(shown)], ids.shape)
        tally.exact("no special id is drawn", special)
        _count_replaced(tally, config, part, stood, shown)
        chosen.append(selected)
    if len(chosen) > 1:
        count_overlap(tally, config, text, (chosen[0], chosen[1]))


def _count_replaced(
    tally: Tally,
    config: ReplacedTokens,
    part: Part,
    stood: NDArray[np.integer],
    shown: NDArray[np.integer],
) -> None:
    """Count how many of the selected tokens show another id: all but those drawn rightly by chance."""
    law, replaced = "replaced of selected", shown != stood
    if config.generator is Generator.UNIFORM:
        rate = 1.0 - 1.0 / len(part.vocabulary.ordinary)
        tally.share(law, len(stood), int(np.count_nonzero(replaced)), rate)
        _count_random(tally, part.vocabulary, stood[replaced], shown[replaced])
    elif config.generator is Generator.UNIGRAM:
        tally.draws(law, replaced, 1.0 - part.shard.frequencies[stood])
