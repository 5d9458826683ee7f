"""Faults of whole files that only reading their content shows.

Faults of bodies: why what a server sent cannot be undone to the page that it was.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from stages.errors import DataError

REPAIR = "repair the file, fetch it again, or leave it out"
"""The way out where no setting can help."""


class ContentError(ValueError):
    """A file holds something else than its reader and the settings of its source say.

    Args:
        message: what it holds, as a sentence without its subject, or about "its ...".
        setting: of the source, that may be wrong; None if none is.
    """

    def __init__(self, message: str, setting: str | None) -> None:
        super().__init__(message)
        self.setting = setting

    @property
    def way_out(self) -> str:
        """What to do."""
        if self.setting is None:
            return REPAIR
        return f"correct {self.setting} or the file, or leave the file out"


@contextmanager
def reading_content(name: str) -> Iterator[None]:
    """Say which file a fault of its content is about.

    Raises:
        DataError: there is one.
    """
    try:
        yield
    except ContentError as error:
        raise DataError(f"{name}: {error}; {error.way_out}, and run again with --replace") from error


class BodyError(ValueError):
    """A body is damaged, cut, or coded as nobody knows; the message says how, for people."""


class BodyTooLargeError(Exception):
    """A body is over the bound, decompressed."""
