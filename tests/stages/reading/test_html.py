"""What reading HTML promises: the text as it reads, in the page's own encoding, from any bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.html import DEEPEST, HTML, MOST_ATTRIBUTES, MOST_IN_SCRIPTS, PAGE_BYTES
from stages.reading.records import FieldMapping, HtmlText, RawDocument, Record

PAGE = """<!doctype html><html><head><title>T</title><style>p {}</style><script>var x;</script></head>
<body><nav><ul><li><a href="/">Home</a></ul></nav><h1>Title</h1>
<p>A <b>bold</b> text &amp; an <i>entity</i>: &eacute;.</p><pre>def f():
    return 1</pre>
<ul><li>one item of a list, as long as a sentence.<li>two</ul>
<footer>Foot of the page</footer></body></html>"""


def read(data: bytes, keep: HtmlText = HtmlText.MAIN) -> Record:
    """Return what an HTML file gives."""
    fields = FieldMapping(html_text=keep, language="en")
    stream = HTML.open(fields, 32 << 20)
    (piece,) = stream.lines([data[:7], data[7:]])
    return stream.parse(piece, ColumnsSeen(fields))


def text(data: bytes, keep: HtmlText = HtmlText.MAIN) -> str:
    """Return the text of a page."""
    found = read(data, keep)
    assert isinstance(found, RawDocument), found
    return found.text


def test_a_page_gives_its_text_with_paragraphs_lists_and_code() -> None:
    found = read(PAGE.encode())
    assert isinstance(found, RawDocument)
    assert (found.line, found.position, found.own_id, found.language) == (1, 0, None, "en")
    assert "A bold text & an entity: é." in found.text
    assert "def f():\n    return 1" in found.text
    for left_out in ("Home", "Foot", "var x", "p {}"):
        assert left_out not in found.text


def test_all_of_a_page_has_its_menus_and_feet_and_no_scripts() -> None:
    found = text(PAGE.encode(), HtmlText.ALL)
    for kept in ("Home", "Title", "Foot of the page", "one item of a list"):
        assert kept in found
    assert "var x" not in found


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("", "utf-8"),
        ("", "utf-8-sig"),
        ("", "utf-16"),
        ("", "utf-16-le"),
        ('<meta charset="windows-1252">', "cp1252"),
        ("<meta charset=latin1>", "cp1252"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', "koi8-r"),
        ('<meta charset="windows-1252">', "utf-8"),
        ("<meta charset=GB2312>", "gb18030"),
    ],
)
def test_a_page_is_read_in_its_own_encoding(head: str, encoding: str) -> None:
    word = "слово" if encoding == "koi8-r" else "漢字" if encoding == "gb18030" else "déjà"
    page = f"<html><head>{head}</head><body><p>{word} and more</p></body></html>"
    assert text(page.encode(encoding)) == f"{word} and more"


@pytest.mark.parametrize("head", [b"", b"<meta charset=utf-16>", b"<meta charset=euc-kr>"])
def test_a_page_in_no_encoding_that_it_names_is_a_drop(head: bytes) -> None:
    found = read(head + b"<p>\xff\x81 text")
    assert isinstance(found, Drop)
    assert found.reason is DropReason.BAD_UTF8
    assert "is not in UTF-8 (byte" in found.detail


def test_a_page_that_would_take_too_much_is_a_drop() -> None:
    for page, said in (
        (b"x" * (PAGE_BYTES + 1), "bytes"),
        (b"<div>" * (DEEPEST + 1), "elements inside"),
    ):
        found = read(page)
        assert isinstance(found, Drop)
        assert found.reason is DropReason.TOO_LARGE
        assert said in found.detail
    flat = b"<div>a</div><p>b<br>" * DEEPEST
    assert text(flat).count("a") == DEEPEST


def attributes(number: int, begin: str = "a") -> str:
    """Return that many attributes of different names, written in all ways."""
    ways = ("{}", "{}=1", "{} = 'x > y'", '{}="<p>"', "{}/", '{}=""')
    return " ".join(ways[n % len(ways)].format(f"{begin}{n}") for n in range(number))


@pytest.mark.parametrize("begin", ["<p ", "<p x='1'y=2 ", "<!--<p--><p ", "<p/"])
def test_an_element_with_too_many_attributes_is_a_drop(begin: str) -> None:
    few = MOST_ATTRIBUTES - begin.count("=")
    assert text(f"<p>one</p>{begin}{attributes(few)}>two</p>".encode()).split() == ["one", "two"]
    found = read(f"<p>one</p>{begin}{attributes(few + 1)}>two</p>".encode())
    assert isinstance(found, Drop)
    assert found.reason is DropReason.TOO_LARGE
    assert found.detail == "a page with an element of more than 1,000 attributes"


@pytest.mark.parametrize("tag", ["body", "HTML"])
def test_attributes_of_one_element_count_together_whatever_tag_they_stand_in(tag: str) -> None:
    half = MOST_ATTRIBUTES // 2
    pages = [
        f"<{tag} {attributes(half)}>one<{tag} {attributes(half + more, 'b')}>two" for more in (0, 1)
    ]
    assert text(pages[0].encode()) == "onetwo"
    assert isinstance(read(pages[1].encode()), Drop)


def test_what_looks_like_a_tag_in_a_script_may_have_more() -> None:
    for number, kind in ((MOST_ATTRIBUTES + 1, RawDocument), (MOST_IN_SCRIPTS + 1, Drop)):
        page = f"<p>one</p><script>if (a<b {attributes(number)}</script><p>two</p><script>"
        assert isinstance(read(page.encode()), kind)
    hidden = f"<svg><script><p {attributes(MOST_IN_SCRIPTS + 1)}>"
    assert isinstance(read(hidden.encode()), Drop)


def test_words_are_no_attributes() -> None:
    words = "a = 'b' / " * MOST_ATTRIBUTES
    for page in (f"<p>{words}</p>", f"<p>1 < 2 {words}</p>", f"<p></p {words}>word"):
        assert isinstance(read(page.encode()), RawDocument)


@pytest.mark.parametrize("length", range(0, len(PAGE), 29))
def test_a_page_that_is_cut_gives_what_is_there(length: int) -> None:
    assert isinstance(read(PAGE.encode()[:length]), RawDocument)


@given(
    st.binary(max_size=80) | st.text(st.sampled_from("<>/pdiv&;\"'!- a="), max_size=60).map(str.encode)
)
def test_no_bytes_raise(data: bytes) -> None:
    assert read(b"<p>some text of eight" + data).position == 0
