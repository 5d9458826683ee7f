"""What packing cost: padding and cuts of each split, by source and by language of its documents.

    rows of 4       A A A .     B B B B     B B C .       A, B, C: documents of 3, 6 and 1 tokens
    padding         A 1         B 2/3       C 1/3         a row's is shared by its documents' tokens
    cut             B: its tokens behind the first row, 2

Counted from the files of each shard, one shard at a time: of a document some numbers are held. What an
earlier report counted of the same split, by its fingerprint, is not counted again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.report.counted import Counted
from pipeline.report.report import Packed, SplitPacking, SplitTotals
from pipeline.steps.names import read_rows
from stages.columns import SHARD_DOCUMENTS, keep_columns_of, with_kept
from stages.errors import FormatError
from stages.loading.mapped import map_shard
from stages.store.manifest import LOSS_MASK, MANIFEST_NAME, Manifest, Shard, read_manifest
from stages.stores.mounts import here
from stages.verify.mechanics import SegmentedRows, check_segments

_BY = ("source", "language")
"""The columns of documents by which is counted."""
_BLOCK = 1 << 20
"""Positions of rows whose losses are counted together."""
_DAMAGED = (FormatError, OSError, pa.ArrowException, ValueError, TypeError)
"""What reading a damaged file raises, by whatever is wrong in it; `verify` names the file."""


@dataclass
class _Sums:
    """Sums over documents."""

    documents: int = 0
    tokens: int = 0
    padding: float = 0.0
    cut_documents: int = 0
    tokens_behind_cuts: int = 0
    tokens_cut: int = 0
    learned: int = 0
    silent_segments: int = 0

    def packed(self, name: str, *, with_losses: bool) -> Packed:
        """Return them as the report has them."""
        own: dict[str, Any] = {**vars(self), "name": name, "padding": round(self.padding)}
        if not with_losses:
            del own["learned"], own["silent_segments"]
        return Packed(**own)


@dataclass(frozen=True, eq=False)
class DocumentsOfRows:
    """What the rows of a shard say of each of its documents, (D,) each."""

    tokens: NDArray[np.int64]
    """In rows."""
    padding: NDArray[np.float64]
    """Of its rows, its share."""
    behind: NDArray[np.int64]
    """Tokens that lie in other rows than its first one."""
    learned: NDArray[np.int64]
    """With a loss; 0 where rows do not say so."""
    silent: NDArray[np.int64]
    """Its segments without such a token; likewise."""


def packing_of(
    output: Path, datasets: Mapping[str, SplitTotals], counted: Counted
) -> dict[str, dict[str, SplitPacking]]:
    """Return padding and cuts of every split, by source and by language, most padding first.

    Args:
        output: the run.
        datasets: what its report says of them; the fingerprint names what is to be counted.
        counted: what was counted before.
    """

    def split_of(name: str, split: str, fingerprint: str) -> SplitPacking:
        folder = output / "datasets" / name / split
        return counted.once(
            f"packing {name} {split}",
            fingerprint,
            SplitPacking,
            lambda: _split(folder, fingerprint),
            is_sound=lambda found: found.sources,
        )

    return {
        name: {split: split_of(name, split, totals.fingerprint) for split, totals in splits.items()}
        for name, splits in datasets.items()
    }


def silent_sources(packing: Mapping[str, Mapping[str, SplitPacking]]) -> Iterator[str]:
    """Yield a warning for each source whose tokens in a training split all lack a loss.

    Args:
        packing: the splits of each dataset, by its name.
    """
    for name, splits in packing.items():
        for source in splits["train"].sources if "train" in splits else ():
            if source.learned == 0 and source.tokens:
                yield (
                    f"datasets.{name}: none of the {source.tokens:,} tokens of sources.{source.name} has"
                    " a loss, so nothing is learned from them; look at the weights of its messages,"
                    " and at learn of chat or {% generation %} of its template"
                )


def _split(folder: Path, fingerprint: str) -> SplitPacking:
    """Return the content of one split; of damaged files nothing but that they are."""
    sums: tuple[dict[str, _Sums], ...] = ({}, {})
    with_losses = False
    try:
        manifest = read_manifest(here(folder / MANIFEST_NAME).parent)
        if manifest.fingerprint != fingerprint:
            raise FormatError(f"{folder}: another manifest than the run's")
        with_losses = LOSS_MASK in manifest.columns
        for shard in manifest.shards:
            _add_shard(sums, folder, manifest, shard)
    except _DAMAGED as error:
        reason = f"not counted: {error}"
        return SplitPacking(fingerprint=fingerprint, sources=(), languages=(), reason=reason)
    sources, languages = (
        tuple(
            one.packed(name, with_losses=with_losses)
            for name, one in sorted(by.items(), key=lambda item: (-item[1].padding, item[0]))
        )
        for by in sums
    )
    return SplitPacking(fingerprint=fingerprint, sources=sources, languages=languages)


def _add_shard(
    sums: tuple[dict[str, _Sums], ...], folder: Path, manifest: Manifest, shard: Shard
) -> None:
    """Add the documents of a shard, some at a time.

    Raises:
        FormatError: its rows are not as they must be, or the documents are not all listed.
    """
    mapped = map_shard(folder, shard, manifest)
    segments = {name: np.asarray(part, np.int64) for name, part in mapped.segments.items()}
    rows = SegmentedRows(mapped.columns["input_ids"], segments)
    faults = check_segments(rows, documents=shard.documents) if len(segments["doc"]) else []
    if faults:
        raise FormatError(f"{folder / shard.path}: {faults[0].message}")
    own = {name: np.asarray(part, np.int64) for name, part in mapped.own_segments.items()}
    mask, first = mapped.columns.get(LOSS_MASK), 0
    counted = count_documents(rows, shard.documents, own, loss_mask=mask)
    path = folder / shard.path / "documents.parquet"
    schema = pq.read_schema(path)
    if not schema.equals(with_kept(SHARD_DOCUMENTS, keep_columns_of(schema.names))):
        raise FormatError(f"{path}: other columns than the format has")
    for table in read_rows(path, [*_BY, "tokens"], 0, shard.documents):
        part = slice(first, first + table.num_rows)
        first = part.stop
        stored = table.column("tokens").fill_null(0).to_numpy()
        for by, name in zip(sums, _BY, strict=True):
            _add_table(by, table.column(name), counted, part, stored)
    if first != shard.documents:
        raise FormatError(f"{path}: lists {first:,} documents of {shard.documents:,}")


def count_documents(
    rows: SegmentedRows,
    documents: int,
    own: Mapping[str, NDArray[np.int64]] | None = None,
    *,
    loss_mask: NDArray[np.integer] | None = None,
) -> DocumentsOfRows:
    """Return tokens, padding and what lies behind cuts of each document of a shard, and its losses.

    Args:
        rows: with sound segments.
        documents: D.
        own: the segments without what frames rows, which is no padding; None if nothing does.
        loss_mask: 1 where a token of the rows has a loss, if they say so.
    """
    own = rows.segments if own is None else own
    row_ptr, length, doc = (own[name] for name in ("row_ptr", "length", "doc"))
    row = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
    filled, tokens = (
        np.bincount(row, of, minlength=len(row_ptr) - 1) for of in (rows.segments["length"], length)
    )
    share = ((rows.input_ids.shape[1] - filled) / np.maximum(tokens, 1))[row]
    begins = rows.segments["doc_offset"] == 0
    home = np.full(documents, -1, np.int64)
    home[doc[begins]] = row[begins]
    away = home[doc] != row
    losses = np.zeros_like(length) if loss_mask is None else _count_losses(rows, loss_mask)
    silent = (losses == 0) & (loss_mask is not None)
    inside, padding, behind, learned, quiet = (
        np.bincount(doc, of, minlength=documents)
        for of in (length, length * share, length * away, losses, silent)
    )
    return DocumentsOfRows(
        inside.astype(np.int64),
        padding.astype(np.float64),
        behind.astype(np.int64),
        learned.astype(np.int64),
        quiet.astype(np.int64),
    )


def _count_losses(rows: SegmentedRows, loss_mask: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return how many tokens of each segment have a loss, some rows at a time: (S,)."""
    row_ptr, start, length = (rows.segments[name] for name in ("row_ptr", "start", "length"))
    found, width = np.zeros_like(length), loss_mask.shape[1]
    step = max(1, _BLOCK // width)
    for first in range(0, len(loss_mask), step):
        last = min(first + step, len(loss_mask))
        some = slice(row_ptr[first], row_ptr[last])
        row = np.repeat(np.arange(last - first), np.diff(row_ptr[first : last + 1]))
        counted = np.cumsum(loss_mask[first:last] != 0)
        begins = row * width + start[some]
        counted = np.concatenate([[0], counted])
        found[some] = counted[begins + length[some]] - counted[begins]
    return found


def _add_table(
    by: dict[str, _Sums],
    names: pa.ChunkedArray,
    counted: DocumentsOfRows,
    part: slice,
    stored: NDArray[np.int64],
) -> None:
    """Add some documents of a shard to the sums by their names."""
    encoded = names.combine_chunks().fill_null("").dictionary_encode()
    chosen = encoded.indices.to_numpy(zero_copy_only=False)
    tokens, behind = counted.tokens[part], counted.behind[part]
    columns = (
        *(counted.padding[part], tokens, behind > 0, behind, stored - tokens, np.ones_like(tokens)),
        *(counted.learned[part], counted.silent[part]),
    )
    groups = len(encoded.dictionary)
    totals = [np.bincount(chosen, column, minlength=groups).tolist() for column in columns]
    for name, *values in zip(encoded.dictionary.to_pylist(), *totals, strict=True):
        sums = by.setdefault(name, _Sums())
        padding, *counts = values
        inside, cut, away, lost, documents, learned, silent = map(int, counts)
        sums.padding += float(padding)
        sums.tokens, sums.documents = sums.tokens + inside, sums.documents + documents
        sums.cut_documents, sums.tokens_cut = sums.cut_documents + cut, sums.tokens_cut + lost
        sums.tokens_behind_cuts += away
        sums.learned, sums.silent_segments = sums.learned + learned, sums.silent_segments + silent


def by_source(packing: Mapping[str, Mapping[str, SplitPacking]]) -> Iterator[tuple[str, Packed]]:
    """Yield the sources of each split, the split named as tables name it."""
    for dataset, splits in packing.items():
        for split, content in splits.items():
            for row in content.sources:
                yield f"{dataset}/{split}", row
