"""WARC records: the header and the block of each, found one after the other in a stream of bytes.

A record is found by its header and length, so one is held at a time, and a file that is cut says so.
Line ends are CRLF or LF, record by record. Versions 0.17 to 1.1 have the same form.

Ours, because a record's place is its document's id, and a cut or damaged record must be counted. warcio
gives a record that is cut as if it were whole; FastWARC passes over one that is damaged, and ends the
process on some streams.

Source: The WARC Format 1.1, IIPC, 2017.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stages.reading.faults import ContentError
from stages.reading.http_message import HEAD_END, Fields, header_of, value_of
from stages.reading.lines import Line
from stages.reading.notices import WARC_RECORDS

DOCUMENTS = ("response", "resource", "conversion")
"""Types of records that are a document or a drop each."""
_OTHERS = frozenset(("warcinfo", "request", "metadata", "revisit", "continuation"))
_NAMED = re.compile(r"[a-z0-9_.-]{1,32}")
_MOST_NAMED = 16
"""Types of which no standard knows that are counted each; more than these are counted as one."""
_OTHER = "other"
_MAX_HEAD = 1 << 16
_MOST_DIGITS = 18
"""Of a length."""
_BETWEEN = b"\r\n \t"
"""What may stand between two records."""


@dataclass(frozen=True)
class WarcRecord(Line):
    """A record as it stands in its file; `number` is its number among all records, from 1."""

    whole: bool = True
    """Whether the file goes on to its end."""
    kind: str = ""
    """Its type; empty if it says none."""
    fields: Fields = ()
    head: int = 0
    """Bytes of its header."""

    @property
    def noticed(self) -> str | None:
        """Return what it is counted under if it is no document."""
        passed = self.whole and self.kind and self.kind not in DOCUMENTS
        return f"{WARC_RECORDS}{self.kind}" if passed else None

    @property
    def block(self) -> bytes:
        """Return what stands below its header."""
        return self.data[self.head :]


def warc_records(chunks: Iterable[bytes], max_bytes: int) -> Iterator[WarcRecord]:
    """Yield the records of a stream; one that is longer, or no document, has no data.

    Raises:
        ContentError: there is no record where one must begin.
    """
    stream = _Bytes(iter(chunks))
    number, named = 0, set[str]()
    while stream.skip_between():
        number, position = number + 1, stream.position
        head = stream.take_head()
        if head is None:
            yield WarcRecord(number, position, b"", 0, whole=False)
            return
        _, fields = header_of(head)
        said = value_of(fields, "content-length") or ""
        if not _is_length(said):
            raise ContentError(f"holds no WARC record at byte {position:,}", "paths")
        length, kind = int(said), (value_of(fields, "warc-type") or "").lower()
        taken = kind in DOCUMENTS
        body = stream.take(length, wanted=taken and len(head) + length <= max_bytes)
        whole = stream.position == position + len(head) + length
        yield WarcRecord(
            number,
            position,
            b"" if body is None else head + body,
            len(head) + length,
            whole=whole,
            kind=kind if taken else _counted(kind, named),
            fields=fields if taken else (),
            head=len(head),
        )


def _is_length(said: str) -> bool:
    """Say whether it is the length of a record; a negative one would be taken for ever."""
    return said.isascii() and said.isdigit() and len(said.lstrip("0")) <= _MOST_DIGITS


def _counted(kind: str, named: set[str]) -> str:
    """Return the name that records of a type are counted under: there are not many."""
    if not kind or kind in _OTHERS or kind in named:
        return kind
    if not _NAMED.fullmatch(kind) or len(named) >= _MOST_NAMED:
        return _OTHER
    named.add(kind)
    return kind


@dataclass
class _Bytes:
    """A stream of bytes that is taken piece by piece."""

    chunks: Iterator[bytes]
    position: int = 0
    """Of the first byte that is not taken."""
    _left: bytes = b""

    def skip_between(self) -> bool:
        """Pass over white space between two records; say whether there is anything behind it."""
        while self._left or self._more():
            rest = self._left.lstrip(_BETWEEN)
            self.position += len(self._left) - len(rest)
            self._left = rest
            if rest:
                return True
        return False

    def take_head(self) -> bytes | None:
        """Take the header of a record with the empty line behind it; None at the end of the stream.

        Raises:
            ContentError: it is none.
        """
        while (
            (end := HEAD_END.search(self._left)) is None
            and len(self._left) <= _MAX_HEAD
            and self._more()
        ):
            pass
        if not self._left.startswith(b"WARC/"[: len(self._left)]) or (
            end is None and len(self._left) > _MAX_HEAD
        ):
            raise ContentError(f"holds no WARC record at byte {self.position:,}", "paths")
        return None if end is None else self.take(end.end(), wanted=True)

    def take(self, size: int, *, wanted: bool) -> bytes | None:
        """Take some bytes, fewer only at the end of the stream; return them if they are kept."""
        kept, left = [], size
        while left and (self._left or self._more()):
            part, self._left = self._left[:left], self._left[left:]
            left -= len(part)
            self.position += len(part)
            if wanted:
                kept.append(part)
        return b"".join(kept) if wanted else None

    def _more(self) -> bool:
        chunk = next(self.chunks, b"")
        self._left += chunk
        return bool(chunk)
