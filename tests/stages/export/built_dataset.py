"""Tiny datasets for the tests of exports, built of documents by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from stages.store.arrays import id_dtype, write_array
from stages.store.digests import digest_file
from stages.store.drawn import DRAWN_NAME, DrawnManifest, DrawnShard, write_drawn
from stages.store.manifest import (
    FORMAT_VERSION,
    LOSS_MASK,
    MANIFEST_NAME,
    SEGMENT_COLUMNS,
    SENTENCES,
    Column,
    Manifest,
    Shard,
    TokenizerFile,
    sum_totals,
    write_manifest,
)

EOS, PAD = 2, 3
SPECIAL = {
    name: number for number, name in enumerate(["unk", "bos", "eos", "pad", "cls", "sep", "mask"])
}
ROW_LENGTH = 4
MODEL = b"not a model, but its bytes"
MASK = Column(dtype="|u1", shape=(ROW_LENGTH,), meaning="losses")
Documents = Sequence[Sequence[int]]
"""Of a shard, the ids of each, its EOS among them."""


def build_dataset(
    root: Path,
    splits: Mapping[str, Sequence[Documents]],
    *,
    vocab_size: int = 300,
    sentences: Mapping[str, Sequence[Sequence[Sequence[int]]]] | None = None,
    losses: Mapping[str, Sequence[Documents]] | None = None,
    name: str = "tiny",
    seed: int = 7,
) -> Path:
    """Write a dataset below `root/datasets`; give its folder.

    Args:
        root: of the run.
        splits: of each split its shards.
        vocab_size: which decides the dtype.
        sentences: of each document, after how many tokens each sentence ends; of a dataset for `nsp`.
        losses: of each document, 1 for each token with a loss and 0 for each other; of a dataset with a
            loss on targets.
        name: of the dataset.
        seed: of the manifest.
    """
    (root / "tokenizer").mkdir(parents=True, exist_ok=True)
    (root / "tokenizer" / "tokenizer.model").write_bytes(MODEL)
    ids = Column(dtype=id_dtype(vocab_size).str, shape=(ROW_LENGTH,), meaning="ids")
    loss = {} if losses is None else {"loss": "targets"}
    for split, shards in splits.items():
        folder = root / "datasets" / name / split
        written = []
        for number, documents in enumerate(shards):
            path = f"epoch-0000/{number:05d}"
            ends = None if sentences is None else sentences[split][number]
            learned = None if losses is None else losses[split][number]
            written.append(_write_shard(folder, path, documents, vocab_size, ends=ends, losses=learned))
        manifest = Manifest(
            format_version=FORMAT_VERSION,
            name=name,
            split=split,
            objective={"kind": "clm" if sentences is None else "nsp", "form": "row", **loss},
            seed=seed,
            epochs=1,
            attention="causal_within_document",
            label_convention="unshifted" if sentences is None else "masked",
            seq_len=ROW_LENGTH,
            packing="best_fit",
            vocab_size=vocab_size,
            special_ids=SPECIAL,
            tokenizer=TokenizerFile(
                file="../../../tokenizer/tokenizer.model",
                sha256=digest_file(root / "tokenizer" / "tokenizer.model").sha256,
            ),
            tables={},
            columns={"input_ids": ids, **({} if losses is None else {LOSS_MASK: MASK})},
            shards=tuple(written),
            totals=sum_totals(tuple(written)),
        ).signed()
        write_manifest(folder / MANIFEST_NAME, manifest)
        if sentences is not None:
            _write_drawn(folder, manifest)
    return root / "datasets" / name


def _write_shard(
    folder: Path,
    path: str,
    documents: Documents,
    vocab_size: int,
    *,
    ends: Documents | None,
    losses: Documents | None,
) -> Shard:
    """Write documents in pieces of up to a row, one a row, the rows in an order of their own."""
    pieces = [
        (number, offset, document[offset : offset + ROW_LENGTH])
        for number, document in enumerate(documents)
        for offset in range(0, len(document), ROW_LENGTH)
    ]
    pieces = pieces[1::2] + pieces[0::2]
    rows = np.full((len(pieces), ROW_LENGTH), PAD, id_dtype(vocab_size))
    mask = np.zeros(rows.shape, np.uint8)
    for row, (number, offset, tokens) in enumerate(pieces):
        rows[row, : len(tokens)] = tokens
        if losses is not None:
            mask[row, : len(tokens)] = losses[number][offset : offset + len(tokens)]
    columns = {
        "row_ptr": range(len(pieces) + 1),
        "start": [0] * len(pieces),
        "length": [len(tokens) for _, _, tokens in pieces],
        "doc": [number for number, _, _ in pieces],
        "doc_offset": [offset for _, offset, _ in pieces],
    }
    write_array(folder / path / "input_ids.npy", rows)
    if losses is not None:
        write_array(folder / path / f"{LOSS_MASK}.npy", mask)
    for name, dtype in SEGMENT_COLUMNS.items():
        write_array(folder / path / "segments" / f"{name}.npy", np.array(columns[name], dtype))
    if ends is not None:
        ptr = np.cumsum([0, *map(len, ends)])
        write_array(folder / path / SENTENCES / "ptr.npy", ptr.astype("<i8"))
        flat = np.array([end for document in ends for end in document], "<i8")
        write_array(folder / path / SENTENCES / "ends.npy", flat)
    files = sorted((folder / path).rglob("*.npy"))
    return Shard(
        path=path,
        rows=len(pieces),
        segments=len(pieces),
        documents=len(documents),
        tokens=sum(map(len, documents)),
        tokens_cut=0,
        files={file.relative_to(folder / path).as_posix(): digest_file(file) for file in files},
    )


def _write_drawn(folder: Path, manifest: Manifest) -> None:
    """Say that an epoch stands on disk, without a column: exports of documents look at none."""
    numbers = range(len(manifest.shards))
    shards = (tuple(DrawnShard(path=f"drawn/epoch-0000/{n:05d}", files={}) for n in numbers),)
    drawn = DrawnManifest(
        format_version=FORMAT_VERSION,
        dataset=manifest.fingerprint,
        epochs=1,
        columns={},
        shards=shards,
    ).signed()
    write_drawn(folder / DRAWN_NAME, drawn)
