"""Findings as the record of a commit."""

from collections.abc import Sequence
from typing import Any

from stages.config import Config
from stages.errors import is_of_the_system
from stages.findings import Finding


class FoundIn(Config):
    """One broken law, and the file that breaks it."""

    file: str
    """Its key in the run."""
    check: str
    message: str


def result_of(findings: Sequence[tuple[str, Finding]], **numbers: Any) -> dict[str, Any]:
    """Give a record of what was found, each with its file, beside what was looked at."""
    listed = [{"file": file, "check": f.check, "message": f.message} for file, f in findings]
    return {"findings": listed, **numbers}


def unreadable(error: Exception) -> Finding:
    """Return what is found of a file that could not be read.

    Raises:
        OSError: the system refused, which is no verdict on the file.
    """
    if is_of_the_system(error):
        raise error
    return Finding("readable", str(error))
