"""Values: the methods that find equal values, of texts, URLs and keys."""

from pipeline.engine.phase import Phase, Phases
from pipeline.run_file.config import RunFile
from pipeline.steps.dedup.edges import FoundEdges
from pipeline.steps.dedup.equal import (
    TEXT,
    DigestPiece,
    RunDigests,
    cut_digests,
    find_exact,
    repeats_folder,
)
from pipeline.steps.dedup.method import Corpus, Method
from pipeline.steps.earlier import BY_KEY, URL
from pipeline.steps.step import Job, RowsOf

EXACT = "exact"
"""`method` in the evidence."""


def value_names(file: RunFile) -> tuple[str, ...]:
    """Return the methods of the fields that are compared: url, key:doi."""
    keys = [f"{BY_KEY}{name}" for name in file.dedup.keys]
    return (*((URL,) if file.dedup.url is not None else ()), *keys)


def _find_texts(job: Job, corpus: Corpus) -> Phases[tuple[FoundEdges, ...]]:
    yield from _find(job, corpus, TEXT, "digests", "exact", "exact duplicates")
    return (FoundEdges(EXACT, repeats_folder(), equal=True),)


def _find_values(job: Job, corpus: Corpus) -> Phases[tuple[FoundEdges, ...]]:
    found = []
    for value, name in enumerate(value_names(job.file)):
        sort = f"{name} {value}" if value else name
        yield from _find(job, corpus, value, f"value-{value:02d}", f"repeats-{value:02d}", sort)
        found.append(FoundEdges(name, repeats_folder(value), equal=True))
    return tuple(found)


def _find(
    job: Job, corpus: Corpus, value: int, cut_name: str, found_name: str, title: str
) -> Phases[None]:
    runs = [RunDigests(run, corpus.pieces, value, corpus.rules) for run in corpus.runs]
    tasks = [job.task(f"{cut_name}-{one.run.name}", cut_digests, one) for one in runs]
    yield Phase("sort digests", tasks)
    pieces = [DigestPiece(corpus.firsts, n, value, corpus.ranked) for n in range(corpus.pieces)]
    tasks = [job.task(f"{found_name}-{one.number:05d}", find_exact, one) for one in pieces]
    yield Phase(f"find {title}", tasks)


EXACT_TEXTS = Method(
    applies=lambda file: file.dedup.exact,
    find=_find_texts,
    unread=("dedup/digests/", "dedup/exact/"),
    sampled=(cut_digests,),
    listed={find_exact: RowsOf(".npy")},
)
EQUAL_VALUES = Method(
    applies=lambda file: bool(file.dedup.value_columns),
    find=_find_values,
    unread=("dedup/keyed/",),
    sampled=(cut_digests,),
    listed={find_exact: RowsOf(".npy")},
)
