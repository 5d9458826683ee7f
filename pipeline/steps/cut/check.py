"""Check: the ranges that are cut from a unit's texts, held to the texts.

    bounds   ranges ascend, are apart, and begin and end between characters
    digest   what is left has the digest and the length that the table says
    mask     something is cut from kept documents alone

Findings, never exceptions.

Texts: what the evidence of cuts says of texts, held to the texts.

    excerpt     is the beginning of the bytes from `start` to `end`
    first copy  the span at `first_at` of the first document is one that is cut

All rows of a table of at most 100,000; of a larger one as many, evenly from all.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.cut.byte_windows import min_bytes_of
from pipeline.steps.cut.ranges import found_key, shown_cut
from pipeline.steps.cut.table import CutMethod, methods_of
from pipeline.steps.cut_texts import Cuts, read_cuts
from pipeline.steps.records import CheckRecord, LookedAt
from pipeline.steps.recount import Found, recounted
from pipeline.steps.units import Unit, kept_mask, row_groups
from stages.columns import utf8_of
from stages.errors import FormatError, is_of_the_system
from stages.findings import Finding
from stages.identity import utf8_digest

_CONTINUED, _MASK = 0x80, 0xC0
"""Of a byte of UTF-8 that is no first one of a character."""


def check_cuts(workspace: Workspace, unit: Unit) -> list[tuple[str, Finding]]:
    """Hold what is cut from a unit's documents to their texts."""
    if not unit.cut:
        return []
    try:
        return [(unit.cuts, finding) for finding in _cuts(workspace, unit)]
    except (FormatError, OSError, pa.ArrowException) as error:
        if is_of_the_system(error):
            raise
        return [(unit.cuts, Finding("readable", str(error)))]


def _cuts(workspace: Workspace, unit: Unit) -> Iterator[Finding]:
    cuts, kept = read_cuts(workspace.path(unit.cuts)), kept_mask(workspace, unit)
    if len(cuts.rows) and cuts.rows[-1] >= len(kept):
        yield Finding("cuts", f"it cuts document {cuts.rows[-1]:,} of {len(kept):,}")
        return
    strangers = int(np.count_nonzero(~kept[cuts.rows]))
    if strangers:
        yield Finding("cuts", f"it cuts {strangers:,} documents that are not kept")
    wrong: list[str] = []
    for first, table in row_groups(workspace, unit, ["id", "text"]):
        ids = table.column("id").to_pylist()
        wrong += [ids[row].hex() for row in _wrong(cuts, table, first - unit.first)]
    if wrong:
        message = "within a character, or leaves another text than it says"
        yield Finding("cuts", f"it cuts {len(wrong):,} documents {message}; the first is {wrong[0]}")


def _wrong(cuts: Cuts, table: pa.Table, first: int) -> Iterator[int]:
    """Yield the rows of a row group whose cuts are not what they say."""
    low, high = np.searchsorted(cuts.rows, (first, first + table.num_rows))
    if low == high:
        return
    before, begins = utf8_of(table.column("text"))
    after, places = utf8_of(pa.chunked_array([cuts.apply(table, first).column("text")]))
    for number in range(int(low), int(high)):
        row = int(cuts.rows[number]) - first
        text, left = before[begins[row] : begins[row + 1]], after[places[row] : places[row + 1]]
        said = cuts.table.slice(number, 1)
        edges = np.concatenate([cuts.starts[number], cuts.ends[number]])
        if (
            not _between_characters(text, edges)
            or said.column("digest")[0].as_py() != utf8_digest(left.tobytes())
            or said.column("text_bytes")[0].as_py() != len(left)
        ):
            yield row


def _between_characters(text: NDArray[np.uint8], places: NDArray[np.int64]) -> bool:
    inside = places[places < len(text)]
    return not ((text[inside] & _MASK) == _CONTINUED).any()


ROWS = 100_000
"""Of the evidence of a run that are looked at."""
_GROUPS = 16
"""Row groups of texts that are held: the first copies are anywhere."""
_CHECK = "texts"


@dataclass(frozen=True)
class CutTexts:
    """The evidence of one group of units."""

    number: int
    units: tuple[Unit, ...]
    """Of earlier runs too, with the numbers that documents have here."""
    dedup: Dedup
    rows: int
    """As many are looked at, at the most."""


def check_cut_texts(workspace: Workspace, work: CutTexts) -> CheckRecord:
    """Hold rows of the evidence to the texts that they speak of."""
    key = found_key(work.number)
    looked: list[LookedAt] = []
    found = recounted((key, lambda: _rows(workspace, work, key, looked)))
    return found.model_copy(update={"looked": tuple(looked)})


