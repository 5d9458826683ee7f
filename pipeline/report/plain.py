"""Plain output: lines and tables that hold other people's texts, and never obey them.

Every text that a command prints passes here: control characters are written out, and rich's markup and
emoji are off, since a language named "[/]" would end the program otherwise.
"""

import codecs
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from pipeline.system.disk_faults import named
from pipeline.system.printable import printable, printable_json

STANDARD_OUTPUT = Path("/dev/stdout")
MAX_CELL = 80
"""Characters of a cell: other people's ids and languages may be of any length."""


class _Console(Console):
    """A console whose reader may go early, as `head` does: the command goes on to its verdict."""

    def on_broken_pipe(self) -> None:
        """Print no more."""
        self.quiet = True


class PlainConsole:
    """Prints lines and tables.

    Args:
        least_width: of a table that is not to lose digits on a narrow terminal.
    """

    def __init__(self, *, least_width: int = 0) -> None:
        self._console = _Console(highlight=False, soft_wrap=True, markup=False, emoji=False)
        self._console.width = max(self._console.width, least_width)

    def line(self, text: str = "") -> None:
        """Print one line, whatever stands in it."""
        self.show(Text(printable(text)))

    def lines(self, text: str) -> None:
        """Print a text of our own that has several lines."""
        for line in text.split("\n"):
            self.line(line)

    def show(self, what: Table | Text) -> None:
        """Print a table, or a text whose parts were made printable."""
        with printing():
            self._console.print(what)


class PlainTable(Table):
    """A table without lines, of cells that are texts."""

    def __init__(self, *headings: str) -> None:
        super().__init__(*(printable(heading) for heading in headings), box=None, pad_edge=False)

    def add(self, *cells: str) -> None:
        """Add a row."""
        self.add_row(*(Text(printable(cell)) for cell in cells))

    def right(self) -> "PlainTable":
        """Return the table with all columns but the first set to the right."""
        for column in self.columns[1:]:
            column.justify = "right"
        return self


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


def shortened(text: str) -> str:
    """Return a name that fits a cell.

    "x" * 100 -> "x" * 77 + "..."
    """
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 3]}..."
