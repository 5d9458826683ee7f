"""Containment: the method that finds documents inside of others.

Contained: documents that stand inside better-ranked ones.

    winnow      runs of units     -> the selected hashes of each document, cut into pieces
    buckets     pieces            -> candidates, without writing out a pair
    candidates  runs of units     -> pairs that share enough of the worse one's selected hashes
    shingles    runs of units     -> the shingles of each document of such a pair
    verify      runs of units     -> pairs verified by exact containment

The number of pieces follows from the bytes of all texts.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Phase, Phases, Workspace
from pipeline.run_file.deduplication import SourceRule
from pipeline.steps.dedup.edges import (
    BATCH_PAIRS,
    PLAIN,
    SIMILARITIES,
    EdgeWriter,
    FoundEdges,
    PairCode,
    expanded,
    ranks_of,
)
from pipeline.steps.dedup.equal import WITHIN, compared_documents
from pipeline.steps.dedup.hashing import (
    INDEX,
    OPEN_RUNS,
    CandidateRun,
    HashedDocuments,
    HashingRecord,
    PairsRecord,
    open_hashed,
    shingles_key,
    texts_at,
    write_hashed,
)
from pipeline.steps.dedup.method import Corpus, Method
from pipeline.steps.dedup.pieces import Buckets, CandidatesRecord, write_buckets
from pipeline.steps.dedup.runs import BLOCK_KEYS, UnitRun, by_piece
from pipeline.steps.records import UnitRecord, read_all
from pipeline.steps.step import Job, RowsOf
from stages.columns import utf8_of
from stages.dedup.buckets import KeyBlock, shared_keys
from stages.dedup.compared import compared_winnowed
from stages.dedup.containment import (
    ContainmentConfig,
    containments,
    least_shared_of,
)
from stages.dedup.keys import salted
from stages.dedup.lsh import MinHashConfig, num_pieces
from stages.store.arrays import array_writer, open_array, write_array

FOLDER = "dedup/contained"
SHINGLES = f"{FOLDER}/shingles"
EDGES = f"{FOLDER}/edges"
_BYTES_OF_KEY = 12
"""Of text to a selected hash, at the least: English words take 6 bytes, and 5 of them give 2."""


@dataclass(frozen=True)
class ContainedRun:
    """A run of units whose documents may be inside of others."""

    run: UnitRun
    firsts: tuple[int, ...]
    pieces: int
    """Of digests."""
    key_pieces: int
    """Of selected hashes."""
    shingles: MinHashConfig
    """Says what a shingle is."""
    config: ContainmentConfig
    ranked: bool = False
    rules: Mapping[str, SourceRule] = field(default_factory=dict)
    earlier: int = 0
    """Documents of earlier runs: numbered first."""
    code: PairCode = PLAIN
    """Of its pairs."""


@dataclass(frozen=True)
class ContainedPiece:
    """A range of selected hashes."""

    firsts: tuple[int, ...]
    number: int
    config: ContainmentConfig
    ranked: bool = False
    earlier: int = 0


def key_pieces(text_bytes: int, *, keys: int) -> int:
    """Return the number of ranges that selected hashes are cut into, each with some number of them."""
    return num_pieces(text_bytes // _BYTES_OF_KEY, keys=keys)


def winnow_run(workspace: Workspace, work: ContainedRun) -> UnitRecord:
    """Write a run's selected hashes by piece: keys (S,), documents (S,), ptr (P + 1,); their counts."""
    run = work.run
    documents = compared_documents(workspace, run, pieces=work.pieces, rules=work.rules)
    counts = np.zeros(run.last - run.first, "<u4")
    keys, owners = [np.empty(0, np.uint64)], [np.empty(0, np.uint32)]
    for unit in run.units:
        low, high = np.searchsorted(documents + run.first, (unit.first, unit.last))
        place = low
        for column in texts_at(workspace, unit, documents[low:high] + run.first):
            data, offsets = utf8_of(column)
            for text in range(len(offsets) - 1):
                part = data[offsets[text] : offsets[text + 1]]
                own = compared_winnowed(part, work.shingles)
                keys.append(salted(own, unit.source) if work.rules.get(unit.source) == WITHIN else own)
                counts[documents[place]] = len(own)
                owners.append(np.full(len(own), documents[place], np.uint32))
                place += 1
    joined, numbers = np.concatenate(keys), np.concatenate(owners)
    order, ptr = by_piece(joined, work.key_pieces)
    folder = workspace.create(f"{FOLDER}/keys/{run.name}")
    write_array(folder / "keys.npy", joined[order])
    write_array(folder / "documents.npy", numbers[order])
    write_array(folder / "ptr.npy", ptr)
    write_array(folder / "counts.npy", counts)
    return UnitRecord()


