"""Datasets with columns of any shape, on disk as epochs that were drawn; plain readers of exports."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.export.files import ExportFiles
from stages.export.format import Format
from stages.export.source import ExportSource, open_source
from stages.export.table import select
from stages.store.arrays import write_array
from stages.store.digests import digest_file
from stages.store.drawn import DRAWN_NAME, DrawnManifest, DrawnShard, write_drawn
from stages.store.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    Column,
    Manifest,
    Shard,
    TokenizerFile,
    sum_totals,
    write_manifest,
)

Rows = Mapping[str, NDArray[np.integer]]
"""Columns by name, each (rows, ...)."""


def build_rows(root: Path, shards: Sequence[Rows], *, epoch: int = 0) -> ExportSource:
    """Write a split whose rows have these columns, and open it.

    Args:
        root: where its folder goes.
        shards: of each the columns.
        epoch: the one that has them; those before it have other values.
    """
    folder = root / "tiny" / "train"
    parts = [
        Shard(
            path=f"epoch-0000/{number:05d}",
            rows=len(next(iter(rows.values()))),
            segments=0,
            documents=0,
            tokens=0,
            tokens_cut=0,
            files={},
        )
        for number, rows in enumerate(shards)
    ]
    manifest = Manifest(
        format_version=FORMAT_VERSION,
        name="tiny",
        split="train",
        objective={"kind": "span_corruption", "form": "row"},
        seed=7,
        epochs=1,
        attention="encoder_decoder",
        label_convention="targets",
        seq_len=64,
        packing="best_fit",
        vocab_size=300,
        special_ids={"eos": 2, "pad": 3},
        tokenizer=TokenizerFile(file="tokenizer.model", sha256="0" * 64),
        columns={"input_ids": Column(dtype="<u2", shape=(64,), meaning="ids")},
        tables={},
        shards=tuple(parts),
        totals=sum_totals(tuple(parts)),
    ).signed()
    folder.mkdir(parents=True)
    write_manifest(folder / MANIFEST_NAME, manifest)
    _write_epochs(folder, shards, epoch, dataset=manifest.fingerprint)
    return open_source(root / "tiny", split="train", epoch=epoch)


def _write_epochs(folder: Path, shards: Sequence[Rows], epoch: int, *, dataset: str) -> None:
    columns = {
        name: Column(dtype=column.dtype.str, shape=column.shape[1:], meaning="of a test")
        for name, column in shards[0].items()
    }
    drawn = DrawnManifest(
        format_version=FORMAT_VERSION,
        dataset=dataset,
        epochs=epoch + 1,
        columns=columns,
        shards=tuple(
            tuple(
                _write_drawn(folder, rows, at, number, other=at < epoch)
                for number, rows in enumerate(shards)
            )
            for at in range(epoch + 1)
        ),
    ).signed()
    write_drawn(folder / DRAWN_NAME, drawn)


def _write_drawn(folder: Path, rows: Rows, epoch: int, number: int, *, other: bool) -> DrawnShard:
    path = f"drawn/epoch-{epoch:04}/{number:05}"
    for name, column in rows.items():
        write_array(folder / path / f"{name}.npy", ~column if other else column)
    files = {f"{name}.npy": digest_file(folder / path / f"{name}.npy") for name in rows}
    return DrawnShard(path=path, files=files)


def write_export(
    format_: Format, source: ExportSource, folder: Path, columns: Sequence[str] = ()
) -> None:
    """Write one split as its pipeline does: the shards in order, the end, and what names all splits."""
    files = ExportFiles(folder, {})
    source = select(format_, source, columns)
    format_.refuse(source)
    for shard in range(source.num_shards):
        format_.write_part(source, shard, files)
    format_.finish(source, files)
    format_.close([source], files)
    found = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    assert files.written.keys() == found
    require_named(format_, found)


def require_named(format_: Format, written: Iterable[str]) -> None:
    """Require that a format's value names every file that was written."""
    wild = {"SPLIT": "[a-z]+", "NNNNN": r"\d{5,}", "MMMMM": r"\d{5,}"}
    patterns = [
        re.sub("SPLIT|NNNNN|MMMMM", lambda found: wild[found[0]], name) for name in format_.files
    ]
    for name in written:
        assert any(re.fullmatch(pattern, name) for pattern in patterns), (name, format_.files)


