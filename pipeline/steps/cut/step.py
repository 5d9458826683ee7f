"""Cut: repeated paragraphs, lines and substrings go from the texts of kept documents; one copy stays.

spans     groups of units  -> the spans of each text, cut into partitions of the range of their keys
earlier   groups of units  -> of earlier runs, the spans that this run may have, too, likewise
shared    partitions       -> of strings of bytes alone: which may stand more than once
windows   groups of units  -> the spans of these, cut into partitions likewise
repeats   partitions       -> spans that stand more than once, each with its first place
ranges    groups of units  -> what goes of each text, masks
evidence  once             -> dedup/cuts.parquet

Recount: masks, ranges and evidence of the cuts against the ledger.
"""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow.parquet as pq

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, Phases, Task, Workspace
from pipeline.run_file.fingerprints import SomeSettings
from pipeline.steps.cut.byte_windows import (
    WINDOWS,
    SharedRecord,
    WindowGroup,
    cut_windows,
    window_partitions,
    write_shared,
)
from pipeline.steps.cut.check import ROWS, CutTexts, check_cut_texts
from pipeline.steps.cut.evidence import CUTS, CutEvidence, write_cuts
from pipeline.steps.cut.ranges import EMPTIED, CutGroup, CutsRecord, find_cuts
from pipeline.steps.cut.spans import (
    PARTITION_SPANS,
    FilteredGroups,
    SpanGroup,
    SpanPartition,
    cut_spans,
    earlier_groups,
    span_partitions,
    write_filter,
    write_repeats,
)
from pipeline.steps.cut.table import METHODS, methods_of
from pipeline.steps.dedup.step import text_need
from pipeline.steps.dedup.unit_groups import UnitGroup, unit_groups
from pipeline.steps.earlier_runs import behind, earlier_documents, numbered, require_found
from pipeline.steps.records import CheckRecord, read_all
from pipeline.steps.recount import Found, differs, recounted
from pipeline.steps.selection import (
    CUT_NAME,
    SELECTING,
    KeptCounts,
    SelectionRecord,
    cut_units,
    recounts_of_kept,
    selecting_before,
)
from pipeline.steps.step import Amounts, Evidence, Inputs, Job, Records, Result, Scope, Step, Work
from stages.dedup.repeats import MAX_DOCUMENTS
from stages.errors import ConfigError
from stages.findings import Finding
from stages.ledger import Flow, IdSum, Tally

_COUNTED = ["id", "method", "cut_bytes", "emptied"]


def recount_evidence_of_cuts(workspace: Workspace, total: Flow) -> CheckRecord:
    """Count the bytes that the evidence names, by method, against what was cut of all units."""

    def cuts() -> Found:
        found, emptied, last = {method.name: 0 for method in METHODS}, IdSum(), ""
        with pq.ParquetFile(workspace.path(CUTS)) as file:
            for batch in file.iter_batches(columns=_COUNTED, use_threads=False):
                for row in batch.to_pylist():
                    if not row["emptied"]:
                        found[row["method"]] = found.get(row["method"], 0) + row["cut_bytes"]
                    elif row["id"] != last:  # the rows of a document follow each other
                        emptied.add(bytes.fromhex(row["id"]))
                        last = row["id"]
        wanted_gone = total.gone.get(EMPTIED, Tally())
        yield from differs(CUTS, emptied.tally(), wanted_gone, what="emptied documents")
        for name, size in found.items():
            wanted = total.gone.get(name, Tally(bytes=0)).bytes
            if size != wanted:
                message = f"names {size:,} bytes cut as {name}, not {wanted or 0:,} as the ledger has it"
                yield CUTS, Finding("ledger", message)

    return recounted((CUTS, cuts))


SPAN_BYTES = 100
"""Of a span while its partition is worked on."""
GROUP_REPEATS = 256 << 20
"""The repeats of a group of units: 16 bytes each, while they are sorted."""
_WORKED = ("spans", "filters", "shared", "repeats", "found")
"""Folders that only tasks of the step read."""
_CUTTING = ("lines", "paragraphs", "substrings")


