"""Delimited: the rows of CSV and TSV files that are looked at, and what their first row says.

id;text          fields are delimited by ";", which is written into the run file
7,"It rained."   the first row is data: the file has no names of columns, and no run can read it
"""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from pipeline.tools.init.fields import is_usual_name
from stages.reading.delimiters import USUAL_DELIMITERS, Quoting, csv_rule, looks_quoted

NO_HEADER = (
    "its first row looks like data, not like names of columns; write the names above it, as in id,text."
    " If they are names, write the run file by hand: text_column names one"
)
_ROWS = 50
"""That a delimiter is tried on."""
_MOST, _NEARLY_ALL = 0.5, 0.9
"""Share of the rows with as many fields as the first: by the usual delimiter, and by another."""
_LONG, _WORDS = 64, 6
"""Characters and words of a value that is no name of a column."""
_TITLE = 24
"""Most characters of a name that shows, above sentences, that the first row has names."""
_NOTHING = ("", "na", "n/a", "nan", "null", "none")
_NUMBER = re.compile(r"[-+]?\d[-+\d.,:/ TZ]*")
_ENDS = (".", "!", "?", "。", "！", "？")  # noqa: RUF001  # full-width ones, on purpose


def delimiter_in(text: str, usual: str, quoting: Quoting = Quoting.CSV) -> str:
    r"""Return what delimits the fields of some text: "id;text\n1;a, b\n" -> ";".

    Args:
        text: the beginning of a file.
        usual: what delimits fields in files of such an ending. Another is taken only if this does not
            fit.
        quoting: what a quote means in files of such an ending, if their delimiter is the usual one.
    """
    usual_width, usual_share = _shape(text, usual, quoting)
    shapes = {other: _shape(text, other, Quoting.CSV) for other in USUAL_DELIMITERS}
    shapes[usual] = usual_width, usual_share
    best = max(shapes, key=lambda other: (shapes[other][1] == 1, shapes[other][0]))
    width, share = shapes[best]
    fits = share >= _NEARLY_ALL and width > 1
    if usual_width > 1 and usual_share > _MOST:
        surer = share == 1 and (usual_share < 1 or width > usual_width)
        return best if fits and surer and width >= usual_width else usual
    return best if fits else usual


def quoting_in(text: str, delimiter: str, usual: Quoting, *, ended: bool) -> tuple[Quoting, str]:
    """Return what a quote means in some text, and why, if it is not the usual.

    Args:
        text: the beginning of a file.
        delimiter: between its fields.
        usual: what it means in files of such an ending. The other is taken only if all rows fit it.
        ended: whether that is all of the file.
    """
    lines = text if ended else _whole_records(text[: text.rfind("\n") + 1], delimiter)
    quoted, plain = _rows(lines, delimiter, Quoting.CSV), _rows(lines, delimiter, Quoting.NONE) or []
    if usual is Quoting.CSV:
        why = "" if quoted is not None and _fits(quoted) else _why_none(plain)
        return (Quoting.NONE, why) if why else (usual, "")
    why = _why_csv(quoted, plain) if quoted and _fits(quoted) and len(quoted[0]) > 1 else ""
    return (Quoting.CSV, why) if why else (usual, "")


def _whole_records(text: str, delimiter: str) -> str:
    """Return some lines without the last record, if they end inside of a quoted field of it.

    If most lines below its first have the fields of a row, that quote has opened no field: all is kept.
    """
    lines, width, end = io.StringIO(text, newline=""), 0, 0
    try:
        for row in csv.reader(lines, delimiter=delimiter, strict=True):
            width, end = width or len(row), lines.tell()
    except csv.Error as error:
        if str(error) == "unexpected end of data":
            below = _rows(text[end:], delimiter, Quoting.NONE) or []
            return text if _most(len(row) == width for row in below[1:]) else text[:end]
    return text


def _why_none(plain: Sequence[Sequence[str]]) -> str:
    """Say why quotes mean nothing in rows that are no CSV; empty if they do not fit either."""
    fits = _fits(plain) and len(plain[0]) > 1
    return "read as CSV, a quote is left open or in the wrong place" if fits else ""


