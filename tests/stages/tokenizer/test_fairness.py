"""What fairness promises: counts add up field by field, rates are as written out."""

from stages.tokenizer.fairness import LanguageCounts, fairness


def test_counts_add_up_field_by_field() -> None:
    one, other = LanguageCounts(1, 20, 300, 4_000, 50_000), LanguageCounts(2, 10, 100, 1_000, 10_000)
    assert one + other == LanguageCounts(3, 30, 400, 5_000, 60_000)
    assert one + LanguageCounts() == one


def test_rates_are_as_written_out_by_language_in_order() -> None:
    counts = {"th": LanguageCounts(1, 30, 10, 4, 1), "en": LanguageCounts(2, 9, 9, 3, 0)}
    assert fairness(counts) == {
        "en": {
            "bytes": 9,
            "tokens": 3,
            "bytes_per_token": 3.0,
            "characters_per_token": 3.0,
            "byte_fallback": 0.0,
        },
        "th": {
            "bytes": 30,
            "tokens": 4,
            "bytes_per_token": 7.5,
            "characters_per_token": 2.5,
            "byte_fallback": 0.25,
        },
    }
    assert list(fairness(counts)) == ["en", "th"]


def test_a_language_whose_documents_have_no_token_has_no_rate() -> None:
    assert fairness({"en": LanguageCounts(documents=1)}) == {}