def read_mds(folder: Path) -> dict[str, NDArray[np.integer]]:
    """Return the columns of MDS files: each row found by its offsets, cut as the index says."""
    index = json.loads((folder / "index.json").read_bytes())
    assert index["version"] == 2
    found: dict[str, list[NDArray[np.integer]]] = {}
    for shard in index["shards"]:
        raw = (folder / shard["raw_data"]["basename"]).read_bytes()
        assert len(raw) == shard["raw_data"]["bytes"]
        rows = int(np.frombuffer(raw, "<u4", 1)[0])
        assert rows == shard["samples"]
        offsets = np.frombuffer(raw, "<u4", rows + 1, offset=4)
        config = json.loads(raw[8 + 4 * rows : offsets[0]])
        assert config == {key: shard[key] for key in config}
        assert offsets[-1] == len(raw)
        for begin, end in itertools.pairwise(offsets):
            at = int(begin)
            described = (config["column_names"], config["column_encodings"], config["column_sizes"])
            for name, encoding, size in zip(*described, strict=True):
                dtype, shape = _mds_type(encoding)
                value = np.frombuffer(raw[at : at + size], dtype).reshape(shape)
                found.setdefault(name, []).append(value)
                at += size
            assert at == end
    return {name: np.stack(values) for name, values in found.items()}


def _mds_type(encoding: str) -> tuple[str, tuple[int, ...]]:
    if not encoding.startswith("ndarray:"):
        return encoding, ()
    _, dtype, shape = encoding.split(":")
    return dtype, tuple(map(int, shape.split(",")))


def read_safetensors(folder: Path) -> dict[str, NDArray[np.integer]]:
    """Return the tensors of all files, each checked to follow the one before and to be aligned."""
    dtypes = {"BOOL": "?", "U8": "<u1", "U16": "<u2", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
    found: dict[str, list[NDArray[np.integer]]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        raw = path.read_bytes()
        start = 8 + int.from_bytes(raw[:8], "little")
        assert start % 8 == 0
        end = 0
        header = json.loads(raw[8:start])
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            begin, last = entry["data_offsets"]
            assert begin == end
            end = last
            dtype = np.dtype(dtypes[entry["dtype"]])
            assert begin % dtype.itemsize == 0
            values = np.frombuffer(raw[start + begin : start + end], dtype).reshape(entry["shape"])
            found.setdefault(name, []).append(values)
        assert start + end == len(raw)
    return {name: np.concatenate(values) for name, values in found.items()}


def read_arrow(folder: Path) -> dict[str, NDArray[np.integer]]:
    """Return the columns of the Arrow streams that state.json lists, in its order."""
    state = json.loads((folder / "state.json").read_bytes())
    tables = [
        pa.ipc.open_stream(folder / entry["filename"]).read_all() for entry in state["_data_files"]
    ]
    return _columns(pa.concat_tables(tables))


def read_parquet(folder: Path) -> dict[str, NDArray[np.integer]]:
    """Return the columns of all Parquet files."""
    return _columns(pa.concat_tables([pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]))


def _columns(table: pa.Table) -> dict[str, NDArray[np.integer]]:
    found = {}
    for name in table.column_names:
        column, shape = table.column(name).combine_chunks(), [table.num_rows]
        while pa.types.is_list(column.type):
            (size,) = column.value_lengths().unique().to_pylist() or [0]
            shape.append(size)
            column = column.flatten()
        assert column.null_count == 0
        found[name] = column.to_numpy(zero_copy_only=False).reshape(shape)
    return found


READERS: dict[str, Callable[[Path], dict[str, NDArray[np.integer]]]] = {
    "hf": read_arrow,
    "hf-parquet": read_parquet,
    "mds": read_mds,
    "safetensors": read_safetensors,
}
"""Of each format of rows, what reads the folder of a split."""