def piece_key(piece: int) -> str:
    """Return the folder of a piece's candidates."""
    return f"{FOLDER}/pieces/{piece:05d}"


def find_containing(workspace: Workspace, piece: ContainedPiece) -> CandidatesRecord:
    """Find the documents that share selected hashes of one piece."""

    def blocks() -> Iterator[KeyBlock]:
        for run, first in enumerate(piece.firsts):
            folder = workspace.path(f"{FOLDER}/keys/{run:05d}")
            low, high = _open(folder / "ptr.npy")[piece.number : piece.number + 2].tolist()
            keys, documents = _open(folder / "keys.npy"), _open(folder / "documents.npy")
            for start in range(low, high, BLOCK_KEYS):
                block = slice(start, min(start + BLOCK_KEYS, high))
                yield keys[block], documents[block] + np.int64(first)

    buckets = Buckets(shared_keys(blocks()), piece.config.max_candidates, piece.earlier)
    folder = workspace.create(piece_key(piece.number))
    return write_buckets(folder, buckets, blocks, ranks_of(workspace, piece.ranked))


def _candidates_key(run: int) -> str:
    return f"{FOLDER}/candidates/{run:05d}"


def count_shared(workspace: Workspace, work: ContainedRun) -> UnitRecord:
    """Write the pairs that share enough selected hashes, (P,), and all their documents, once each."""
    run = work.run
    counts = _open(workspace.path(f"{FOLDER}/keys/{run.name}") / "counts.npy")
    pieces = [piece_key(number) for number in range(work.key_pieces)]
    folder = workspace.create(_candidates_key(run.number))
    partners = np.empty(0, np.int64)

    def enough(parts: Iterable[NDArray[np.uint64]]) -> NDArray[np.uint64]:
        """Return the pairs that stand often enough, ascending."""
        found, shared = _counted(parts)
        selected = counts[work.code.worse(found) - run.first]
        return found[shared >= least_shared_of(selected, work.config.threshold)]

    with array_writer(folder / "pairs.npy", dtype="<u8") as append:
        for pairs in expanded(workspace, pieces, run.first, run.last, code=work.code, merge=enough):
            append(pairs)
            both = np.concatenate([work.code.better(pairs), work.code.worse(pairs)])
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


def hash_contained(workspace: Workspace, work: ContainedRun) -> HashingRecord:
    """Write the sets of shingles of the documents of a run that are in a pair of any run."""
    run = work.run
    paired = np.zeros(run.last - run.first, np.bool_)
    for other in range(int(np.searchsorted(work.firsts, work.earlier)), len(work.firsts)):
        partners = _open(workspace.path(_candidates_key(other)) / "partners.npy")
        low, high = np.searchsorted(partners, (run.first, run.last))
        paired[partners[low:high] - run.first] = True
    folder = workspace.create(shingles_key(run.number, SHINGLES))
    hashed = CandidateRun(run, work.pieces, work.shingles)
    return write_hashed(workspace, folder, np.flatnonzero(paired), hashed)


