"""What packing cost: padding and cuts of each split, by source and by language of its documents.

    rows of 4       A A A .     B B B B     B B C .       A, B, C: documents of 3, 6 and 1 tokens
    padding         A 1         B 2/3       C 1/3         a row's is shared by its documents' tokens
    cut             B: its tokens behind the first row, 2

Counted from the files of each shard, one shard at a time: of a document some numbers are held. What an
earlier report says of the same split, by its fingerprint, is not counted again.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.report.content import PackedContent, PackingContent, SplitContent
from pipeline.steps.names import read_rows
from stages.columns import SHARD_DOCUMENTS
from stages.errors import FormatError
from stages.loading.mapped import map_shard
from stages.store.manifest import Manifest, Shard, read_manifest
from stages.verify.mechanics import SegmentedRows, check_segments

_BY = ("source", "language")
"""The columns of documents by which is counted."""
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

    def content(self, name: str) -> PackedContent:
        """Return them as the report has them."""
        return {
            "name": name,
            "documents": self.documents,
            "tokens": self.tokens,
            "padding": round(self.padding),
            "cut_documents": self.cut_documents,
            "tokens_behind_cuts": self.tokens_behind_cuts,
            "tokens_cut": self.tokens_cut,
        }


@dataclass(frozen=True, eq=False)
class Counted:
    """What the rows of a shard say of each of its documents, (D,) each."""

    tokens: NDArray[np.int64]
    """In rows."""
    padding: NDArray[np.float64]
    """Of its rows, its share."""
    behind: NDArray[np.int64]
    """Tokens that lie in other rows than its first one."""


def packing_of(
    output: Path, datasets: dict[str, dict[str, SplitContent]]
) -> dict[str, dict[str, PackingContent]]:
    """Return padding and cuts of every split, by source and by language, most padding first.

    Args:
        output: the run.
        datasets: what its report says of them; the fingerprint names what is to be counted.
    """
    known = _known(output)
    return {
        name: {
            split: known.get(totals["fingerprint"])
            or _split(output / "datasets" / name / split, totals["fingerprint"])
            for split, totals in splits.items()
        }
        for name, splits in datasets.items()
    }


def _known(output: Path) -> dict[str, PackingContent]:
    """Return what the report that is there says of each split, by fingerprint."""
    try:
        report = json.loads((output / "report" / "report.json").read_text(encoding="utf-8"))
        found = [split for splits in report["packing"].values() for split in splits.values()]
        return {
            split["fingerprint"]: cast("PackingContent", split) for split in found if split["sources"]
        }
    except (OSError, ValueError, LookupError, AttributeError, TypeError):  # none, or not one of ours
        return {}


def _split(folder: Path, fingerprint: str) -> PackingContent:
    """Return the content of one split; of damaged files nothing but that they are."""
    sums: tuple[dict[str, _Sums], ...] = ({}, {})
    content: PackingContent = {"fingerprint": fingerprint, "sources": [], "languages": []}
    try:
        manifest = read_manifest(folder)
        if manifest.fingerprint != fingerprint:
            raise FormatError(f"{folder}: another manifest than the run's")
        for shard in manifest.shards:
            _add_shard(sums, folder, manifest, shard)
    except _DAMAGED as error:
        return {**content, "reason": f"not counted: {error}"}
    sources, languages = (
        [
            one.content(name)
            for name, one in sorted(by.items(), key=lambda item: (-item[1].padding, item[0]))
        ]
        for by in sums
    )
    return {**content, "sources": sources, "languages": languages}


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
    broken = check_segments(rows, documents=shard.documents) if len(segments["doc"]) else []
    if broken:
        raise FormatError(f"{folder / shard.path}: {broken[0].message}")
    own = {name: np.asarray(part, np.int64) for name, part in mapped.own_segments.items()}
    counted, first = count_documents(rows, shard.documents, own), 0
    path = folder / shard.path / "documents.parquet"
    if not pq.read_schema(path).equals(SHARD_DOCUMENTS):
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
    rows: SegmentedRows, documents: int, own: Mapping[str, NDArray[np.int64]] | None = None
) -> Counted:
    """Return tokens, padding and what lies behind cuts of each document of a shard.

    Args:
        rows: with sound segments.
        documents: D.
        own: the segments without what frames rows, which is no padding; None if nothing does.
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
    sums = (np.bincount(doc, of, minlength=documents) for of in (length, length * share, length * away))
    inside, padding, behind = sums
    return Counted(inside.astype(np.int64), padding.astype(np.float64), behind.astype(np.int64))


def _add_table(
    by: dict[str, _Sums],
    names: pa.ChunkedArray,
    counted: Counted,
    part: slice,
    stored: NDArray[np.int64],
) -> None:
    """Add some documents of a shard to the sums by their names."""
    encoded = names.combine_chunks().fill_null("").dictionary_encode()
    chosen = encoded.indices.to_numpy(zero_copy_only=False)
    tokens, behind = counted.tokens[part], counted.behind[part]
    columns = (counted.padding[part], tokens, behind > 0, behind, stored - tokens, np.ones_like(tokens))
    groups = len(encoded.dictionary)
    totals = [np.bincount(chosen, column, minlength=groups).tolist() for column in columns]
    for name, *values in zip(encoded.dictionary.to_pylist(), *totals, strict=True):
        sums = by.setdefault(name, _Sums())
        padding, *counts = values
        inside, cut, away, lost, documents = map(int, counts)
        sums.padding += float(padding)
        sums.tokens, sums.documents = sums.tokens + inside, sums.documents + documents
        sums.cut_documents, sums.tokens_cut = sums.cut_documents + cut, sums.tokens_cut + lost
        sums.tokens_behind_cuts += away


def by_source(packing: dict[str, dict[str, PackingContent]]) -> Iterator[tuple[str, PackedContent]]:
    """Yield the sources of each split, the split named as tables name it."""
    for dataset, splits in packing.items():
        for split, content in splits.items():
            for row in content["sources"]:
                yield f"{dataset}/{split}", row
