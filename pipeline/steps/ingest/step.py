"""Ingest: every file, or bundle of small ones, part by part, as cleaned documents."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pydantic import Field

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Phase, Task
from pipeline.inputs.bundles import BUNDLES, Bundle, bundles_of
from pipeline.inputs.files import fields_of
from pipeline.run_file.config import RunFile
from pipeline.run_file.filters import decisive_filters, filter_warnings
from pipeline.run_file.fingerprints import SomeSettings, fingerprint_of
from pipeline.state.commit_object import Commit
from pipeline.steps.ingest.check import recount_ingested, require_chains, require_whole_files
from pipeline.steps.ingest.columns import SourceColumns, require_learned_roles, unused_roles
from pipeline.steps.ingest.compared_fields import (
    compared_columns,
    libraries_of,
    readers_of,
    templates_of,
    unquoted_of,
)
from pipeline.steps.ingest.dialogues import REFUSED
from pipeline.steps.ingest.files import BATCH_BYTES
from pipeline.steps.ingest.making import least_samples
from pipeline.steps.ingest.part import ingest_part
from pipeline.steps.ingest.reading import InputPart
from pipeline.steps.ingest.record import PartRecord, Sample
from pipeline.steps.ingest.unreadable import UnreadableCounter, check_readable
from pipeline.steps.records import StepRecord, flows_of, read_all
from pipeline.steps.recount import of_units
from pipeline.steps.step import (
    Amounts,
    Evidence,
    Job,
    Records,
    Result,
    Scope,
    Step,
    StepPlan,
    Work,
    always,
)
from pipeline.steps.units import UnitSize
from pipeline.system.printable import show_bytes
from stages.dedup.normalization import unicode_version
from stages.errors import ConfigError, DataError
from stages.filtering.table import filter_of
from stages.reading.decompress import ZSTD_WINDOW
from stages.reading.notices import notice_warnings, said_of_notice

BATCH_FACTOR = 6
"""Of a batch of documents and the row group that it becomes."""
READ_FACTOR = 8
"""Of the longest document: with a batch of 16 MiB one of 32 MiB took 322 MiB, when its row group was
written; until then its text, of which Python may make four bytes a character, takes less."""
CHAT_FACTOR = 8
"""Of the longest dialogue: cleaned, written by its template with contents and with marks, and cut."""
COMPARED_FACTOR = 8
"""Of a document that is normalised before it is signed, or written character by character."""
PAGE_FACTOR = 3
"""Of the pages of a table that are read as a whole: a dictionary of 281 MiB took 762 MiB."""
NAMED = 20
"""Dropped records that are named."""
_SOURCE = (
    "text_column",
    "id_column",
    "language",
    "text_split",
    "section_columns",
    "chat",
    "encoding",
    "delimiter",
    "html_text",
    "keep_columns",
)
"""What of a source decides its documents."""


class IngestRecord(StepRecord):
    """What was read, and the units that later steps work on."""

    read: int
    drops: dict[str, int]
    """By reason."""
    named: tuple[str, ...]
    """The first dropped records, for people."""
    cleaned: int
    """Documents whose text was changed."""
    changes: dict[str, int] = Field(default_factory=dict)
    """What filters changed of the documents that are left, by name."""
    compared: dict[str, int] = Field(default_factory=dict)
    """Documents that have a value to compare or to rank by, by field."""
    noticed: dict[str, dict[str, int]] = Field(default_factory=dict)
    """What is no drop and people should know, by source and name."""
    samples: tuple[Sample, ...] = ()
    """Of what each filter dropped, for people."""
    units: tuple[UnitSize, ...]
    """In canonical order."""


def _settings(scope: Scope) -> Mapping[str, object]:
    file = scope.file
    filters = decisive_filters(file.filters)
    return {
        **({"filters": filters} if filters else {}),
        "ingest": _unit_settings(file),
        "bundles": BUNDLES,
        "signatures": _signatures(file),
        "sources": {source.name: SomeSettings(source, _SOURCE) for source in file.file_sources},
        "files": {f"{item.source}/{item.path}": item.digest for item in scope.inputs},
        "sizes": {f"{item.source}/{item.path}": item.size for item in scope.inputs},
        **({"libraries": libraries} if (libraries := libraries_of(scope.inputs)) else {}),
        **({"readers": readers} if (readers := readers_of(scope.inputs)) else {}),
        **({"without quotes": unquoted} if (unquoted := unquoted_of(file, scope.inputs)) else {}),
        **({"compared": compared} if (compared := _compared(file)) else {}),
        **({"templates": templates} if (templates := templates_of(file)) else {}),
    }


def _unit_settings(file: RunFile) -> SomeSettings:
    """Return what of ingest's config decides its units; the bound on bad records decides none."""
    return SomeSettings(file.ingest, set(type(file.ingest).model_fields) - {"max_bad_fraction"})


