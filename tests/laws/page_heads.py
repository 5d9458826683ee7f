"""Pages whose heads name charsets in many forms, right and wrong ones."""

import random

NO_LABEL = "windows-874"
"""What a page without a label is read in, which no page names."""
LABELS = (
    "shift_jis", "SJIS", "windows-31j", "big5", "euc-jp", "euc-kr", "gbk", "koi8-r", "latin1", "utf-8",
    "utf-16", "utf-16be", "x-user-defined", "iso-8859-2", "ISO-8859-8-I", "macintosh", "ibm866",
    "foo", "none", "", "utf8mb4", " big5 ", "big5\f", "windows-1251;", "x",
)  # fmt: skip
_BLANKS = ("", "", " ", "\n", "\t ", " \f")
_QUOTES = ('"', "'", "", '"', "'")


def generated_page(draw: random.Random) -> tuple[str, bytes]:
    """Return a header Content-Type and a page of 7 bits."""
    kind = "text/html"
    if draw.random() < 0.2:
        kind += draw.choice(
            ("; charset={}", ';charset="{}"', "; a=b; Charset={}", "; charset={}; a=b")
        ).format(draw.choice(LABELS).strip().strip(";") or "foo")
    begin = draw.choice(("", "<!doctype html>", "<!doctype html>", _xml(draw), f"<?x {_meta(draw)}>"))
    inner = "".join(_piece(draw) for _ in range(draw.randint(1, 4)))
    pad = draw.choice((0, 0, 0, 0, draw.randint(850, 1010), 1100))
    filler = f"<style>{'a' * pad}</style>" if pad else ""
    page = f"{begin}<html><head>{filler}{inner}</head><body><p>text</body></html>"
    return kind, page.encode("latin-1")


def _piece(draw: random.Random) -> str:
    meta = _meta(draw)
    forms = (
        meta, meta, meta, meta,
        f"<!-- {meta} -->", f"<!-->{meta}<!-- -->", f"<!--->{meta}<!-- -->", f"<!-- a -- > {meta} -->",
        f"<script>var a = '{meta.replace(chr(39), '')}'</script>", f"<title>{meta}</title>",
        f"<style>{meta}</style>", f'<link title="{meta.replace(chr(34), "")}">',
        f"<!x {meta}", f"</ {meta}", f"</title {meta}>", f"<metax{meta[5:]}", f"<link a=b c {meta[1:]}",
        f"< {meta}", f"<1{meta}", "<link a='>'>", "<title>a > b</title>", '<link a=">',
    )  # fmt: skip
    return draw.choice(forms)


def _xml(draw: random.Random) -> str:
    quote, label = draw.choice("\"'"), draw.choice(LABELS)
    blank = draw.choice(("", " "))
    return f"<?xml version={quote}1.0{quote} encoding{blank}={blank}{quote}{label}{quote}?>"


def _meta(draw: random.Random) -> str:
    attributes = [_attribute(draw) for _ in range(draw.choice((1, 1, 1, 2, 2, 3)))]
    if draw.random() < 0.3:
        attributes = [
            _set(draw, "http-equiv", draw.choice(("content-type", "Content-Type"))),
            _content(draw),
        ]
        draw.shuffle(attributes)
    name = draw.choice(("meta", "meta", "META", "Meta"))
    between = draw.choice((" ", " ", "\n", "/", " / "))
    end = draw.choice((">", ">", "/>", " >", " />"))
    return f"<{name}{between}{between.join(attributes)}{end}"


def _attribute(draw: random.Random) -> str:
    name = draw.choice(
        (
            "charset",
            "charset",
            "charset",
            "CharSet",
            "data-charset",
            "name",
            "content",
            "http-equiv",
            "=charset",
        )
    )
    if name == "content":
        return _content(draw)
    if name == "http-equiv":
        return _set(
            draw, name, draw.choice(("content-type", "refresh", "Content-Type", " content-type"))
        )
    if name == "name":
        return _set(draw, name, draw.choice(("keywords", "a > b", "charset=big5")))
    return _set(draw, name, draw.choice(LABELS))


def _content(draw: random.Random) -> str:
    label, quote = draw.choice(LABELS), draw.choice(("", "", "", "'"))
    before = draw.choice(("text/html; ", "text/html;", "", "charset ", "xcharset", "a=b;charset ;"))
    blank = draw.choice(_BLANKS)
    closing = draw.choice((quote, quote, quote, ""))
    value = f"{before}charset{blank}={blank}{quote}{label}{closing}{draw.choice(('', ';', '; a'))}"
    return f'content="{value}"'


def _set(draw: random.Random, name: str, value: str) -> str:
    quote, blank = draw.choice(_QUOTES), draw.choice(_BLANKS)
    return f"{name}{blank}={blank}{quote}{value}{quote}"
