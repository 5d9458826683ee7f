"""What the search for evaluation sets promises: exactly what plain loops over words find."""

import unicodedata

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.decontamination import search
from stages.decontamination.config import DecontaminationRule
from stages.decontamination.index import EvaluationIndex, IndexBuilder, passages_of
from stages.decontamination.search import BEGIN, DOCUMENT, END, GRAM, WORD, Searcher, search_plainly
from stages.decontamination.words import fill_words, fold, folding, vocabulary_of, words_of
from tests.campaign import examples

RULE = DecontaminationRule(ngram=4, min_words=2, max_items=3)
WORDS = st.sampled_from(
    [
        "a",
        "b",
        "A",
        "ﬁ",
        "don't",
        "猫",
        "が",
        "é",
        "e\u0301",
        "x-y",
        "½",
        "1",
        "ﷺ",
        "12",
        "200",
        "345,",
        "３４，",
        "1\u200b",
        "\u0301",
        "\ufe0f",
        "✔️",
    ]
)
SPACES = st.sampled_from(
    [" ", "\n", ", ", " -- ", "\u3000", "\u00ad", "", "´", ",", "\u202f", "\u20e3", "，"]
)
TEXTS = st.lists(st.tuples(WORDS, SPACES).map("".join), max_size=60).map("".join)
ITEMS = st.lists(st.lists(TEXTS, min_size=1, max_size=3), min_size=1, max_size=6)


def index_of(items: list[list[str]], rule: DecontaminationRule = RULE) -> EvaluationIndex:
    """Return the index of items, half of them of another set."""
    builder = IndexBuilder()
    for number, fields in enumerate(items):
        builder.add(passages_of(fields, min_words=rule.min_words), number_of_set=number % 2)
    return builder.build(rule)


def hits_in(texts: list[str], index: EvaluationIndex) -> NDArray[np.int64]:
    """Return what the search finds in texts."""
    data = [text.encode() for text in texts]
    ptr = np.cumsum([0, *map(len, data)])
    searcher = Searcher(folding(), index)
    parts = searcher.search(np.frombuffer(b"".join(data), np.uint8), ptr, np.arange(len(texts)))
    return np.concatenate([np.empty((0, 5), np.int64), *parts])


def names_of(items: list[list[str]]) -> list[str]:
    """Return the words of items as they are numbered."""
    passages = [p for fields in items for p in passages_of(fields, min_words=RULE.min_words)]
    return list(dict.fromkeys(word for passage in passages for word in passage))


@pytest.mark.parametrize("block", [1 << 15, 8])
@settings(max_examples=examples(150), deadline=None)
@given(items=ITEMS, texts=st.lists(TEXTS, max_size=4), copied=st.integers(0, 5))
@example([[" ".join(f"word{number}" for number in range(200))]], [], 0)  # over borders of blocks
def test_the_search_finds_what_plain_loops_find(
    block: int, items: list[list[str]], texts: list[str], copied: int
) -> None:
    texts = [*texts, f"x {items[copied % len(items)][0]} y"]
    index, names = index_of(items), names_of(items)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "BLOCK_WORDS", block)
        hits = hits_in(texts, index)
    for number, text in enumerate(texts):
        own = hits[hits[:, DOCUMENT] == number]
        found = dict(zip(own[:, GRAM].tolist(), own[:, WORD].tolist(), strict=True))
        assert found == search_plainly(words_of(text), index.grams, names)
        assert len(found) == len(own)
        for hit in own:
            at, size = index.grams.at[hit[GRAM]], index.grams.lengths[hit[GRAM]]
            words = [names[word] for word in index.grams.stream[at : at + size].tolist()]
            shown = words_of(text.encode()[hit[BEGIN] : hit[END]].decode())
            assert f" {' '.join(words)} " in f" {' '.join(shown)} "  # a character may be several words
            assert len(shown) - len(words) < 2 * 4


