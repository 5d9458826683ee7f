"""Dedup: which documents go, in seven phases over committed units.

    digests   runs of units              -> the digests of each, cut into pieces of their range
    exact     pieces                     -> repeats of a text, each with the first of it
    keys      runs of units              -> the band keys of each without repeats, cut into pieces
    bands     bands x pieces             -> candidates, without writing out a pair
    shingles  runs of units (.hashing)   -> the shingles of each candidate
    pairs     runs of units (.pairs)     -> candidate pairs verified by exact Jaccard
    resolve   once (.resolve)            -> who goes and for whom, keep masks, evidence

This module holds the first four. A piece reads one contiguous range of every run's file, block by
block. The number of pieces follows from the number of documents alone, so nothing here depends on
memory or on workers. Rank is canonical order: of two duplicates the first stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import Unit, digest_halves, kept_mask
from stages.dedup.buckets import BucketFiller, KeyBlock, shared_keys
from stages.dedup.exact import DigestBlock, stream_duplicates
from stages.dedup.lsh import MAX_KEYS, MinHashConfig, band_keys, band_shape, num_pieces, piece_of
from stages.store.arrays import array_writer, open_array, write_array

BLOCK_KEYS = 1 << 20
"""Keys or digests that a piece reads at a time."""

_Value = TypeVar("_Value", bound=np.generic)


class ExactRecord(UnitRecord):
    """What was found in a piece of the digests."""

    repeats: int


class CandidatesRecord(UnitRecord):
    """What was found in a piece of a band."""

    members: int
    comparisons: int


@dataclass(frozen=True)
class RunKeys:
    """A run of units whose digests or band keys are cut into pieces."""

    run: UnitRun
    pieces: int
    minhash: MinHashConfig | None = None


@dataclass(frozen=True)
class Piece:
    """A range of digests, or of one band's keys."""

    firsts: tuple[int, ...]
    """The number of the first document of each run of units."""
    number: int
    pieces: int
    band: int = 0
    minhash: MinHashConfig | None = None
    earlier: int = 0
    """Documents of earlier runs, which are numbered first; two of them are never compared again."""


def digests_key(run: int) -> str:
    """Return the folder of a run's digests by piece."""
    return f"dedup/digests/{run:05d}"


def keys_key(run: int) -> str:
    """Return the folder of a run's band keys by piece."""
    return f"dedup/keys/{run:05d}"


def exact_key(piece: int) -> str:
    """Return the key of a piece's exact duplicates."""
    return f"dedup/exact/{piece:05d}.npy"


def band_key(band: int, piece: int) -> str:
    """Return the folder of a band's candidates in one piece."""
    return f"dedup/bands/{band:03d}-{piece:05d}"


def cut_digests(workspace: Workspace, work: RunKeys) -> UnitRecord:
    """Order a run's digests by piece: digests (N, 2), documents (N,) and where each piece begins."""
    halves = np.concatenate([digest_halves(workspace, unit) for unit in work.run.units])
    order, ptr = _by_piece(halves[:, 0], work.pieces)
    folder = workspace.create(digests_key(work.run.number))
    write_array(folder / "digests.npy", halves[order])
    write_array(folder / "documents.npy", order.astype("<u4"))
    write_array(folder / "ptr.npy", ptr)
    return UnitRecord()


def find_exact(workspace: Workspace, piece: Piece) -> ExactRecord:
    """Find the repeats among the documents whose digest lies in one piece of the range."""

    def blocks() -> Iterator[DigestBlock]:
        def parts() -> Iterator[DigestBlock]:
            for run, first in enumerate(piece.firsts):
                folder = workspace.path(digests_key(run))
                low, high = _open(folder / "ptr.npy")[piece.number : piece.number + 2]
                documents = _open(folder / "documents.npy")[low:high] + np.int64(first)
                yield _open(folder / "digests.npy")[low:high], documents

        return _in_blocks(parts())

    repeats = 0
    with array_writer(workspace.create(exact_key(piece.number)), dtype="<i8", shape=(2,)) as append:
        for pairs in stream_duplicates(blocks):
            append(pairs)
            repeats += len(pairs)
    return ExactRecord(repeats=repeats)


