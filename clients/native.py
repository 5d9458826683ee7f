"""What a dataset holds, read as plainly as can be: what every client must find in its export.

Documents are put together with numpy from the arrays that docs/format.md describes, not by the code
that exports; rows come from `shardmill.open_dataset`, as a trainer gets them.
"""

import hashlib
import itertools
import json
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

import shardmill

Ids = NDArray[np.integer]
Counts = tuple[int | None, int | None, str]
"""Sequences, documents and the SHA-256 of all numbers in order, as little-endian int64."""


_IGNORED = -100


class Pieces(NamedTuple):
    """Documents, or the pieces of documents that rows hold, in order; P of them."""

    documents: NDArray[np.int64]
    """(P,) the number of each one's document in the split."""
    tokens: NDArray[np.int64]
    """(P,) tokens of the document in it, EOS counted."""
    around: NDArray[np.int64]
    """(P,) how many more a trainer sees: special ids of sop, less the EOS that sop does not show."""


def digest(parts: Iterable[Ids]) -> str:
    """Return the SHA-256 of all numbers in order."""
    sha256 = hashlib.sha256()
    for part in parts:
        sha256.update(np.ascontiguousarray(part, "<i8").data)
    return sha256.hexdigest()


class NativeSplit:
    """One split of a dataset.

    Args:
        folder: the split's.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest: dict[str, Any] = json.loads((folder / "dataset.json").read_text())
        self.shards = [folder / shard["path"] for shard in self.manifest["shards"]]
        self.documents = [_documents(shard) for shard in self.shards]
        """Of each shard, the ids of each document."""

    def answer(self, what: str, order: Sequence[int] | None, *, window: int) -> Counts:
        """Return what a client must find of one part.

        Args:
            what: as its reader calls it: stream, windows, samples, or a column of the rows.
            order: what the client drew, if its answer depends on that.
            window: tokens of each of the windows that its trainer cuts files into.
        """
        documents = [*itertools.chain.from_iterable(self.documents)]
        match what:
            case "stream":
                return None, len(documents), digest(documents)
            case "windows":
                cut = self.windows("windows of a file", window)
                return len(cut), None, digest(cut)
            case "samples":
                cut = self.windows("samples", int(self.manifest["seq_len"]) + 1, order)
                return len(cut), len(documents), digest(cut)
            case "pairs for BERT" | "samples for T5":
                sentences = [
                    *itertools.chain.from_iterable(map(_sentences, self.shards, self.documents))
                ]
                triples = np.array(order, np.int64).reshape(-1, 3)
                texts = [np.concatenate(sentences[first:last]) for first, last, _ in triples]
                sizes = [
                    len(text) if most < 0 else most
                    for text, most in zip(texts, triples[:, 2], strict=True)
                ]
                return len(texts), None, digest(t[:n] for t, n in zip(texts, sizes, strict=True))
            case _:
                return self._column(what)

    def windows(self, unit: str, window: int, order: Sequence[int] | None = None) -> Ids:
        """Return the (N, window) ids that trainers cut documents into.

        Args:
            unit: windows of a file, where each shard is one, windows of a split, pieces of documents,
                filled up with padding, or samples, which share their last id with the next one.
            window: ids of each.
            order: documents as the trainer drew them, for samples.
        """
        match unit:
            case "windows of a file":
                return np.concatenate(
                    [_windows(np.concatenate(shard), window) for shard in self.documents if shard]
                )
            case "pieces of documents":
                documents = [*itertools.chain.from_iterable(self.documents)]
                cut = [ids[at : at + window] for ids in documents for at in range(0, len(ids), window)]
                filled = np.full((len(cut), window), self.manifest["special_ids"]["pad"], np.int64)
                for row, piece in zip(filled, cut, strict=True):
                    row[: len(piece)] = piece
                return filled
            case "windows of a split":
                return _windows(np.concatenate([*itertools.chain(*self.documents)]), window)
            case "samples":
                documents = [*itertools.chain.from_iterable(self.documents)]
                stream = np.concatenate([documents[number] for number in order or ()])
                step = window - 1
                return np.stack([stream[at : at + window] for at in range(0, len(stream) - step, step)])
            case _:
                raise AssertionError(f"no trainer cuts documents into {unit}")

    def column(self, name: str) -> NDArray[np.int64]:
        """Return a column of all rows, (N, ...): of the dataset, or made of it as trainers want it."""
        rows = self._rows
        if name in rows:
            return rows[name]
        match name:
            case "tokens":
                return rows["input_ids"]
            case "attention_mask" if "segment_ids" in rows:
                return (rows["segment_ids"] >= 0).astype(np.int64)
            case "attention_mask":
                width = rows["input_ids"].shape[-1]
                return (np.arange(width) < rows["input_length"][..., None]).astype(np.int64)
            case "labels without first":
                return np.where(rows["position_ids"] == 0, _IGNORED, rows["labels"])
            case "labels one on":
                next_ids = np.full_like(rows["labels"], _IGNORED)
                next_ids[:, :-1] = np.where(
                    rows["segment_ids"][:, 1:] == rows["segment_ids"][:, :-1],
                    rows["labels"][:, 1:],
                    _IGNORED,
                )
                return next_ids
            case _:
                raise AssertionError(f"the rows have no {name}, and none is made of them")

    def num_sentences(self) -> int:
        """Return the sentences of all documents."""
        return sum(len(np.load(shard / "sentences" / "ends.npy")) for shard in self.shards)

    def columns(self, format_: str) -> list[str]:
        """Return the columns that its rows must have in a format."""
        names = {*self._rows, "attention_mask"}
        if format_ == "mds" and self.manifest["label_convention"] == "unshifted":
            names = {*names, "tokens"} - {"input_ids"}
        return sorted(names)

    @cached_property
    def sources(self) -> NDArray[np.str_]:
        """The source of each document, shard by shard."""
        tables = [
            pq.read_table(shard / "documents.parquet", columns=["source"]) for shard in self.shards
        ]
        return np.array([name for table in tables for name in table["source"].to_pylist()], np.str_)

    def pieces(self, what: str) -> Pieces:
        """Return the documents of the stream, or the pieces of them in rows.

        Args:
            what: stream, or else the column `segment_ids`, which tells pieces apart.
        """
        if what == "stream":
            lengths = np.array([len(ids) for shard in self.documents for ids in shard], np.int64)
            return Pieces(np.arange(len(lengths)), lengths, np.zeros_like(lengths))
        read = _pairs if self.manifest["objective"]["kind"] == "sop" else _segments
        parts = [
            read(shard, documents) for shard, documents in zip(self.shards, self.documents, strict=True)
        ]
        firsts = np.cumsum([0, *map(len, self.documents)])
        moved = [part.documents + first for part, first in zip(parts, firsts, strict=False)]
        tokens, around = (np.concatenate([part[at] for part in parts]) for at in (1, 2))
        return Pieces(np.concatenate(moved), tokens, around)

    def _column(self, name: str) -> Counts:
        return int(self.manifest["totals"]["rows"]), None, digest([self.column(name)])

    @cached_property
    def _rows(self) -> dict[str, NDArray[np.int64]]:
        rows = shardmill.open_dataset(self.folder.parent, split=self.folder.name, shuffle=False)
        return rows.batch(np.arange(len(rows)))


def _documents(shard: Path) -> list[Ids]:
    """Return the ids of each document of a shard, its segments one after the other."""
    ids = np.load(shard / "input_ids.npy")
    names = ("row_ptr", "start", "length", "doc", "doc_offset")
    row_ptr, start, length, doc, offset = (np.load(shard / "segments" / f"{n}.npy") for n in names)
    row = np.repeat(np.arange(len(ids)), np.diff(row_ptr))
    pieces: dict[int, list[Ids]] = {}
    for at in np.lexsort((offset, doc)):
        piece = ids[row[at], start[at] : start[at] + length[at]]
        pieces.setdefault(int(doc[at]), []).append(piece)
    return [np.concatenate(pieces[number]) for number in sorted(pieces)]


def _segments(shard: Path, _: list[Ids]) -> Pieces:
    """Return the segments of a shard, row by row."""
    doc, length = (np.load(shard / "segments" / f"{n}.npy").astype(np.int64) for n in ("doc", "length"))
    return Pieces(doc, length, np.zeros_like(length))


def _pairs(shard: Path, documents: list[Ids]) -> Pieces:
    """Return the rows of a shard of `sop`, each with one segment or two of a document.

    A trainer sees CLS in front of a row and SEP behind each segment, and no EOS.
    """
    doc, length, _ = _segments(shard, documents)
    offset = np.load(shard / "segments" / "doc_offset.npy")
    row_ptr = np.load(shard / "segments" / "row_ptr.npy")
    first, segments = row_ptr[:-1], np.diff(row_ptr)
    ends = offset + length == np.array([len(ids) for ids in documents])[doc]
    around = 1 + segments - np.add.reduceat(ends.astype(np.int64), first)
    return Pieces(doc[first], np.add.reduceat(length, first), around)


def _sentences(shard: Path, documents: list[Ids]) -> list[Ids]:
    """Return the ids of each sentence of a shard."""
    ptr, ends = (np.load(shard / "sentences" / f"{name}.npy") for name in ("ptr", "ends"))
    return [
        sentence
        for number, document in enumerate(documents)
        for sentence in np.split(document, ends[ptr[number] : ptr[number + 1]][:-1])
    ]


def _windows(stream: Ids, window: int) -> Ids:
    """Return (N, window) ids without overlap; what is left at the end is in none."""
    number = len(stream) // window
    return stream[: number * window].reshape(number, window)