def _why_csv(quoted: Sequence[Sequence[str]], plain: Sequence[Sequence[str]]) -> str:
    """Say why quotes mean something in rows that fit as CSV; empty if nothing says so."""
    if not _fits(plain):
        return "only with quotes do all rows have the fields of the first"
    if any(looks_quoted(field) for row in plain for field in row):
        return "fields begin and end with a quote and hold doubled ones"
    return "the names of the columns are quoted" if quoted[0] != plain[0] else ""


def _rows(text: str, delimiter: str, quoting: Quoting) -> list[list[str]] | None:
    """Return all rows of some text; None if a run could not read them."""
    try:
        return [row for row in _reader(text, delimiter, quoting, strict=True) if row]
    except csv.Error:
        return None


def _fits(rows: Sequence[Sequence[str]]) -> bool:
    """Say whether all rows have as many fields as the first."""
    return bool(rows) and all(len(row) == len(rows[0]) for row in rows)


def _reader(text: str, delimiter: str, quoting: Quoting, *, strict: bool) -> Iterator[list[str]]:
    rule = csv_rule(quoting)
    lines = io.StringIO(text, newline="")  # a line ends where the csv module says: not at U+2028
    return csv.reader(lines, delimiter=delimiter, quoting=rule, strict=strict)


def _shape(text: str, delimiter: str, quoting: Quoting) -> tuple[int, float]:
    """Return the fields of the first row, and the share of the rows that have as many."""
    reader = _reader(text, delimiter, quoting, strict=False)
    try:
        rows = [row for row in islice(reader, _ROWS) if row]
    except csv.Error:
        return 0, 0.0
    if not rows:
        return 0, 0.0
    fitting = sum(len(row) == len(rows[0]) for row in rows)
    return len(rows[0]), fitting / len(rows)


def delimited_rows(
    text: str, delimiter: str, quoting: Quoting, *, ended: bool
) -> Iterator[tuple[Mapping[str, object] | None, float]]:
    """Yield the rows below a header, each with the share of the text up to its end; None is a bad row.

    Args:
        text: the beginning of a file.
        delimiter: between its fields.
        quoting: what a quote means in it.
        ended: whether that is all of it; if not, the last row may be cut and is left out.
    """
    lines = io.StringIO(text, newline="")  # a line ends where the csv module says: not at U+2028
    rule = csv_rule(quoting)
    for row in csv.DictReader(lines, delimiter=delimiter, quoting=rule):
        if not ended and lines.tell() >= len(text):
            return
        fits = None not in row and None not in row.values()
        yield row if fits else None, lines.tell() / len(text)


def lacks_header(records: Sequence[Mapping[str, object]]) -> bool:
    """Say whether the names of the fields look like values of the first record.

    A number above numbers is a value, and so is a sentence above sentences that are not much longer. But
    one column is enough to show that the first row has names: a usual name, a name above numbers, a few
    words above sentences, or a question above answers.
    """
    columns = {
        name: [str(record[name]) for record in records if name in record]
        for name in (records[0] if records else ())
    }
    if any(_is_name(name, below) for name, below in columns.items()):
        return False
    return any(
        _are_alike(name, below) and name not in (str(place), str(place - 1))  # as pandas numbers them
        for place, (name, below) in enumerate(columns.items())
    )


def _is_name(name: str, below: Sequence[str]) -> bool:
    asks = name.endswith("?") and not _most(value.endswith("?") for value in below)
    filled = [value for value in below if value.strip().lower() not in _NOTHING]
    empty = name.strip().lower() in _NOTHING
    counts = not empty and not _is_number(name) and _most(map(_is_number, filled))
    titles = (
        not empty
        and not _is_sentence(name)
        and _most(map(_is_sentence, filled))
        and not _is_number(name)
    )
    return is_usual_name(name) or asks or counts or (titles and len(name) <= _TITLE)


def _are_alike(name: str, below: Sequence[str]) -> bool:
    if _is_number(name):
        return _most(map(_is_number, below))
    middle = sorted(map(len, below))[len(below) // 2]
    return _is_sentence(name) and len(name) * 2 > middle and _most(map(_is_sentence, below))


def _is_number(value: str) -> bool:
    return _NUMBER.fullmatch(value.strip()) is not None


def _is_sentence(value: str) -> bool:
    return len(value) > _LONG or len(value.split()) >= _WORDS or value.rstrip().endswith(_ENDS)


def _most(found: Iterator[bool]) -> bool:
    said = list(found)
    return sum(said) > _MOST * len(said)
