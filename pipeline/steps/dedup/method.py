"""Method: one way of finding duplicates, as a value; `pipeline.steps.dedup.methods` lists all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline.engine.tasks import Function, Phases
from pipeline.run_file.config import RunFile
from pipeline.run_file.deduplication import SourceRule
from pipeline.steps.dedup.edges import FoundEdges, PairCode, pair_code
from pipeline.steps.dedup.runs import UnitRun, unit_runs
from pipeline.steps.earlier import earlier_documents, numbered
from pipeline.steps.step import Job, RowsOf
from pipeline.steps.units import Unit
from stages.dedup.lsh import num_pieces


@dataclass(frozen=True)
class Corpus:
    """The documents of a run, as methods see them."""

    units: tuple[Unit, ...]
    runs: tuple[UnitRun, ...]
    pieces: int
    """That the range of digests or keys of one for each document is cut into."""
    keys: int
    """In each of them, at the most, on average."""
    ranked: bool
    """Whether ranks are an array, and not the numbers of documents."""
    earlier: int
    """Documents of earlier runs: they are numbered first, and outrank all others."""
    rules: Mapping[str, SourceRule]
    """Of sources that are not deduplicated with all others."""

    @property
    def firsts(self) -> tuple[int, ...]:
        """The number of the first document of each run."""
        return tuple(run.first for run in self.runs)

    @property
    def own_runs(self) -> tuple[UnitRun, ...]:
        """The runs of units of this run: an earlier document is never the worse one of a pair."""
        return tuple(run for run in self.runs if run.first >= self.earlier)

    def code_of(self, run: UnitRun) -> PairCode:
        """Return how pairs are written whose worse document is of a run."""
        return pair_code(run.first, run.last, documents=self.units[-1].last)


@dataclass(frozen=True)
class Method:
    """One way of finding duplicates."""

    applies: Callable[[RunFile], bool]
    find: Callable[[Job, Corpus], Phases[tuple[FoundEdges, ...]]]
    """Finds them; may rely on what the methods before it have written."""
    unread: tuple[str, ...]
    """Where files of it lie that no later step reads."""
    sampled: tuple[Function, ...]
    """What its tasks do that checks do again, of some documents."""
    listed: Mapping[Function, RowsOf]
    """Likewise of some rows."""
    whole: tuple[Function, ...] = ()
    """Likewise always."""


def rules_of(file: RunFile) -> dict[str, SourceRule]:
    """Return the rules of sources that are not deduplicated with all others."""
    return {source.name: source.dedup for source in file.sources if source.dedup is not True}


def corpus_of(job: Job, units: tuple[Unit, ...], keys: int) -> Corpus:
    """Return the documents of a run, behind those of earlier runs, in pieces of some number of keys."""
    every = (*numbered(job.scope.earlier), *units)
    runs, earlier = tuple(unit_runs(every)), earlier_documents(job.scope.earlier)
    pieces = num_pieces(units[-1].last, keys=keys)
    return Corpus(every, runs, pieces, keys, is_ranked(job), earlier, rules_of(job.file))


def is_ranked(job: Job) -> bool:
    """Say whether ranks are an array, and not the numbers of documents, here or in an earlier run."""
    return job.file.dedup.ranked or any(run.ranked for run in job.scope.earlier)
