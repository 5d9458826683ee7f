"""Similarity: how alike removed documents were to those kept for them, and how large clusters are.

Read from the evidence tables of deduplication, a row group at a time.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.report.measured import MeasuredPoint, measured_curve
from pipeline.report.part import Part
from pipeline.run_file.config import RunFile
from pipeline.steps.dedup.equal import EXACT
from pipeline.steps.dedup.minhash import NEAR
from stages.dedup.lsh import band_shape
from stages.stores.mounts import here

BINS = 20
"""Of similarity, from 0 to 1."""
_MOST_COUNTED = 5_000_000
"""Rows of the table of clusters that are counted; of more, their names would not fit into memory."""


class Similarity(Part):
    """How alike removed documents were to those kept for them."""

    counts: tuple[int, ...]
    """Near-duplicates that were removed, in each twentieth of similarity, from 0 to 1."""
    identical: int
    others: int
    """Removed for another reason: contained in another, of the same meaning, URL or key. None of these
    is measured by the similarity of shingles."""
    threshold: float | None
    """From which on near-duplicates are removed; None if they are not looked for."""
    bands: int | None
    rows: int | None
    """Of a band: two documents of similarity s are compared with a chance of 1 - (1 - s^rows)^bands."""
    measured: tuple[MeasuredPoint, ...]
    """That chance, measured on documents of the run; empty without near-duplicates."""
    clusters: dict[str, int] | None
    """Clusters by the number of their documents, in powers of two; None of too many to count."""


def similarity_of(file: RunFile, output: Path) -> Similarity | None:
    """Return how alike removed documents were; None without a table of them that can be read.

    What is wrong with a damaged one, the audit of the files says.
    """
    removed, clusters = (here(output / "dedup" / f"{name}.parquet") for name in ("removed", "clusters"))
    if not file.dedup.exact or not removed.exists():
        return None
    try:
        return _counted(file, output, removed, clusters)
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # of the disk
            raise
        return None


def _counted(file: RunFile, output: Path, removed: Path, clusters: Path) -> Similarity:
    counts, identical, others = np.zeros(BINS, np.int64), 0, 0
    with pq.ParquetFile(removed) as table:
        for group in range(table.num_row_groups):
            found = table.read_row_group(group, columns=["similarity", "method"], use_threads=False)
            methods = np.asarray(found["method"].to_pylist())
            alike = methods == NEAR
            same = int((methods == EXACT).sum())
            identical += same
            others += len(methods) - same - int(alike.sum())
            values = found["similarity"].to_numpy(zero_copy_only=False)[alike]
            counts += _histogram(values[~np.isnan(values)])
    near = file.dedup.minhash
    bands, rows = band_shape(near.threshold, near.num_perm) if file.dedup.near else (None, None)
    return Similarity(
        counts=tuple(counts.tolist()),
        identical=identical,
        others=others,
        threshold=near.threshold if file.dedup.near else None,
        bands=bands,
        rows=rows,
        measured=measured_curve(near, output) if bands is not None and counts.any() else (),
        clusters=_cluster_sizes(clusters),
    )


def _histogram(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.histogram(values, bins=BINS, range=(0.0, 1.0))[0].astype(np.int64)


def _cluster_sizes(path: Path) -> dict[str, int] | None:
    """Return how many clusters have 2, 3 to 4, 5 to 8, ... documents."""
    if not path.exists():
        return None
    sizes: Counter[str] = Counter()
    with pq.ParquetFile(path) as table:
        if table.metadata.num_rows > _MOST_COUNTED:
            return None
        for group in range(table.num_row_groups):
            found = table.read_row_group(group, columns=["cluster"], use_threads=False)
            sizes.update(found["cluster"].to_pylist())
    powers = Counter((size - 1).bit_length() for size in sizes.values() if size > 1)
    return {
        "2" if power == 1 else f"{2 ** (power - 1) + 1:,} to {2**power:,}": powers[power]
        for power in sorted(powers)
    }
