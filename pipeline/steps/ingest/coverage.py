"""Coverage: what of its files each unit of ingest read, and that together they read all of them.

Of each file a unit says where its first record begins and where what follows its last one begins: bytes
of the decompressed file, or rows of a table. In the order of the units each begins where the one before
ended, the first at 0, the last ends at the end that the scan found. So a slice that is cut wrongly, or a
stream that ends early without an error, is noticed by the gap, and what is read twice by the overlap.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pipeline.inputs.files import InputFile
from stages.errors import VerificationError

Covered = tuple[int, int]
"""The first position of a unit in a file, and the one after its last."""


_BUG = "if no record of ingest was changed, this is a bug: please report it with the log"


class CoveredUnit(Protocol):
    """The record of a unit, as far as it is about coverage."""

    @property
    def source(self) -> str:
        """Name of its source."""

    @property
    def covered(self) -> Mapping[str, Covered]:
        """What it read of each file, by path; of a file without records there may be nothing."""


def require_whole_files(files: Sequence[InputFile], units: Iterable[CoveredUnit]) -> None:
    """Hold the units of each file to a chain without gap or overlap, from 0 to the file's end.

    Args:
        files: the inputs.
        units: the records of all units of ingest, in canonical order.

    Raises:
        VerificationError: a part of a file was read by no unit, or by two.
    """
    covered = _by_file(units)
    for file in files:
        require_chain(covered.get((file.source, file.path), []), end=file.end, name=file.label)


def require_chains(units: Iterable[CoveredUnit]) -> None:
    """Hold the records of a finished run to such chains, where the files and their ends are not known.

    Raises:
        VerificationError: a part of a file was read by no unit, or by two.
    """
    for (_, path), parts in _by_file(units).items():
        require_chain(sorted(parts), end=None, name=path)


def _by_file(units: Iterable[CoveredUnit]) -> dict[tuple[str, str], list[Covered]]:
    """Return what units covered of each file, by its source and path."""
    covered: dict[tuple[str, str], list[Covered]] = {}
    for unit in units:
        for path, part in unit.covered.items():
            covered.setdefault((unit.source, path), []).append(part)
    return covered


def require_chain(units: Sequence[Covered], *, end: int | None, name: str) -> None:
    """Hold the units of one file to a chain; see `require_whole_files`.

    Args:
        units: what each covered, in order.
        end: where the file ends; None if nobody knows before it is read, which then is at least begun.
        name: the file, for the message.
    """
    if end is None and not units:
        raise VerificationError(f"{name}: was read by no unit; {_BUG}")
    position = 0
    for first, after in units:
        _require_equal(first, position, name)
        position = after
    if end is not None:
        _require_equal(end, position, name)


def _require_equal(found: int, expected: int, name: str) -> None:
    if found == expected:
        return
    low, high = sorted((found, expected))
    times = "by no unit" if found > expected else "twice"
    raise VerificationError(f"{name}: positions {low:,} to {high:,} were read {times}; {_BUG}")
