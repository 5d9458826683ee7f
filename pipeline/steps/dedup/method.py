"""Method: one way of finding duplicates, as a value; `pipeline.steps.dedup.table` lists all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pipeline.engine.tasks import Function, Phases
from pipeline.run_file.config import RunFile
from pipeline.run_file.deduplication import Dedup, SourceRule
from pipeline.steps.dedup.edges import FoundEdges, PairCode, pair_code
from pipeline.steps.dedup.unit_groups import UnitGroup, unit_groups
from pipeline.steps.earlier_runs import earlier_documents, numbered
from pipeline.steps.step import Job, RowsOf
from pipeline.steps.units import Unit
from stages.dedup.lsh import KEYS_PER_PARTITION, band_shape, num_partitions

TEXT = -1
"""The number of texts among what is compared; fields are numbered from 0."""


@dataclass(frozen=True)
class Corpus:
    """The documents of a run, as every task of every method sees them."""

    firsts: tuple[int, ...]
    """The number of the first document of each group of units."""
    documents: int
    """Of this run and of earlier ones."""
    partitions: int
    """That the range of digests or keys of one for each document is cut into."""
    settings: Dedup = field(default_factory=Dedup)
    keys: int = KEYS_PER_PARTITION
    """In each partition, at the most, on average."""
    text_bytes: int = 0
    """Of all documents."""
    ranked: bool = False
    """Whether ranks are an array, and not the numbers of documents."""
    earlier: int = 0
    """Documents of earlier runs: they are numbered first, outrank all others, and two of them are never
    compared again."""
    rules: Mapping[str, SourceRule] = field(default_factory=dict)
    """Of sources that are not deduplicated with all others."""

    @property
    def shape(self) -> tuple[int, int]:
        """Bands of signatures, and lanes of each."""
        return band_shape(self.settings.minhash.threshold, self.settings.minhash.num_perm)


@dataclass(frozen=True)
class GroupWork:
    """A group of units that a task works on."""

    corpus: Corpus
    group: UnitGroup
    part: int = TEXT
    """The number of a field, where fields are compared."""

    @property
    def code(self) -> PairCode:
        """How pairs are written whose worse document is of the group."""
        return pair_code(self.group.first, self.group.last, documents=self.corpus.documents)


@dataclass(frozen=True)
class PartitionWork:
    """A partition of the range of digests or keys that a task works on."""

    corpus: Corpus
    number: int
    part: int = TEXT
    """The number of a band, or of a field."""


@dataclass(frozen=True)
class Method:
    """One way of finding duplicates."""

    applies: Callable[[RunFile], bool]
    find: Callable[[Job, Corpus, Sequence[UnitGroup]], Phases[tuple[FoundEdges, ...]]]
    """Finds them in groups of units; may rely on what the methods before it have written."""
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


def corpus_of(job: Job, units: tuple[Unit, ...], keys: int) -> tuple[Corpus, list[UnitGroup]]:
    """Return the documents of a run, behind those of earlier runs, in partitions of so many keys."""
    every = (*numbered(job.scope.earlier), *units)
    groups, documents = unit_groups(every), units[-1].last
    corpus = Corpus(
        firsts=tuple(group.first for group in groups),
        documents=documents,
        partitions=num_partitions(documents, keys=keys),
        settings=job.file.dedup,
        keys=keys,
        text_bytes=sum(unit.text_bytes for unit in every),
        ranked=is_ranked(job),
        earlier=earlier_documents(job.scope.earlier),
        rules=rules_of(job.file),
    )
    return corpus, groups


def own_groups(corpus: Corpus, groups: Sequence[UnitGroup]) -> list[UnitGroup]:
    """Return the groups of units of this run: an earlier document is never the worse one of a pair."""
    return [group for group in groups if group.first >= corpus.earlier]


def is_ranked(job: Job) -> bool:
    """Say whether ranks are an array, and not the numbers of documents, here or in an earlier run."""
    return job.file.dedup.ranked or any(run.ranked for run in job.scope.earlier)
