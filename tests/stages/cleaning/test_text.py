"""What cleaning promises.

Line feeds are the only line ends, no control character is left but the tab, the rest is NFC; nothing
visible is lost and cleaning again changes nothing.
"""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stages.cleaning.text import clean_text

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


@settings(deadline=None, derandomize=True, max_examples=50)
@given(TEXTS)
@example("\x00\ufeffa")
@example("\ufeff\x00\ufeffa")
def test_cleaning_what_is_clean_changes_nothing(text: str) -> None:
    clean = clean_text(text)
    assert clean_text(clean) == clean


@settings(deadline=None, derandomize=True, max_examples=50)
@given(TEXTS)
def test_clean_text_is_nfc_without_controls_or_other_line_ends(text: str) -> None:
    clean = clean_text(text)
    assert unicodedata.is_normalized("NFC", clean)
    assert {c for c in clean if unicodedata.category(c) in {"Cc", "Zl", "Zp"}} <= {"\t", "\n"}
    assert clean.splitlines() == clean.removesuffix("\n").split("\n") or not clean


@settings(deadline=None, derandomize=True, max_examples=50)
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
