"""Findings as the record of a commit."""

from collections.abc import Sequence

from pipeline.steps.records import UnitRecord
from stages.config import Config
from stages.errors import is_of_the_system
from stages.findings import Finding


class FoundIn(Config):
    """One broken law, and the file that breaks it."""

    file: str
    """Its key in the run."""
    check: str
    message: str


class CheckRecord(UnitRecord):
    """What a check found; none if the files are sound."""

    findings: tuple[FoundIn, ...] = ()


def found_in(findings: Sequence[tuple[str, Finding]]) -> tuple[FoundIn, ...]:
    """Return findings as a record has them, each with its file."""
    return tuple(FoundIn(file=file, check=f.check, message=f.message) for file, f in findings)


def unreadable(error: Exception) -> Finding:
    """Return what is found of a file that could not be read.

    Raises:
        OSError: the system refused, which is no verdict on the file.
    """
    if is_of_the_system(error):
        raise error
    return Finding("readable", str(error))


class AuditReport(Config):
    """What an audit looked at, and what it found."""

    files: int
    """Committed files, each of which was hashed."""
    bytes: int
    findings: tuple[FoundIn, ...]
    missed: tuple[str, ...] = ()
    """What is otherwise in a sound run that was made without later rules, for people."""
