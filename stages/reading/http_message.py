r"""HTTP messages: the header of a response and the body below it, as a crawler kept them.

    b"HTTP/1.1 200 OK\r\nAge: 5\r\n\r\n<p>"  ->  Message("200", [("age", "5")], b"<p>")

The version of a status line says nothing about the body, so any is read, HTTP/2 and HTTP/3 too. A header
has any line ends and folded lines, names in any case, and a field several times, which is one list.

Source: RFC 9110, 2022, section 5; RFC 9112, 2022, sections 2 to 6.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stages.reading.content_codings import applied, undone
from stages.reading.faults import BodyError

Fields = Sequence[tuple[str, str]]
"""Names in lower case and values, in their order."""
HEAD_END = re.compile(rb"\n\r?\n")
"""The empty line behind a header."""
_FOLD = re.compile(rb"\r?\n[ \t]+")
_STATUS = re.compile(r"(?:HTTP|ICY)(?:/[\d.]+)?[ \t]+(\d{3})(?!\d)", re.IGNORECASE)
_ELEMENT = re.compile(r'(?:[^,"]|"(?:\\.|[^"\\])*"?)+')
_CHARSET = re.compile(r""";\s*charset\s*=\s*(?:["']([^"']*)|([^;,\s]*))""", re.IGNORECASE)
"""A parameter of that name, which some servers write with single quotes or spaces."""
_MOST_DIGITS = 18


@dataclass(frozen=True)
class Message:
    """A response."""

    status: str
    """Its three digits."""
    fields: Fields
    body: bytes
    """As it was sent."""

    def content(self, max_bytes: int, *, cut: bool) -> bytes:
        """Return its body before it was coded.

        Args:
            max_bytes: the longest that is held.
            cut: whether the crawler says that it cut the body.

        Raises:
            BodyError: it cannot be undone whole, or is shorter than its header says.
            BodyTooLargeError: it is longer.
        """
        names = ("content-encoding", "transfer-encoding")
        codings = applied([coding for name in names for coding in elements(self.fields, name)])
        content = undone(self.body, codings, max_bytes)
        is_decoded_already = bool(codings) and content is self.body
        if not cut and not is_decoded_already:
            self._require_whole()
        return content

    def _require_whole(self) -> None:
        """Refuse a body that is shorter than its length; a transfer coding says more than a length."""
        if applied(elements(self.fields, "transfer-encoding")):
            return
        lengths = {said.lstrip("0") or "0" for said in elements(self.fields, "content-length")}
        said = lengths.pop() if len(lengths) == 1 else ""
        if not said.isascii() or not said.isdigit() or len(said) > _MOST_DIGITS:
            return
        if 0 < len(self.body) < int(said):
            raise BodyError(f"the body has {len(self.body):,} bytes, and its header says {int(said):,}")


def message_of(block: bytes) -> Message | None:
    """Return the response that a block holds; None if it begins with no status line."""
    block = block.lstrip(b"\r\n")
    end = HEAD_END.search(block)
    head = block if end is None else block[: end.end()]
    first, fields = header_of(head)
    status = _STATUS.match(first)
    if status is None:
        return None
    return Message(status[1], fields, b"" if end is None else block[end.end() :])


def header_of(head: bytes) -> tuple[str, Fields]:
    """Return the first line of a header, and its fields."""
    first, *lines = _FOLD.sub(b" ", head).split(b"\n")
    return _text(first), list(_fields(lines))


def _fields(lines: Sequence[bytes]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, colon, value = _text(line).partition(":")
        if colon:
            yield name.strip().lower(), value.strip()


def _text(line: bytes) -> str:
    try:
        return line.rstrip(b"\r").decode()
    except UnicodeDecodeError:
        return line.rstrip(b"\r").decode("latin-1")


def value_of(fields: Fields, name: str) -> str | None:
    """Return the value of the first field of a name; None if there is none."""
    return next((value for own, value in fields if own == name), None)


def elements(fields: Fields, name: str) -> list[str]:
    """Return the list that all fields of a name make, in lower case, without parameters.

    "identity", 'Chunked;a="x,y"' -> identity, chunked
    """
    values = (value for own, value in fields if own == name)
    found = (part for value in values for part in _ELEMENT.findall(value))
    plain = (part.partition(";")[0].strip().strip('"').strip().lower() for part in found)
    return [part for part in plain if part]


def content_type(value: str | None) -> tuple[str, str]:
    """Return the type and the charset of a Content-Type: "text/HTML; charset=X" -> text/html, x."""
    kind, _, rest = (value or "").partition(";")
    found = _CHARSET.search(f";{rest}")
    charset = "" if found is None else found[1] or found[2] or ""
    return kind.strip().lower(), charset.strip().lower()
