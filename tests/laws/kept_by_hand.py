"""Functions of a user's own that choose documents, for tests of whole runs."""


def keep(text: str, columns: dict[str, object]) -> bool | str:
    """Keep what has no number of characters that nine divides."""
    assert not columns
    return f"{len(text)} characters" if len(text) % 9 == 0 else True


def scored(text: str, columns: dict[str, object]) -> bool:
    """Keep what has no score, or one that is not 0.9."""
    assert text
    return str(columns["score"]) != "0.9"
