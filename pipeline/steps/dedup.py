"""Dedup: which documents go, in four phases over committed units.

    exact    pieces of the digests' range       -> repeats of a text, each with the first of it
    bands    bands x pieces of the keys' range  -> candidates, without writing out a pair
    pairs    units                              -> candidate pairs verified by exact Jaccard
    resolve  once, in rank order                -> who goes and for whom, keep masks, evidence

The number of pieces follows from the number of documents alone, so nothing here depends on memory or
on workers. Rank is canonical order: of two duplicates the first stays.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.steps.units import Unit, digest_halves, row_groups
from pipeline.tasks import Workspace
from stages.dedup.exact import exact_duplicates
from stages.dedup.jaccard import jaccard
from stages.dedup.lsh import (
    Candidates,
    MinHashConfig,
    band_keys,
    band_shape,
    bucket_candidates,
    in_piece,
)
from stages.dedup.shingles import shingle_set
from stages.store.arrays import open_array, write_array


@dataclass(frozen=True)
class Piece:
    """A range of digests, or of one band's keys."""

    units: tuple[Unit, ...]
    number: int
    pieces: int
    band: int = 0
    minhash: MinHashConfig | None = None


@dataclass(frozen=True)
class UnitPairs:
    """One unit whose documents are to be verified against better-ranked ones."""

    units: tuple[Unit, ...]
    index: int
    pieces: int
    minhash: MinHashConfig


def exact_key(piece: int) -> str:
    """Give the key of a piece's exact duplicates."""
    return f"dedup/exact/{piece:05d}.npy"


def band_key(band: int, piece: int) -> str:
    """Give the folder of a band's candidates in one piece."""
    return f"dedup/bands/{band:03d}-{piece:05d}"


def pairs_key(unit: Unit) -> str:
    """Give the folder of a unit's verified pairs."""
    return f"dedup/pairs/{unit.name}"


def find_exact(workspace: Workspace, piece: Piece) -> dict[str, Any]:
    """Find the repeats among the documents whose digest lies in one piece of the range."""
    digests, documents = [], []
    for unit in piece.units:
        halves = digest_halves(workspace, unit)
        chosen = np.flatnonzero(in_piece(halves[:, 0], piece.number, pieces=piece.pieces))
        digests.append(halves[chosen])
        documents.append(chosen + unit.first)
    repeats = exact_duplicates(np.concatenate(digests), np.concatenate(documents))
    write_array(workspace.create(exact_key(piece.number)), repeats)
    return {"repeats": len(repeats)}


def find_candidates(workspace: Workspace, piece: Piece) -> dict[str, Any]:
    """Find the candidates of one band among the documents whose key lies in one piece."""
    assert piece.minhash is not None
    repeated = _repeated(workspace, piece)
    rows = band_shape(piece.minhash.threshold, piece.minhash.num_perm)[1]
    keys, documents = [], []
    for unit in piece.units:
        if not unit.documents:
            continue
        signatures = _signatures(workspace, unit)
        unit_keys = band_keys(signatures[piece.band * rows : (piece.band + 1) * rows])
        chosen = np.flatnonzero(
            in_piece(unit_keys, piece.number, pieces=piece.pieces) & ~repeated[unit.first : unit.last]
        )
        keys.append(unit_keys[chosen])
        documents.append(chosen + unit.first)
    found = bucket_candidates(
        np.concatenate([np.empty(0, np.uint64), *keys]),
        np.concatenate([np.empty(0, np.int64), *documents]),
        max_candidates=piece.minhash.max_candidates,
    )
    folder = band_key(piece.band, piece.number)
    write_array(workspace.create(f"{folder}/members.npy"), found.members)
    write_array(workspace.create(f"{folder}/heads.npy"), found.heads)
    return {"members": len(found.members), "comparisons": int(found.members[:, 2].sum())}


def _signatures(workspace: Workspace, unit: Unit) -> NDArray[np.uint32]:
    return cast("NDArray[np.uint32]", open_array(workspace.path(unit.signatures), dtype="<u4"))


