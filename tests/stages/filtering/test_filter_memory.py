"""What filters that work on Python's strings promise: no more memory than the plan counts on.

The texts are made of the shortest pieces that each filter holds by itself. A character outside of the
Basic Multilingual Plane makes every character of a decoded text take 4 bytes.
"""

import tracemalloc

import pytest

from stages.cleaning.text import cleaned
from stages.filtering.c4 import C4
from stages.filtering.chain import FilterChain
from stages.filtering.filter import Document, FilterConfig
from stages.filtering.pii import PersonalData
from stages.filtering.table import filter_of

LINES_KEPT = C4(min_line_words=1, min_sentences=0)
SIZE = 120_000
"""Bytes of a text, about."""
ROUNDING = 1.2
"""An object of 51 bytes takes 64; tracemalloc says 51."""


@pytest.mark.parametrize("last", ["", "é", "海", "😀"])
@pytest.mark.parametrize(
    ("config", "piece"),
    [
        *((LINES_KEPT, piece) for piece in ("a.\n", " a.\n", " a. \n", " é.\n", " İ.\n", "İ ", "ab[]")),
        *((PersonalData(), piece) for piece in ("8.8.8.8 ", "a@b.co ", "a@b.co,", "+12345678 ")),
    ],
)
def test_a_judge_takes_no_more_than_its_factor(config: FilterConfig, piece: str, last: str) -> None:
    clean = cleaned(piece * (SIZE // len(piece.encode())) + last + " end.")
    document = Document(clean.data, clean.characters)
    chain = FilterChain([config], "any")
    chain.judge(document)
    tracemalloc.start()
    chain.judge(document)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(clean.data) > SIZE // 2
    assert len(clean.data) < peak
    assert peak * ROUNDING < filter_of(config).memory_factor * len(clean.data)
