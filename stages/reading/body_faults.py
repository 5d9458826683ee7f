"""Faults of bodies: why what a server sent cannot be undone to the page that it was."""


class BodyError(ValueError):
    """A body is damaged, cut, or coded as nobody knows; the message says how, for people."""


class BodyTooLargeError(Exception):
    """A body is over the bound, decompressed."""
