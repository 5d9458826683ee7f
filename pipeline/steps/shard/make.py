"""Shard: one shard of one dataset, from its range of every unit of the token store."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.state.commit_object import Commit
from pipeline.steps.mix.intervals import Intervals
from pipeline.steps.records import UnitRecord
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.shard.frames import (
    documents_of,
    own_of,
    segment_prompts,
    shard_schema,
    write_frames,
    write_loss_mask,
)
from pipeline.steps.shard.merge import Copies, MergedGroup, merge_group
from pipeline.steps.shard.rows import Interleave, lay_out, source_rows
from pipeline.steps.tokenizer.load import load_tokenizer, model_key, special_ids_of
from pipeline.steps.units import Unit, from_hex
from stages.config import Config
from stages.ledger import Flow, IdSum, Tally
from stages.objectives.rows import Widths
from stages.objectives.table import (
    component_widths,
    kind_of,
    needs_sentences,
    traits_of,
    widths_of,
)
from stages.objectives.traits import Objective
from stages.packing.layout import Layout, PackingConfig
from stages.ragged import batches
from stages.store.arrays import id_dtype, write_array
from stages.store.digests import FileDigest, digest_file
from stages.store.manifest import (
    ADDED_END,
    FORMAT_VERSION,
    LOSS_MASK,
    MANIFEST_NAME,
    OBJECTIVE_ID,
    SEGMENT_COLUMNS,
    SEGMENT_PROMPT,
    SENTENCES,
    UNIGRAM,
    WORD_STARTS,
    Column,
    Manifest,
    Shard,
    TokenizerFile,
    sum_totals,
    write_manifest,
)
from stages.store.mapped import mapped_npy
from stages.store.token_store import write_tables

_COUNTED = 1 << 20
"""Tokens counted together."""
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
    """Of each source, how many rows it has by how full they are; None unless rows are dealt."""


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
    objective: Objective
    packing: PackingConfig
    seed: int
    vocab_size: int
    row_frame: Mapping[str, int] | None = None
    """The ids around each row, by side."""
    interleave: Interleave = "shuffle"
    """How sources lie in the order of rows."""
    weights: Mapping[str, str] | None = None
    """Of a dataset with a mix, the field of each source that holds the weight of its documents."""

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
    objective: Objective
    packing: PackingConfig
    seed: int
    vocab_size: int
    row_frame: Mapping[str, int] | None = None
    interleave: Interleave = "shuffle"
    generation: int | None = None
    """Its number; None if the manifest is to say nothing of it."""


def copies_taken(
    workspace: Workspace, dataset: str, weights: Mapping[str, str] | None, seed: int
) -> Copies | None:
    """Return which copies of documents a dataset has; None if it has no mix.

    Args:
        workspace: of the run.
        dataset: its name.
        weights: as `ShardWork` has them.
        seed: of the run.
    """
    return None if weights is None else Copies(Intervals.read(workspace, dataset, weights), seed)


def make_shard(workspace: Workspace, work: ShardWork) -> ShardRecord:
    """Merge, pack, shuffle and write one shard."""
    traits = traits_of(work.objective)
    group = merge_group(
        workspace,
        work.units,
        work.group,
        with_sentences=needs_sentences(work.objective, work.packing),
        with_sections=bool(traits.sections),
        copies=copies_taken(workspace, work.dataset, work.weights, work.seed),
    )
    layout, by_row = lay_out(group, work)
    own = own_of(layout, by_row, work)
    folder = workspace.create(work.key)
    for name, column in by_row.items():
        write_array(folder / f"{name}.npy", column)
    _write_segments(folder / "segments", layout)
    if traits.loss_mask:
        write_loss_mask(folder / f"{LOSS_MASK}.npy", own, group)
    if traits.segment_prompts:
        assert group.sections is not None
        prompts = segment_prompts(own, group.sections, work)
        write_array(folder / SEGMENT_PROMPT, prompts.astype("<i4"))
    special = special_ids_of(workspace.root)
    dtype = id_dtype(work.vocab_size)
    path = folder / "input_ids.npy"
    _write_rows(path, own, group, dtype=dtype, pad=special["pad"])
    if work.row_frame is not None:
        write_frames(path, layout, by_row[ADDED_END], work.row_frame)
    if traits.sentences:
        assert group.sentences is not None
        write_array(folder / SENTENCES / "ptr.npy", group.sentences.ptr.astype("<i8"))
        write_array(folder / SENTENCES / "ends.npy", group.sentences.values.astype("<i8"))
    if traits.unigram:
        write_array(folder / UNIGRAM, _unigram(group, work.vocab_size, special.values()))
    tokens, stored = int(own.length.sum()), int(group.lengths.sum())
    frame_tokens = int(layout.length.sum()) - tokens
    listed = IdSum()

    def documents(scratch: Path) -> Iterator[pa.Table]:
        for table in documents_of(group, work.units, scratch):
            listed.add_all(from_hex(table.column("id")), table.column("copy").to_numpy())
            yield table

    with workspace.scratch() as scratch:
        write_tables(folder / "documents.parquet", shard_schema(work.units), documents(scratch))
    gone, added = {CUT: Tally(tokens=stored - tokens)}, {}
    if work.weights is not None:
        gone[MIXED], added[COPIES] = group.mixed.left_out, group.mixed.copies
    flow = Flow(input=group.mixed.received, output=listed.tally(tokens=tokens), gone=gone, added=added)
    return ShardRecord(
        flow=flow,
        rows=layout.num_rows,
        segments=len(layout.start),
        documents=len(group.lengths),
        tokens=tokens + frame_tokens,
        tokens_cut=stored - tokens,
        frame_tokens=frame_tokens,
        source_rows=source_rows(layout, group, work.units) if work.interleave == "exact" else None,
    )


def _write_rows(
    path: Path, layout: Layout, group: MergedGroup, *, dtype: np.dtype[np.generic], pad: int
) -> None:
    """Write the rows through a mapped file: of the tokens nothing is held."""
    shape = (layout.num_rows, layout.row_length)
    rows: Any = mapped_npy(path, dtype, shape)
    rows[:] = pad
    group.copy(
        rows.reshape(-1),
        layout.doc,
        offsets=layout.doc_offset,
        places=layout.segment_rows() * layout.row_length + layout.start,
        lengths=layout.length,
    )


def _unigram(group: MergedGroup, vocab_size: int, special: Iterable[int]) -> NDArray[np.int64]:
    """Count the shard's ordinary tokens up by id: (vocab_size,) int64."""
    counts = np.zeros(vocab_size, np.int64)
    for first, last in batches(group.lengths, _COUNTED):
        counts += np.bincount(group.tokens(first, last), minlength=vocab_size)
    counts[list(special)] = 0
    return np.cumsum(counts)


