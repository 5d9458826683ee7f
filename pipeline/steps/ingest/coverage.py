"""Coverage: what of its file each unit of ingest read, and that together they read all of it.

A unit says where its first record begins and where what follows its last one begins: bytes of the
decompressed file, or rows of a table. In the order of the units each begins where the one before ended,
the first at 0, the last ends at the end that the scan found. So a slice that is cut wrongly, or a stream
that ends early without an error, is noticed by the gap, and what is read twice by the overlap.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from pipeline.inputs.files import InputFile
from stages.errors import VerificationError

Covered = tuple[int, int]
"""The first position of a unit, and the one after its last; a unit without records has none."""


class CoveredUnit(Protocol):
    """The record of a unit, as far as it is about coverage."""

    @property
    def source(self) -> str:
        """Name of its source."""

    @property
    def path(self) -> str:
        """Of its file."""

    @property
    def covered(self) -> Covered | None:
        """What it read."""


def require_whole_files(files: Sequence[InputFile], units: Iterable[CoveredUnit]) -> None:
    """Hold the units of each file to a chain without gap or overlap, from 0 to the file's end.

    Args:
        files: the inputs.
        units: the records of all units of ingest, in canonical order.

    Raises:
        VerificationError: a part of a file was read by no unit, or by two.
    """
    covered: dict[tuple[str, str], list[Covered | None]] = {}
    for unit in units:
        covered.setdefault((unit.source, unit.path), []).append(unit.covered)
    for file in files:
        require_chain(covered.get((file.source, file.path), []), end=file.end, name=file.label)


def require_chain(units: Sequence[Covered | None], *, end: int | None, name: str) -> None:
    """Hold the units of one file to a chain; see `require_whole_files`.

    Args:
        units: what each covered, in order.
        end: where the file ends; None if nobody knows before it is read.
        name: the file, for the message.
    """
    position = 0
    for covered in units:
        if covered is not None:
            _require_equal(covered[0], position, name)
            position = covered[1]
    if end is not None:
        _require_equal(end, position, name)


def _require_equal(found: int, expected: int, name: str) -> None:
    if found == expected:
        return
    low, high = sorted((found, expected))
    times = "by no unit" if found > expected else "twice"
    raise VerificationError(
        f"{name}: positions {low:,} to {high:,} were read {times}; this is a bug, please report it with"
        " the log"
    )
