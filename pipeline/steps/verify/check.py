"""Verify: everything that must hold of a dataset on disk, against the token store.

    split     the manifest is signed, and says what its shards are
    shard     each shard holds exactly its documents, token by token, whole, once, labelled right

Findings, never exceptions: a damaged file is what it looks for. It trusts no digest further than to
report it. That the token store decodes to the texts is shown once for all datasets (`decode`); that a
model learns from the labels, after this (`learn`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Function, Workspace
from pipeline.steps.mix.choose import MixChoice
from pipeline.steps.mix.step import check_mix
from pipeline.steps.records import CheckRecord, found_in, unreadable
from pipeline.steps.shard.merge import Copies, MergedGroup, merge_group
from pipeline.steps.shard.rows import RowSettings, lay_out
from pipeline.steps.tokenize.encode import COPY
from pipeline.steps.units import Unit
from pipeline.steps.verify.columns import DrawnCheck, check_columns
from pipeline.steps.verify.files import check_dataset, check_files, check_names, check_split_files
from pipeline.steps.verify.mixed import MixCounts, count_shard
from pipeline.steps.verify.settings import Settings, check_declared, check_documents, check_settings
from stages.errors import DataError, FormatError
from stages.findings import Finding
from stages.loading.mapped import MappedShard, map_shard
from stages.mixing.placement import shard_of
from stages.objectives.table import ResolvedObjective, read_objective, resolve, traits_of
from stages.packing.layout import PackingConfig, Strategy
from stages.ragged import batches
from stages.store.arrays import id_dtype
from stages.store.manifest import (
    ADDED_END,
    LOSS_MASK,
    MANIFEST_NAME,
    SENTENCES,
    UNIGRAM,
    Manifest,
    Shard,
    read_manifest,
    sum_totals,
)
from stages.tokenizer.framing import BEGIN
from stages.verify import mechanics
from stages.verify.mechanics import SegmentedRows
from stages.verify.row_frames import check_loss_mask, check_row_frames
from stages.verify.source_rows import check_source_rows

_BATCH_TOKENS = 1 << 18
"""Tokens of documents that are compared together."""


class SplitFindings(CheckRecord):
    """What was found of a split."""

    fingerprint: str | None = None
    """Of its manifest, if that can be read."""


class ShardFindings(CheckRecord):
    """What was found of a shard, and what was looked at if it could be."""

    rows: int = 0
    documents: int = 0
    tokens: int = 0
    padding: int = 0
    mix: MixCounts | None = None
    """What its rows hold of each source and language; None where anything was found."""


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
    settings: Settings

    @property
    def folder(self) -> str:
        """The split's folder."""
        return f"datasets/{self.dataset}/{self.split}"

    @property
    def copies(self) -> Copies | None:
        """Which copies of documents belong here; None if each stands once."""
        return self.settings.copies if self.split == "train" else None


@dataclass(frozen=True)
class SplitCheck:
    """One split as a whole."""

    dataset: str
    split: str
    shards: int
    settings: Settings
    splits: tuple[str, ...]
    """That the dataset has."""

    @property
    def folder(self) -> str:
        """The split's folder."""
        return f"datasets/{self.dataset}/{self.split}"


def checks_of(
    dataset: str,
    settings: Settings,
    units: tuple[Unit, ...],
    shards: Mapping[str, int],
    mix: MixChoice | None = None,
) -> Iterator[tuple[str, Function, object]]:
    """Yield all checks of a dataset: the name of each, the function and what it is of."""
    firsts = {"train": 0, "validation": shards["train"]}
    splits = tuple(split for split in firsts if shards[split])
    if mix is not None:
        yield "mix", check_mix, mix
    for split in splits:
        first = firsts[split]
        yield f"split-{split}", check_split, SplitCheck(dataset, split, shards[split], settings, splits)
        for number in range(shards[split]):
            group = first + number
            check = ShardCheck(units, dataset, split, number, group, shards[split], settings)
            yield f"shard-{split}-{number:05d}", check_shard, check


def check_split(workspace: Workspace, work: SplitCheck) -> SplitFindings:
    """Check a split's manifest: its signature, convention, totals and shards, and what lies there."""
    name = f"{work.folder}/{MANIFEST_NAME}"
    strays: list[tuple[str, Finding]] = []
    if work.split == work.splits[0]:
        strays += check_dataset(workspace, work.dataset, work.splits)
    try:
        manifest = read_manifest(workspace.path(work.folder))
        objective = read_objective(manifest.objective)
        traits = traits_of(objective)
    except FormatError as error:
        return SplitFindings(findings=found_in([*strays, (name, Finding("manifest", str(error)))]))
    findings = []
    for key in ("label_convention", "attention"):
        declared, known = getattr(manifest, key), getattr(traits, key)
        if declared != known:
            findings.append(Finding(key, f"declares {declared!r}, but {objective.kind} has {known!r}"))
    if len(manifest.shards) != work.shards:
        findings.append(Finding("shards", f"names {len(manifest.shards)} shards of {work.shards}"))
    if manifest.totals != sum_totals(manifest.shards):
        findings.append(Finding("totals", "totals are not the sums over the shards"))
    found = [*strays, *((name, finding) for finding in findings)]
    found += check_split_files(workspace, work.folder, manifest, traits_of(work.settings.rows.objective))
    found += check_settings(workspace, work.folder, manifest, work.settings)
    found += check_files(workspace, work.folder, manifest.tables)
    return SplitFindings(findings=found_in(found), fingerprint=manifest.fingerprint)


