"""Windows of a mix: what stretches of the order of training hold of each source, and what chance allows.

    order of an epoch   a b a a b a | b a a a b a | a a b ...      rows in windows of 6
    tokens of b           2/6           2/6           ...          against its share of all rows

If rows are shuffled, a window is a sample of rows without replacement. For a source with the share p
of all tokens, a row with t tokens, x of them of the source, is off by e = x - p t, and a window's share
is off by the sum of its e divided by its tokens. So a few sums over all rows say how far windows may be
off.

Axes: E entries (a source in a row), W windows.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from stages.config import Config

WINDOW = 1000
"""Rows of a window."""
MOST_WINDOWS = 64
"""Windows that are looked at; of more, those that are spread evenly over the epoch."""
SIGMAS = 4.0
"""Where the line is drawn that one window in 16,000 is beyond by chance."""
FALSE_ALARMS = 1e-9
"""Probability that chance alone takes any window of any source beyond the bound of the gate."""


@dataclass(frozen=True, eq=False)
class RowEntries:
    """What rows hold of each source: an entry for each source that a row has, in the order of rows."""

    rows: int
    row: NDArray[np.int64]
    """(E,)."""
    source: NDArray[np.int64]
    """(E,) its number."""
    tokens: NDArray[np.int64]
    """(E,)."""


def row_entries(
    rows: int, row: NDArray[np.int64], source: NDArray[np.int64], tokens: NDArray[np.int64]
) -> RowEntries:
    """Return the entries of rows from their segments: those of one source in a row are added up.

    Args:
        rows: how many there are.
        row: (S,) of each segment.
        source: (S,) the number of its document's source.
        tokens: (S,) of the document in the segment.
    """
    width = int(source.max(initial=0)) + 1
    names, place = np.unique(row * width + source, return_inverse=True)
    sums = np.bincount(place, tokens, minlength=len(names)).astype(np.int64)
    return RowEntries(rows, names // width, names % width, sums)


class SourceSums(Config):
    """Sums over all rows for one source, from which its variance follows."""

    tokens: int = 0
    squares: int = 0
    """Of its tokens in a row."""
    products: int = 0
    """Of its tokens in a row with all tokens of the row."""


class RowSums(Config):
    """Sums over rows."""

    rows: int = 0
    squares: int = 0
    """Of the tokens of a row."""
    longest: int = 0
    """Most tokens of a row."""
    sources: dict[str, SourceSums] = Field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """Of all sources."""
        return sum(one.tokens for one in self.sources.values())


def sum_rows(entries: RowEntries, names: Sequence[str]) -> RowSums:
    """Return the sums over some rows.

    Args:
        entries: of the rows.
        names: of the sources, by number.
    """
    whole = np.bincount(entries.row, entries.tokens, minlength=entries.rows).astype(np.int64)
    beside = whole[entries.row]
    columns = (entries.tokens, entries.tokens**2, entries.tokens * beside)
    found = np.zeros((len(columns), len(names)), np.int64)
    for sums, column in zip(found, columns, strict=True):
        np.add.at(sums, entries.source, column)
    return RowSums(
        rows=entries.rows,
        squares=int((whole**2).sum()),
        longest=int(whole.max(initial=0)),
        sources={
            name: SourceSums(tokens=tokens, squares=squares, products=products)
            for name, tokens, squares, products in zip(names, *found.tolist(), strict=True)
        },
    )


def add_sums(parts: Iterable[RowSums]) -> RowSums:
    """Return the sums over the rows of all parts."""
    rows = squares = longest = 0
    sources: dict[str, SourceSums] = {}
    for part in parts:
        rows, squares = rows + part.rows, squares + part.squares
        longest = max(longest, part.longest)
        for name, own in part.sources.items():
            known = sources.get(name, SourceSums())
            sources[name] = SourceSums(
                tokens=known.tokens + own.tokens,
                squares=known.squares + own.squares,
                products=known.products + own.products,
            )
    return RowSums(rows=rows, squares=squares, longest=longest, sources=sources)


def window_starts(rows: int) -> list[int]:
    """Return the positions at which the windows begin that are looked at: all, or 64 evenly spread.

    Of fewer rows than a window has, one window holds all.
    """
    whole = max(rows // WINDOW, min(rows, 1))
    looked = min(whole, MOST_WINDOWS)
    return [number * whole // looked * WINDOW for number in range(looked)]


def window_size(rows: int) -> int:
    """Return the rows of a window in a dataset of so many."""
    return min(rows, WINDOW)


def window_positions(rows: int) -> NDArray[np.int64]:
    """Return the positions of all windows that are looked at, (W * size,), window after window."""
    starts = np.array(window_starts(rows), np.int64)
    return (starts[:, None] + np.arange(window_size(rows))).reshape(-1)


def sum_windows(
    entries: RowEntries, names: Sequence[str], *, order: NDArray[np.int64], first: int, size: int
) -> dict[str, tuple[int, ...]]:
    """Return the tokens that each window has from some neighbouring rows, (W,) by source.

    Args:
        entries: of these rows.
        names: of the sources, by number.
        order: (W * size,) the row in stored order at each position of the windows.
        first: the number of the first of these rows in stored order.
        size: rows of a window.
    """
    windows = len(order) // max(size, 1)
    window_of = np.full(entries.rows, windows, np.int64)  # one more, of rows in none
    own = order - first
    inside = np.flatnonzero((own >= 0) & (own < entries.rows))
    window_of[own[inside]] = inside // max(size, 1)
    place = window_of[entries.row] * len(names) + entries.source
    sums = np.bincount(place, entries.tokens, minlength=(windows + 1) * len(names))
    table = sums.astype(np.int64).reshape(windows + 1, len(names))[:windows]
    return {name: tuple(table[:, number].tolist()) for number, name in enumerate(names)}


def add_windows(parts: Iterable[Mapping[str, Sequence[int]]], windows: int) -> dict[str, list[int]]:
    """Return the tokens of each window, (W,) by source, over all parts of the rows."""
    found: dict[str, list[int]] = {}
    for part in parts:
        for name, tokens in part.items():
            known = found.get(name, [0] * windows)
            found[name] = [a + b for a, b in zip(known, tokens, strict=True)]
    return found


def variance_of(sums: RowSums, source: str) -> float:
    """Return the mean of e ** 2 over all rows for one source, in tokens squared; the mean of e is 0."""
    own, whole = sums.sources[source], sums.tokens
    if not whole:
        return 0.0
    # with p = tokens / whole, in integers: the parts nearly cancel for rows that are alike
    exact = own.squares * whole**2 - 2 * own.tokens * whole * own.products + own.tokens**2 * sums.squares
    return exact / whole**2 / sums.rows


def sigma_of(sums: RowSums, source: str, size: int) -> float:
    """Return the standard deviation of a source's share in windows that are drawn without replacement.

    Source: Cochran 1977, "Sampling Techniques", sections 2.6 and 2.11 (a ratio of two sums).
    """
    if sums.rows <= max(size, 1) or not sums.tokens:
        return 0.0
    spread = variance_of(sums, source) * sums.rows / (sums.rows - 1)
    drawn = spread / size * (1 - size / sums.rows)
    return math.sqrt(drawn) * sums.rows / sums.tokens


def largest_sum(sums: RowSums, source: str, *, size: int, windows: int) -> float:
    """Return the largest sum of e, in tokens, that chance gives any window of any source.

    A shuffle passes it once in 10 ** 9 datasets. It holds for every mix, also for sources that few rows
    have: their windows are far from normal and pass 4 sigma often.

    Source: Bernstein's inequality, which holds for draws without replacement too: Hoeffding 1963,
    "Probability inequalities for sums of bounded random variables", section 6.

    Args:
        sums: over all rows.
        source: its name.
        size: rows of a window.
        windows: that are looked at; the probability is shared by them and the sources.
    """
    share = sums.sources[source].tokens / sums.tokens
    most = sums.longest * max(share, 1 - share)
    tests = 2 * windows * len(sums.sources)
    surprise = math.log(tests / FALSE_ALARMS)
    linear = surprise * most / 3
    return linear + math.sqrt(linear**2 + 2 * surprise * size * variance_of(sums, source))