def verify_contained(workspace: Workspace, work: ContainedRun) -> PairsRecord:
    """Verify the pairs of a run by exact containment of the worse document in the better one."""
    opened = partial(open_hashed, workspace, work.firsts, folder=SHINGLES)
    hashed = lru_cache(OPEN_RUNS)(opened)
    pairs = _open(workspace.path(_candidates_key(work.run.number)) / "pairs.npy")
    folder = workspace.create(f"{EDGES}/{work.run.name}")
    compared = verified = 0
    with EdgeWriter(folder, work.firsts, ranks=ranks_of(workspace, work.ranked)) as writer:
        for start in range(0, len(pairs), BATCH_PAIRS):
            batch = np.sort(pairs[start : start + BATCH_PAIRS])
            measured = _measure(work, hashed, batch)
            high = np.flatnonzero(measured >= work.config.threshold)
            writer.add(work.code.better(batch[high]), work.code.worse(batch[high]), measured[high])
            compared += len(batch)
            verified += len(high)
    return PairsRecord(compared=compared, verified=verified)


def _measure(
    work: ContainedRun, hashed: Callable[[int], HashedDocuments], pairs: NDArray[np.uint64]
) -> NDArray[np.float64]:
    """Return the containment of each pair; pairs are ascending by their better document."""
    own = hashed(work.run.number)
    better, worse = work.code.better(pairs), own.rows(work.code.worse(pairs))
    found = np.zeros(len(pairs))
    run_of = np.searchsorted(work.firsts, better, side="right") - 1
    for number in np.unique(run_of).tolist():
        low, high = np.searchsorted(run_of, (number, number + 1))
        others = hashed(number)
        rows = worse[low:high], others.rows(better[low:high])
        found[low:high] = containments(own.sets, others.sets, rows=rows)
    return found


def _open(path: Any) -> Any:
    """Return a committed array, mapped; its dtype is that of the task that wrote it."""
    return open_array(path)


CONTAINED = "containment"
"""`method` in the evidence."""


def _find(job: Job, corpus: Corpus) -> Phases[tuple[FoundEdges, ...]]:
    config = job.file.dedup.containment
    assert config is not None, "it applies"
    cut = key_pieces(sum(unit.text_bytes for unit in corpus.units), keys=corpus.keys)
    works = {
        run.name: ContainedRun(
            run,
            corpus.firsts,
            corpus.pieces,
            cut,
            job.file.dedup.minhash,
            config,
            corpus.ranked,
            corpus.rules,
            corpus.earlier,
            corpus.code_of(run),
        )
        for run in corpus.runs
    }
    yield Phase(
        "select shingles", [job.task(f"winnow-{name}", winnow_run, work) for name, work in works.items()]
    )
    pieces = [
        ContainedPiece(corpus.firsts, number, config, corpus.ranked, corpus.earlier)
        for number in range(cut)
    ]
    tasks = [job.task(f"contained-{one.number:05d}", find_containing, one) for one in pieces]
    yield Phase("find contained documents", tasks)
    own = {run.name: works[run.name] for run in corpus.own_runs}
    for title, prefix, function, some in (
        ("count shared shingles", "shared", count_shared, own),
        ("hash contained documents", "contained-shingles", hash_contained, works),
    ):
        yield Phase(title, [job.task(f"{prefix}-{name}", function, one) for name, one in some.items()])
    tasks = [job.task(f"contained-pairs-{name}", verify_contained, one) for name, one in own.items()]
    verified = yield Phase("verify contained documents", tasks)
    compared = sum(pairs.compared for pairs in read_all(verified, PairsRecord).values())
    return (FoundEdges(CONTAINED, EDGES, compared=compared),)


CONTAINMENT = Method(
    applies=lambda file: file.dedup.containment is not None,
    find=_find,
    unread=(f"{FOLDER}/",),
    sampled=(winnow_run, find_containing, count_shared),
    listed={hash_contained: RowsOf(INDEX, axis=1), verify_contained: RowsOf(SIMILARITIES)},
)