class CutRecord(SelectionRecord):
    """What is kept after the cuts; what is removed are documents of which too little is left."""

    documents: int
    """That lost something and are kept."""
    cuts: int
    bytes: dict[str, int]
    """That are cut, by method."""


def _settings(scope: Scope) -> Mapping[str, object]:
    settings: dict[str, object] = {
        "dedup": SomeSettings(scope.file.dedup, _CUTTING),
        "ingest": SomeSettings(scope.file.ingest, ("min_chars",)),
    }
    if scope.earlier:  # what they keep, and what their own cuts left of it
        settings["against"] = [run.selected for run in scope.earlier]
    return settings


def _reads(scope: Scope) -> Sequence[str]:
    return (selecting_before(scope.file, CUT_NAME),)


def _need(scope: Scope) -> Need:
    most = max(SPAN_BYTES * PARTITION_SPANS, GROUP_REPEATS + text_need(scope.file))
    return Need(most, "lower ingest.max_document_bytes")


def _warning(scope: Scope) -> str | None:
    whole = [source.name for source in scope.file.sources if source.chat or source.section_columns]
    if not whole:
        return None
    return (
        f"source {', '.join(whole)}: nothing is cut from its documents, because they have sections whose"
        " borders a cut would move"
    )


def _work(job: Job) -> Work[CutRecord]:
    dedup, earlier = job.file.dedup, job.scope.earlier
    require_found(earlier)
    units = behind(cut_units(job), earlier_documents(earlier))
    if units[-1].last > MAX_DOCUMENTS:
        raise ConfigError(
            f"dedup.lines, paragraphs and substrings: {units[-1].last:,} documents, those of earlier"
            f" runs included; a run with cuts has at most {MAX_DOCUMENTS:,}, so make several runs"
        )
    groups, methods = unit_groups(units), [method.name for method in methods_of(dedup)]
    firsts, before = tuple(group.first for group in groups), earlier_groups(earlier)
    partitions = dict.fromkeys(methods, span_partitions(sum(unit.text_bytes for unit in units)))
    tasks = [
        job.task(
            f"spans-{method}-{group.name}",
            cut_spans,
            SpanGroup(group, method, dedup, partitions[method]),
        )
        for method in methods
        for group in groups
    ]
    yield Phase("hash lines and strings", tasks)
    if before:
        yield from _earlier_spans(job, before, len(groups), partitions)
    olds = tuple(group.first for group, _ in before)
    spans = {method: method for method in methods}
    for method in methods_of(dedup):
        if method.sampled:
            partitions[method.name] = yield from _windows(
                job, method.name, groups, before, partitions[method.name]
            )
            spans[method.name] = WINDOWS
    tasks = [
        job.task(
            f"repeats-{method}-{partition:05d}",
            write_repeats,
            SpanPartition(firsts, method, dedup, partition, spans[method], olds),
        )
        for method in methods
        for partition in range(partitions[method])
    ]
    yield Phase("find repeated text", tasks)
    found = yield Phase("cut repeated text", [_ranges(job, group, partitions) for group in groups])
    task = job.task("evidence", write_cuts, CutEvidence(units, len(groups), earlier))
    yield Phase("list what was cut", [task])
    parts, counts = list(read_all(found, CutsRecord).values()), KeptCounts(units)
    counts.include(parts)
    flows = counts.flows.values()
    record = CutRecord(
        kept=sum(flow.output.documents for flow in flows),
        removed={EMPTIED: sum(flow.gone[EMPTIED].documents for flow in flows)},
        languages=counts.languages,
        documents=sum(part.documents for part in parts),
        cuts=sum(part.cuts for part in parts),
        bytes={name: sum(flow.gone[name].bytes or 0 for flow in flows) for name in methods},
    )
    return Result(record, counts.flows)


