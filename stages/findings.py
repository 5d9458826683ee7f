"""A finding: one law that a check found broken."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One broken law."""

    check: str
    message: str
