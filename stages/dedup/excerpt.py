"""Excerpts: what is shown of a text so that a reader can tell whether it is a duplicate."""

EXCERPT = 160
"""Characters of a text that are shown."""
_BEFORE = 40
"""Characters before the first difference."""


def excerpt_of(text: str, other: str | None = None) -> str:
    """Return the beginning of a text, or the place where it first differs from another text.

    "Dear Ann, ...", None                            -> "Dear Ann, ..."
    500 characters that both have, then "42 EUR"     -> "...the last 40 of them, then 42 EUR"

    Args:
        text: of any length.
        other: a text to compare it with; if both begin alike, the excerpt begins shortly before the
            first difference.
    """
    start = 0
    if other is not None and other != text:
        start = max(0, _common(text, other) - _BEFORE)
    shown = text[start : start + EXCERPT]
    return f"...{shown}" if start and _common(text, other or "") >= EXCERPT else text[:EXCERPT]


def _common(text: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    low, high = 0, min(len(text), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if text[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
