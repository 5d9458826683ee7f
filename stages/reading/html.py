"""HTML pages to raw documents: a page a file, of which the text is kept as it reads.

resiliparse parses as browsers do and keeps paragraphs, lists and preformatted text. It was chosen by
measurement on 149 pages of documentation; benchmarks/results/html_extractors.md has the table.

`stages.reading.page_charset` says in which charset a page is.
"""

import re
from dataclasses import dataclass

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.lines import Line
from stages.reading.page_charset import CharsetError, decoded_page
from stages.reading.reader import Library, StreamReader
from stages.reading.records import UNDETERMINED, FieldMapping, HtmlText, RawDocument, Record, too_large
from stages.reading.text import WholeText

PAGE_BYTES = 4 << 20
"""Longest page: of 4 MiB with a million elements extraction takes 2 s and 410 MiB."""
DEEPEST = 4_000
"""Elements inside of each other: 4,000 take 0.3 s, and four times as many seventeen times as long."""
MOST_ATTRIBUTES = 1_000
"""Of an element: each new one is compared with all before, so 100,000 of them take 20 s, and a page of
4 MiB whose elements all have 1,000 takes 2 s. In 6,000 pages of documentation no element has over 11."""
MOST_IN_SCRIPTS = 10_000
"""Likewise of what looks like a tag within a script, as `a<b` does: 1,461 in the worst of 900 files."""
_TAG = re.compile(r"<(/?)(?!(?:p|li|t[dhr]|d[td]|option|br|img|input|meta|link|hr|wbr)\b)[a-zA-Z]")
_SPACE = r" \t\n\f\r"
_ATTRIBUTE = (
    rf"[{_SPACE}/]*+[^{_SPACE}/>][^{_SPACE}/>=]*+"
    rf"(?:[{_SPACE}]*+=[{_SPACE}]*+(?:\"[^\"]*+\"?+|'[^']*+'?+|[^{_SPACE}>\"'][^{_SPACE}>]*+)?+)?+"
)
"""As browsers read one in a tag. Source: WHATWG, HTML, 13.2.5, tokenization."""
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_FEW_EACH = {
    most: re.compile(
        rf"(?:[^<]++|<(?![a-zA-Z])|<[a-zA-Z][^{_SPACE}/>]*+"
        rf"(?:{_ATTRIBUTE}){{0,{most}}}+(?!{_ATTRIBUTE}))*+"
    )
    for most in (MOST_ATTRIBUTES, MOST_IN_SCRIPTS)
}
"""Match as far as no tag has more; what stands in scripts and comments is taken for tags too."""
_SCRIPT = re.compile(r"<script\b(?:.*?</script|.*)", re.IGNORECASE | re.DOTALL)
_ROOT = re.compile(rf"<(?:html|body)(?=[{_SPACE}/])((?:{_ATTRIBUTE})*+)", re.IGNORECASE)
"""Tags of two elements of which there is one each: it gets the attributes of all of them."""
RESILIPARSE = Library("resiliparse", "html")


@dataclass(frozen=True)
class HtmlPage(WholeText):
    """A stream that is one page."""

    def parse(self, line: Line, columns: ColumnsSeen) -> Record:  # noqa: ARG002  # it has none
        """Return its document."""
        return parse_page(line, self.fields)


def parse_page(line: Line, fields: FieldMapping, *, charset: str = "") -> Record:
    """Return the document of a page, or the reason why it is none.

    Args:
        line: the page.
        fields: how its text is taken.
        charset: what its server said.
    """
    if line.size > len(line.data):
        return too_large(line.number, line.position, line.size)
    if line.size > PAGE_BYTES:
        detail = f"a page of {line.size:,} bytes, over {PAGE_BYTES:,}"
        return Drop(line.number, line.position, DropReason.TOO_LARGE, detail)
    try:
        page = decoded_page(line.data, charset)
    except ValueError as error:
        reason = DropReason.BAD_CHARSET if isinstance(error, CharsetError) else DropReason.BAD_UTF8
        return Drop(line.number, line.position, reason, f"a page that {error}")
    if (depth := _depth(page)) > DEEPEST:
        detail = f"a page with {depth:,} elements inside of each other, over {DEEPEST:,}"
        return Drop(line.number, line.position, DropReason.TOO_LARGE, detail)
    if _has_many_attributes(page):
        detail = f"a page with an element of more than {MOST_ATTRIBUTES:,} attributes"
        return Drop(line.number, line.position, DropReason.TOO_LARGE, detail)
    text = extracted(page, fields.html_text)
    language = fields.language if isinstance(fields.language, str) else UNDETERMINED
    return RawDocument(line.number, line.position, text, None, language)


def extracted(page: str, text_of: HtmlText) -> str:
    """Return the text of a page."""
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415  # of an extra

    text: str = extract_plain_text(page, main_content=text_of is HtmlText.MAIN)
    return text


def _depth(page: str) -> int:
    """Return how many elements are inside of each other, at the most; few are not counted."""
    if page.count("<") <= DEEPEST:
        return 0
    depth = deepest = 0
    for tag in _TAG.finditer(page):
        depth = max(0, depth - 1) if tag[1] else depth + 1
        deepest = max(deepest, depth)
    return deepest


def _has_many_attributes(page: str) -> bool:
    """Say whether an element may have more attributes than are read.

    Inside of `svg` a script may hold elements, so scripts have a bound too.
    """
    if not _has_more(page, MOST_ATTRIBUTES):
        return False
    return _has_more(_SCRIPT.sub("", page), MOST_ATTRIBUTES) or _has_more(page, MOST_IN_SCRIPTS)


def _has_more(page: str, most: int) -> bool:
    """Say whether anything that looks like a tag has more attributes, whatever it stands in."""
    few = _FEW_EACH[most].match(page)
    if few is None or few.end() < len(page):
        return True
    return sum(len(_ATTRIBUTES.findall(root[1])) for root in _ROOT.finditer(page)) > most


HTML = StreamReader(
    "HTML",
    (".html", ".htm"),
    HtmlPage,
    has_columns=False,
    is_whole=True,
    libraries=(RESILIPARSE,),
    version=2,
)
