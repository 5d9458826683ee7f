"""Hugging Face datasets: rows as Arrow files that it maps, or as Parquet.

    hf             dataset_dict.json                   the splits, so that the folder opens as a whole
                   SPLIT/data-NNNNN-of-MMMMM.arrow     an Arrow IPC stream: its schema, batches, the end
                   SPLIT/dataset_info.json             no more than names; columns follow from the files
                   SPLIT/state.json                    the files in order, and the split
    hf-parquet     SPLIT/SPLIT-NNNNN-of-MMMMM.parquet

One file a shard. A column of one value a row is that type; any other is a list, of two axes a list of
lists. All lists of a column have the same length, so a batch of n rows of L tokens is one buffer of n L
values. They are not lists of fixed size, because axolotl reads no labels from those. All columns have as
many values as there are rows, and none is null.
"""

import glob
import json
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stages.export.columns import ColumnType
from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.rows import refuse_no_rows, row_notes
from stages.export.source import ExportSource
from stages.export.staged import ExportedStage, TrainerStages


def arrow_type(column: ColumnType) -> pa.DataType:
    """Return the type of a column: of its dtype, in a list for each axis."""
    found = pa.from_numpy_dtype(np.dtype(column.dtype))
    for _ in column.shape:
        found = pa.list_(found)
    return found


def arrow_array(values: NDArray[np.integer]) -> pa.Array:
    """Return (N, ...) values as N lists, of the same memory where Arrow can."""
    found = pa.array(values.reshape(-1))
    for axis in range(values.ndim - 1, 0, -1):
        lists, size = math.prod(values.shape[:axis]), values.shape[axis]
        ends = np.arange(lists + 1, dtype=np.int32) * np.int32(size)
        found = pa.ListArray.from_arrays(pa.array(ends), found)
    return found


def _schema(source: ExportSource) -> pa.Schema:
    return pa.schema([(name, arrow_type(column)) for name, column in source.columns.items()])


def _batches(source: ExportSource, shard: int) -> Iterator[pa.RecordBatch]:
    schema = _schema(source)
    for block in source.rows(shard):
        yield pa.record_batch([arrow_array(block[name]) for name in schema.names], schema=schema)


def _arrow_name(source: ExportSource, shard: int) -> str:
    return f"data-{shard:05}-of-{source.num_shards:05}.arrow"


def _refuse_arrow(source: ExportSource) -> None:
    refuse_no_rows(source, name="hf")


def _refuse_parquet(source: ExportSource) -> None:
    refuse_no_rows(source, name="hf-parquet")


def _write_arrow(source: ExportSource, shard: int, files: ExportFiles) -> None:
    name = f"{source.split}/{_arrow_name(source, shard)}"
    with files.append(name) as file, pa.ipc.new_stream(file, _schema(source)) as writer:
        for batch in _batches(source, shard):
            writer.write_batch(batch)


def _finish_arrow(source: ExportSource, files: ExportFiles) -> None:
    manifest = source.manifest
    info = {
        "citation": "",
        "description": f"{manifest.name}, epoch {source.epoch}",
        "features": None,
        "homepage": "",
        "license": "",
    }
    state: dict[str, object] = {
        "_data_files": [{"filename": _arrow_name(source, n)} for n in range(source.num_shards)],
        "_fingerprint": f"{manifest.fingerprint[:12]}{source.epoch:04x}",
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": source.split,
    }
    files.write(f"{source.split}/dataset_info.json", json.dumps(info, indent=2).encode())
    files.write(f"{source.split}/state.json", json.dumps(state, indent=2).encode())


def _close_arrow(sources: Sequence[ExportSource], files: ExportFiles) -> None:
    splits = {"splits": [source.split for source in sources]}
    files.write("dataset_dict.json", json.dumps(splits).encode())


def _read_arrow(sources: Sequence[ExportSource], folder: str) -> str:
    splits = [f'{source.split} = rows["{source.split}"]' for source in sources]
    opened = f'rows = load_from_disk({quoted(folder)}).with_format("numpy")'
    return "\n".join(["from datasets import load_from_disk", "", opened, *splits])


def _write_parquet(source: ExportSource, shard: int, files: ExportFiles) -> None:
    name = f"{source.split}/{source.split}-{shard:05}-of-{source.num_shards:05}.parquet"
    # ids repeat too little for dictionaries: they would cost time and fall back after some pages
    options = {"compression": "zstd", "use_dictionary": False}
    with files.append(name) as file, pq.ParquetWriter(file, _schema(source), **options) as writer:
        for batch in _batches(source, shard):
            writer.write_batch(batch)


def _read_parquet(sources: Sequence[ExportSource], folder: str) -> str:
    each = {s.split: quoted(f"{glob.escape(folder)}/{s.split}/*.parquet") for s in sources}
    files = ", ".join(f'"{split}": {place}' for split, place in each.items())
    return "\n".join(
        (
            "from datasets import load_dataset",
            "",
            f'rows = load_dataset("parquet", data_files={{{files}}}).with_format("numpy")',
        )
    )


def _stages(_: Sequence[ExportedStage], __: str) -> TrainerStages:
    return TrainerStages(
        (
            (
                "The Trainer of transformers has nothing for stages: make one for each, with"
                " TrainingArguments(ignore_data_skip=True, max_steps=...), where max_steps counts the"
                " steps of all stages up to this one, and train(resume_from_checkpoint=...) with the"
                " last checkpoint. ignore_data_skip lets it begin with the first row of the new stage;"
                " without it, batches are skipped as if they had been trained on."
            ),
        )
    )


HF = Format(
    name="hf",
    holds=FormatContents.ROWS,
    client="Hugging Face datasets, load_from_disk",
    files=(
        "dataset_dict.json",
        "SPLIT/data-NNNNN-of-MMMMM.arrow",
        "SPLIT/dataset_info.json",
        "SPLIT/state.json",
    ),
    markers=("dataset_info.json", "state.json", "dataset_dict.json"),
    write_part=_write_arrow,
    finish=_finish_arrow,
    close=_close_arrow,
    read=_read_arrow,
    refuse=_refuse_arrow,
    notes=row_notes,
    has_collator=True,
    stages=_stages,
)
HF_PARQUET = Format(
    name="hf-parquet",
    holds=FormatContents.ROWS,
    client="Hugging Face datasets, load_dataset",
    files=("SPLIT/SPLIT-NNNNN-of-MMMMM.parquet",),
    write_part=_write_parquet,
    read=_read_parquet,
    refuse=_refuse_parquet,
    notes=row_notes,
    has_collator=True,
    stages=_stages,
    is_hub_layout=True,
)
