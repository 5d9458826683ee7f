"""Rows for the tests of objectives, built by hand or by hypothesis; how far counts are from chances."""

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.objectives.laws.draws import Draws
from stages.objectives.laws.shown import ShardContext, ShownRows
from stages.objectives.rows import Columns, StoredRows, segment_starts
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.objectives.whole_shard import WholeShard
from tests.campaign import FULL

SPECIAL = {
    name: number
    for number, name in enumerate(
        ["unk", "bos", "eos", "pad", "mask", "fim_prefix", "fim_middle", "fim_suffix"]
    )
}
VOCABULARY = vocabulary_of(40, SPECIAL)
"""The ids from 8 on are ordinary."""
ORDINARY = st.integers(len(SPECIAL), VOCABULARY.size - 1)
BOS, EOS, PAD, MASK = (SPECIAL[name] for name in ("bos", "eos", "pad", "mask"))
ID_TYPES: list[type[np.integer]] = [np.uint16, np.int32]
"""Of ids on disk."""
DTYPES: st.SearchStrategy[type[np.integer]] = st.sampled_from(ID_TYPES if FULL else ID_TYPES[:1])
"""Those tried: a kernel compiles for seconds for each, so the slice tries both of few kinds alone."""
Segments = list[list[int]]


def stored(rows: list[Segments], *, length: int, dtype: type[np.integer] = np.uint16) -> StoredRows:
    """Return rows of some segments each, from row 0 of shard 0 on, in epoch 0."""
    ids: NDArray[np.integer] = np.full((len(rows), length), PAD, dtype)
    for row, segments in enumerate(rows):
        flat = [token for segment in segments for token in segment]
        ids[row, : len(flat)] = flat
    ptr = np.cumsum([0, *(len(segments) for segments in rows)], dtype=np.int64)
    lengths = [len(segment) for segments in rows for segment in segments]
    numbers = np.arange(len(rows))
    return StoredRows(ids, ptr, np.array(lengths, np.int64), numbers, seed=7, epoch=0, shard=0)


def copies(rows: StoredRows, count: int) -> StoredRows:
    """Return the first row, stored many times."""
    return replace(rows.take(np.zeros(count, np.int64)), numbers=np.arange(count))


@st.composite
def keyed(draw: st.DrawFn, rows: StoredRows) -> StoredRows:
    """Return the rows with any numbers, seed, epoch and shard."""
    row = st.sampled_from([0, 1, 2**32 - 1]) | st.integers(0, 2**32 - 1)
    numbers = draw(st.lists(row, min_size=len(rows.numbers), max_size=len(rows.numbers)))
    return replace(
        rows,
        numbers=np.array(numbers, np.int64),
        seed=draw(st.sampled_from([0, 7, 2**64 - 1])),
        epoch=draw(st.sampled_from([0, 1, 2**32 - 1])),
        shard=draw(st.sampled_from([0, 2**24 - 1])),
    )


@st.composite
def any_rows(draw: st.DrawFn) -> StoredRows:
    """Rows of 0 to 80 tokens in up to four segments, some of special ids, some closed by EOS."""
    token = ORDINARY | st.sampled_from([EOS, SPECIAL["unk"], SPECIAL["bos"], SPECIAL["mask"]])
    segments = st.lists(st.lists(token, min_size=1, max_size=20), max_size=4)
    rows = draw(st.lists(segments, max_size=5))
    return draw(keyed(stored(rows, length=80, dtype=draw(DTYPES))))


def other_keys(rows: StoredRows) -> list[StoredRows]:
    """Return the rows, and the same at another epoch, shard, seed and with other numbers."""
    return [
        rows,
        replace(rows, epoch=rows.epoch + 1),
        replace(rows, shard=rows.shard + 1),
        replace(rows, seed=rows.seed + 1),
        replace(rows, numbers=rows.numbers + len(rows.numbers)),
    ]


def shown(rows: StoredRows, *epochs: Columns, vocabulary: Vocabulary = VOCABULARY) -> ShownRows:
    """Return rows beside what is made of them, of a shard in which each segment is a document."""
    row, start = segment_starts(rows)
    segments = {
        "row_ptr": rows.segment_ptr,
        "start": start,
        "length": rows.segment_length,
        "doc": np.arange(len(row)),
        "doc_offset": np.zeros(len(row), np.int64),
    }
    whole = WholeShard(rows.input_ids, segments, len(row))
    return ShownRows(rows, epochs, vocabulary, ShardContext(whole, rows.components))


def sigmas(found: float, number: int, probability: float) -> float:
    """Return how far a count is from that of so many independent events, as the laws have it."""
    draws = Draws()
    draws.share("", number, int(found), probability)
    (line,) = draws.lines()
    assert line.sigmas is not None
    return abs(line.sigmas)


def chi_square_sigmas(found: NDArray[np.integer], expected: NDArray[np.float64]) -> float:
    """Return how far chi-square of counts lies above its mean, in standard deviations of a normal law.

    Its cube root is very nearly normal. Source: Wilson and Hilferty 1931.
    """
    assert found.shape == expected.shape
    assert abs(found.sum() - expected.sum()) < 1e-6 * expected.sum()
    assert expected.min() >= 5
    degrees = found.size - 1
    statistic = float(((found - expected) ** 2 / expected).sum())
    spread = 2 / (9 * degrees)
    return float(((statistic / degrees) ** (1 / 3) - (1 - spread)) / math.sqrt(spread))