def _earlier_spans(
    job: Job, earlier: Sequence[tuple[UnitGroup, bool]], groups: int, partitions: Mapping[str, int]
) -> Phases[None]:
    """Find the spans that earlier documents may have in common with this run."""
    tasks = [
        job.task(f"filter-{method}", write_filter, FilteredGroups(groups, method))
        for method in partitions
    ]
    yield Phase("prepare the search of earlier documents", tasks)
    tasks = [
        job.task(
            f"earlier-{method}-{group.name}",
            cut_spans,
            SpanGroup(group, method, job.file.dedup, count, earlier=True, emptied=emptied),
        )
        for method, count in partitions.items()
        for group, emptied in earlier
    ]
    yield Phase("search earlier documents", tasks)


def _windows(
    job: Job,
    method: str,
    groups: Sequence[UnitGroup],
    earlier: Sequence[tuple[UnitGroup, bool]],
    partitions: int,
) -> Phases[int]:
    """Hash the windows of bytes that may stand more than once; return their partitions."""
    dedup, firsts = job.file.dedup, tuple(group.first for group in groups)
    olds = tuple(group.first for group, _ in earlier)
    tasks = [
        job.task(
            f"shared-{partition:05d}",
            write_shared,
            SpanPartition(firsts, method, dedup, partition, method, olds),
        )
        for partition in range(partitions)
    ]
    found = yield Phase("find strings that may be repeated", tasks)
    count = window_partitions(sum(one.windows for one in read_all(found, SharedRecord).values()))
    tasks = [
        job.task(f"windows-{group.name}", cut_windows, WindowGroup(group, dedup, partitions, count))
        for group in groups
    ]
    tasks += [
        job.task(
            f"windows-earlier-{group.name}",
            cut_windows,
            WindowGroup(group, dedup, partitions, count, earlier=True),
        )
        for group, _ in earlier
    ]
    yield Phase("hash strings that may be repeated", tasks)
    return count


def _ranges(job: Job, group: UnitGroup, partitions: Mapping[str, int]) -> Task:
    work = CutGroup(group, job.file.dedup, job.file.ingest, partitions)
    return job.task(f"ranges-{group.name}", find_cuts, work)


def _amounts(record: CutRecord, _: Records) -> Amounts:
    received = None if record.ledger is None else record.ledger.input
    return Amounts() if received is None else Amounts(received.documents, received.bytes)


def _evidence(evidence: Evidence) -> Iterator[Task]:
    yield from recounts_of_kept(evidence)
    total = evidence.records.of(CUT).ledger
    if total is not None:
        yield Task(evidence.name, "recount-cuts", recount_evidence_of_cuts, total, "")
    if any(not run.units for run in evidence.scope.earlier):  # their texts are not there
        return
    earlier = tuple(numbered(evidence.scope.earlier))
    units = behind(evidence.units, earlier_documents(evidence.scope.earlier))
    groups = unit_groups(units)
    for number in range(len(groups)):
        texts = CutTexts(number, (*earlier, *units), evidence.scope.file.dedup, ROWS // len(groups))
        yield Task(evidence.name, f"texts-{number:05d}", check_cut_texts, texts, "")


CUT = Step(
    name=CUT_NAME,
    version=1,
    said="cut repeated text",
    record=CutRecord,
    applies=lambda scope: scope.file.dedup.cuts,
    reads=_reads,
    settings=_settings,
    warning=_warning,
    need=_need,
    work=_work,
    amounts=_amounts,
    takes=Inputs(SELECTING[: SELECTING.index(CUT_NAME)]),
    evidence=_evidence,
    folders=(CUT_NAME, "dedup"),
    earlier=("ingest", *SELECTING),
    whole=(write_cuts,),
    passing=("spans-", "filter-", "earlier-", "shared-", "windows-", "repeats-"),
    unread=(*(f"cut/{name}/" for name in _WORKED), "dedup/cuts.parquet"),
)
