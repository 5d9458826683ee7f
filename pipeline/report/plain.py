"""Plain output: lines and tables that hold other people's texts, and never obey them.

Every text that a command prints passes here: control characters are written out, and rich's markup and
emoji are off, since a language named "[/]" would end the program otherwise.
"""

import codecs
import contextlib
import math
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from pipeline.system.disk_faults import named
from pipeline.system.printable import printable, printable_json

STANDARD_OUTPUT = Path("/dev/stdout")
MAX_CELL = 80
"""Characters of a cell: other people's ids and languages may be of any length."""
_BAR = 24
"""Characters of a full bar."""
_UNBOUND = 10_000
"""A width that no table has."""

JsonObject = dict[str, JsonValue]
"""What a record or a config says of itself."""


class _Console(Console):
    """A console whose reader may go early, as `head` does: the command goes on to its verdict."""

    def on_broken_pipe(self) -> None:
        """Print no more."""
        self.quiet = True


class PlainConsole:
    """Prints lines and tables, of which a narrow terminal cuts no word."""

    def __init__(self) -> None:
        self._console = _Console(highlight=False, soft_wrap=True, markup=False, emoji=False)

    def line(self, text: str = "") -> None:
        """Print one line, whatever stands in it."""
        self.show(Text(printable(text)))

    def lines(self, text: str) -> None:
        """Print a text of our own that has several lines."""
        for line in text.split("\n"):
            self.line(line)

    def has_room_for(self, table: Table) -> bool:
        """Say whether a table fits into a line as it is; a file's lines may be of any length."""
        return not self._is_bounded or self._measure(table).maximum <= self._console.width

    def show(self, what: Table | Text) -> None:
        """Print a table, or a text whose parts were made printable."""
        width = self._console.width
        if isinstance(what, Table):
            _never_cut_words(what)
            size = self._measure(what)
            self._console.width = max(width, size.minimum if self._is_bounded else size.maximum)
        with printing():
            self._console.print(what)
        self._console.width = width

    @property
    def _is_bounded(self) -> bool:
        return self._console.is_terminal or "COLUMNS" in os.environ

    def _measure(self, table: Table) -> Measurement:
        """Return the widths that a table can have, whatever the terminal's is."""
        return self._console.measure(table, options=self._console.options.update(width=_UNBOUND))


class PlainTable(Table):
    """A table without lines, of cells that are texts."""

    def __init__(self, *headings: str) -> None:
        super().__init__(*(printable(heading) for heading in headings), box=None, pad_edge=False)

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.add_row(*(Text(printable(cell)) for cell in cells))

    def right(self) -> "PlainTable":
        """Return the table with all columns but the first, and those of bars, set to the right."""
        for column in self.columns[1:]:
            column.justify = "right" if column.header else "left"
        return self


@dataclass(frozen=True)
class TextTable:
    """A table as a value: the terminal, the page (macro `texts`) and Markdown show the same one."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    left_out: int = 0
    """Rows that are too many."""

    @property
    def plain(self) -> PlainTable:
        """The table for a terminal."""
        table = PlainTable(*self.headings).right()
        for row in self.rows:
            table.add(*row)
        return table

    @property
    def markdown(self) -> str:
        """The table for a card."""
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        return "\n".join(f"| {' | '.join(map(markdown_text, line))} |" for line in lines)


def markdown_text(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", " ".join(printable(text).split()))


def _never_cut_words(table: Table) -> None:
    """Let no column be narrower than its longest word: if all are too wide, the terminal wraps lines."""
    for column in table.columns:
        cells = [str(cell) for cell in (column.header, *column.cells)]
        column.min_width = max((cell_len(word) for cell in cells for word in cell.split()), default=1)
        column.no_wrap = not any(" " in cell.strip() for cell in cells)


@contextlib.contextmanager
def printing() -> Iterator[None]:
    """Let a reader go early, as `head` does, and name what cannot be written to."""
    with contextlib.suppress(BrokenPipeError), named(STANDARD_OUTPUT):
        yield


def print_json(value: Any) -> None:
    """Print JSON for machines; it is ASCII where the output's encoding has not all characters."""
    whole = codecs.lookup(sys.stdout.encoding or "utf-8").name == "utf-8"
    with printing():
        sys.stdout.write(printable_json(value, ascii_only=not whole) + "\n")
        sys.stdout.flush()


def bar(part: float, whole: float) -> str:
    """Return a bar for a part of a whole; a part that is not 0 has one.

    3, 4 -> three quarters of a full bar; of # if the output's encoding has no blocks
    """
    encoding = codecs.lookup(sys.stdout.encoding or "utf-8").name
    sign = "█" if encoding.startswith("utf") else "#"
    return sign * math.ceil(_BAR * part / whole) if part > 0 else ""


def shortened(text: str) -> str:
    """Return a name that fits a cell.

    "x" * 100 -> "x" * 77 + "..."
    """
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 3]}..."