def test_many_hits_find_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "_HITS", 3)
    text = " ".join(f"w{number}" for number in range(500))
    hits = hits_in(["none", text, text], index_of([[text]]))
    assert len(hits) == 2 * (500 - RULE.ngram + 1)
    assert np.array_equal(hits[: len(hits) // 2, 1:3], hits[len(hits) // 2 :, 1:3])


@given(text=st.text(max_size=80))
def test_words_do_not_change_with_case_form_or_punctuation(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    if fold(composed) == "".join(map(fold, composed)):  # marks in their order
        assert words_of(unicodedata.normalize("NFD", composed)) == words_of(composed)
    assert words_of(f"({text}!)") == words_of(text)
    if all(character.lower().casefold() == character.casefold() for character in text):
        assert words_of(text.lower()) == words_of(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't STOP: the ﬁrst rule!", ["dont", "stop", "the", "first", "rule"]),
        ("soft\u00adly, well-known", ["softly", "well", "known"]),
        ("猫が座る", ["猫", "か", "\u3099", "座", "る"]),
        ("ＦＵＬＬ width Ｘ", ["full", "width", "x"]),
        ("Straße STRASSE", ["strasse", "strasse"]),
        ("1,000.5 = x_y", ["1000", "5", "x", "y"]),
        ("12,345,678 1,00,000 1\u202f200", ["12345678", "100000", "1200"]),
        (
            "１,２００ １，２００ 1\u200b,\ufe0f200 12,3\u00ad4,５67 1２34,567",
            ["1200"] * 3 + ["1234567", "1234", "567"],
        ),
        (
            "1,2,3 1,20 1234,567 1,2345 ,200 1, 200",
            ["1", "2", "3", "1", "20", "1234", "567", "1", "2345", "200", "1", "200"],
        ),
        ("don\u00b4t don\u2019t don\uff07t don`t", ["dont"] * 4),
        ("\u2714\ufe0f the 1\ufe0f\u20e3 \u0301 x", ["the", "1", "x"]),
        ("a\ufe0fb \u3164c", ["ab", "c"]),
        ("👍 ... \u00b4 \n", []),
        ("क्षि हिन्दी", ["क्षि", "हिन्दी"]),
    ],
)
def test_words_are_letters_and_digits_in_one_form(text: str, words: list[str]) -> None:
    assert words_of(text) == words
    assert read_words(text, words) == words


def read_words(text: str, names: list[str]) -> list[str]:
    """Return the words of a text as compiled code reads them, of those that are known."""
    known = vocabulary_of(names := sorted({*names}))
    data, tables = np.frombuffer(text.encode(), np.uint8), folding()
    found = np.empty(len(data) + 9, np.int32), *np.empty((2, len(data) + 9), np.int64)
    count, _ = fill_words(
        data,
        (0, len(data)),
        (tables.single, tables.several, tables.kinds),
        (known.codes, known.ptr, known.table),
        np.empty(known.longest + 1, np.int32),
        found,
        0,
    )
    return [names[number] if number >= 0 else "" for number in found[0][:count].tolist()]


NUMERIC = st.text("0123456789,，１２３\u202f\u200b\ufe0f ", max_size=20)


@settings(max_examples=examples(300), deadline=None)
@given(text=NUMERIC)
def test_compiled_code_reads_numbers_as_they_are_stated(text: str) -> None:
    assert read_words(text, words_of(text)) == words_of(text)


PASSED_OVER = "'´\u2019\u00ad\u200b\u200d\u2060\ufe0e\ufe0f\U000e0101\u034f\u20e3\u3164"


@settings(max_examples=examples(300), deadline=None)
@given(words=st.lists(WORDS, max_size=20), inserted=st.lists(st.sampled_from(PASSED_OVER), max_size=20))
def test_what_does_not_count_in_items_does_not_count_in_texts(
    words: list[str], inserted: list[str]
) -> None:
    text = " ".join(words)
    places = [place * len(text) // (len(inserted) + 1) for place in range(1, len(inserted) + 1)]
    parts = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    filled = "".join(part + mark for part, mark in zip(parts, [*inserted, ""], strict=True))
    assert words_of(filled) == words_of(text)


@pytest.mark.parametrize("number", [0, 7, 100, 1200, 12_345, 1_234_567])
def test_a_number_is_one_word_with_and_without_groups(number: int) -> None:
    item = f"the town of old had {number} people in all its streets"
    text = item.replace(str(number), f"{number:,}")
    assert words_of(text) == words_of(item)
    assert len(hits_in([f"so {text} then"], index_of([[item]]))) == len(
        hits_in([item], index_of([[item]]))
    )


def test_short_fields_are_joined_with_the_one_before_them() -> None:
    fields = [
        "which of these is a prime number",
        "nine",
        "",
        "seven of them",
        "it has two divisors only",
    ]
    assert [" ".join(words) for words in passages_of(fields, min_words=4)] == [
        "which of these is a prime number nine seven of them",
        "it has two divisors only",
    ]
    assert list(passages_of(["one", "two", "a b c d"], min_words=4)) == [
        ["one", "two", "a", "b", "c", "d"]
    ]
    assert list(passages_of(["", " "], min_words=4)) == []


def test_the_form_of_a_set_is_not_looked_for() -> None:
    form = "answer the question below with one word"
    items = [[f"{form} u{number} v{number} w{number} x{number} y{number}"] for number in range(8)]
    grams = index_of(items).grams
    assert len(hits_in([form], index_of(items))) == 0
    assert len(grams.at) == 8 * 5  # those with a word of the item's own
    few = index_of(items[: 2 * RULE.max_items])
    assert len(hits_in([form], few)) == len(form.split()) - RULE.ngram + 1


def test_an_item_that_is_repeated_is_no_form() -> None:
    item = "which metal melts first if a candle burns"
    repeated = [[item], ["one of the other set here"]] * 5
    assert len(hits_in([item], index_of(repeated))) == len(item.split()) - RULE.ngram + 1
    differing = [[f"{item} {number}"] for number in range(10)]
    assert len(hits_in([item], index_of(differing))) == 0


def test_numbers_and_repeats_are_not_looked_for() -> None:
    assert len(index_of([["1 2 3 4 5 6 7 8"], ["a a a a a a"]]).grams.at) == 0
    assert len(index_of([["1 2 three four"]]).grams.at) == 1
