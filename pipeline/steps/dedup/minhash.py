"""MinHash: near-duplicates by bands of signatures, verified by exact Jaccard similarity."""

import itertools
from collections.abc import Callable, Sequence

from pipeline.engine.phase import Phase, Phases
from pipeline.engine.tasks import Task, Workspace
from pipeline.steps.dedup.edges import SIMILARITIES, FoundEdges
from pipeline.steps.dedup.hashing import INDEX, CandidateRun, hash_candidates
from pipeline.steps.dedup.method import Corpus, Method
from pipeline.steps.dedup.pairs import PAIRS_FOLDER, PairRange, PairsRecord, verify_pairs
from pipeline.steps.dedup.pieces import Piece, RunKeys, cut_keys, find_candidates
from pipeline.steps.dedup.runs import UnitRun
from pipeline.steps.dedup.screening import MarkedKeys, cut_screened_keys, mark_keys
from pipeline.steps.records import UnitRecord, read_all
from pipeline.steps.step import Job, RowsOf
from stages.dedup.lsh import band_shape

NEAR = "minhash"
"""`method` in the evidence."""


def _find(job: Job, corpus: Corpus) -> Phases[tuple[FoundEdges, ...]]:
    """Find near-duplicates."""
    minhash, pieces, runs = job.file.dedup.minhash, corpus.pieces, corpus.runs
    earlier = corpus.earlier
    bands, _ = band_shape(minhash.threshold, minhash.num_perm)
    yield from _cut_keys(job, corpus, bands)
    found = {
        f"band-{band:03d}-{number:05d}": Piece(
            corpus.firsts, number, band, minhash, corpus.ranked, earlier, corpus.keys
        )
        for band, number in itertools.product(range(bands), range(pieces))
    }
    tasks = [job.task(name, find_candidates, work) for name, work in found.items()]
    yield Phase("find near-duplicates", tasks)
    tasks = [
        job.task(f"shingles-{run.name}", hash_candidates, CandidateRun(run, pieces, minhash, earlier))
        for run in runs
    ]
    yield Phase("hash candidates", tasks)
    tasks = [
        job.task(
            f"pairs-{run.name}",
            verify_pairs,
            PairRange(run, corpus.firsts, pieces, minhash, corpus.ranked, corpus.code_of(run)),
        )
        for run in corpus.own_runs
    ]
    verified = yield Phase("verify near-duplicates", tasks)
    compared = sum(pairs.compared for pairs in read_all(verified, PairsRecord).values())
    return (FoundEdges(NEAR, PAIRS_FOLDER, compared=compared),)


def _cut_keys(job: Job, corpus: Corpus, bands: int) -> Phases[None]:
    """Cut band keys into pieces: all of this run's, and of earlier runs those that it has, too."""

    def tasks(runs: Sequence[UnitRun], cut: Callable[[Workspace, RunKeys], UnitRecord]) -> list[Task]:
        of_runs = [RunKeys(run, corpus.pieces, job.file.dedup.minhash, corpus.rules) for run in runs]
        return [job.task(f"keys-{work.run.name}", cut, work) for work in of_runs]

    yield Phase("sort band keys", tasks(corpus.own_runs, cut_keys))
    if corpus.earlier:
        marked = MarkedKeys(tuple(run.number for run in corpus.own_runs), bands)
        yield Phase("mark band keys", [job.task("marks", mark_keys, marked)])
        before = corpus.runs[: -len(corpus.own_runs) or None]
        yield Phase("look up earlier band keys", tasks(before, cut_screened_keys))


MINHASH = Method(
    applies=lambda file: file.dedup.near,
    find=_find,
    unread=("dedup/keys/", "dedup/bands/", "dedup/shingles/", "dedup/pairs/"),
    sampled=(cut_keys, mark_keys, cut_screened_keys, find_candidates),
    listed={hash_candidates: RowsOf(INDEX, axis=1), verify_pairs: RowsOf(SIMILARITIES)},
)
