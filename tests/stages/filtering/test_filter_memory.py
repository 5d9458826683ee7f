"""What filters promise: no more memory than the plan counts on.

The texts are made of the shortest pieces that each filter holds by itself. A character outside of the
Basic Multilingual Plane makes every character of a decoded text take 4 bytes.
"""

import pytest

from stages.cleaning.text import cleaned
from stages.filtering.c4 import C4
from stages.filtering.chain import FilterChain
from stages.filtering.filter import Document, FilterConfig
from stages.filtering.fineweb import FineWeb
from stages.filtering.gopher_quality import GopherQuality
from stages.filtering.gopher_repetition import GopherRepetition
from stages.filtering.pii import PersonalData
from stages.filtering.table import FILTERS, filter_of
from tests.traced_memory import takes_less

LINES_KEPT = C4(min_line_words=1, min_sentences=0)
REPEATED_KEPT = GopherRepetition(
    max_lines=1.0,
    max_paragraphs=1.0,
    max_line_characters=1.0,
    max_paragraph_characters=1.0,
    max_top=(1.0,) * 3,
    max_repeated=(1.0,) * 6,
)
LINES_ENDED = FineWeb(min_ended_lines=0.0, max_short_lines=1.0, max_repeated_characters=1.0)
ON_ARRAYS = (REPEATED_KEPT, LINES_ENDED, GopherQuality())
TAKE_NOTHING = ("length", "language", "column", "url", "function")
"""Filters that copy no text, or its beginning alone; what a function takes is its author's."""
PIECES = ("a.\n", " a.\n", " a. \n", " é.\n", " İ.\n", "İ ", "ab[]")
FOUND = ("8.8.8.8 ", "a@b.co ", "a@b.co,", "+12345678 ")
SIZE = 20_000
"""Bytes of a text, about."""
ROUNDING = 1.2
"""An object of 51 bytes takes 64; tracemalloc says 51."""


@pytest.mark.parametrize(
    ("config", "piece", "last"),
    [
        *((LINES_KEPT, piece, last) for piece in PIECES for last in ("", "é", "海", "😀")),
        *((PersonalData(), piece, last) for piece in FOUND for last in ("", "😀")),
    ],
)
def test_a_judge_takes_no_more_than_its_factor(config: FilterConfig, piece: str, last: str) -> None:
    assert takes_at_most(filter_of(config).memory_factor / ROUNDING, config, piece, last)


@pytest.mark.parametrize("last", ["", "😀"])
@pytest.mark.parametrize("piece", ["!", "! ", "a\n", "a.\n\n", "word "])
@pytest.mark.parametrize("config", ON_ARRAYS)
def test_a_judge_that_works_on_arrays_takes_no_more_than_its_factor(
    config: FilterConfig, piece: str, last: str
) -> None:
    assert takes_at_most(filter_of(config).memory_factor, config, piece, last)


def test_every_filter_is_measured_or_takes_nothing_of_a_text() -> None:
    measured = {one.kind for one in (LINES_KEPT, PersonalData(), *ON_ARRAYS)}
    assert measured.isdisjoint(TAKE_NOTHING)
    assert measured | {*TAKE_NOTHING} == FILTERS.keys(), "each has rows above, or is in TAKE_NOTHING"
    assert [FILTERS[name].memory_factor for name in TAKE_NOTHING] == [0] * len(TAKE_NOTHING)


def takes_at_most(factor: float, config: FilterConfig, piece: str, last: str) -> bool:
    """Say whether a judge takes fewer bytes for each of a text of such pieces, at its peak."""
    short, clean = (
        cleaned(piece * (size // len(piece.encode())) + last + " end.") for size in (SIZE // 100, SIZE)
    )
    document = Document(clean.data, clean.characters)
    chain = FilterChain([config], "any")
    chain.judge(Document(short.data, short.characters))  # what is made once is no memory of a text
    assert len(clean.data) > SIZE // 2
    return takes_less(factor * len(clean.data), lambda: chain.judge(document))