def _rows(workspace: Workspace, work: CutTexts, key: str, looked: list[LookedAt]) -> Found:
    """Hold rows to their texts; how many of how many is added before the first."""
    table = pq.read_table(workspace.path(key), use_threads=False)
    step = max(1, -(-table.num_rows // max(1, work.rows)))
    chosen = np.arange(0, table.num_rows, step)
    looked.append(LookedAt(what="cuts and texts", unit="rows", looked=len(chosen), of=table.num_rows))
    texts = _TextsByNumber(workspace, work.units)
    for place, row in zip(chosen.tolist(), table.take(pa.array(chosen)).to_pylist(), strict=True):
        for column, message in _faults(row, texts, work.dedup):
            yield key, Finding(_CHECK, f"row {place:,}, {column}: {message}")


def _faults(row: dict[str, Any], texts: "_TextsByNumber", dedup: Dedup) -> Iterator[tuple[str, str]]:
    """Yield the columns of a row that its texts contradict, each with what is wrong."""
    try:
        text = texts.of(row["document"])
    except IndexError:
        yield "document", f"there is no document {row['document']:,}"
        return
    start, end = row["start"], row["end"]
    if not 0 <= start < end <= len(text):
        yield "end", f"{start:,} to {end:,} of a text of {len(text):,} bytes"
        return
    shown = shown_cut(text[start:end])
    if row["excerpt"] != shown:
        yield "excerpt", f"is {row['excerpt']!r}, and the text has {shown!r}"
    try:
        first = texts.of(row["first_document"])
    except IndexError:
        yield "first_document", f"there is no document {row['first_document']:,}"
        return
    method = {one.name: one for one in methods_of(dedup)}.get(row["method"])
    if method is None:
        yield "method", f"is {row['method']!r}, and the run cuts by no such method"
        return
    if not _is_copied(method, (text, start, end), (first, row["first_at"]), dedup):
        yield "first_at", f"document {row['first_document']:,} does not have there what is cut"


def _is_copied(
    method: CutMethod,
    own: tuple[NDArray[np.uint8], int, int],
    copy: tuple[NDArray[np.uint8], int],
    dedup: Dedup,
) -> bool:
    """Say whether a text has, within a range or where it begins, the span of another one at a place."""
    (text, start, end), (first, at) = own, copy
    if method.sampled:
        wanted = first[at : at + min_bytes_of(dedup)].tobytes()
        return at >= 0 and len(wanted) == min_bytes_of(dedup) and wanted in text.tobytes()
    config = method.config(dedup)
    there, here = method.spans(first, config), method.spans(text, config)
    if not 0 <= at < len(there.keys):
        return False
    same = (here.keys == there.keys[at]) & (here.checks == there.checks[at])
    if not method.windows:
        same &= (here.ends > start) & (here.starts < end)
    return bool(same.any())


class _TextsByNumber:
    """Texts of documents by number.

    Args:
        workspace: where the units are.
        units: in the order of their numbers.
    """

    def __init__(self, workspace: Workspace, units: Sequence[Unit]) -> None:
        self._workspace, self._units = workspace, units
        self._firsts = np.array([unit.first for unit in units])
        self._group = lru_cache(_GROUPS)(self._read)
        self._sizes = lru_cache(_GROUPS)(self._sizes_of)

    def of(self, number: int) -> NDArray[np.uint8]:
        """Return a text in UTF-8.

        Raises:
            IndexError: there is no such document.
        """
        place = int(np.searchsorted(self._firsts, number, side="right")) - 1
        if place < 0 or number >= self._units[place].last:
            raise IndexError(number)
        ends = self._sizes(place)
        row = number - self._units[place].first
        group = int(np.searchsorted(ends, row, side="right"))
        data, offsets = self._group(place, group)
        row -= int(ends[group - 1]) if group else 0
        found: NDArray[np.uint8] = data[offsets[row] : offsets[row + 1]]
        return found

    def _sizes_of(self, place: int) -> NDArray[np.int64]:
        with pq.ParquetFile(self._workspace.path(self._units[place].table)) as file:
            rows = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        return np.cumsum(rows)

    def _read(self, place: int, group: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        with pq.ParquetFile(self._workspace.path(self._units[place].table)) as file:
            table = file.read_row_group(group, columns=["text"], use_threads=False)
        return utf8_of(table.column("text"))
