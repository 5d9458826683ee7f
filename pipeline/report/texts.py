"""Texts: what a sample of the documents is made of, and how many tokens documents have."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.report.part import Part
from stages.errors import FormatError
from stages.filtering.characters import TextMeasures, measure_text
from stages.store.arrays import open_array
from stages.stores.mounts import files_of, here

_DOCUMENTS = 2048
"""That are drawn; of no more, all are measured."""
_PLACES = 32
"""In the files, evenly over all documents; of each as many are drawn."""
_POINTS = {"p5": 0.05, "p25": 0.25, "median": 0.5, "p75": 0.75, "p95": 0.95}
_DOUBLING = ("characters", "line_characters")
"""Measures whose bins are powers of two."""
_WIDTHS = {"word_characters": (10.0, 20.0, 50.0, 200.0)}
"""What the bins may span together; the last one also holds what is beyond."""
_SHARES = (0.1, 0.2, 0.5, 1.0)
"""The same of measures that are shares."""
_BINS = 20


class Measure(Part):
    """How one measure is distributed over the sample."""

    points: dict[str, float]
    """p5, p25, median, p75 and p95."""
    edges: tuple[float, ...]
    """Where bins begin, half-open; the last holds all from there on."""
    counts: tuple[int, ...]
    """Documents in each bin."""


class TextSample(Part):
    """What a sample of the documents is made of."""

    documents: int
    """Measured, or drawn, some of which may be the same."""
    measures: dict[str, Measure]
    """By the names of `stages.filtering.characters`."""


def texts_of(output: Path) -> TextSample | None:
    """Return what the documents are made of that were read and not dropped; None if unknown.

    Of more than 2,048 documents, so many are drawn, at 32 places that are spread evenly over all. Each
    place counts as much as any other: one of a row group with few documents draws some of them again.
    """
    try:
        rows = [list(measure_text(text)) for text in _sample(output)]
    except (pa.ArrowException, OSError):  # damaged: `verify` names it
        return None
    if not rows:
        return None
    columns = zip(TextMeasures._fields, np.array(rows).T, strict=True)
    return TextSample(documents=len(rows), measures={name: _measure(name, one) for name, one in columns})


def _sample(output: Path) -> Iterator[str]:
    """Yield texts, as many from each place."""
    places = [one for one in files_of(output / "ingest") if one.name == "documents.parquet"]
    groups = [group for place in sorted(places) for group in _groups(place)]
    for number, wanted in sorted(_wanted([rows for _, _, rows in groups]).items()):
        place, group, rows = groups[number]
        indices = (2 * np.arange(wanted) + 1) * rows // (2 * wanted)
        with pq.ParquetFile(here(place)) as file:
            texts = file.read_row_group(group, columns=["text"], use_threads=False)["text"]
        yield from texts.take(pa.array(indices)).to_pylist()


def _wanted(sizes: Sequence[int]) -> dict[int, int]:
    """Return how often documents are drawn of each row group that some are drawn of."""
    if sum(sizes) <= _DOCUMENTS:
        return dict(enumerate(sizes))
    upto = list(accumulate(sizes))
    hits = Counter(
        bisect_right(upto, (2 * number + 1) * upto[-1] // (2 * _PLACES)) for number in range(_PLACES)
    )
    return {number: hit * (_DOCUMENTS // _PLACES) for number, hit in hits.items()}


def _groups(place: Path) -> list[tuple[Path, int, int]]:
    """Return the row groups of a file that have documents, and how many."""
    metadata = pq.read_metadata(here(place))
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    return [(place, number, count) for number, count in enumerate(rows) if count]


def _measure(name: str, values: NDArray[np.float64]) -> Measure:
    points = np.quantile(values, list(_POINTS.values()), method="inverted_cdf")
    edges = _edges(name, values)
    counts, _ = np.histogram(values, [*edges, np.inf])
    return Measure(
        points=dict(zip(_POINTS, points.tolist(), strict=True)),
        edges=tuple(edges),
        counts=tuple(counts.tolist()),
    )


def _edges(name: str, values: NDArray[np.float64]) -> list[float]:
    """Return where bins begin: no value is below the first, few are beyond the last."""
    if name in _DOUBLING:
        low, high = (int(one).bit_length() - 1 for one in (max(values.min(), 1), max(values.max(), 1)))
        return [float(2**power) if power else 0.0 for power in range(low, high + 1)]
    widths, most = _WIDTHS.get(name, _SHARES), np.quantile(values, _POINTS["p95"])
    across = next((one for one in widths if most < one), widths[-1])
    return [round(across * number / _BINS, 6) for number in range(_BINS)]


_MOST = 1 << 20
"""Tokens up to which lengths are counted one by one; the few longer ones count as so long."""
_QUANTILES = {"p10": 0.1, "median": 0.5, "p90": 0.9, "p99": 0.99}


class LengthBin(Part):
    """Documents of about one length."""

    least: int
    most: int
    """Tokens, a power of two."""
    documents: int
    tokens: int


class Lengths(Part):
    """How long the documents of the token store are, in tokens, EOS counted."""

    documents: int
    points: dict[str, int]
    """p10, median, p90 and p99; at most 2**20."""
    longest: int
    bins: tuple[LengthBin, ...]


def lengths_of(output: Path) -> Lengths | None:
    """Return how long the documents of a run are; None without a token store that can be read."""
    counts, longest = np.zeros(_MOST + 1, np.int64), 0
    for place in files_of(output / "tokens"):
        if place.name != "offsets.npy":
            continue
        try:
            lengths = np.diff(np.asarray(open_array(here(place))))
        except (OSError, ValueError, FormatError):  # damaged: `verify` names it
            return None
        if len(lengths):
            longest = max(longest, int(lengths.max()))
            counts += np.bincount(np.minimum(lengths, _MOST), minlength=_MOST + 1)
    return _lengths_of(counts, longest) if counts.any() else None


def _lengths_of(counts: NDArray[np.int64], longest: int) -> Lengths:
    upto, total = np.cumsum(counts), int(counts.sum())
    tokens = counts * np.arange(len(counts))
    points = {name: int(np.searchsorted(upto, total * share)) for name, share in _QUANTILES.items()}
    bins: list[LengthBin] = []
    least, most = 1, 1
    while least <= _MOST:
        part = slice(least, most + 1)
        here = int(counts[part].sum())
        if here or bins:
            bin_tokens = int(tokens[part].sum())
            bins.append(LengthBin(least=least, most=most, documents=here, tokens=bin_tokens))
        least, most = most + 1, most * 2
    while bins and not bins[-1].documents:
        bins.pop()
    return Lengths(documents=total, points=points, longest=longest, bins=tuple(bins))