def check_shard(workspace: Workspace, work: ShardCheck) -> ShardFindings:
    """Check one shard against its documents in the token store."""
    place = f"{work.folder}/{MANIFEST_NAME}"
    try:
        manifest = read_manifest(workspace.path(work.folder))
        shard = manifest.shards[work.number]
    except (FormatError, IndexError) as error:
        return ShardFindings(findings=found_in([(place, Finding("manifest", str(error)))]))
    declared = [f.message for _, f in check_declared(workspace, work.folder, manifest, work.settings)]
    if declared:  # by which nothing could be read, and some that no reader of arrays survives
        return ShardFindings(findings=found_in([(place, Finding("settings", "; ".join(declared)))]))
    place = f"{work.folder}/{shard.path}"
    findings = [*check_files(workspace, place, shard.files), *check_names(workspace, place, shard.files)]
    try:
        mapped = map_shard(workspace.path(work.folder), shard, manifest)
        listed = pq.read_schema(workspace.path(f"{place}/documents.parquet"))
        known = resolve(read_objective(manifest.objective), manifest.seq_len)
        group = merge_group(
            workspace,
            work.units,
            work.group,
            traits=known.traits,
            packing=work.settings.rows.packing,
            copies=work.copies,
            dtype=id_dtype(manifest.vocab_size),
        )
    except (DataError, OSError, pa.ArrowException) as error:
        return ShardFindings(findings=found_in([*findings, (place, unreadable(error))]))
    findings += _documents(workspace, work, place, listed, group)
    findings += _contents(place, work, mapped, manifest, group)
    if not findings:  # what is damaged has been named, and may lead anywhere
        findings += _sentences(place, mapped, group)
        findings += _losses(place, mapped, group)
        findings += _sources(work, shard, mapped, group)
    if not findings:
        findings += _laid_out(place, manifest, mapped, group, known)
    if shard.documents != len(group.lengths):
        message = f"the manifest says {shard.documents:,}, but {len(group.lengths):,} belong here"
        findings.append((place, Finding("documents", message)))
    drawn = DrawnCheck(work.folder, work.number, manifest, sound=not findings)
    findings += check_columns(workspace, drawn)
    tokens = int(mapped.segments["length"].sum(dtype=np.int64))
    findings += ((place, finding) for finding in _conserved(shard, mapped, manifest, group))
    counts = None
    if not findings:
        mixed = work.copies is not None
        counts = count_shard(workspace.path(work.folder), work.number, mapped, manifest, mixed=mixed)
    return ShardFindings(
        findings=found_in(findings),
        rows=shard.rows,
        documents=len(group.lengths),
        tokens=tokens,
        padding=int(mapped.columns["input_ids"].size) - tokens,
        mix=counts,
    )


def _conserved(
    shard: Shard, mapped: MappedShard, manifest: Manifest, group: MergedGroup
) -> Iterator[Finding]:
    """Tokens in rows are those of the documents, less what is cut, and those that frame rows."""
    tokens, stored = int(mapped.segments["length"].sum(dtype=np.int64)), int(group.lengths.sum())
    frames = 0
    if manifest.row_frame is not None:
        frames = mapped.begins * shard.rows + int(mapped.columns[ADDED_END].sum(dtype=np.int64))
    said = shard.tokens, shard.tokens_cut, shard.frame_tokens
    if said != (tokens, stored + frames - tokens, frames):
        yield Finding(
            "token_conservation",
            f"the manifest says {shard.tokens:,} tokens in rows and {shard.tokens_cut:,} cut;"
            f" the rows hold {tokens:,} of the documents' {stored:,}"
            + (f", {frames:,} of them around rows, not {shard.frame_tokens:,}" if frames else ""),
        )


def _documents(
    workspace: Workspace, work: ShardCheck, place: str, schema: pa.Schema, group: MergedGroup
) -> Iterator[tuple[str, Finding]]:
    """The shard lists the documents that hash to it, in their order."""
    key = f"{place}/documents.parquet"
    with workspace.scratch() as scratch:
        found = check_documents(workspace.path(key), schema, group, scratch=scratch)
        try:
            for finding in found:
                yield key, finding
        except (OSError, pa.ArrowException) as error:
            yield key, Finding("readable", str(error))
    strangers = sum(
        shard_of(row.tobytes(), work.settings.rows.seed, copy=COPY, shards=work.shards) != work.number
        for row in group.id
    )
    if strangers:
        yield place, Finding("placement", f"{strangers:,} documents belong to other shards")


