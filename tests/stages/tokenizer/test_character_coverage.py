"""What coverage promises: each language gets its most frequent characters, whatever the others have."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from stages.tokenizer.coverage import CharacterCounts, required_characters
from stages.tokenizer.sampling import SPACE_SYMBOL

TEXTS = st.dictionaries(
    st.sampled_from(["en", "th", "zh"]),
    st.text(alphabet=f"abc \n{SPACE_SYMBOL}\u732b\u0e44\U0001f600\0", max_size=60),
)


def counted(texts: dict[str, str]) -> CharacterCounts:
    """Return the counts of one text a language."""
    counts = CharacterCounts()
    for language, text in texts.items():
        counts.add(language, text)
    return counts


@settings(deadline=None)
@given(TEXTS, st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]))
def test_characters_are_those_of_plain_loops(texts: dict[str, str], coverage: float) -> None:
    expected = set[str]()
    for text in texts.values():
        counts = Counter(character for character in text if character not in f"\0 {SPACE_SYMBOL}")
        covered, total = 0, sum(counts.values())
        for character, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            if covered / total < coverage:
                expected.add(character)
            covered += count
    found, reached = required_characters(counted(texts).by_language(), coverage=coverage, most=100)
    assert (found, reached) == ("".join(sorted(expected)), coverage)


@settings(deadline=None)
@given(TEXTS, st.integers(0, 6))
def test_coverage_is_lowered_for_all_where_there_is_no_room(texts: dict[str, str], most: int) -> None:
    counts = counted(texts).by_language()
    found, reached = required_characters(counts, coverage=1.0, most=most)
    assert len(found) <= most
    whole, _ = required_characters(counts, coverage=1.0, most=100)
    assert set(found) <= set(whole)
    if reached < 1.0:
        assert len(found) == most < len(whole)
        assert set(required_characters(counts, coverage=reached, most=100)[0]) <= set(found)
    else:
        assert found == whole


def test_a_language_with_many_characters_is_not_left_out_for_one_with_much_text() -> None:
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    texts = {"en": "the cat sat on the mat\n" * 10_000, "zh": rare * 2}
    found, reached = required_characters(counted(texts).by_language(), coverage=0.9995, most=1_000)
    assert set(rare) <= set(found)
    assert reached == 0.9995


def test_texts_of_a_language_are_counted_together() -> None:
    counts = CharacterCounts()
    counts.add("en", "aab")
    counts.add("en", "ab\U0001f600")
    assert counts.by_language() == {"en": {ord("a"): 3, ord("b"): 2, 0x1F600: 1}}
