"""What fairness promises: counts add up field by field, rates are as written out."""

from dataclasses import fields

from stages.tokenizer.fairness import LanguageCounts, rates_of


def test_counts_add_up_field_by_field() -> None:
    names = [one.name for one in fields(LanguageCounts)]
    one = LanguageCounts(*(3 * 10**place for place in range(len(names))))
    other = LanguageCounts(*(10**place for place in range(len(names))))
    assert one + other == LanguageCounts(*(4 * 10**place for place in range(len(names))))
    assert one + LanguageCounts() == one


def test_rates_are_as_written_out() -> None:
    counts = LanguageCounts(
        pieces=1, bytes=30, characters=10, words=2, tokens=4, byte_tokens=3, uncovered=1
    )
    assert rates_of(counts) == {
        "bytes": 30,
        "characters": 10,
        "words": 2,
        "tokens": 4,
        "bytes_per_token": 7.5,
        "characters_per_token": 2.5,
        "tokens_per_word": 2.0,
        "byte_fallback": 0.75,
        "uncovered_characters": 0.1,
    }
