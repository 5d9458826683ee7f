"""Verify: everything that must hold of a dataset on disk, against the token store.

    split     the manifest is signed, and says what its shards are
    shard     each shard holds exactly its documents, token by token, whole, once, labelled right

Findings, never exceptions: a damaged file is what it looks for. It trusts no digest further than to
report it. That the token store decodes to the texts is shown once for all datasets (`decode`); that a
model learns from the labels, after this (`learn`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.steps.findings import result_of
from pipeline.steps.merge import MergedGroup, merge_group
from pipeline.steps.shard import ShardWork, lay_out
from pipeline.steps.tokenize import COPY
from pipeline.steps.units import Unit, hex_strings
from pipeline.steps.verify_columns import DrawnCheck, check_columns, check_files
from pipeline.tasks import Workspace
from stages.errors import DataError, FormatError
from stages.loading.dataset import MappedShard, map_shard
from stages.mixing.placement import shard_of
from stages.objectives.sentence_pairs import NextSentence, SentenceOrder
from stages.objectives.table import read_objective, traits_of
from stages.packing.layout import PackingConfig, Strategy
from stages.ragged import batches
from stages.store.manifest import MANIFEST_NAME, SENTENCES, Manifest, read_manifest, sum_totals
from stages.verify import mechanics
from stages.verify.mechanics import Finding, Rows

_BATCH_TOKENS = 1 << 18
"""Tokens of documents that are compared together."""


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

    @property
    def folder(self) -> str:
        """The split's folder."""
        return f"datasets/{self.dataset}/{self.split}"


def check_split(workspace: Workspace, work: SplitCheck) -> dict[str, Any]:
    """Check a split's manifest: its signature, convention, totals and shards."""
    name = f"{work.folder}/{MANIFEST_NAME}"
    try:
        manifest = read_manifest(workspace.path(work.folder))
        objective = read_objective(manifest.objective)
    except FormatError as error:
        return result_of([(name, Finding("manifest", str(error)))])
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
    found += check_files(workspace, work.folder, manifest.tables)
    return result_of(found, fingerprint=manifest.fingerprint)


def check_shard(workspace: Workspace, work: ShardCheck) -> dict[str, Any]:
    """Check one shard against its documents in the token store."""
    place = f"{work.folder}/{MANIFEST_NAME}"
    try:
        manifest = read_manifest(workspace.path(work.folder))
        shard = manifest.shards[work.number]
    except (FormatError, IndexError) as error:
        return result_of([(place, Finding("manifest", str(error)))])
    place = f"{work.folder}/{shard.path}"
    findings = list(check_files(workspace, place, shard.files))
    try:
        mapped = map_shard(workspace.path(work.folder), shard, manifest)
        segments = {name: np.asarray(part, np.int64) for name, part in mapped.segments.items()}
        rows = Rows(mapped.columns["input_ids"], segments)
        table = pq.read_table(workspace.path(f"{place}/documents.parquet"), columns=["id"])
        traits = traits_of(read_objective(manifest.objective))
        group = merge_group(
            workspace,
            work.units,
            work.group,
            with_sentences=traits.sentences,
            with_sections=bool(traits.sections),
        )
    except (DataError, OSError, pa.ArrowInvalid) as error:
        return result_of([*findings, (place, Finding("readable", str(error)))])
    findings += _documents(work, place, table, group)
    findings += _contents(place, rows, manifest, group)
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
    return result_of(
        findings,
        rows=len(rows.input_ids),
        documents=len(group.lengths),
        tokens=tokens,
        padding=int(rows.input_ids.size) - tokens,
    )


def _documents(
    work: ShardCheck, place: str, table: pa.Table, group: MergedGroup
) -> Iterator[tuple[str, Finding]]:
    """The shard lists the documents that hash to it, in their order."""
    identities = group.identities()
    listed, belong = table.column("id"), pa.chunked_array([hex_strings(identities)])
    if not listed.equals(belong):
        yield (
            f"{place}/documents.parquet",
            Finding(
                "documents",
                f"lists {len(listed):,} documents, but {len(belong):,} belong here; the first that"
                f" differs is document {_first_difference(listed.to_pylist(), belong.to_pylist())}",
            ),
        )
    strangers = sum(
        shard_of(row.tobytes(), work.seed, copy=COPY, shards=work.shards) != work.number
        for row in identities
    )
    if strangers:
        yield place, Finding("placement", f"{strangers:,} documents belong to other shards")


def _first_difference(a: Sequence[str], b: Sequence[str]) -> int:
    same = [x == y for x, y in zip(a, b, strict=False)]
    return same.index(False) if False in same else len(same)


def _contents(
    place: str, rows: Rows, manifest: Manifest, group: MergedGroup
) -> list[tuple[str, Finding]]:
    """The rows hold the documents: every token once, each with its EOS, as the token store has them."""
    ids_file, segments = f"{place}/input_ids.npy", f"{place}/segments"
    found = [(ids_file, f) for f in mechanics.check_ids(rows, vocab_size=manifest.vocab_size)]
    broken = mechanics.check_segments(rows, documents=len(group.lengths))
    if broken:
        return [*found, *((segments, finding) for finding in broken)]
    found += [(ids_file, f) for f in mechanics.check_padding(rows, pad=manifest.special_ids["pad"])]
    found += [(segments, f) for f in mechanics.check_coverage(rows, lengths=group.lengths)]
    tally = mechanics.DocumentTally(manifest.special_ids["eos"])
    reassembly = mechanics.Reassembly(rows, group.lengths)
    for first, last in batches(group.lengths, _BATCH_TOKENS):
        ends = np.cumsum(group.lengths[first:last])
        tally.add(reassembly.tokens(first, last), group.tokens(first, last), ends)
    return found + [(ids_file, f) for f in tally.findings()]


def _laid_out(
    place: str, work: ShardCheck, manifest: Manifest, mapped: MappedShard, group: MergedGroup
) -> Iterator[tuple[str, Finding]]:
    """Sentences end where the unit's do; pairs and sections are cut as the objective says."""
    objective = read_objective(manifest.objective)
    if group.sentences is not None and mapped.sentences is not None:
        found, wanted = mapped.sentences, group.sentences
        if not (np.array_equal(found.ptr, wanted.ptr) and np.array_equal(found.values, wanted.values)):
            yield f"{place}/{SENTENCES}", Finding("sentences", "they end elsewhere than in the units")
            return
    if not (isinstance(objective, NextSentence | SentenceOrder) or traits_of(objective).sections):
        return
    packing = PackingConfig(seq_len=manifest.seq_len, strategy=Strategy(manifest.packing))
    layout, by_row = lay_out(
        group,
        ShardWork(
            work.units,
            work.dataset,
            work.split,
            work.number,
            work.group,
            objective=objective,
            packing=packing,
            seed=manifest.seed,
            vocab_size=manifest.vocab_size,
        ),
    )
    same = all(np.array_equal(getattr(layout, name), part) for name, part in mapped.segments.items())
    same &= all(np.array_equal(part, mapped.columns[name]) for name, part in by_row.items())
    if not same:
        message = "pieces are not where sentences or sections are to be cut"
        yield f"{place}/segments", Finding("layout", message)