def _write_segments(folder: Path, layout: Layout) -> None:
    for name, dtype in SEGMENT_COLUMNS.items():
        write_array(folder / f"{name}.npy", getattr(layout, name).astype(dtype))


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
    tables = _tables(workspace, work, folder)
    manifest = manifest_of(workspace, work, shards=shards, tables=tables).signed()
    write_manifest(workspace.create(f"{folder}/{MANIFEST_NAME}"), manifest)
    return ManifestRecord(fingerprint=manifest.fingerprint, **manifest.totals.model_dump())


def manifest_of(
    workspace: Workspace,
    work: ManifestWork,
    *,
    shards: tuple[Shard, ...] = (),
    tables: Mapping[str, FileDigest] | None = None,
) -> Manifest:
    """Return the manifest of a split, not signed: what the run's settings say of any shards."""
    traits, model = traits_of(work.objective), model_key(workspace.root)
    return Manifest(
        format_version=FORMAT_VERSION,
        name=work.dataset,
        split=work.split,
        objective={**work.objective.model_dump(mode="json"), "form": traits.form},
        seed=work.seed,
        epochs=1,
        attention=traits.attention,
        label_convention=traits.label_convention,
        seq_len=work.packing.seq_len,
        packing=work.packing.strategy.value,
        vocab_size=work.vocab_size,
        special_ids=special_ids_of(workspace.root),
        row_frame=None if work.row_frame is None else dict(work.row_frame),
        interleave=work.interleave,
        lineage=None if work.generation is None else RunFolder(workspace.root).lineage(work.generation),
        tokenizer=TokenizerFile(
            file=f"../../../{model}", sha256=digest_file(workspace.path(model)).sha256
        ),
        columns=_columns(work, widths_of(work.objective, work.packing.seq_len)),
        tables=dict(tables or {}),
        shards=shards,
        totals=sum_totals(shards),
    )


def _columns(work: ManifestWork, widths: Widths) -> dict[str, Column]:
    columns = {
        "input_ids": Column(
            dtype=id_dtype(work.vocab_size).str,
            shape=(widths.stored,),
            meaning="token ids; pad where no segment lies",
        )
    }
    if work.row_frame is not None:
        columns[ADDED_END] = Column(dtype="|u1", shape=(), meaning="1: the last id is no document's")
    if component_widths(work.objective, work.packing.seq_len):
        columns[OBJECTIVE_ID] = Column(dtype="|u1", shape=(), meaning="which component draws the row")
        return columns
    return {**columns, **kind_of(work.objective).stored_columns(work.objective, widths)}


def _tables(workspace: Workspace, work: ManifestWork, folder: str) -> dict[str, FileDigest]:
    """Write what drawing needs to know of the tokenizer."""
    if not traits_of(work.objective).words:
        return {}
    path = workspace.create(f"{folder}/{WORD_STARTS}")
    write_array(path, load_tokenizer(workspace).word_starts())
    return {WORD_STARTS: digest_file(path)}
