"""Containment: the method that finds documents inside of others.

Contained: documents that stand inside better-ranked ones.

    winnow      runs of units     -> the selected hashes of each document, cut into pieces
    buckets     pieces            -> candidates, without writing out a pair
    candidates  runs of units     -> pairs that share enough of the worse one's selected hashes
    shingles    runs of units     -> the shingles of each document of such a pair
    verify      runs of units     -> pairs verified by exact containment

The number of pieces follows from the bytes of all texts.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Function, Phase, Phases, Workspace
from pipeline.steps.dedup.edges import (
    BATCH_PAIRS,
    SIMILARITIES,
    FoundEdges,
    expanded,
)
from pipeline.steps.dedup.equal import WITHIN, compared_documents
from pipeline.steps.dedup.hashing import (
    INDEX,
    HashingRecord,
    PairsRecord,
    Rows,
    Verified,
    shingles_key,
    texts_at,
    write_hashed,
    write_verified,
)
from pipeline.steps.dedup.method import Corpus, Method, PieceWork, RunWork, own_runs
from pipeline.steps.dedup.pieces import CandidatesRecord, KeysOfRun, fill_buckets
from pipeline.steps.dedup.runs import UnitRun, by_piece
from pipeline.steps.records import UnitRecord, read_all
from pipeline.steps.step import Job, RowsOf
from stages.columns import utf8_of
from stages.dedup.compared import compared_winnowed
from stages.dedup.containment import (
    ContainmentConfig,
    containments,
    least_shared_of,
)
from stages.dedup.keys import salted
from stages.dedup.lsh import num_pieces
from stages.store.arrays import array_writer, open_array, write_array

FOLDER = "dedup/contained"
SHINGLES = f"{FOLDER}/shingles"
EDGES = f"{FOLDER}/edges"
_BYTES_OF_KEY = 12
"""Of text to a selected hash, at the least: English words take 6 bytes, and 5 of them give 2."""


def key_pieces(corpus: Corpus) -> int:
    """Return the number of ranges that selected hashes are cut into, each with some number of them."""
    return num_pieces(corpus.text_bytes // _BYTES_OF_KEY, keys=corpus.keys)


def _config(corpus: Corpus) -> ContainmentConfig:
    config = corpus.settings.containment
    assert config is not None, "it applies"
    return config


def winnow_run(workspace: Workspace, work: RunWork) -> UnitRecord:
    """Write a run's selected hashes by piece: keys (S,), documents (S,), ptr (P + 1,); their counts."""
    run, corpus = work.run, work.corpus
    documents = compared_documents(workspace, work)
    counts = np.zeros(run.last - run.first, "<u4")
    keys, owners = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
    for unit in run.units:
        low, high = np.searchsorted(documents + run.first, (unit.first, unit.last))
        place = low
        for column in texts_at(workspace, unit, documents[low:high] + run.first):
            data, offsets = utf8_of(column)
            for text in range(len(offsets) - 1):
                part = data[offsets[text] : offsets[text + 1]]
                own = compared_winnowed(part, corpus.settings.minhash)
                within = corpus.rules.get(unit.source) == WITHIN
                keys.append(salted(own, unit.source) if within else own)
                counts[documents[place]] = len(own)
                owners.append(np.full(len(own), documents[place], np.uint32))
                place += 1
    joined, numbers = np.concatenate(keys), np.concatenate(owners)
    order, ptr = by_piece(joined, key_pieces(corpus))
    folder = workspace.create(f"{FOLDER}/keys/{run.name}")
    write_array(folder / "keys.npy", joined[order])
    write_array(folder / "documents.npy", numbers[order])
    write_array(folder / "ptr.npy", ptr)
    write_array(folder / "counts.npy", counts)
    return UnitRecord()


def piece_key(piece: int) -> str:
    """Return the folder of a piece's candidates."""
    return f"{FOLDER}/pieces/{piece:05d}"


def find_containing(workspace: Workspace, piece: PieceWork) -> CandidatesRecord:
    """Find the documents that share selected hashes of one piece."""
    parts: list[KeysOfRun] = []
    for run, first in enumerate(piece.corpus.firsts):
        folder = workspace.path(f"{FOLDER}/keys/{run:05d}")
        low, high = _open(folder / "ptr.npy")[piece.number : piece.number + 2].tolist()
        keys, documents = _open(folder / "keys.npy"), _open(folder / "documents.npy")
        parts.append((first, keys[low:high], documents[low:high]))
    most = _config(piece.corpus).max_candidates
    return fill_buckets(workspace, piece, piece_key(piece.number), parts, max_candidates=most)


def _candidates_key(run: int) -> str:
    return f"{FOLDER}/candidates/{run:05d}"


