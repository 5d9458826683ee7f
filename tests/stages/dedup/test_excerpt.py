"""What excerpts promise: the beginning of a text, or the place where it differs."""

from stages.dedup.excerpt import EXCERPT, excerpt_of


def test_a_text_is_shown_from_its_beginning() -> None:
    assert excerpt_of("short") == "short"
    assert excerpt_of("x" * 500) == "x" * EXCERPT
    assert excerpt_of("", "") == ""


def test_a_late_difference_is_shown_with_what_stands_before_it() -> None:
    begin = "".join(f"{n:04d}" for n in range(100))
    assert excerpt_of(f"{begin}42 EUR", f"{begin}7 EUR") == f"...{begin[-40:]}42 EUR"


def test_an_early_difference_is_in_the_beginning() -> None:
    assert excerpt_of(f"Dear Ann{'x' * 200}", f"Dear Bob{'x' * 200}").startswith("Dear Ann")


def test_equal_texts_and_parts_are_shown_from_where_they_end_alike() -> None:
    text = "é" * 300
    assert excerpt_of(text, text) == text[:EXCERPT]
    assert excerpt_of(f"{text}end", text) == f"...{text[:40]}end"
