"""Dedup: which documents go, and for which of their duplicates.

Recount: keep masks, removals and clusters against what dedup counted.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, Phases, Task, TaskPlace, Workspace
from pipeline.run_file.config import RunFile
from pipeline.run_file.deduplication import Dedup
from pipeline.run_file.fingerprints import SomeSettings
from pipeline.steps.dedup.clusters import LargeCluster, LargestRecord, LargestWork, describe_largest
from pipeline.steps.dedup.decision import DECIDED_BEFORE, decide_all, write_earlier_sides
from pipeline.steps.dedup.edges import FoundEdges
from pipeline.steps.dedup.limits import (
    Removals,
    SourceRemovals,
    removals_by_source,
    require_limits,
    warnings_of,
)
from pipeline.steps.dedup.members import describe_members
from pipeline.steps.dedup.method import Corpus, corpus_of, is_ranked, rules_of
from pipeline.steps.dedup.ranks import Ranking, RanksRecord, rank_documents, ranked_sources
from pipeline.steps.dedup.removals import join_rows, write_rows
from pipeline.steps.dedup.resolve import Resolution, keep_all, resolve
from pipeline.steps.dedup.sides import HELD_OUT_CLUSTERS, SIDES
from pipeline.steps.dedup.table import METHODS
from pipeline.steps.dedup.unit_groups import PartitionsRecord, UnitGroup, note_partitions
from pipeline.steps.earlier_runs import RANKS_UNIT, behind, earlier_documents, require_found
from pipeline.steps.ingest.files import BATCH_BYTES
from pipeline.steps.ingest.step import BATCH_FACTOR, INGEST, compared_factor
from pipeline.steps.records import CheckRecord
from pipeline.steps.recount import differs_by, recounted
from pipeline.steps.selection import DEDUP_NAME, SelectionRecord, each_unit, recounts_of_kept, streams
from pipeline.steps.step import (
    Amounts,
    Evidence,
    Inputs,
    Job,
    Records,
    Result,
    Scope,
    Step,
    Work,
    always,
)
from pipeline.steps.units import Unit, units_of
from stages.dedup.normalization import unicode_version
from stages.dedup.ranking import KeepColumn
from stages.ledger import Flow

REMOVED = "dedup/removed.parquet"
CLUSTERS = "dedup/clusters.parquet"


@dataclass(frozen=True)
class EvidenceRecount:
    """What dedup counted of all units together."""

    removed: Flow
    clusters: Flow
    """The documents that have a duplicate: kept, and removed."""


def recount_evidence(workspace: Workspace, work: EvidenceRecount) -> CheckRecord:
    """Count removals by method, and the members of clusters, kept and removed."""
    methods = work.removed.gone
    members = {True: work.clusters.output, False: work.clusters.gone["removed"]}
    return recounted(
        (REMOVED, lambda: differs_by(workspace, REMOVED, "method", methods)),
        (CLUSTERS, lambda: differs_by(workspace, CLUSTERS, "kept", members)),
    )


TEXT_FACTOR = 6
"""Of the longest document, where its text is compared, sampled, encoded or decoded: 190 MiB."""
KEY_BYTES = 100
"""Of a key while a partition of a band is worked on."""
PAIRS = 192 << 20
"""The pairs of a batch, and the candidates that they are expanded from."""
SHINGLES = 32 << 20
"""The shingles of some texts, in the arrays that they are sorted with."""
LARGEST_UNIT = "largest"
"""Name of the unit that describes the largest clusters."""
KEEP = "keep-"
"""Begins the names of units of which all is kept."""


class DedupRecord(SelectionRecord):
    """Who stays; what is removed is counted by method."""

    clusters: Flow
    """The documents that have a duplicate: kept, and removed."""
    compared: int
    """Pairs whose similarity was computed."""
    sources: dict[str, SourceRemovals] = Field(default_factory=dict)
    """What is removed of each source."""
    largest: tuple[LargeCluster, ...] = ()
    """The largest clusters, with a few documents of each."""


FEW_DOCUMENTS = 1 << 20
"""Deciding on so few leaves little memory with a worker; an actor of its own would cost more."""


def text_need(file: RunFile) -> int:
    """Return the bytes that a worker takes for a batch of documents with the longest in it."""
    return BATCH_FACTOR * BATCH_BYTES + TEXT_FACTOR * int(file.ingest.max_document_bytes)


_UNDECIDED = {
    *("lines", "paragraphs", "substrings"),
    *("max_removed_fraction", "max_cluster_size"),
    "against",
}
"""Settings that decide what is cut from documents, limits, and where earlier runs lie: all others decide
which documents are kept."""


def _settings(scope: Scope) -> Mapping[str, object]:
    dedup: dict[str, object] = {
        "dedup": SomeSettings(scope.file.dedup, set(Dedup.model_fields) - _UNDECIDED)
    }
    if scope.earlier:  # which runs they are, never where they are
        dedup["against"] = [run.identity for run in scope.earlier]
    if not scope.file.dedup.exact:  # of older runs, equal texts were on both sides
        dedup["equal_texts"] = "on one side of the split"
    if scope.file.dedup.containment is not None and scope.file.dedup.minhash.normalize:
        dedup["unicode"] = unicode_version()
    if scope.file.dedup.semantic is not None:  # of older runs, their numbers
        dedup["semantic_sample"] = "by the ids of documents"
    if rules := rules_of(scope.file):
        dedup["rules"] = rules
    if sources := ranked_sources(scope.file):
        dedup["ranked_sources"] = sources
    return dedup


def _need(scope: Scope) -> Need:
    compared = compared_factor(scope.file) * int(scope.file.ingest.max_document_bytes)
    keys = KEY_BYTES * scope.file.resources.keys_per_partition
    texts = SHINGLES + text_need(scope.file) + compared
    others = max(PAIRS, texts)
    setting = "resources.keys_per_partition" if keys > others else "ingest.max_document_bytes"
    return Need(max(keys, others), f"lower {setting}")


def section_loss(scope: Scope) -> str | None:
    """Say what comparing whole texts costs where sections matter, or None if nothing."""
    found = next((one for one in scope.file.sources if one.section_columns or one.chat), None)
    if found is None or not scope.file.dedup.near:
        return None
    compared, alike, different = "texts, all sections", "records with one long prompt", "targets"
    if found.chat:
        compared, different = "dialogues, all turns", "other turns"
        alike = "dialogues with one long system message"
    return (
        f"source {found.name}: near-duplicates are found on whole {compared} joined: of {alike} the"
        f" first stays alone, whatever their {different}; if all are to stay, set dedup.near = false"
    )


def sides_key(scope: Scope) -> str | None:
    """Return the key of the sides that earlier runs decided; None if there are no such runs."""
    return SIDES if scope.earlier else None


def short_first(scope: Scope) -> str | None:
    """Say what containment misses where a short document may come before what holds it, or None."""
    dedup = scope.file.dedup
    if dedup.containment is None or dedup.keep != "first":
        return None
    return (
        'dedup.containment with keep = "first": a short document that comes before the one that holds it'
        ' stays; set dedup.keep = "longest" to remove it'
    )


def _losses(scope: Scope) -> str | None:
    """Say what all settings together cost."""
    return "; ".join(filter(None, (section_loss(scope), short_first(scope)))) or None


def _overlaps(scope: Scope) -> Sequence[str]:
    return (INGEST.name,) if streams(scope) else ()


def _work(job: Job) -> Work[DedupRecord]:
    kept = streams(job.scope)
    if kept:
        yield each_unit(job, "keep every document", lambda unit: _keep_task(job, unit))
    config, earlier = job.file.dedup, job.scope.earlier
    require_found(earlier)
    own = units_of(job.records.of(INGEST).units)
    units = behind(own, earlier_documents(earlier))
    where = TaskPlace.OWN_ACTOR if units[-1].last > FEW_DOCUMENTS else TaskPlace.WORKERS
    warnings = yield from _rank(job, where)
    corpus, groups = corpus_of(job, units, (yield from _keys_per_partition(job)))
    found = yield from _find(job, corpus, groups)
    alike = not config.exact or bool(corpus.rules)
    whole = Resolution(units, corpus.partitions, found, corpus.ranked, kept, alike, earlier)
    decided = yield from decide_all(job, whole, where)
    flows, total = decided.counts.flows, decided.counts.total
    largest = yield from _describe_largest(
        job, LargestWork(own, decided.marks), deduplicated=config.exact
    )
    removed = {name: tally.documents for name, tally in total.gone.items()}
    removals = Removals(removals_by_source(units, flows), removed, largest)
    require_limits(job.file, removals, job.root)
    return Result(
        DedupRecord(
            warnings=(*warnings, *warnings_of(job.file, removals)),
            sources=dict(removals.sources),
            largest=largest,
            kept=total.output.documents,
            removed=removed,
            languages=decided.counts.languages,
            clusters=decided.clusters,
            compared=sum(one.compared for one in found),
        ),
        flows,
    )


def _keep_task(job: Job, unit: Unit) -> Task:
    name = unit.commit_name
    return job.task(f"{KEEP}{name}", keep_all, unit, after=[(INGEST.name, name)])


def _keys_per_partition(job: Job) -> Phases[int]:
    """Return the keys of a partition: what a run that was stopped began with, or the run file's number.

    Results do not depend on it, but the files of different numbers do not fit together.
    """
    task = job.task("partitions", note_partitions, job.file.resources.keys_per_partition)
    noted = yield Phase("cut into partitions", [task])
    return noted[task.unit].read(PartitionsRecord).keys


def _find(job: Job, corpus: Corpus, groups: Sequence[UnitGroup]) -> Phases[tuple[FoundEdges, ...]]:
    """Find duplicates by every method that the run asks for."""
    found: list[FoundEdges] = []
    for method in METHODS:
        if method.applies(job.file):
            found += yield from method.find(job, corpus, groups)
    return tuple(found)


def _rank(job: Job, where: TaskPlace) -> Phases[tuple[str, ...]]:
    """Rank all documents, unless the first of some duplicates stays; return what to warn of."""
    dedup, units = job.file.dedup, units_of(job.records.of(INGEST).units)
    if not is_ranked(job):
        return ()
    work = Ranking(units, dedup.keep, ranked_sources(job.file), job.scope.earlier)
    task = job.task(RANKS_UNIT, rank_documents, work)
    ranked = yield Phase("rank documents", [task], where)
    last, total = ranked[task.unit].read(RanksRecord).last, units[-1].last
    if not last:
        return ()
    assert isinstance(dedup.keep, KeepColumn)
    warning = (
        f"dedup.keep.column = {dedup.keep.column!r}: {last:,} of {total:,} documents"
        f" ({last / total:.2%}) have no number and no date there; they rank last"
    )
    return (warning,)


def _describe_largest(
    job: Job, work: LargestWork, *, deduplicated: bool
) -> Phases[tuple[LargeCluster, ...]]:
    """Return the largest clusters; none where nothing is removed."""
    if not deduplicated:
        return ()
    task = job.task(LARGEST_UNIT, describe_largest, work)
    found = yield Phase("describe clusters", [task])
    return found[task.unit].read(LargestRecord).clusters


def _amounts(_: DedupRecord, records: Records) -> Amounts:
    units = records.of(INGEST).units
    return Amounts(sum(unit.documents for unit in units), sum(unit.text_bytes for unit in units))


def _evidence(evidence: Evidence) -> Iterator[Task]:
    record = evidence.records.of(DEDUP)
    yield from recounts_of_kept(evidence)
    if record.ledger is not None:
        whole = EvidenceRecount(record.ledger, record.clusters)
        yield Task(evidence.name, "recount-dedup", recount_evidence, whole, "")


DEDUP = Step(
    name=DEDUP_NAME,
    version=4,
    said="remove duplicates",
    record=DedupRecord,
    reads=always((INGEST.name,)),
    settings=_settings,
    warning=_losses,
    need=_need,
    work=_work,
    grows={"keys": KEY_BYTES},
    overlaps=_overlaps,
    amounts=_amounts,
    takes=Inputs((INGEST.name,)),
    evidence=_evidence,
    folders=("dedup",),
    earlier=("ingest", "dedup", "split"),
    whole=(
        *(rank_documents, resolve, describe_members, write_rows, join_rows),
        *(write_earlier_sides, describe_largest),
        *(function for method in METHODS for function in method.whole),
    ),
    sampled=tuple(function for method in METHODS for function in method.sampled),
    listed={function: ending for method in METHODS for function, ending in method.listed.items()},
    rules=(HELD_OUT_CLUSTERS,),
    former=DECIDED_BEFORE,
    unread=(
        *("dedup/decided/", "dedup/names/", "dedup/rows/"),
        *(folder for method in METHODS for folder in method.unread),
    ),
)
