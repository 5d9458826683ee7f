"""Datasets for measuring the loader: causal rows of drawn ids, packed of documents of usual lengths."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.packing.best_fit import pack_best_fit
from stages.store.arrays import write_array
from stages.store.digests import FileDigest, digest_file
from stages.store.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    SEGMENT_COLUMNS,
    Column,
    Manifest,
    Shard,
    TokenizerFile,
    sum_totals,
    write_manifest,
)

EOS, PAD, VOCAB = 2, 3, 32_000
MEAN_LENGTH = 630
"""Tokens of a document of the corpus of docs/benchmarks.md, on average."""


def write_dataset(folder: Path, *, shards: int, rows: int, seq_len: int, linked: bool = False) -> Path:
    """Write the split `train` of a clm dataset of about so many rows a shard; give its folder.

    Args:
        folder: where it is written.
        shards: how many.
        rows: of each shard.
        seq_len: tokens of a row.
        linked: all shards are hard links to the files of the first, so that thousands fit on a disk.
    """
    split = folder / "train"
    written: list[Shard] = []
    for number in range(shards):
        path = f"epoch-0000/{number:05d}"
        if linked and written:
            for name in written[0].files:
                (split / path / name).parent.mkdir(parents=True, exist_ok=True)
                os.link(split / written[0].path / name, split / path / name)
            written.append(written[0].model_copy(update={"path": path}))
        else:
            written.append(_write_shard(split, path, rows=rows, seq_len=seq_len, seed=number))
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        name=folder.name,
        split="train",
        objective={"kind": "clm", "mask_first_token": False, "form": "row"},
        seed=7,
        epochs=1,
        attention="causal_within_document",
        label_convention="unshifted",
        seq_len=seq_len,
        packing="best_fit",
        vocab_size=VOCAB,
        special_ids={"eos": EOS, "pad": PAD},
        tokenizer=TokenizerFile(file="tokenizer.model", sha256="00"),
        tables={},
        columns={"input_ids": Column(dtype="<u2", shape=(seq_len,), meaning="token ids")},
        shards=tuple(written),
        totals=sum_totals(tuple(written)),
    )
    write_manifest(split / MANIFEST_NAME, manifest.signed())
    return folder


def _write_shard(split: Path, path: str, *, rows: int, seq_len: int, seed: int) -> Shard:
    generator = np.random.default_rng(seed)
    lengths = _lengths(generator, tokens=rows * seq_len)
    layout = pack_best_fit(lengths, row_length=seq_len)
    ids = generator.integers(10, VOCAB, (layout.num_rows, seq_len), np.uint16)
    filled = np.add.reduceat(layout.length.astype(np.int64), layout.row_ptr[:-1])
    ids[np.arange(seq_len) >= filled[:, None]] = PAD
    folder = split / path
    write_array(folder / "input_ids.npy", ids)
    for name, dtype in SEGMENT_COLUMNS.items():
        write_array(folder / "segments" / f"{name}.npy", getattr(layout, name).astype(dtype))
    documents = pa.table({"doc": layout.doc, "doc_offset": layout.doc_offset})  # no row is made of them
    pq.write_table(documents, folder / "documents.parquet")
    files: dict[str, FileDigest] = {
        file.relative_to(folder).as_posix(): digest_file(file)
        for file in sorted(folder.rglob("*.*"))
        if file.is_file()
    }
    return Shard(
        path=path,
        rows=layout.num_rows,
        segments=len(layout.doc),
        documents=len(lengths),
        tokens=int(filled.sum()),
        tokens_cut=0,
        files=files,
    )


def _lengths(generator: np.random.Generator, *, tokens: int) -> NDArray[np.int64]:
    """Return log-normal lengths of documents that are so many tokens together."""
    drawn = generator.lognormal(np.log(MEAN_LENGTH) - 0.5, 1.0, max(4, 2 * tokens // MEAN_LENGTH))
    lengths = np.maximum(drawn, 2).astype(np.int64)
    return lengths[: int(np.searchsorted(np.cumsum(lengths), tokens)) + 1]