def _signatures(file: RunFile) -> object:
    """Return what of dedup's config decides the signatures that ingest writes."""
    if not file.dedup.near:
        return None
    own = SomeSettings(file.dedup.minhash, {"shingle", "size", "num_perm", "normalize"})
    return [own, unicode_version()] if file.dedup.minhash.normalize else own


def compared_factor(file: RunFile) -> int:
    """Return the bytes for each byte of the longest document that what is compared of it takes."""
    compares = file.dedup.near or file.dedup.containment is not None
    return 0 if not compares or file.dedup.minhash.as_they_are else COMPARED_FACTOR


def _compared(file: RunFile) -> list[object]:
    """Return the fields that are compared or ranked by; most runs have none."""
    columns = compared_columns(file.dedup)
    return [] if columns is None else [columns.url, columns.keys, columns.rank]


def _units(scope: Scope, _: Mapping[str, StepPlan]) -> dict[str, str]:
    """Return the fingerprint of each bundle's units, by the bundle's key."""
    file = scope.file
    common = [INGEST.version, BUNDLES, _unit_settings(file), _signatures(file)]
    common += [compared] if (compared := _compared(file)) else []
    templates = templates_of(file)
    by_source = {
        source.name: [
            *common,
            SomeSettings(source, _SOURCE),
            *_filters_of(file, source.name),
            *([templates[source.name]] if source.name in templates else []),
        ]
        for source in file.file_sources
    }
    return {
        bundle.key: fingerprint_of(
            [
                *by_source[bundle.source],
                [[bundle.source, one.path, one.digest] for one in bundle.files],
                *([libraries] if (libraries := libraries_of(bundle.files)) else []),
                *([readers] if (readers := readers_of(bundle.files)) else []),
                *([unquoted] if (unquoted := unquoted_of(file, bundle.files)) else []),
            ]
        )
        for bundle in _bundles(scope)
    }


def _filters_of(file: RunFile, source: str) -> list[Mapping[str, object]]:
    """Return what of a source's filters decides its units; nothing if it has none."""
    filters = decisive_filters(file.filters, source)
    return [filters] if filters else []


def _bundles(scope: Scope) -> list[Bundle]:
    return bundles_of(scope.inputs, int(scope.file.ingest.unit_size))


def _need(scope: Scope) -> Need:
    """Return the need of a worker: a table may have pages that are read as a whole."""
    least = ZSTD_WINDOW + BATCH_FACTOR * BATCH_BYTES
    filters = [filter_of(one) for one in scope.file.filters]
    factor = READ_FACTOR + max((one.memory_factor for one in filters), default=0)
    factor += CHAT_FACTOR * any(source.chat is not None for source in scope.file.sources)
    factor += compared_factor(scope.file)
    need = (
        least + factor * int(scope.file.ingest.max_document_bytes) + sum(one.memory for one in filters)
    )
    largest, path = max(
        ((part.most_bytes, item.path) for item in scope.inputs for part in item.slices or ()),
        default=(0, ""),
    )
    if not largest:
        return Need(need, "lower ingest.max_document_bytes")
    remedy = (
        f"write {path} again in smaller row groups or pages: one takes {show_bytes(largest)} at once"
        " (pyarrow: row_group_size, or write_batch_size=16 with use_dictionary=False)"
    )
    return Need(need + PAGE_FACTOR * largest, remedy, lowered=need)


def _work(job: Job) -> Work[IngestRecord]:
    file, bundles = job.file, _bundles(job.scope)
    by_key = {bundle.key: bundle for bundle in bundles}
    so_far = UnreadableCounter(bundles, file.ingest.max_bad_fraction, file.file_sources, file.filters)

    def follow(task: Task, commit: Commit) -> Task | None:
        record = commit.read(PartRecord)
        so_far.add(task.payload.key, task.payload.number, record)
        return None if record.next is None else _part(job, by_key[task.payload.key], record.next)

    tasks = [
        _part(job, bundle, number)
        for bundle in bundles
        for number in range(1 if bundle.slices is None else len(bundle.slices))
    ]
    commits = yield Phase("read and clean", tasks, follow=follow)
    parts = read_all(commits, PartRecord)
    require_whole_files(job.scope.inputs, parts.values())
    return _ended(job, commits)


def _ended(job: Job, commits: Mapping[str, Commit]) -> Result[IngestRecord]:
    """Return what the units come to, in canonical order."""
    parts = read_all(commits, PartRecord)
    require_chains(parts.values())
    return Result(_summed(job, parts), flows_of(parts))


