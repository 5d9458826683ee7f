"""What masks of whole words and n-grams promise, beside what all masks do."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import chisquare

from stages.errors import FormatError
from stages.objectives.mlm import kernel as compiled
from stages.objectives.mlm.config import MaskedLM, Selection, expected_counts, mask_tokens
from stages.objectives.rows import IGNORED, Columns, StoredRows
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from tests.campaign import examples
from tests.stages.objectives.built_rows import sigmas
from tests.stages.objectives.plain_masks import (
    PAD,
    SPECIAL,
    STARTS,
    VOCABULARY,
    any_rows,
    configs,
    maskable,
    plain_masks,
    plain_words,
    stored,
)

Mask = Callable[[StoredRows, MaskedLM, Vocabulary], Columns]
BOTH = [mask_tokens, compiled.mask_tokens]
WHOLE = [Selection.WHOLE_WORD, Selection.NGRAM]


@settings(deadline=None, max_examples=examples(100))
@given(any_rows(), configs)
def test_words_are_selected_whole_and_n_grams_keep_their_budget(
    rows: StoredRows, config: MaskedLM
) -> None:
    budgets = expected_counts(maskable(rows).sum(axis=1), config.mask_probability)
    for selection in WHOLE:
        drawn = compiled.mask_tokens(
            rows, config.model_copy(update={"selection": selection}), VOCABULARY
        )
        selected = drawn["labels"] != IGNORED
        for row, budget in enumerate(budgets.tolist()):
            words = [word for chain in plain_words(rows, row, VOCABULARY) for word in chain]
            parts = [word for word in words if 0 < selected[row, word].sum() < len(word)]
            if selection is Selection.WHOLE_WORD:
                assert not parts
            else:
                found = selected[row].sum()
                assert min(budget, 1) <= found <= budget
                assert len(parts) == 0 or (found == budget < min(map(len, words)))


WORD, INSIDE, UNK = 10, 12, SPECIAL["unk"]
"""An id that begins a word, one that does not, one that is special."""
ADVERSE: dict[str, StoredRows] = {
    "one long word": stored([[INSIDE] * 40] * 3),
    "one word longer than draws that are served together": stored([[WORD] + [INSIDE] * 129]),
    "words of one token": stored([[WORD] * 40] * 3),
    "one token": stored([[WORD], [INSIDE]] * 2),
    "special ids alone": stored([[UNK] * 30] * 2),
    "one word between special ids": stored([[UNK, *[INSIDE] * 12, UNK]] * 3),
    "words longer than all that may be selected": stored([([WORD] + [INSIDE] * 9) * 3] * 3),
    "one short word among long ones": stored([[WORD, INSIDE, INSIDE, WORD] + [INSIDE] * 30] * 3),
    "two words, fewer than an n-gram has": stored([[WORD, INSIDE, WORD]] * 3),
    "a word cut by segments": stored([[INSIDE] * 40] * 3, [[13, 1, 26]] * 3),
    "special ids and words in turns": stored([[WORD, UNK, INSIDE, UNK] * 8] * 3),
    "rows without a token": stored([[PAD] * 8] * 3),
    "long words behind padded rows": stored([[PAD] * 20, [INSIDE] * 20] * 2),
}


@pytest.mark.parametrize("selection", WHOLE)
@pytest.mark.parametrize("name", ADVERSE)
def test_adverse_rows_have_the_masks_of_a_plain_loop(name: str, selection: Selection) -> None:
    rows, labelled = ADVERSE[name], 0
    for probability, max_ngram in ((0.01, 1), (0.15, 3), (0.5, 16), (1.0, 2)):
        config = MaskedLM(selection=selection, mask_probability=probability, max_ngram=max_ngram)
        expected = plain_masks(rows, config, VOCABULARY)
        for mask in BOTH:
            columns = mask(rows, config, VOCABULARY)
            assert (columns["input_ids"].tolist(), columns["labels"].tolist()) == expected
        labelled += sum(label != IGNORED for row in expected[1] for label in row)
    assert (labelled > 0) is bool(maskable(rows).any())


@pytest.mark.parametrize("mask", BOTH)
def test_a_word_longer_than_its_budget_is_selected_in_its_first_tokens(mask: Mask) -> None:
    rows = stored([[INSIDE] * 40])
    labels = mask(rows, MaskedLM(selection=Selection.NGRAM), VOCABULARY)["labels"]
    assert labels.tolist() == [[INSIDE] * 6 + [IGNORED] * 34]  # 15% of 40


def test_words_are_selected_alone_at_the_rate_asked_for_whatever_their_length() -> None:
    rows = stored(np.random.default_rng(3).integers(10, 40, (3_000, 96)))
    labels = compiled.mask_tokens(rows, MaskedLM(selection=Selection.WHOLE_WORD), VOCABULARY)["labels"]
    selected = labels != IGNORED
    begins = STARTS[rows.input_ids]
    begins[:, 0] = True
    sizes = np.bincount(np.cumsum(begins) - 1)
    for size in range(1, 5):
        found = selected[begins][sizes == size]
        assert len(found) > 1_000
        assert sigmas(found.sum(), len(found), 0.15) < 5
    both = selected[begins][1:] & selected[begins][:-1]
    assert len(both) > 100_000
    assert sigmas(both.sum(), len(both), 0.15**2) < 5


def test_n_grams_have_lengths_as_one_to_a_half_to_a_third() -> None:
    """Of three tokens: a 3-gram at once, or three 1-grams, or else two runs; few runs of 600 touch."""
    rows = stored(np.full((20_000, 600), 10))
    config = MaskedLM(selection=Selection.NGRAM, mask_probability=3 / 600)
    selected = compiled.mask_tokens(rows, config, VOCABULARY)["labels"] != IGNORED
    assert (selected.sum(axis=1) == 3).all()
    runs = (np.diff(selected.astype(np.int8), axis=1, prepend=0) == 1).sum(axis=1)
    shares = np.array([2 / 11, 1 - 2 / 11 - (6 / 11) ** 2, (6 / 11) ** 2])
    p = chisquare([(runs == n).sum() for n in (1, 2, 3)], shares * len(runs)).pvalue
    print(f"p = {p:.3f}")  # noqa: T201  # shown with -s
    assert p > 1e-4


@pytest.mark.parametrize("mask", BOTH)
@pytest.mark.parametrize("selection", WHOLE)
def test_a_tokenizer_that_does_not_say_where_words_begin_is_refused(
    mask: Mask, selection: Selection
) -> None:
    with pytest.raises(FormatError, match=r"starts_word: .* set selection to bernoulli or exact"):
        mask(stored([[10]]), MaskedLM(selection=selection), vocabulary_of(40, SPECIAL))


def test_a_table_of_word_starts_of_another_vocabulary_is_refused() -> None:
    with pytest.raises(FormatError, match=r"starts_word: shape \(39,\), but vocab_size = 40"):
        vocabulary_of(40, SPECIAL, STARTS[1:])
