"""Method: one way of finding duplicates, as a value; `pipeline.steps.dedup.methods` lists all."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipeline.engine.phase import Phases
from pipeline.run_file.config import RunFile
from pipeline.run_file.deduplication import SourceRule
from pipeline.steps.dedup.edges import FoundEdges
from pipeline.steps.dedup.runs import UnitRun, unit_runs
from pipeline.steps.step import Job
from pipeline.steps.units import Unit


@dataclass(frozen=True)
class Corpus:
    """The documents of a run, as methods see them."""

    units: tuple[Unit, ...]
    runs: tuple[UnitRun, ...]
    pieces: int
    """That the range of digests or keys of one for each document is cut into."""
    ranked: bool
    """Whether ranks are an array, and not the numbers of documents."""
    rules: Mapping[str, SourceRule]
    """Of sources that are not deduplicated with all others."""

    @property
    def firsts(self) -> tuple[int, ...]:
        """The number of the first document of each run."""
        return tuple(run.first for run in self.runs)


@dataclass(frozen=True)
class Method:
    """One way of finding duplicates."""

    applies: Callable[[RunFile], bool]
    find: Callable[[Job, Corpus], Phases[tuple[FoundEdges, ...]]]
    """Finds them; may rely on what the methods before it have written."""
    unread: tuple[str, ...]
    """Where files of it lie that no later step reads."""


def rules_of(file: RunFile) -> dict[str, SourceRule]:
    """Return the rules of sources that are not deduplicated with all others."""
    return {source.name: source.dedup for source in file.sources if source.dedup is not True}


def corpus_of(file: RunFile, units: tuple[Unit, ...], pieces: int) -> Corpus:
    """Return the documents of a run."""
    runs = tuple(unit_runs(units))
    return Corpus(units, runs, pieces, file.dedup.ranked, rules_of(file))
