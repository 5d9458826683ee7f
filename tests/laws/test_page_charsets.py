"""The charset that a page names: found as a browser and another library find it, in all forms of heads.

`page_charsets.json.gz` has generated pages and both answers; `release/page_charsets.py` makes it. The
library looks at the head before it is parsed, and the browser says in what it reads a page at last. They
are not asked where they leave the standard. The library takes a tag that byte 1,024 cuts. The browser
takes the last of two attributes of a name, sees no meta element in scripts, styles and titles before it
parses, and stops behind byte 1,024 where the head of a page ends.
"""

import gzip
import json
import re
from pathlib import Path

import pytest

from stages.reading.http_message import content_type
from stages.reading.meta_labels import labels_before_parsing, labels_while_parsing
from stages.reading.page_charset import CharsetError, decoded_page, decoded_text
from stages.reading.web_encodings import web_encoding
from tests.laws.page_heads import NO_LABEL

ANSWERS = Path(__file__).with_name("page_charsets.json.gz")
PAGES: list[tuple[str, str, str, str]] = (
    json.loads(gzip.decompress(ANSWERS.read_bytes())) if ANSWERS.exists() else []
)
_CUT = re.compile(r"<meta[^<]*\Z", re.IGNORECASE)
_TWICE = re.compile(r"<meta[^<]*charset[^<]*charset", re.IGNORECASE)
_HIDDEN = re.compile(r"<(script|title|style)[^<]*<meta", re.IGNORECASE)
_NO_HEAD = re.compile(r"<(metax|[ 1]|/ )", re.IGNORECASE)
_HEAD = 1_024
PROBES = {
    "shift_jis": ("川①", "cp932"),
    "big5": ("船碁", "big5hkscs"),
    "euc-jp": ("川と", "euc_jp"),
    "euc-kr": ("강뷁", "cp949"),
    "gbk": ("船国", "gb18030"),
    "koi8-r": ("река", "koi8-r"),
    "windows-1252": ("é—", "cp1252"),
    "windows-1251": ("река", "cp1251"),
    "iso-8859-2": ("řeka", "iso8859-2"),
    "iso-8859-8-i": ("נהר", "iso8859-8"),
    "macintosh": ("é—", "mac-roman"),
    "ibm866": ("река", "cp866"),
    NO_LABEL: ("é—", "cp1252"),
}
"""By charset, letters and the codec of Python that has them alike."""
NOT_PROBED = ("utf-8", "utf-16le", "utf-16be", "x-user-defined")
"""No letters show that a page is read by these labels."""


def test_labels_before_parsing_are_those_of_another_library() -> None:
    met = set()
    for _, page, early, _ in PAGES:
        if not early or (
            len(page) > _HEAD and _CUT.search(page[:_HEAD])
        ):  # it failed, or leaves the standard
            continue
        known = (web_encoding(label) for label in labels_before_parsing(page.encode("latin-1")))
        found = next(filter(None, known), NO_LABEL)
        in_pages = {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}
        assert in_pages.get(found, found) == early, page
        met.add(early)
    assert {NO_LABEL, "utf-8", "shift_jis", "windows-1252"} <= met


def test_a_page_is_read_in_the_charset_in_which_a_browser_reads_it() -> None:
    met = set()
    for kind, page, _, charset in PAGES:
        if _TWICE.search(page) or _HIDDEN.search(page) or (len(page) > _HEAD and _NO_HEAD.search(page)):
            continue
        _, said = content_type(kind)
        if charset in NOT_PROBED or (said and charset == "windows-1252"):
            continue  # the second is its default where it does not know the label of a server
        text, codec = PROBES[charset]
        data = page.encode("latin-1").replace(b"<p>text", b"<p>" + text.encode(codec))
        if charset == NO_LABEL:
            with pytest.raises(ValueError, match="is not in UTF-8"):
                decoded_page(data, said)
        else:
            assert f"<p>{text}</body>" in decoded_page(data, said), page
        met.add(charset)
    assert met >= PROBES.keys() - {"windows-1251"}


JIS = b"<p>\x1b$B@n\x1b(B"


@pytest.mark.parametrize("long", [0, 500, 2_000, 100_000])
def test_a_meta_element_is_found_wherever_it_is(long: int) -> None:
    filler = b"<style>" + b"a" * long + b"</style>"
    for meta in (
        b"<meta charset=iso-2022-jp>",
        b"<meta http-equiv=content-type content='text/html; charset=\"iso-2022-jp\"'>",
    ):
        assert "川" in decoded_page(filler + meta + JIS)
        assert "川" in decoded_page(filler + b"<title>&lt;</title></head><body>" + meta + JIS)
        assert "川" not in decoded_page(filler + b"a" * 1_024 + b"<!-- " + meta + b" -->" + JIS)
        for name in (b"script", b"style", b"title", b"textarea", b"xmp", b"iframe", b"noframes"):
            hidden = b"a" * 1_024 + b"<%s>%s</%s>" % (name, meta, name)
            assert "川" not in decoded_page(filler + hidden + JIS)
        cut = filler + b"a" * 1_024 + JIS + meta[:-1]
        assert "川" not in decoded_page(cut)
        assert "川" in decoded_page(cut + b">")


@pytest.mark.parametrize("name", ["script", "STYLE", "Textarea", "title", "xmp", "iFrame", "noframes"])
def test_an_element_without_tags_in_it_ends_at_its_end_tag_in_upper_and_lower_case(name: str) -> None:
    for end in (name.lower(), name.upper(), name.title()):
        page = f"<{name}><meta charset=big5></{end} ><meta charset=shift_jis></{end}>"
        assert list(labels_while_parsing(page.encode())) == ["shift_jis"]
        assert list(labels_while_parsing(page.replace(f"/{end}", f"/{end}s").encode())) == []