def equal_texts(workspace: Workspace, units: Sequence[Unit]) -> Iterator[NDArray[np.int64]]:
    """Yield the repeats of all texts, each with the first of it, where no phase has looked for them.

    Without deduplication nothing is removed, and still equal texts belong to one side of the split.
    """
    pieces = num_pieces(units[-1].last if units else 0)

    def blocks(piece: int) -> Iterator[DigestBlock]:
        def parts() -> Iterator[DigestBlock]:
            for unit in units:
                halves = digest_halves(workspace, unit)
                chosen = np.flatnonzero(piece_of(halves[:, 0], pieces=pieces) == piece)
                yield halves[chosen], chosen + np.int64(unit.first)

        return _in_blocks(parts())

    for piece in range(pieces):
        yield from stream_duplicates(partial(blocks, piece))


def repeats_of(workspace: Workspace, first: int, last: int, *, pieces: int) -> NDArray[np.int64]:
    """Return the exact repeats among documents [first, last), each with the first of its text.

    Returns:
        (D, 2) int64, ascending.
    """
    found = [np.empty((0, 2), np.int64)]
    for piece in range(pieces):
        pairs = _open(workspace.path(exact_key(piece)))
        low, high = np.searchsorted(pairs[:, 0], (first, last))
        found.append(pairs[low:high])
    repeats = np.concatenate(found)
    return repeats[np.argsort(repeats[:, 0], kind="stable")]


def cut_keys(workspace: Workspace, work: RunKeys) -> UnitRecord:
    """Order a run's band keys by piece, repeats left out: they are decided with their first.

    keys (B, M), documents (B, M) and where each piece begins in each band, ptr (B, P + 1).
    """
    assert work.minhash is not None
    run = work.run
    bands, rows = band_shape(work.minhash.threshold, work.minhash.num_perm)
    fresh = np.ones(run.last - run.first, np.bool_)
    repeats = repeats_of(workspace, run.first, run.last, pieces=work.pieces)[:, 0] - run.first
    if any(unit.folder for unit in run.units):  # of two earlier runs each may have kept the same text
        kept = np.concatenate([kept_mask(workspace, unit) for unit in run.units])
        repeats = repeats[~kept[repeats]]
    fresh[repeats] = False
    documents = np.flatnonzero(fresh)
    signatures = [open_array(workspace.path(unit.signatures), dtype="<u4") for unit in run.units]
    folder = workspace.create(keys_key(run.number))
    pointers = []
    with (
        array_writer(folder / "keys.npy", dtype="<u8", shape=documents.shape) as append_keys,
        array_writer(folder / "documents.npy", dtype="<u4", shape=documents.shape) as append_documents,
    ):
        for band in range(bands):
            lanes = slice(band * rows, (band + 1) * rows)
            keys = np.concatenate([_band_keys(part[lanes]) for part in signatures])[documents]
            order, ptr = _by_piece(keys, work.pieces)
            append_keys(keys[order][None])
            append_documents(documents[order].astype("<u4")[None])
            pointers.append(ptr)
    write_array(folder / "ptr.npy", np.stack(pointers))
    return UnitRecord()