def count_shared(workspace: Workspace, work: RunWork) -> UnitRecord:
    """Write the pairs that share enough selected hashes, (P,), and all their documents, once each."""
    run, code, threshold = work.run, work.code, _config(work.corpus).threshold
    counts = _open(workspace.path(f"{FOLDER}/keys/{run.name}") / "counts.npy")
    pieces = [piece_key(number) for number in range(key_pieces(work.corpus))]
    folder = workspace.create(_candidates_key(run.number))
    partners = np.empty(0, np.int64)

    def enough(parts: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
        """Return the pairs that stand often enough, ascending."""
        found, shared = _counted(parts)
        selected = counts[code.worse(found) - run.first]
        return found[shared >= least_shared_of(selected, threshold)]

    with array_writer(folder / "pairs.npy", dtype="<u8") as append:
        for pairs in expanded(workspace, pieces, run.first, run.last, code=code, merge=enough):
            append(pairs)
            both = np.concatenate([code.better(pairs), code.worse(pairs)])
            partners = np.unique(np.concatenate([partners, both]))
    write_array(folder / "partners.npy", partners)
    return UnitRecord()


def _counted(
    parts: Iterable[NDArray[np.uint64]],
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the distinct numbers of some arrays, ascending, and how often each stands there."""
    found, counts = np.empty(0, np.uint64), np.empty(0, np.int64)
    for part in parts:
        own, times = np.unique(part, return_counts=True)
        if not len(found):
            found, counts = own, times
            continue
        found, place = np.unique(np.concatenate([found, own]), return_inverse=True)
        counts = np.bincount(place, np.concatenate([counts, times]), len(found)).astype(np.int64)
    return found, counts


def hash_contained(workspace: Workspace, work: RunWork) -> HashingRecord:
    """Write the sets of shingles of the documents of a run that are in a pair of any run."""
    run, corpus = work.run, work.corpus
    paired = np.zeros(run.last - run.first, np.bool_)
    for other in range(int(np.searchsorted(corpus.firsts, corpus.earlier)), len(corpus.firsts)):
        partners = _open(workspace.path(_candidates_key(other)) / "partners.npy")
        low, high = np.searchsorted(partners, (run.first, run.last))
        paired[partners[low:high] - run.first] = True
    folder = workspace.create(shingles_key(run.number, SHINGLES))
    return write_hashed(workspace, folder, np.flatnonzero(paired), work)


def verify_contained(workspace: Workspace, work: RunWork) -> PairsRecord:
    """Verify the pairs of a run by exact containment of the worse document in the better one."""

    def contained(own: Rows, others: Rows) -> NDArray[np.float64]:
        return containments(own.sets, others.sets, rows=(own.rows, others.rows))

    pairs = _open(workspace.path(_candidates_key(work.run.number)) / "pairs.npy")
    starts = range(0, len(pairs), BATCH_PAIRS)
    batches = (np.sort(pairs[start : start + BATCH_PAIRS]) for start in starts)
    verified = Verified(work, contained, _config(work.corpus).threshold, shingles=SHINGLES)
    return write_verified(workspace, f"{EDGES}/{work.run.name}", verified, batches)


def _open(path: Any) -> Any:
    """Return a committed array, mapped; its dtype is that of the task that wrote it."""
    return open_array(path)


CONTAINED = "containment"
"""`method` in the evidence."""


def _find(job: Job, corpus: Corpus, runs: Sequence[UnitRun]) -> Phases[tuple[FoundEdges, ...]]:
    every = [RunWork(corpus, run) for run in runs]
    own = [RunWork(corpus, run) for run in own_runs(corpus, runs)]
    pieces = [PieceWork(corpus, number) for number in range(key_pieces(corpus))]

    def phase(title: str, name: str, function: Function, works: Sequence[RunWork]) -> Phase:
        return Phase(title, [job.task(f"{name}-{work.run.name}", function, work) for work in works])

    yield phase("select shingles", "winnow", winnow_run, every)
    tasks = [job.task(f"contained-{one.number:05d}", find_containing, one) for one in pieces]
    yield Phase("find contained documents", tasks)
    yield phase("count shared shingles", "shared", count_shared, own)
    yield phase("hash contained documents", "contained-shingles", hash_contained, every)
    verified = yield phase("verify contained documents", "contained-pairs", verify_contained, own)
    compared = sum(pairs.compared for pairs in read_all(verified, PairsRecord).values())
    return (FoundEdges(CONTAINED, EDGES, compared=compared),)


CONTAINMENT = Method(
    applies=lambda file: file.dedup.containment is not None,
    find=_find,
    unread=(f"{FOLDER}/",),
    sampled=(winnow_run, find_containing, count_shared),
    listed={hash_contained: RowsOf(INDEX, axis=1), verify_contained: RowsOf(SIMILARITIES)},
)
