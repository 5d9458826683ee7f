"""What cleaning promises.

Line feeds are the only line ends, no control character is left but the tab, the rest is NFC; nothing
visible is lost and cleaning again changes nothing.
"""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stages.cleaning import text as cleaning
from stages.cleaning.text import clean_text, cleaned
from tests.campaign import examples

BOM = "\ufeff"
CONTROLS = ["\0", "\x0b", "\x1c", "\x1f", "\x7f", "\x85", "\x9f", "\u2028", "\u2029", "\r", "\r\n"]
COMPOSED = ["e\u0301", "\u0301", "\u212b", "\u1100\u1161", "\u0f73", "\ufffe", BOM]
ODD = st.lists(st.sampled_from(["a", " ", "\t", "\n", *CONTROLS, *COMPOSED]), max_size=12).map("".join)
TEXTS = st.text(max_size=40) | ODD


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("\ufeffe\u0301\r\n\x00b\tc", "\u00e9\nb\tc"),
        ("a\rb\r\nc\n\rd", "a\nb\nc\n\nd"),
        ("a\x0bb\x0cc\x1cd\x1de\x1ef\x85g\u2028h\u2029i", "a\nb\nc\nd\ne\nf\ng\nh\ni"),
        ("a\x1fb\x7fc\x80d\x9fe\x08f\x1bg", "abcdefg"),
        ("\tdef f():\n\t\treturn  1  \n\n", "\tdef f():\n\t\treturn  1  \n\n"),
        ("a\ufeffb", "a\ufeffb"),
        ("\ufeff\ufeffa", "a"),
        *((f"a{control}b", "a\nb") for control in ("\u2028", "\u2029", "\x85", "\x1e")),
        *((f"a{control}b", "ab") for control in ("\x1f", "\x7f", "\x84", "\x86", "\x9f", "\x0e")),
        ("e\x00\u0301", "\u00e9"),
        ("ﬁ ① \uff21 \u00a0\u3000\u200b\u00ad", "ﬁ ① \uff21 \u00a0\u3000\u200b\u00ad"),
        ("\u212b \u1112\u1161\u11ab", "\u00c5 한"),
        ("", ""),
        ("\x00", ""),
    ],
)
def test_texts_are_cleaned_as_written_out(text: str, clean: str) -> None:
    assert clean_text(text) == clean


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(TEXTS)
@example("\x00\ufeffa")
@example("\ufeff\x00\ufeffa")
def test_cleaning_what_is_clean_changes_nothing(text: str) -> None:
    clean = clean_text(text)
    assert clean_text(clean) == clean


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(TEXTS)
def test_clean_text_is_nfc_without_controls_or_other_line_ends(text: str) -> None:
    clean = clean_text(text)
    assert unicodedata.is_normalized("NFC", clean)
    assert {c for c in clean if unicodedata.category(c) in {"Cc", "Zl", "Zp"}} <= {"\t", "\n"}
    assert clean.splitlines() == clean.removesuffix("\n").split("\n") or not clean


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(TEXTS)
def test_nothing_visible_is_lost_or_changed(text: str) -> None:
    def visible(raw: str) -> str:
        kept = (c for c in raw if unicodedata.category(c) not in {"Cc", "Zl", "Zp"})
        return unicodedata.normalize("NFC", "".join(kept).lstrip(BOM))

    without_ends = clean_text(text).replace("\n", "").replace("\t", "")
    assert unicodedata.normalize("NFC", without_ends).lstrip(BOM) == visible(text)


def test_every_character_alone_is_kept_ends_a_line_or_is_a_control() -> None:
    line_ends = {c for c in map(chr, range(0x3000)) if len(f"a{c}b".splitlines()) == 2}
    assert len(line_ends) == 10
    for code in [*range(0xD800), *range(0xE000, 0x30000)]:
        character = chr(code)
        expected = unicodedata.normalize("NFC", f"x{character}")
        if character in line_ends:
            expected = "x\n"
        elif unicodedata.category(character) == "Cc" and character != "\t":
            expected = "x"
        assert clean_text(f"x{character}") == expected, hex(code)


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(TEXTS, st.integers(1, 4))
def test_a_text_that_is_cleaned_in_stretches_is_the_text_cleaned_whole(text: str, stretch: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cleaning, "_STRETCH", stretch)
        found = cleaned(text)
    clean = clean_text(text)
    assert (found.data, found.characters) == (clean.encode(), len(clean))
    assert found.changed == (clean != text)


def test_no_character_before_which_a_text_is_cut_joins_what_stands_before_it() -> None:
    normal = {code: unicodedata.normalize("NFD", chr(code)) for code in range(0x30000)}
    joins = {character for parts in normal.values() for character in parts[1:]}
    joins |= {chr(code) for code in [*range(0x1161, 0x1176), *range(0x11A7, 0x11C3)]}  # of Hangul
    cut = [code for code in normal if cleaning._FIRST.fullmatch(chr(code))]  # noqa: SLF001  # the table itself
    assert len(cut) > 30_000
    for code in cut:
        first = normal[code][0]
        assert unicodedata.combining(first) == 0, hex(code)
        assert first not in joins, hex(code)
        assert unicodedata.category(chr(code)) not in {"Cc", "Zl", "Zp"}, hex(code)


def test_a_long_text_is_cut_into_stretches_that_join_to_it() -> None:
    text = "word \u0301\r\n" * 50_000
    parts = list(cleaning._stretches(text))  # noqa: SLF001  # what bounds memory
    assert "".join(parts) == text
    assert len(parts) > 5
    assert max(map(len, parts)) < 70_000
