"""Texts that filters are tried on: words that repeat, marks, lines, and white space of all sorts."""

from hypothesis import strategies as st

from stages.filtering.filter import Change, Document, FilterConfig, Removal
from stages.filtering.table import filter_of

_PIECES = st.sampled_from(
    [
        "the", "and", "be", "a", "bc", "longer", "é", "猫が座る", "हिन्दी", "12", "3.5", "don't", "l’eau",
        "well-known", "#", "...", "…", "•", "-", "--", ".", "!", "?", ",", "(", ")", '"', "_",
        "end.Begin", "{", "[1]", "x=y", "A::B",
        " ", " ", " ", " ", "\n", "\n", "\n\n", "\t", "\u00a0", "\u3000",
    ]
)  # fmt: skip
TEXTS = st.lists(_PIECES, min_size=1, max_size=60).map("".join).filter(lambda text: bool(text.strip()))
"""Never blank: the length filter has dropped what is."""


def judged(config: FilterConfig, text: str) -> Removal | Change | None:
    """Return what a filter says of a text."""
    return filter_of(config).open(config)(Document(text.encode(), len(text)))


def rule(config: FilterConfig, text: str) -> str | None:
    """Return the rule that a text breaks, or None."""
    verdict = judged(config, text)
    return verdict.rule if isinstance(verdict, Removal) else None