def test_a_label_of_a_parsed_element_outranks_one_in_a_script_or_a_declaration_of_xml() -> None:
    data = "<p>川①".encode("cp932")
    for before in (b"<script>'<meta charset=big5>'</script>", b"<?xml version='1.0' encoding='big5'?>"):
        assert "川①" in decoded_page(before + b"<meta charset=shift_jis>" + data)
        assert "川①" in decoded_page(before.replace(b"big5", b"sjis") + data)


def test_a_page_says_that_it_is_in_iso_2022_jp_whatever_its_server_says() -> None:
    page = b"<meta charset=iso-2022-jp>" + JIS
    for charset in ("", "utf-8", "iso-8859-1", "iso-2022-jp", "x-nobody"):
        assert "川" in decoded_page(page, charset)
    assert "川" in decoded_page(JIS, "iso-2022-jp")
    assert "$B@n" in decoded_page(JIS, "utf-8")
    assert "$B@n" in decoded_page(page.replace(b"\x1b(B", b"\x1b(X"), "utf-8")
    with pytest.raises(ValueError, match="iso-2022-jp that it names"):
        decoded_page(page.replace(b"\x1b(B", b"\x1b(X"))


def test_a_byte_order_mark_outranks_every_label() -> None:
    for mark, codec in (
        (b"\xef\xbb\xbf", "utf-8"),
        (b"\xff\xfe", "utf-16-le"),
        (b"\xfe\xff", "utf-16-be"),
    ):
        data = "<meta charset=windows-1252><p>é川".encode(codec)
        assert decoded_page(mark + data, "shift_jis").endswith("é川")
    with pytest.raises(ValueError, match=r"is not in UTF-8 \(byte 33, 0xe9\), as its first bytes say"):
        decoded_page(b"\xef\xbb\xbf<meta charset=windows-1252><p>\xe9")


@pytest.mark.parametrize(
    "label", ["hz", "utf-7", "ISO-646-DE", "x-nobody", "iso-2022-jp-2", "hz-gb-2312"]
)
def test_seven_bits_that_need_a_label_that_is_not_read_are_named(label: str) -> None:
    with pytest.raises(CharsetError, match=repr(label)):
        decoded_page(f"<meta charset={label}><p>~{{VPND~}}\x1b$A".encode())
    with pytest.raises(CharsetError, match=repr(label)):
        decoded_text(b"~{VPND~} \x1b$A", label)
    for seven_bits in (b"~{VPND~}", b"\x1b$A", b"\x0eA\x0f"):
        with pytest.raises(CharsetError, match=repr(label)):
            decoded_text(seven_bits, label)


def test_a_drop_names_the_label_because_of_which_a_page_is_not_read() -> None:
    with pytest.raises(CharsetError, match="'iso-2022-kr'"):
        decoded_page(b"<meta charset=iso-2022-kr>", "x-nobody")
    with pytest.raises(CharsetError, match="'x-nobody'"):
        decoded_page(b"<meta charset=x-nobody><p>\xe9")


@pytest.mark.parametrize("label", ["iso-2022-kr", "hz-gb-2312", "replacement"])
def test_no_label_behind_one_that_browsers_read_as_nothing_is_taken(label: str) -> None:
    page = b"<meta charset=windows-1252><p>\xe9"
    assert decoded_page(page, "x-nobody").endswith("é"), "one that nobody knows is passed over"
    with pytest.raises(CharsetError, match=f"'{label}', which no browser reads"):
        decoded_page(page, label)
    by_itself = f"<?xml version='1.0' encoding='windows-1252'?><meta charset={label}><p>".encode()
    with pytest.raises(CharsetError, match=f"'{label}', which no browser reads"):
        decoded_page(by_itself + b"\xe9")


def test_a_text_of_7_bits_but_for_its_last_byte_is_read_by_its_label_whatever_that_byte_is() -> None:
    page = b"<meta charset=windows-1252><p>L'Ha"
    for byte in (b"\xff", b"\xfe", b"\xff\xff"):
        assert decoded_page(page + byte) == (page + byte).decode("cp1252")
        assert decoded_page(b"<p>" + byte, "iso-8859-5") == "<p>" + byte.decode("iso-8859-5")
        assert decoded_text(b"reka" + byte, "koi8-r") == "reka" + byte.decode("koi8-r")


def test_a_text_of_letters_in_utf_8_but_for_its_last_byte_is_read_by_no_label() -> None:
    for wrong in (b"\xff", "\ud800".encode("utf-8", "surrogatepass")):
        with pytest.raises(ValueError, match="has bytes that are no characters of its encoding"):
            decoded_page("<meta charset=windows-1252><p>é".encode() + wrong)


def test_a_plain_text_about_charsets_names_none() -> None:
    text = "write <meta charset=big5> and é"
    assert decoded_text(text.encode("cp1252"), "windows-1252") == text
    with pytest.raises(ValueError, match="nor in a charset that it names"):
        decoded_text(text.encode("cp1252"), "utf-8")
    assert decoded_text(b"<meta charset=hz-gb-2312>", "x-nobody") == "<meta charset=hz-gb-2312>"


@pytest.mark.parametrize(
    ("value", "charset"),
    [
        ("text/html", ""),
        ("Text/HTML; Charset=Big5", "big5"),
        ('text/html;a=b;charset="x y";c', "x y"),
        ("text/html; charset = 'x'", "x"),
        ("text/html; xcharset=y; charset=z, text/html", "z"),
        ("text/html; charset=", ""),
        ("text/html; charset=a; charset=b", "a"),
    ],
)
def test_the_charset_of_a_content_type(value: str, charset: str) -> None:
    assert content_type(value) == ("text/html", charset)