def _contents(
    place: str, work: ShardCheck, mapped: MappedShard, manifest: Manifest, group: MergedGroup
) -> list[tuple[str, Finding]]:
    """The rows hold the documents: every token once, each with its EOS, as the token store has them.

    Rows that have frames have them at their ends; what is between is the documents'.
    """
    ids_file, segments = f"{place}/input_ids.npy", f"{place}/segments"
    rows = _segmented(mapped, mapped.segments)
    found = [(ids_file, f) for f in mechanics.check_ids(rows, vocab_size=manifest.vocab_size)]
    faults = mechanics.check_segments(rows, documents=len(group.lengths))
    if faults:
        return [*found, *((segments, finding) for finding in faults)]
    pad, eos = (manifest.special_ids[name] for name in ("pad", "eos"))
    found += [(ids_file, f) for f in mechanics.check_padding(rows, pad=pad, closes=pad == eos)]
    if manifest.row_frame is not None:
        added, frame = mapped.columns[ADDED_END], manifest.row_frame
        framed = check_row_frames(rows, added, lengths=group.lengths, frame=frame)
        if any(finding.check == "row_frame" for finding in framed):  # documents lie nowhere then
            return [*found, *((ids_file, finding) for finding in framed)]
        found += [(ids_file, f) for f in framed]
        rows = _segmented(mapped, mapped.own_segments)
    found += [(segments, f) for f in mechanics.check_coverage(rows, lengths=group.lengths)]
    if mapped.unigram is not None:
        special = np.array(sorted(manifest.special_ids.values()))
        counted = mechanics.check_unigram(rows, mapped.unigram, special=special)
        found += [(f"{place}/{UNIGRAM}", f) for f in counted]
    inside = any(unit.dialogues for unit in work.units)
    tally = mechanics.DocumentTally(eos, manifest.special_ids.get(BEGIN), inside)
    reassembly = mechanics.Reassembly(rows, group.lengths)
    for first, last in batches(group.lengths, _BATCH_TOKENS):
        ends = np.cumsum(group.lengths[first:last])
        tally.add(reassembly.tokens(first, last), group.tokens(first, last), ends)
    return found + [(ids_file, f) for f in tally.findings()]


def _segmented(mapped: MappedShard, segments: Mapping[str, NDArray[np.integer]]) -> SegmentedRows:
    parts = {name: np.asarray(part, np.int64) for name, part in segments.items()}
    return SegmentedRows(mapped.columns["input_ids"], parts)


def _sentences(place: str, mapped: MappedShard, group: MergedGroup) -> Iterator[tuple[str, Finding]]:
    """Sentences end where the units' do."""
    found, wanted = mapped.sentences, group.sentences
    if found is None or wanted is None:
        return
    if not (np.array_equal(found.ptr, wanted.ptr) and np.array_equal(found.values, wanted.values)):
        yield f"{place}/{SENTENCES}", Finding("sentences", "they end elsewhere than in the units")


def _losses(place: str, mapped: MappedShard, group: MergedGroup) -> Iterator[tuple[str, Finding]]:
    """Tokens have a loss where the sections of the token store say so."""
    mask = mapped.columns.get(LOSS_MASK)
    if mask is None or group.sections is None or group.learned is None:
        return
    marked = replace(_segmented(mapped, mapped.own_segments), input_ids=mask)
    found = check_loss_mask(
        marked, lengths=group.lengths, sections=group.sections, learned=group.learned
    )
    yield from ((f"{place}/{LOSS_MASK}.npy", finding) for finding in found)


def _sources(
    work: ShardCheck, shard: Shard, mapped: MappedShard, group: MergedGroup
) -> Iterator[tuple[str, Finding]]:
    """Rows that are interleaved are of one source each, as many of each as the manifest says."""
    if shard.source_rows is None:
        return
    names, sources = group.sources()
    found = check_source_rows(
        mapped.segments,
        shard.source_rows,
        sources=sources,
        names=names,
        row_length=mapped.columns["input_ids"].shape[1],
    )
    yield from ((f"{work.folder}/{MANIFEST_NAME}", finding) for finding in found)


def _laid_out(
    place: str, manifest: Manifest, mapped: MappedShard, group: MergedGroup, known: ResolvedObjective
) -> Iterator[tuple[str, Finding]]:
    """Rows, and what is laid out of each, are what objective, packing and seed of the manifest give."""
    if manifest.packing not in {strategy.value for strategy in Strategy}:
        return  # check_split says so
    meant = RowSettings(
        known.config,
        PackingConfig(seq_len=manifest.seq_len, strategy=Strategy(manifest.packing)),
        manifest.seed,
        manifest.row_frame,
        manifest.interleave,
    )
    rows = lay_out(group, meant, known)
    same = all(
        np.array_equal(getattr(rows.layout, name), part) for name, part in mapped.segments.items()
    )
    same &= all(np.array_equal(part, mapped.columns[name]) for name, part in rows.columns.items())
    if mapped.segment_prompt is not None and group.sections is not None:
        same &= np.array_equal(mapped.segment_prompt, rows.prompts(group.sections))
    if not same:
        message = "segments, their rows or what is laid out of a row are not as the run lays them out"
        yield f"{place}/segments", Finding("layout", message)
