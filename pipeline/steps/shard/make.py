"""Shard: one shard of one dataset, from its range of every unit of the token store.

objective, packing -> resolved            stages.objectives.table, once
ranges of the units -> MergedGroup        merge.py
documents -> LaidRows                     rows.py
both -> files                             folder.py
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.engine.tasks import Workspace
from pipeline.state.commit_object import Commit
from pipeline.steps.records import UnitRecord
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.shard.folder import ShardFolder
from pipeline.steps.shard.merge import Copies, merge_group
from pipeline.steps.shard.rows import RowSettings, lay_out
from pipeline.steps.tokenizer.load import load_tokenizer, model_key, special_ids_of
from pipeline.steps.units import Unit
from stages.config import Config
from stages.ledger import Flow, Tally
from stages.objectives.table import ResolvedObjective, resolve
from stages.store.arrays import id_dtype, write_array
from stages.store.digests import FileDigest, digest_file
from stages.store.manifest import (
    ADDED_END,
    FORMAT_VERSION,
    MANIFEST_NAME,
    OBJECTIVE_ID,
    WORD_STARTS,
    Column,
    Manifest,
    Shard,
    TokenizerFile,
    sum_totals,
    write_manifest,
)

CUT = "cut"
"""Why tokens are gone: no row has room for so short an end of a document."""
MIXED, COPIES = "mix", "copies"
"""Why first copies of documents are gone, and other copies added: the mix says so."""
EPOCH_FOLDER = "epoch-0000"


class ShardCounts(Config):
    """What the manifest says of a shard, and of a split."""

    rows: int
    segments: int
    documents: int
    tokens: int
    tokens_cut: int
    frame_tokens: int = 0


class ShardRecord(UnitRecord, ShardCounts):
    """One shard."""

    source_rows: dict[str, tuple[int, ...]] | None = None
    """Of each source, how many rows it has by how full they are; None unless rows are interleaved."""


class ManifestRecord(UnitRecord, ShardCounts):
    """One split."""

    fingerprint: str


@dataclass(frozen=True)
class ShardWork:
    """One shard."""

    units: tuple[Unit, ...]
    dataset: str
    split: str
    number: int
    group: int
    """Its group in the token store."""
    rows: RowSettings
    vocab_size: int
    copies: Copies | None = None
    """Of a dataset with a mix, which copies of documents it has."""

    @property
    def path(self) -> str:
        """Its folder, relative to the split's."""
        return f"{EPOCH_FOLDER}/{self.number:05d}"

    @property
    def key(self) -> str:
        """Its folder in the run."""
        return f"datasets/{self.dataset}/{self.split}/{self.path}"


@dataclass(frozen=True)
class ManifestWork:
    """One split whose shards are all committed."""

    dataset: str
    split: str
    shards: tuple[tuple[ShardWork, Commit], ...]
    rows: RowSettings
    vocab_size: int
    generation: int | None = None
    """Its number; None if the manifest is to say nothing of it."""


def make_shard(workspace: Workspace, work: ShardWork) -> ShardRecord:
    """Merge, lay out and write one shard."""
    known = resolve(work.rows.objective, work.rows.packing.seq_len)
    group = merge_group(
        workspace,
        work.units,
        work.group,
        traits=known.traits,
        packing=work.rows.packing,
        copies=work.copies,
        dtype=id_dtype(work.vocab_size),
    )
    rows = lay_out(group, work.rows, known)
    special = special_ids_of(workspace.root)
    folder = ShardFolder(workspace.create(work.key), work.vocab_size, special, work.rows.row_frame)
    with workspace.scratch() as scratch:
        listed = folder.write(group, rows, known.traits, scratch)
    tokens, stored = int(rows.own.length.sum()), int(group.lengths.sum())
    frame_tokens = int(rows.layout.length.sum()) - tokens
    gone, added = {CUT: Tally(tokens=stored - tokens)}, {}
    if work.copies is not None:
        gone[MIXED], added[COPIES] = group.mixed.left_out, group.mixed.copies
    return ShardRecord(
        flow=Flow(
            input=group.mixed.received, output=listed.tally(tokens=tokens), gone=gone, added=added
        ),
        rows=rows.layout.num_rows,
        segments=len(rows.layout.start),
        documents=len(group.lengths),
        tokens=tokens + frame_tokens,
        tokens_cut=stored - tokens,
        frame_tokens=frame_tokens,
        source_rows=None if rows.by_source is None else dict(rows.by_source),
    )


def make_manifest(workspace: Workspace, work: ManifestWork) -> ManifestRecord:
    """Write the manifest of a split from the commits of its shards."""
    folder = f"datasets/{work.dataset}/{work.split}"
    shards = tuple(
        Shard(
            path=shard.path,
            files={key.removeprefix(shard.key + "/"): digest for key, digest in commit.files.items()},
            **commit.read(ShardRecord).model_dump(include={*ShardCounts.model_fields, "source_rows"}),
        )
        for shard, commit in work.shards
    )
    known = resolve(work.rows.objective, work.rows.packing.seq_len)
    tables = _tables(workspace, folder) if known.traits.words else {}
    manifest = manifest_of(workspace, work, known, shards=shards, tables=tables).signed()
    write_manifest(workspace.create(f"{folder}/{MANIFEST_NAME}"), manifest)
    return ManifestRecord(fingerprint=manifest.fingerprint, **manifest.totals.model_dump())


def manifest_of(
    workspace: Workspace,
    work: ManifestWork,
    known: ResolvedObjective,
    *,
    shards: tuple[Shard, ...] = (),
    tables: Mapping[str, FileDigest] | None = None,
) -> Manifest:
    """Return the manifest of a split, not signed: what the run's settings say of any shards."""
    rows, model = work.rows, model_key(workspace.root)
    return Manifest(
        format_version=FORMAT_VERSION,
        name=work.dataset,
        split=work.split,
        objective={**rows.objective.model_dump(mode="json"), "form": known.traits.form},
        seed=rows.seed,
        epochs=1,
        attention=known.traits.attention,
        label_convention=known.traits.label_convention,
        seq_len=rows.packing.seq_len,
        packing=rows.packing.strategy.value,
        vocab_size=work.vocab_size,
        special_ids=special_ids_of(workspace.root),
        row_frame=None if rows.row_frame is None else dict(rows.row_frame),
        interleave=rows.interleave,
        lineage=None if work.generation is None else RunFolder(workspace.root).lineage(work.generation),
        tokenizer=TokenizerFile(
            file=f"../../../{model}", sha256=digest_file(workspace.path(model)).sha256
        ),
        columns=_columns(work, known),
        tables=dict(tables or {}),
        shards=shards,
        totals=sum_totals(shards),
    )


def _columns(work: ManifestWork, known: ResolvedObjective) -> dict[str, Column]:
    columns = {
        "input_ids": Column(
            dtype=id_dtype(work.vocab_size).str,
            shape=(known.widths.stored,),
            meaning="token ids; pad where no segment lies",
        )
    }
    if work.rows.row_frame is not None:
        columns[ADDED_END] = Column(dtype="|u1", shape=(), meaning="1: the last id is no document's")
    if known.kind is None:
        columns[OBJECTIVE_ID] = Column(dtype="|u1", shape=(), meaning="which component draws the row")
        return columns
    return {**columns, **known.kind.stored_columns(known.config, known.widths)}


def _tables(workspace: Workspace, folder: str) -> dict[str, FileDigest]:
    """Write which ids begin a word."""
    path = workspace.create(f"{folder}/{WORD_STARTS}")
    write_array(path, load_tokenizer(workspace).codec.word_starts())
    return {WORD_STARTS: digest_file(path)}
