"""Verify: everything that must hold of the datasets on disk, against the token store and the texts.

    store     each unit of the token store holds exactly the documents that dedup kept
    shard     each shard holds exactly its documents, whole, once, decodable, labelled right
    learning  a tiny model learns from the labels, and not from permuted ones

The first two give findings, never exceptions: a damaged file is what they are looking for. They trust
no digest further than to report it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.steps.merge import MergedGroup, merge_group
from pipeline.steps.shard import ShardWork, lay_out
from pipeline.steps.split import load_tokenizer
from pipeline.steps.tokenize import COPY, TokenizeUnit
from pipeline.steps.units import (
    SECTIONED_TEXT,
    Unit,
    fixed_bytes,
    kept_groups,
    kept_mask,
    sections_of,
    text_slices,
)
from pipeline.steps.verify_columns import DrawnCheck, check_columns, check_files
from pipeline.steps.verify_run import (
    Settings,
    check_documents,
    check_sentences,
    check_settings,
    check_stored,
)
from pipeline.tasks import Function, Workspace
from stages.errors import DataError, FormatError
from stages.identity import DIGEST_BYTES, content_digest
from stages.loading.dataset import MappedShard, map_shard
from stages.mixing.placement import shard_of
from stages.objectives.table import read_objective, traits_of
from stages.packing.layout import PackingConfig, Strategy
from stages.ragged import joined
from stages.store.manifest import (
    MANIFEST_NAME,
    UNIGRAM,
    Manifest,
    read_manifest,
    sum_totals,
)
from stages.store.token_store import TokenUnit
from stages.verify import mechanics
from stages.verify.mechanics import Finding, Rows

_BATCH_TOKENS = 1 << 18
"""Tokens of documents that are compared and decoded together (36 bytes each as Python's numbers)."""


@dataclass(frozen=True)
class StoreCheck:
    """One unit of the token store."""

    work: TokenizeUnit
    """As it was made."""

    @property
    def unit(self) -> Unit:
        """The unit."""
        return self.work.unit


@dataclass(frozen=True)
class ShardCheck:
    """One shard of one split."""

    units: tuple[Unit, ...]
    dataset: str
    split: str
    number: int
    group: int
    shards: int
    """Shards of its split."""
    seed: int

    @property
    def folder(self) -> str:
        """The split's folder."""
        return f"datasets/{self.dataset}/{self.split}"


@dataclass(frozen=True)
class SplitCheck:
    """One split as a whole."""

    dataset: str
    split: str
    shards: int
    settings: Settings

    @property
    def folder(self) -> str:
        """The split's folder."""
        return f"datasets/{self.dataset}/{self.split}"


def checks_of(
    dataset: str, settings: Settings, units: tuple[Unit, ...], shards: Mapping[str, int]
) -> Iterator[tuple[str, Function, object]]:
    """Give all checks of a dataset: the name of each, the function and what it is of."""
    counts, seed = (shards["train"], shards["validation"]), settings.seed
    for unit in units:
        yield f"store-{unit.commit_name}", check_store, StoreCheck(TokenizeUnit(unit, *counts, seed))
    for split, first in (("train", 0), ("validation", shards["train"])):
        if not shards[split]:
            continue
        yield f"split-{split}", check_split, SplitCheck(dataset, split, shards[split], settings)
        for number in range(shards[split]):
            group = first + number
            check = ShardCheck(units, dataset, split, number, group, shards[split], seed)
            yield f"shard-{split}-{number:05d}", check_shard, check


def check_store(workspace: Workspace, work: StoreCheck) -> dict[str, Any]:
    """Compare a unit of the token store with the documents that were kept of it."""
    unit = work.unit
    wanted = _wanted(workspace, unit)
    path = workspace.path(f"{unit.tokens}/documents.parquet")
    try:
        store = TokenUnit.open(workspace.path(unit.tokens))
        stored = pq.read_table(path)
    except (FormatError, OSError, pa.ArrowInvalid) as error:
        return _result([(str(path), Finding("readable", str(error)))], documents=0)
    found = list(zip(stored.column("id").to_pylist(), stored.column("digest").to_pylist(), strict=True))
    findings = []
    lost, extra = wanted - set(found), len(found) - len(wanted & set(found))
    if lost or extra:
        findings.append(
            (
                f"{unit.tokens}/documents.parquet",
                Finding(
                    "documents_kept",
                    f"{len(lost):,} kept documents are missing and {extra:,} are repeated or were"
                    " never kept",
                ),
            )
        )
    else:
        findings += check_stored(workspace, work.work, store, stored)
        findings += _sections(workspace, unit, store, stored.column("id").to_pylist())
    return _result(findings, documents=len(found))


def _sections(
    workspace: Workspace, unit: Unit, store: TokenUnit, identities: Sequence[bytes]
) -> Iterator[tuple[str, Finding]]:
    """The tokens of each section decode to its text; looked at where a source has sections."""
    if unit.sections == 1 or not identities:
        return
    place, tokenizer = f"{unit.tokens}/sections", load_tokenizer(workspace)
    try:
        groups = range(len(store.group_ptr) - 1)
        ends = joined([store.sections(group, count=unit.sections) for group in groups])
    except FormatError as error:
        yield place, Finding("sections", str(error))
        return
    numbers = {identity: number for number, identity in enumerate(identities)}
    for table in kept_groups(workspace, unit, ["id", "text_bytes", *SECTIONED_TEXT]):
        for part in text_slices(table):
            for identity, texts in zip(part.column("id").to_pylist(), sections_of(part), strict=True):
                number = numbers[identity]
                ids = np.asarray(store.ids[store.offsets[number] : store.offsets[number + 1] - 1])
                known = not len(ids) or 0 <= ids.min() <= ids.max() < tokenizer.vocab_size
                found = tokenizer.decode(np.split(ids, ends[number][:-1])) if known else None
                if found != list(map(tokenizer.normalise, texts)):
                    message = f"those of document {identity.hex()} end elsewhere than in its text"
                    yield place, Finding("sections", message)
                    return


def _wanted(workspace: Workspace, unit: Unit) -> set[tuple[bytes, bytes]]:
    """Give the kept documents' ids with the digests of the texts that their rows must decode to."""
    tokenizer = load_tokenizer(workspace)
    if not tokenizer.normalises:
        table = pq.read_table(workspace.path(unit.table), columns=["id", "digest"])
        kept = table.filter(pa.array(kept_mask(workspace, unit)))
        return set(zip(kept.column("id").to_pylist(), kept.column("digest").to_pylist(), strict=True))
    return {
        (identity, content_digest("".join(map(tokenizer.normalise, sections))))
        for group in kept_groups(workspace, unit, ["id", "text_bytes", *SECTIONED_TEXT])
        for part in text_slices(group)
        for identity, sections in zip(part.column("id").to_pylist(), sections_of(part), strict=True)
    }


def check_split(workspace: Workspace, work: SplitCheck) -> dict[str, Any]:
    """Check a split's manifest: its signature, convention, totals and shards."""
    name = f"{work.folder}/{MANIFEST_NAME}"
    try:
        manifest = read_manifest(workspace.path(work.folder))
        objective = read_objective(manifest.objective)
    except FormatError as error:
        return _result([(name, Finding("manifest", str(error)))])
    findings = []
    for key in ("label_convention", "attention"):
        declared, known = getattr(manifest, key), getattr(traits_of(objective), key)
        if declared != known:
            findings.append(Finding(key, f"declares {declared!r}, but {objective.kind} has {known!r}"))
    if len(manifest.shards) != work.shards:
        findings.append(Finding("shards", f"names {len(manifest.shards)} shards of {work.shards}"))
    if manifest.totals != sum_totals(manifest.shards):
        findings.append(Finding("totals", "totals are not the sums over the shards"))
    found = [(name, finding) for finding in findings]
    found += check_settings(workspace, work.folder, manifest, work.settings)
    found += check_files(workspace, work.folder, manifest.tables)
    return _result(found, fingerprint=manifest.fingerprint)


def check_shard(workspace: Workspace, work: ShardCheck) -> dict[str, Any]:
    """Check one shard against its documents in the token store and their texts."""
    place = f"{work.folder}/{MANIFEST_NAME}"
    try:
        manifest = read_manifest(workspace.path(work.folder))
        shard = manifest.shards[work.number]
    except (FormatError, IndexError) as error:
        return _result([(place, Finding("manifest", str(error)))])
    place = f"{work.folder}/{shard.path}"
    findings = list(check_files(workspace, place, shard.files))
    try:
        mapped = map_shard(workspace.path(work.folder), shard, manifest)
        segments = {name: np.asarray(part, np.int64) for name, part in mapped.segments.items()}
        rows = Rows(mapped.columns["input_ids"], segments)
        table = pq.read_table(workspace.path(f"{place}/documents.parquet"))
        traits = traits_of(read_objective(manifest.objective))
        group = merge_group(
            workspace,
            work.units,
            work.group,
            with_sentences=traits.sentences,
            with_sections=bool(traits.sections),
        )
    except (DataError, OSError, pa.ArrowInvalid) as error:
        return _result([*findings, (place, Finding("readable", str(error)))])
    findings += _documents(work, place, table, group)
    findings += _contents(workspace, place, rows, manifest, group, unigram=mapped.unigram)
    if not findings:  # what is damaged has been named, and may lead anywhere
        findings += check_sentences(workspace, place, mapped, group)
    if not findings:
        findings += _laid_out(place, work, manifest, mapped, group)
    drawn = DrawnCheck(work.folder, work.number, manifest, sound=not findings)
    findings += check_columns(workspace, drawn)
    tokens = int(segments["length"].sum())
    stored = int(group.lengths.sum())
    if (shard.tokens, shard.tokens_cut) != (tokens, stored - tokens):
        findings.append(
            (
                place,
                Finding(
                    "token_conservation",
                    f"the manifest says {shard.tokens:,} tokens in rows and {shard.tokens_cut:,} cut;"
                    f" the rows hold {tokens:,} of the documents' {stored:,}",
                ),
            )
        )
    return _result(
        findings,
        rows=len(rows.input_ids),
        documents=len(group.lengths),
        tokens=tokens,
        padding=int(rows.input_ids.size) - tokens,
    )


def _result(findings: Sequence[tuple[str, Finding]], **numbers: Any) -> dict[str, Any]:
    listed = [{"file": file, "check": f.check, "message": f.message} for file, f in findings]
    return {"findings": listed, **numbers}


def _documents(
    work: ShardCheck, place: str, table: pa.Table, group: MergedGroup
) -> Iterator[tuple[str, Finding]]:
    """The shard lists the documents that hash to it, in their order."""
    for finding in check_documents(table, group, work.units):
        yield f"{place}/documents.parquet", finding
    strangers = sum(
        shard_of(row.tobytes(), work.seed, copy=COPY, shards=work.shards) != work.number
        for row in group.identities()
    )
    if strangers:
        yield place, Finding("placement", f"{strangers:,} documents belong to other shards")


def _contents(
    workspace: Workspace,
    place: str,
    rows: Rows,
    manifest: Manifest,
    group: MergedGroup,
    *,
    unigram: NDArray[np.int64] | None,
) -> list[tuple[str, Finding]]:
    """The rows hold the documents: every token once, EOS, ids and text."""
    ids_file, segments = f"{place}/input_ids.npy", f"{place}/segments"
    found = [(ids_file, f) for f in mechanics.check_ids(rows, vocab_size=manifest.vocab_size)]
    broken = mechanics.check_segments(rows, documents=len(group.lengths))
    if broken:
        return [*found, *((segments, finding) for finding in broken)]
    found += [(ids_file, f) for f in mechanics.check_padding(rows, pad=manifest.special_ids["pad"])]
    found += [(segments, f) for f in mechanics.check_coverage(rows, lengths=group.lengths)]
    if unigram is not None:
        special = np.array(sorted(manifest.special_ids.values()))
        counted = mechanics.check_unigram(rows, unigram, special=special)
        found += [(f"{place}/{UNIGRAM}", f) for f in counted]
    tally = mechanics.DocumentTally(manifest.special_ids["eos"])
    reassembly = mechanics.Reassembly(rows, group.lengths)
    digests = fixed_bytes(group.table.column("digest"), DIGEST_BYTES)
    for first, last in group.batches(_BATCH_TOKENS):
        tokens = reassembly.tokens(first, last)
        ends = np.cumsum(group.lengths[first:last])
        tally.add_tokens(tokens, group.tokens(first, last), ends)
        decoded = _decoded_digests(workspace, np.split(tokens, ends[:-1]), manifest.vocab_size)
        tally.add_texts(decoded, [row.tobytes() for row in digests[first:last]])
    return found + [(ids_file, f) for f in tally.findings()]


def _laid_out(
    place: str, work: ShardCheck, manifest: Manifest, mapped: MappedShard, group: MergedGroup
) -> Iterator[tuple[str, Finding]]:
    """Rows, and what is laid out of each, are what objective, packing and seed of the manifest give."""
    if manifest.packing not in {strategy.value for strategy in Strategy}:
        return  # check_split says so
    packing = PackingConfig(seq_len=manifest.seq_len, strategy=Strategy(manifest.packing))
    layout, by_row = lay_out(
        group,
        ShardWork(
            work.units,
            work.dataset,
            work.split,
            work.number,
            work.group,
            objective=read_objective(manifest.objective),
            packing=packing,
            seed=manifest.seed,
            vocab_size=manifest.vocab_size,
        ),
    )
    same = all(np.array_equal(getattr(layout, name), part) for name, part in mapped.segments.items())
    same &= all(np.array_equal(part, mapped.columns[name]) for name, part in by_row.items())
    if not same:
        message = "segments, their rows or what is laid out of a row are not as the run lays them out"
        yield f"{place}/segments", Finding("layout", message)


def _decoded_digests(
    workspace: Workspace, documents: Sequence[NDArray[np.integer]], vocab_size: int
) -> list[bytes]:
    """Give the digest of each document's text without its EOS; ids past the model give none."""
    tokenizer = load_tokenizer(workspace)
    bodies = [ids[:-1] for ids in documents]
    sound = [ids if ((ids >= 0) & (ids < vocab_size)).all() else ids[:0] for ids in bodies]
    return [content_digest(text) for text in tokenizer.decode(sound)]
