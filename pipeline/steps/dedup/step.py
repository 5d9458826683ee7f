"""Dedup: which documents go, and for which of their duplicates."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

from pipeline.engine.memory import Need
from pipeline.engine.phase import Phase, Phases, Where
from pipeline.engine.tasks import Task
from pipeline.run_file.config import RunFile
from pipeline.run_file.fingerprints import Some
from pipeline.state.ledger import let_out, read_flows, settle
from pipeline.steps.dedup.earlier import SIDES
from pipeline.steps.dedup.hashing import CandidateRun, hash_candidates
from pipeline.steps.dedup.pairs import PairRange, PairsRecord, verify_pairs
from pipeline.steps.dedup.pieces import (
    Piece,
    RunKeys,
    cut_digests,
    cut_keys,
    find_candidates,
    find_exact,
)
from pipeline.steps.dedup.recount import EvidenceRecount, recount_evidence, recount_kept
from pipeline.steps.dedup.resolve import (
    Resolution,
    ResolveRecord,
    keep_all,
    resolve,
)
from pipeline.steps.dedup.runs import unit_runs
from pipeline.steps.earlier import behind, earlier_documents, numbered, require_found
from pipeline.steps.ingest.part import BATCH_BYTES
from pipeline.steps.ingest.step import BATCH_FACTOR, INGEST
from pipeline.steps.ingest.stream import each_unit, streams
from pipeline.steps.records import read_all
from pipeline.steps.recount import of_units
from pipeline.steps.selection import DEDUP_NAME, SelectionRecord
from pipeline.steps.step import Amounts, Evidence, Job, Records, Scope, Step, Takes, Whole, Work, always
from pipeline.steps.units import Unit, units_of
from stages.dedup.lsh import MAX_KEYS, band_shape, num_pieces
from stages.ledger import Flow

TEXT_FACTOR = 6
"""Of the longest document, where its text is compared, sampled, encoded or decoded: 190 MiB."""
KEY_BYTES = 100
"""Of a key while a piece of a band is worked on."""
PAIRS = 192 << 20
"""The pairs of a batch, and the candidates that they are expanded from."""
SHINGLES = 32 << 20
"""The shingles of some texts, in the arrays that they are sorted with."""
KEEP = "keep-"
"""Begins the names of units of which all is kept."""


class DedupRecord(SelectionRecord):
    """Who stays; what is removed is counted by method."""

    clusters: Flow
    """The documents that have a duplicate: kept, and removed."""
    compared: int
    """Pairs whose similarity was computed."""


FEW_DOCUMENTS = 1 << 20
"""Deciding on so few leaves little memory with a worker; an actor of its own would cost more."""


def text_need(file: RunFile) -> int:
    """Return the bytes that a worker takes for a batch of documents with the longest in it."""
    return BATCH_FACTOR * BATCH_BYTES + TEXT_FACTOR * int(file.ingest.max_document_bytes)


def _settings(scope: Scope) -> Mapping[str, object]:
    names = set(type(scope.file.dedup).model_fields) - {"against"}
    dedup: dict[str, object] = {"dedup": Some(scope.file.dedup, names)}
    if scope.earlier:  # which runs they are, never where they are
        dedup["against"] = [run.identity for run in scope.earlier]
    if not scope.file.dedup.exact:  # of older runs, equal texts were on both sides
        dedup["equal_texts"] = "on one side of the split"
    return dedup


def _need(scope: Scope) -> Need:
    most = max(KEY_BYTES * MAX_KEYS, PAIRS, SHINGLES + text_need(scope.file))
    return Need(most, "lower ingest.max_document_bytes")


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
    """Return the key of the sides that earlier runs settled; None if there are no such runs."""
    return SIDES if scope.earlier else None


def _overlaps(scope: Scope) -> Sequence[str]:
    return (INGEST.name,) if streams(scope) else ()


def _work(job: Job) -> Work[DedupRecord]:
    kept = streams(job.scope)
    if kept:
        yield each_unit(job, "keep every document", lambda unit: _keep(job, unit))
    config, earlier = job.file.dedup, job.scope.earlier
    require_found(earlier)
    units = behind(units_of(job.records.of(INGEST).units), earlier_documents(earlier))
    pieces = num_pieces(units[-1].last) if config.exact else 0
    compared = 0
    if config.exact:
        yield from _find_exact(job, (*numbered(earlier), *units), pieces)
    if config.near:
        compared = yield from _find_near(job, (*numbered(earlier), *units), pieces)
    work = Resolution(units, pieces, config.near, kept, earlier)
    task = job.task("resolve", resolve, work)
    where = Where.ALONE if units[-1].last > FEW_DOCUMENTS else Where.WORKERS
    decided = yield Phase("decide what stays", [task], where)
    record = decided[task.unit].read(ResolveRecord)
    settle(DEDUP_NAME, read_flows(job.root, DEDUP_NAME), let_out(job.root, "ingest"))
    return Whole(
        DedupRecord(
            ledger=record.ledger,
            kept=record.kept,
            removed=record.removed,
            languages=record.languages,
            clusters=record.clusters,
            compared=compared,
        )
    )


def _keep(job: Job, unit: Unit) -> Task:
    name = unit.commit_name
    return job.task(f"{KEEP}{name}", keep_all, unit, after=[(INGEST.name, name)])


def _find_exact(job: Job, units: tuple[Unit, ...], pieces: int) -> Phases[None]:
    """Find the documents that have the same text."""
    runs = unit_runs(units)
    cut = {f"digests-{run.name}": RunKeys(run, pieces) for run in runs}
    yield Phase("sort digests", [job.task(name, cut_digests, work) for name, work in cut.items()])
    firsts = tuple(run.first for run in runs)
    found = {f"exact-{number:05d}": Piece(firsts, number, pieces) for number in range(pieces)}
    tasks = [job.task(name, find_exact, work) for name, work in found.items()]
    yield Phase("find exact duplicates", tasks)


def _find_near(job: Job, units: tuple[Unit, ...], pieces: int) -> Phases[int]:
    """Find near-duplicates; return how many pairs were compared."""
    minhash, earlier = job.file.dedup.minhash, earlier_documents(job.scope.earlier)
    runs = unit_runs(units)
    firsts = tuple(run.first for run in runs)
    cut = {f"keys-{run.name}": RunKeys(run, pieces, minhash) for run in runs}
    yield Phase("sort band keys", [job.task(name, cut_keys, work) for name, work in cut.items()])
    bands, _ = band_shape(minhash.threshold, minhash.num_perm)
    found = {
        f"band-{band:03d}-{number:05d}": Piece(firsts, number, pieces, band, minhash, earlier)
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
        job.task(f"pairs-{run.name}", verify_pairs, PairRange(run, firsts, pieces, minhash))
        for run in runs
        if run.first >= earlier
    ]
    verified = yield Phase("verify near-duplicates", tasks)
    return sum(pairs.compared for pairs in read_all(verified, PairsRecord).values())


def _amounts(_: DedupRecord, records: Records) -> Amounts:
    units = records.of(INGEST).units
    return Amounts(sum(unit.documents for unit in units), sum(unit.text_bytes for unit in units))


def _evidence(evidence: Evidence) -> Iterator[Task]:
    record = evidence.records.of(DEDUP)
    yield from of_units(evidence, recount_kept)
    if record.ledger is not None:
        whole = EvidenceRecount(record.ledger, record.clusters)
        yield Task(evidence.name, "recount-dedup", recount_evidence, whole, "")


DEDUP = Step(
    name=DEDUP_NAME,
    version=4,
    record=DedupRecord,
    reads=always((INGEST.name,)),
    settings=_settings,
    warning=section_loss,
    need=_need,
    work=_work,
    overlaps=_overlaps,
    amounts=_amounts,
    takes=Takes((INGEST.name,)),
    evidence=_evidence,
    folders=("dedup",),
    unread=(
        "dedup/digests/",
        "dedup/exact/",
        "dedup/keys/",
        "dedup/bands/",
        "dedup/shingles/",
        "dedup/pairs/",
    ),
)