def _repeated(workspace: Workspace, piece: Piece) -> NDArray[np.bool_]:
    """Give which documents repeat another's text: those are decided with the first of it."""
    repeated = np.zeros(piece.units[-1].last, np.bool_)
    for number in range(piece.pieces):
        repeated[np.load(workspace.path(exact_key(number)))[:, 0]] = True
    return repeated


def verify_pairs(workspace: Workspace, work: UnitPairs) -> dict[str, Any]:
    """Verify a unit's documents against their better-ranked candidates, a row group at a time."""
    unit = work.units[work.index]
    candidates = list(_all_candidates(workspace, work))
    edges, similarities, compared = [np.empty((0, 2), np.int64)], [np.empty(0)], 0
    for first, table in row_groups(workspace, unit, ["text"]):
        found = [c.pairs(first, first + table.num_rows) for c in candidates]
        pairs = np.unique(np.concatenate([np.empty((0, 2), np.int64), *found]), axis=0)
        if not len(pairs):
            continue
        worse = {
            int(number): shingle_set(
                table.column("text")[int(number) - first].as_py(), size=work.minhash.size
            )
            for number in np.unique(pairs[:, 1])
        }
        measured = _measure(workspace, work, pairs, worse)
        high = measured >= work.minhash.threshold
        edges.append(pairs[high])
        similarities.append(measured[high])
        compared += len(pairs)
    all_edges, all_similarities = np.concatenate(edges), np.concatenate(similarities)
    order = np.lexsort((all_edges[:, 0], all_edges[:, 1]))
    folder = pairs_key(unit)
    write_array(workspace.create(f"{folder}/edges.npy"), all_edges[order])
    write_array(workspace.create(f"{folder}/similarity.npy"), all_similarities[order])
    return {"compared": compared, "verified": len(order)}


def _all_candidates(workspace: Workspace, work: UnitPairs) -> Iterator[Candidates]:
    bands = band_shape(work.minhash.threshold, work.minhash.num_perm)[0]
    for band in range(bands):
        for piece in range(work.pieces):
            folder = workspace.path(band_key(band, piece))
            yield Candidates(
                cast("NDArray[np.int64]", open_array(folder / "members.npy", dtype="<i8")),
                cast("NDArray[np.int64]", open_array(folder / "heads.npy", dtype="<i8")),
            )


def _measure(
    workspace: Workspace,
    work: UnitPairs,
    pairs: NDArray[np.int64],
    worse: dict[int, NDArray[np.uint64]],
) -> NDArray[np.float64]:
    """Give the exact similarity of each pair; pairs are ascending by their better document.

    The better documents are fetched row group by row group, each group once, so what is held is one
    row group of each side.
    """
    similarity = np.zeros(len(pairs))
    for unit in work.units[: work.index + 1]:
        low, high = np.searchsorted(pairs[:, 0], (unit.first, unit.last))
        if low == high:
            continue
        for first, text in _texts(workspace, unit, pairs[low:high, 0]):
            better = shingle_set(text, size=work.minhash.size)
            start, end = np.searchsorted(pairs[:, 0], (first, first + 1))
            for row in range(start, end):
                similarity[row] = jaccard(
                    better, worse[int(pairs[row, 1])], threshold=work.minhash.threshold
                )
    return similarity


def _texts(workspace: Workspace, unit: Unit, wanted: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
    """Give the texts of some documents of a unit, reading only the row groups that hold them."""
    numbers = np.unique(wanted)
    with pq.ParquetFile(workspace.path(unit.table)) as file:
        first = unit.first
        for group in range(file.num_row_groups):
            last = first + file.metadata.row_group(group).num_rows
            low, high = np.searchsorted(numbers, (first, last))
            if low < high:
                texts = file.read_row_group(group, columns=["text"]).column("text")
                for number in numbers[low:high]:
                    yield int(number), texts[int(number) - first].as_py()
            first = last
