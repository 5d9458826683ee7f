"""Draws of masks and replacements: `mlm`, `electra`, and the masks of `nsp` and `sop`.

    bernoulli    each eligible token alone at mask_probability, in two epochs at its square
    exact        floor(mask_probability n + 1/2) of n, one at least; in two epochs hypergeometrically
    whole_word   each word alone, wholly or not at all
    ngram        at most as many as exact, and no word left out that would still have had room

What is shown at a selected position is drawn by the position under every selection, so it is counted
by tokens, not by words. What two neighbouring rows share tells draws that are keyed by the row from
those that are not. Not counted: how long n-grams are, since two neighbours look like one, and what they
share in two epochs; what a model drew.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stages.objectives.electra.config import Generator, ReplacedTokens
from stages.objectives.laws.draws import Draws
from stages.objectives.laws.shown import ShownRows
from stages.objectives.mlm.config import MaskedLM, Selection, SelectionSettings
from stages.objectives.rows import IGNORED, Columns, segment_starts
from stages.objectives.vocabulary import Vocabulary


@dataclass(frozen=True, eq=False)
class MaskableText:
    """N rows of L tokens before anything was selected."""

    ids: NDArray[np.integer]
    """(N, L)."""
    eligible: NDArray[np.bool_]
    """(N, L) neither special nor padding."""
    starts: NDArray[np.bool_]
    """(N, L) where segments begin."""
    vocabulary: Vocabulary

    @classmethod
    def of(cls, rows: ShownRows) -> "MaskableText":
        """Return the text of rows that are shown as they are stored."""
        stored, vocabulary = rows.stored, rows.vocabulary
        starts = np.zeros(stored.input_ids.shape, np.bool_)
        starts[segment_starts(stored)] = True
        eligible = stored.covered & ~vocabulary.special(stored.input_ids)
        return cls(stored.input_ids, eligible, starts, vocabulary)

    def take(self, chosen: NDArray[np.bool_]) -> "MaskableText":
        """Return some of the rows."""
        return MaskableText(
            self.ids[chosen], self.eligible[chosen], self.starts[chosen], self.vocabulary
        )

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


def count_masks(draws: Draws, config: MaskedLM, rows: ShownRows) -> None:
    """Count the masks of rows."""
    text, selected = MaskableText.of(rows), []
    for columns in rows.epochs:
        chosen = columns["labels"] != IGNORED
        clean = np.where(chosen, columns["labels"], columns["input_ids"])
        draws.exact("labels and inputs together are the row", (clean != text.ids).any(axis=1))
        count_masked(draws, config, text, columns, chosen)
        _count_neighbours(draws, config, text, chosen)
        selected.append(chosen)
    if len(selected) > 1:
        count_overlap(draws, config, text, (selected[0], selected[1]))


def count_masked(
    draws: Draws, config: MaskedLM, text: MaskableText, columns: Columns, selected: NDArray[np.bool_]
) -> None:
    """Count what is selected and what is shown there."""
    count_selected(draws, config, text, selected)
    vocabulary = text.vocabulary
    place = np.flatnonzero(selected)
    stood, shown = columns["labels"].ravel()[place], columns["input_ids"].ravel()[place]
    masked = shown == vocabulary.named("mask")
    other = ~masked & (shown != stood)
    different = 1.0 - 1.0 / len(vocabulary.ordinary)
    draws.share("mask shown of selected", len(place), int(masked.sum()), config.mask_share)
    rate = config.random_share * different
    draws.share("another id shown of selected", len(place), int(other.sum()), rate)
    _count_random(draws, vocabulary, stood[other], shown[other])
    bad = place[other][vocabulary.special(shown[other])]
    draws.exact("no special id is drawn", _rows_of(bad, selected.shape))


def _rows_of(places: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Say which rows hold any of these flat places: (N,)."""
    rows = np.zeros(shape[0], np.bool_)
    rows[places // max(1, shape[1])] = True
    return rows


def _count_random(
    draws: Draws, vocabulary: Vocabulary, stood: NDArray[np.integer], shown: NDArray[np.integer]
) -> None:
    """Count where among the ordinary ids, but the one that stood there, the drawn ones are."""
    rank = np.cumsum(~vocabulary.is_special) - 1
    choices = max(1, len(vocabulary.ordinary) - 1)
    drawn = rank[shown] - (rank[shown] > rank[stood])
    draws.each("rank of another id, of all", (drawn + 0.5) / choices, 0.5, (1.0 - choices**-2.0) / 12.0)


def expected_selected(text: MaskableText, probability: float) -> NDArray[np.int64]:
    """Return how many tokens of each row `exact` selects: (N,)."""
    wanted = np.maximum(np.floor(probability * text.counts + 0.5), 1.0).astype(np.int64)
    found: NDArray[np.int64] = np.minimum(wanted, text.counts)
    return found


def count_selected(
    draws: Draws, config: SelectionSettings, text: MaskableText, selected: NDArray[np.bool_]
) -> None:
    """Count what is selected."""
    probability = config.mask_probability
    draws.exact("nothing special is selected", np.any(selected & ~text.eligible, axis=1))
    counts = np.asarray(np.count_nonzero(selected, axis=1), np.int64)
    match config.selection:
        case Selection.BERNOULLI:
            draws.share(
                "selected of eligible tokens", int(text.counts.sum()), int(counts.sum()), probability
            )
        case Selection.EXACT:
            draws.exact("tokens selected in a row", counts != expected_selected(text, probability))
        case Selection.WHOLE_WORD:
            taken = text.taken(selected)
            split = (taken > 0) & (taken < text.sizes)
            wrong = np.zeros(len(counts), np.bool_)
            wrong[np.nonzero(text.begins)[0][split]] = True
            draws.exact("words are selected wholly or not", wrong)
            draws.share("selected of words", len(taken), int((taken > 0).sum()), probability)
        case Selection.NGRAM:
            wanted = expected_selected(text, probability)
            wrong = _wrong_ngrams(text, text.taken(selected), wanted, counts)
            draws.exact("n-grams are whole and fill the row's share", wrong)


def _wrong_ngrams(
    text: MaskableText, taken: NDArray[np.int64], wanted: NDArray[np.int64], counts: NDArray[np.int64]
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
    draws: Draws,
    config: SelectionSettings,
    text: MaskableText,
    selected: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> None:
    """Count what is selected in both epochs, of rows that show the same text in both."""
    law, square = "selected in both epochs", config.mask_probability**2
    match config.selection:
        case Selection.BERNOULLI:
            found = int(np.count_nonzero(selected[0] & selected[1]))
            draws.share(law, int(text.counts.sum()), found, square)
        case Selection.EXACT:
            n, k = text.counts, expected_selected(text, config.mask_probability)
            share = k / np.maximum(n, 1)
            mean = k * share / np.maximum(n, 1)
            spread = (share * (1.0 - share)) ** 2 / np.maximum(n - 1, 1)
            both = np.count_nonzero(selected[0] & selected[1], axis=1) / np.maximum(n, 1)
            draws.each(law, both, mean, spread)
        case Selection.WHOLE_WORD:
            both = (text.taken(selected[0]) > 0) & (text.taken(selected[1]) > 0)
            draws.share(law, len(both), int(np.count_nonzero(both)), square)


def _count_neighbours(
    draws: Draws, config: SelectionSettings, text: MaskableText, selected: NDArray[np.bool_]
) -> None:
    """Count what is selected in both of two neighbouring rows; each row is in one pair."""
    if config.selection not in (Selection.BERNOULLI, Selection.EXACT):
        return
    one, other = slice(0, len(selected) // 2 * 2, 2), slice(1, None, 2)
    rates = np.full(len(selected), config.mask_probability)
    if config.selection is Selection.EXACT:
        wanted = expected_selected(text, config.mask_probability)
        rates = wanted / np.maximum(text.counts, 1)
    joint = np.count_nonzero(text.eligible[one] & text.eligible[other], axis=1)
    found = int(np.count_nonzero(selected[one] & selected[other]))
    law = "selected in two neighbouring rows"
    draws.events(law, found, np.repeat(rates[one] * rates[other], joint))


def count_electra(draws: Draws, config: ReplacedTokens, rows: ShownRows) -> None:
    """Count replaced tokens."""
    ids, covered = rows.stored.input_ids, rows.stored.covered
    text, chosen = MaskableText.of(rows), []
    for columns in rows.epochs:
        selected = columns["selected"].astype(np.bool_)
        replaced = columns["input_ids"] != ids
        labels = np.where(covered, replaced, IGNORED)
        draws.exact("original_ids are the row", (columns["original_ids"] != ids).any(axis=1))
        draws.exact("labels say what was replaced", (columns["labels"] != labels).any(axis=1))
        draws.exact("nothing else is replaced", (replaced & ~selected).any(axis=1))
        count_selected(draws, config, text, selected)
        place = np.flatnonzero(selected)
        stood, shown = ids.ravel()[place], columns["input_ids"].ravel()[place]
        special = _rows_of(place[rows.vocabulary.special(shown)], ids.shape)
        draws.exact("no special id is drawn", special)
        _count_replaced(draws, config, rows, stood, shown)
        chosen.append(selected)
    if len(chosen) > 1:
        count_overlap(draws, config, text, (chosen[0], chosen[1]))


def _count_replaced(
    draws: Draws,
    config: ReplacedTokens,
    rows: ShownRows,
    stood: NDArray[np.integer],
    shown: NDArray[np.integer],
) -> None:
    """Count how many of the selected tokens show another id: all but those drawn rightly by chance."""
    law, replaced = "replaced of selected", shown != stood
    if config.generator is Generator.UNIFORM:
        rate = 1.0 - 1.0 / len(rows.vocabulary.ordinary)
        draws.share(law, len(stood), int(np.count_nonzero(replaced)), rate)
        _count_random(draws, rows.vocabulary, stood[replaced], shown[replaced])
    elif config.generator is Generator.UNIGRAM:
        assert rows.stored.unigram is not None, "made for another generator"
        counts = np.diff(rows.stored.unigram, prepend=0)
        draws.each(law, replaced, 1.0 - counts[stood] / max(1, counts.sum()))
