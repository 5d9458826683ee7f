"""Findings as the record of a commit."""

from collections.abc import Sequence
from typing import Any

from stages.config import Config
from stages.verify.mechanics import Finding


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
