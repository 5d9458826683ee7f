"""Containment: the method that finds documents inside of others."""

from pipeline.engine.phase import Phase, Phases
from pipeline.steps.dedup.contained import (
    EDGES,
    FOLDER,
    ContainedPiece,
    ContainedRun,
    count_shared,
    find_containing,
    hash_contained,
    key_pieces,
    verify_contained,
    winnow_run,
)
from pipeline.steps.dedup.edges import SIMILARITIES, FoundEdges
from pipeline.steps.dedup.hashing import INDEX
from pipeline.steps.dedup.method import Corpus, Method
from pipeline.steps.dedup.pairs import PairsRecord
from pipeline.steps.records import read_all
from pipeline.steps.step import Job, RowsOf

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