def find_candidates(workspace: Workspace, piece: Piece) -> CandidatesRecord:
    """Find the candidates of one band among the documents whose key lies in one piece."""
    assert piece.minhash is not None

    def ranges() -> Iterator[tuple[Path, int, int, int]]:
        """Yield the folder of each run, the number of its first document, and its range of keys."""
        for run, first in enumerate(piece.firsts):
            folder = workspace.path(keys_key(run))
            low, high = _open(folder / "ptr.npy")[piece.band, piece.number : piece.number + 2]
            yield folder, first, int(low), int(high)

    def blocks() -> Iterator[KeyBlock]:
        for folder, first, low, high in ranges():
            keys, documents = _open(folder / "keys.npy"), _open(folder / "documents.npy")
            for start in range(low, high, BLOCK_KEYS):
                block = piece.band, slice(start, min(start + BLOCK_KEYS, high))
                yield keys[block], documents[block] + np.int64(first)

    room = min(MAX_KEYS, sum(high - low for _, _, low, high in ranges()))
    filler = BucketFiller(shared_keys(blocks(), room=room), piece.minhash.max_candidates)
    folder = workspace.create(band_key(piece.band, piece.number))
    members = comparisons = 0
    with array_writer(folder / "members.npy", dtype="<i8", shape=(3,)) as append:
        wanted = []
        for block in filler.place(blocks()):
            own = block[np.searchsorted(block[:, 0], piece.earlier) :]
            append(own)
            members += len(own)
            comparisons += int(own[:, 2].sum())
            if piece.earlier:
                wanted.append(_starts(own))
    write_array(folder / "heads.npy", filler.heads)
    if piece.earlier:
        write_array(folder / "earlier.npy", _compared_earlier(filler.heads, wanted, piece.earlier))
    return CandidatesRecord(members=members, comparisons=comparisons)


def _starts(members: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the slices of heads that members are compared with, each once with its longest: (S, 2)."""
    starts, slices = np.unique(members[:, 1], return_inverse=True)
    counts = np.zeros(len(starts), np.int64)
    np.maximum.at(counts, slices, members[:, 2])
    return np.column_stack([starts, counts])


def _compared_earlier(
    heads: NDArray[np.int64], slices: Sequence[NDArray[np.int64]], earlier: int
) -> NDArray[np.int64]:
    """Return the documents of earlier runs among some slices of heads, ascending: (E,)."""
    places = _starts(np.insert(np.concatenate([np.empty((0, 2), np.int64), *slices]), 0, 0, axis=1))
    ends = np.cumsum(places[:, 1])
    within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - places[:, 1], places[:, 1])
    found = heads[np.repeat(places[:, 0], places[:, 1]) + within]
    return np.unique(found[found < earlier])


def _band_keys(rows: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Return the keys of rows of signatures, which are uint32."""
    return band_keys(cast("NDArray[np.uint32]", rows))


def _by_piece(keys: NDArray[np.uint64], pieces: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of keys by piece, stable, and where each piece begins: (N,), (P + 1,)."""
    if pieces == 1:
        return np.arange(len(keys)), np.array([0, len(keys)])
    piece = piece_of(keys, pieces=pieces)
    counts = np.bincount(piece, minlength=pieces)
    return np.argsort(piece, kind="stable"), np.concatenate([[0], np.cumsum(counts)])


def _in_blocks(
    parts: Iterator[tuple[NDArray[_Value], NDArray[np.int64]]],
) -> Iterator[tuple[NDArray[_Value], NDArray[np.int64]]]:
    """Join small parts and cut large ones, so that blocks hold `BLOCK_KEYS` at the most."""
    held: list[tuple[NDArray[_Value], NDArray[np.int64]]] = []
    size = 0
    for values, documents in parts:
        for start in range(0, len(documents), BLOCK_KEYS):
            block = slice(start, start + BLOCK_KEYS)
            if size + len(documents[block]) > BLOCK_KEYS:
                yield _joined(held)
                held, size = [], 0
            held.append((values[block], documents[block]))
            size += len(documents[block])
    if held:
        yield _joined(held)


def _joined(
    parts: Sequence[tuple[NDArray[_Value], NDArray[np.int64]]],
) -> tuple[NDArray[_Value], NDArray[np.int64]]:
    return (
        np.concatenate([values for values, _ in parts]),
        np.concatenate([documents for _, documents in parts]),
    )


def _open(path: Any) -> Any:
    """Return a committed array, mapped; its dtype is that of the step that wrote it."""
    return open_array(path)
