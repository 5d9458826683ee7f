"""Check: the ranges that are cut from a unit's texts, held to the texts.

    bounds   ranges ascend, are apart, and begin and end between characters
    digest   what is left has the digest and the length that the table says
    mask     something is cut from kept documents alone

Findings, never exceptions.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.cut_texts import Cuts, read_cuts
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
