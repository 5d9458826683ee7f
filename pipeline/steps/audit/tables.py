"""Audit, on workers: the evidence of the ledger, counted again from the tables.

    unit     documents, drops, keep mask and stored documents against the flows of the unit
    shard    the documents of a shard against its flow
    dedup    removals and clusters, and what is held out, against what their steps counted

Findings, never exceptions: a damaged file is what it looks for.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.steps.dedup.resolve import EXACT, NEAR
from pipeline.steps.findings import result_of
from pipeline.steps.split.choice import VALIDATION
from pipeline.steps.units import Unit, fixed_bytes, from_hex, kept_mask, tally_of_texts
from pipeline.tasks import Workspace
from stages.errors import FormatError, is_of_the_system
from stages.findings import Finding
from stages.identity import ID_BYTES, document_id
from stages.ledger import Flow, IdSum, Tally, tally_of

_Found = Iterator[tuple[str, Finding]]


@dataclass(frozen=True)
class UnitAudit:
    """One unit of ingest, and what went through it."""

    unit: Unit
    flows: Mapping[str, Flow]
    """By step, of those that are done: ingest, dedup, tokenize."""


@dataclass(frozen=True)
class ShardAudit:
    """One shard of one dataset."""

    folder: str
    flow: Flow


@dataclass(frozen=True)
class RunAudit:
    """What the run as a whole has counted."""

    removed: Flow | None
    """The flow of dedup, all units together."""
    clusters: Flow | None
    """The documents that have a duplicate: kept, and removed."""
    held_out: Tally | None
    """The clusters of the validation split."""


def audit_unit(workspace: Workspace, work: UnitAudit) -> dict[str, Any]:
    """Count the tables of a unit again."""
    unit, flows = work.unit, work.flows
    found: list[tuple[str, Finding]] = []
    if "ingest" in flows:
        found += _read(unit.table, lambda: _documents(workspace, unit, flows["ingest"]))
        drops = f"ingest/{unit.name}/drops.parquet"
        found += _read(drops, lambda: _drops(workspace, drops, flows["ingest"]))
    if "dedup" in flows:
        found += _read(unit.keep, lambda: _kept(workspace, unit, flows["dedup"]))
    if "tokenize" in flows:
        stored = f"{unit.tokens}/documents.parquet"
        found += _read(stored, lambda: _stored(workspace, stored, flows["tokenize"]))
    return result_of(found)


def audit_shard(workspace: Workspace, work: ShardAudit) -> dict[str, Any]:
    """Count the documents of a shard again."""
    key = f"{work.folder}/documents.parquet"

    def counted() -> _Found:
        table = pq.read_table(workspace.path(key), columns=["id"])
        tally = tally_of(from_hex(table.column("id")))
        yield from _differs(key, tally, work.flow.output)

    return result_of(list(_read(key, counted)))


def audit_run(workspace: Workspace, work: RunAudit) -> dict[str, Any]:
    """Count the tables of the whole run again: removals, clusters, and what is held out."""
    found: list[tuple[str, Finding]] = []
    if work.removed is not None:
        methods = {reason: work.removed.gone.get(reason, Tally()) for reason in (EXACT, NEAR)}
        found += _by_value(workspace, "dedup/removed.parquet", "method", methods)
    if work.clusters is not None:
        wanted = {True: work.clusters.output, False: work.clusters.gone["removed"]}
        found += _by_value(workspace, "dedup/clusters.parquet", "kept", wanted)
    if work.held_out is not None:
        held_out = work.held_out
        found += _read(VALIDATION, lambda: _validation(workspace, held_out))
    return result_of(found)


def _read(key: str, look: Callable[[], _Found]) -> _Found:
    """Yield what a look at a table finds, or that the table cannot be read."""
    try:
        yield from list(look())
    except (FormatError, OSError, pa.ArrowException, KeyError, ValueError) as error:
        if is_of_the_system(error):  # which says nothing of the file
            raise
        yield key, Finding("readable", str(error).splitlines()[0])


def _differs(key: str, found: Tally, wanted: Tally, *, what: str = "") -> _Found:
    differences = found.differences(wanted)
    if differences:
        rows = f" of {what}" if what else ""
        yield key, Finding("ledger", f"holds {', '.join(differences)}{rows} as the ledger has it")


def _documents(workspace: Workspace, unit: Unit, flow: Flow) -> _Found:
    table = pq.read_table(workspace.path(unit.table), columns=["id", "text_bytes"])
    yield from _differs(unit.table, tally_of_texts(table), flow.output)


def _drops(workspace: Workspace, key: str, flow: Flow) -> _Found:
    """The records that a unit dropped, by reason: each named by where it stands."""
    sums = {reason: IdSum() for reason in flow.gone}
    with pq.ParquetFile(workspace.path(key)) as file:
        for batch in file.iter_batches(columns=["source", "path", "position", "reason"]):
            for row in batch.to_pylist():
                identity = document_id(row["source"], row["path"], row["position"])
                sums.setdefault(row["reason"], IdSum()).add(identity)
    for reason, total in sums.items():
        yield from _differs(key, total.tally(), flow.gone.get(reason, Tally()), what=reason)


def _kept(workspace: Workspace, unit: Unit, flow: Flow) -> _Found:
    """The documents that the keep mask of a unit lets through."""
    table = pq.read_table(workspace.path(unit.table), columns=["id", "text_bytes"])
    mask = kept_mask(workspace, unit)
    if len(mask) != table.num_rows:
        held = f"{len(mask):,} marks for {table.num_rows:,} documents"
        yield unit.keep, Finding("ledger", held)
        return
    yield from _differs(unit.keep, tally_of_texts(table.filter(pa.array(mask))), flow.output)


def _stored(workspace: Workspace, key: str, flow: Flow) -> _Found:
    table = pq.read_table(workspace.path(key), columns=["id", "tokens"])
    tokens = int(table.column("tokens").to_numpy().sum())
    tally = tally_of(fixed_bytes(table.column("id"), ID_BYTES), tokens=tokens)
    yield from _differs(key, tally, flow.output)


def _by_value(workspace: Workspace, key: str, column: str, wanted: Mapping[Any, Tally]) -> _Found:
    """The documents of a table of evidence, by the value of a column."""

    def counted() -> _Found:
        sums = {value: Tally() for value in wanted}
        with pq.ParquetFile(workspace.path(key)) as file:
            for batch in file.iter_batches(columns=["id", column]):
                values = np.array(batch.column(column).to_pylist(), object)
                for value in set(values.tolist()):
                    ids = pa.chunked_array([batch.column("id").filter(pa.array(values == value))])
                    sums[value] = sums.get(value, Tally()) + tally_of(from_hex(ids))
        for value, tally in sums.items():
            what = f"{column} = {value}"
            yield from _differs(key, tally, wanted.get(value, Tally()), what=what)

    yield from _read(key, counted)


def _validation(workspace: Workspace, held_out: Tally) -> _Found:
    table = pq.read_table(workspace.path(VALIDATION))
    size, tokens = (int(table.column(name).to_numpy().sum()) for name in ("text_bytes", "tokens"))
    tally = tally_of(fixed_bytes(table.column("cluster"), ID_BYTES), bytes=size, tokens=tokens)
    yield from _differs(VALIDATION, tally, held_out)