def _part(job: Job, bundle: Bundle, number: int) -> Task:
    """Return the task of one part of a file or bundle."""
    source = next(source for source in job.file.sources if source.name == bundle.source)
    part = InputPart(
        source=bundle.source,
        files=tuple(replace(file, slices=None) for file in bundle.files),
        label=bundle.label,
        key=bundle.key,
        number=number,
        fields=fields_of(job.file, source),
        ingest=job.file.ingest,
        minhash=job.file.dedup.minhash if job.file.dedup.near else None,
        filters=job.file.filters,
        slice=None if bundle.slices is None else bundle.slices[number],
        text_split=source.text_split,
        encoding=source.encoding,
        compared=compared_columns(job.file.dedup),
    )
    name = part.name.replace("/", ".")
    own = job.plan.units[bundle.key]
    return job.task(name, ingest_part, part, fingerprint=own, chained=bundle.slices is None)


def _summed(job: Job, parts: Mapping[str, PartRecord]) -> IngestRecord:
    """Sum up what was read, and refuse an input of which too much is broken."""
    file = job.file
    columns = SourceColumns(file.file_sources, file.filters)
    drops: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    samples: list[Sample] = []
    noticed: dict[str, Counter[str]] = {}
    for part in parts.values():
        noticed.setdefault(part.source, Counter()).update(part.noticed)
        columns.add(part)
        drops.update(part.drops)
        changes.update(part.changes)
        compared.update(part.compared)
        samples = list(least_samples([*samples, *part.samples]))
    columns.require_any()
    require_learned_roles(file.file_sources, parts.values())
    read = sum(part.read for part in parts.values())
    named = [line for part in parts.values() for line in part.named]
    unreadable = [line for part in parts.values() for line in part.unreadable]
    further = (
        sum(part.further_lines for part in parts.values()),
        sum(part.further_unreadable for part in parts.values()),
    )
    check_readable(read, drops, unreadable, file.ingest.max_bad_fraction, further=further)
    if not sum(part.documents for part in parts.values()):
        if not read and any(noticed.values()):
            raise DataError(
                f"the {len(job.scope.inputs):,} input files hold no document: {_all_noticed(noticed)};"
                " check sources.paths"
            )
        if not read:
            raise DataError(
                f"the {len(job.scope.inputs):,} input files hold no record: they are empty, or hold"
                " white space, an empty list or a header alone; check sources.paths"
            )
        raise DataError(
            f"no document is left of {read:,} records in {len(job.scope.inputs):,} files"
            + (f" ({', '.join(named[:3])})" if named else "")
            + f"; check {_suspect(file, drops)}"
        )
    for column in () if job.scope.earlier else file.dedup.columns:  # earlier runs had some
        if not compared[column]:
            raise ConfigError(
                f"{file.dedup.setting_of(column)} = {column!r}: no document of any source has a usable"
                " value there; correct it, or leave it out, and run again with --replace"
            )
    return IngestRecord(
        warnings=(*columns.warnings(), *notice_warnings(noticed)),
        read=read,
        drops=dict(sorted(drops.items())),
        named=tuple(named[:NAMED]),
        cleaned=sum(part.cleaned for part in parts.values()),
        changes=dict(sorted(changes.items())),
        compared=dict(sorted(compared.items())),
        noticed={source: dict(sorted(one.items())) for source, one in noticed.items() if one},
        samples=tuple(samples),
        units=tuple(size_of(unit, part) for unit, part in parts.items()),
    )


def _all_noticed(noticed: Mapping[str, Counter[str]]) -> str:
    """Return what was noticed, in words: "request records: 3, warcinfo records: 1"."""
    total: Counter[str] = sum(noticed.values(), Counter())
    return ", ".join(f"{said_of_notice(name)}: {number:,}" for name, number in sorted(total.items()))


def size_of(unit: str, part: PartRecord) -> UnitSize:
    """Return what later steps read of a unit."""
    return UnitSize(name=unit.replace(".", "/", 1), **part.model_dump(include=UnitSize.taken()))


def _unit_key(unit: str) -> str | None:
    """Return the key of the file or bundle that a unit is a part of."""
    return unit.replace(".", "/", 1).rpartition("-")[0]


def _suspect(file: RunFile, drops: Counter[str]) -> str:
    """Return the settings because of which most records may have been dropped."""
    if [name for name, _ in drops.most_common(1)] == [REFUSED]:
        return "the template of chat"
    return f"text_column and {'filters' if file.filters else 'ingest.min_chars'}"


def _warning(scope: Scope) -> str | None:
    said = [unused_roles(scope), *filter_warnings(scope.file.filters)]
    return ". ".join(filter(None, said)) or None


def _amounts(record: IngestRecord, _: Records) -> Amounts:
    return Amounts(documents=record.read, bytes=sum(unit.text_bytes for unit in record.units))


def _evidence(evidence: Evidence) -> Iterator[Task]:
    return of_units(evidence, recount_ingested)


INGEST = Step(
    name="ingest",
    version=5,
    said="read and clean",
    record=IngestRecord,
    reads=always(()),
    settings=_settings,
    units=_units,
    unit_key=_unit_key,
    warning=_warning,
    need=_need,
    work=_work,
    amounts=_amounts,
    evidence=_evidence,
    ended=_ended,
    folders=("ingest",),
)
