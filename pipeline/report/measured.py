"""Measured: how often two texts of a run are compared, by how alike they are, beside what theory says.

    documents of the run -> copies with more and more words exchanged -> signatures, bands, shingles
                         -> the share of the copies that have a band in common with their document

Theory: 1 - (1 - s^rows)^bands for similarity s, if each entry of two signatures is equal with chance s
(Broder 1997; Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.report.part import Part
from stages.dedup.compared_texts import compared_sets, compared_signatures
from stages.dedup.jaccard import jaccard
from stages.dedup.lsh import MinHashConfig, band_keys, band_shape
from stages.seeding import philox4x32
from stages.stores.mounts import files_of, here

_DOCUMENTS = 60
_BYTES = (500, 8_000)
"""Of the documents that are taken: shorter ones have too few shingles for a curve."""
_EXCHANGED = tuple(level / 80 for level in range(1, 17))
"""Shares of the words that are exchanged, one copy each: similarities from .9 to .2 with 5 words."""
_BINS = 10


class MeasuredPoint(Part):
    """Pairs of about one similarity."""

    similarity: float
    """Their mean."""
    pairs: int
    compared: float
    """Share of them that have a band in common."""


def measured_curve(config: MinHashConfig, output: Path) -> tuple[MeasuredPoint, ...]:
    """Return how often pairs are compared, by tenths of similarity; nothing without texts to take.

    Args:
        config: of the run's near-deduplication.
        output: folder of the run.
    """
    found: list[tuple[float, bool]] = []
    for number, text in enumerate(_texts(output)):
        found += _pairs(text, number, config)
    points: list[MeasuredPoint] = []
    for number in range(_BINS):
        inside = [pair for pair in found if number <= pair[0] * _BINS < number + 1]
        if inside:
            mean = sum(similarity for similarity, _ in inside) / len(inside)
            share = sum(compared for _, compared in inside) / len(inside)
            points.append(
                MeasuredPoint(similarity=round(mean, 4), pairs=len(inside), compared=round(share, 4))
            )
    return tuple(points)


def _texts(output: Path) -> Iterator[str]:
    """Yield texts of the first documents that are neither short nor long."""
    left = _DOCUMENTS
    for place in sorted(files_of(output / "ingest")):
        if place.name != "documents.parquet":
            continue
        try:
            with pq.ParquetFile(here(place)) as table:
                for batch in table.iter_batches(batch_size=256, columns=["text", "text_bytes"]):
                    for row in batch.to_pylist():
                        if left and _BYTES[0] <= row["text_bytes"] <= _BYTES[1]:
                            left -= 1
                            yield row["text"]
                    if not left:
                        return
        except (pa.ArrowException, OSError):  # damaged: `verify` names it
            return


def _pairs(text: str, number: int, config: MinHashConfig) -> Iterator[tuple[float, bool]]:
    """Yield for each copy how alike it is to its text, and whether the two have a band in common."""
    texts = [text, *_copies(text, number)]
    encoded = [one.encode() for one in texts]
    data = np.frombuffer(b"".join(encoded), np.uint8)
    offsets = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    signed = compared_signatures(data, offsets, config, num_perm=config.num_perm)
    alike = _share_a_band(signed, *band_shape(config.threshold, config.num_perm))
    sets = [
        part.values[part.ptr[place] : part.ptr[place + 1]]
        for part in compared_sets(data, offsets, config)
        for place in range(len(part.ptr) - 1)
    ]
    for own, compared in zip(sets[1:], alike, strict=True):
        yield jaccard(sets[0], own, threshold=0.0), compared


def _copies(text: str, number: int) -> Iterator[str]:
    """Yield copies of a text in which more and more words are others."""
    words = text.split(" ")
    others = [f"w{number}x{place}" for place in range(len(words))]
    blocks = np.arange(-(-len(words) // 4) * len(_EXCHANGED), dtype=np.uint64)
    counter = np.stack([blocks, *[np.zeros_like(blocks)] * 3], axis=1)
    drawn = philox4x32(counter, (number, 0)).reshape(len(_EXCHANGED), -1)[:, : len(words)]
    for share, chances in zip(_EXCHANGED, drawn, strict=True):
        copy = words.copy()
        for place in np.flatnonzero(chances < share * 2**32).tolist():
            copy[place] = others[place]
        yield " ".join(copy)


def _share_a_band(signed: NDArray[np.uint32], bands: int, rows: int) -> Sequence[bool]:
    """Say of all signatures but the first whether they have a band in common with it."""
    found = np.zeros(len(signed) - 1, np.bool_)
    for band in range(bands):
        keys = band_keys(np.ascontiguousarray(signed[:, band * rows : (band + 1) * rows].T))
        found |= keys[1:] == keys[0]
    return [bool(one) for one in found]
