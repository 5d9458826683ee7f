"""MosaicML Streaming: MDS shards of rows, and the index that names them.

    SPLIT/shard.NNNNN.mds     n rows of C bytes each
      0                  u32            n
      4                  u32[n + 1]     where each row begins in the file; the last is the file's size
      8 + 4 n            J bytes        JSON: the columns by name, their encodings and sizes
      8 + 4 n + J        n * C bytes    rows, each its columns side by side, sorted by name
    SPLIT/index.json          of each file the same JSON, its size and its rows

The invariant: size = 8 + 4 n + J + n C, which is at most 64 MiB, the writer's own default, unless a row
alone is more. Offsets are 32 bits wide, so a row stays below 4 GiB. All columns have a fixed size, so
rows carry no sizes of their own. Booleans are uint8, since MDS has none.

Rows of decoder-only datasets have their ids under the name `tokens`, which the StreamingTextDataset of
llm-foundry reads. They have no `input_ids`. Its StreamingFinetuningDataset would take these for a prompt
and the labels for the answer to it.
"""

import json
from collections.abc import Collection, Sequence

import numpy as np

from stages.errors import ConfigError
from stages.export.columns import TOKENS, ColumnType
from stages.export.files import ExportFiles
from stages.export.format import Format, FormatContents, quoted
from stages.export.rows import refuse_no_rows, row_notes
from stages.export.source import ExportSource
from stages.export.staged import ExportedStage, TrainerStages

SIZE_LIMIT = 1 << 26
"""Bytes of a file: the default of MDS's own writer, small enough to be fetched in a second or two."""
MAX_OFFSET = (1 << 32) - 1
_WIDTH = 4
"""Bytes of a count or an offset."""


def _stored(column: ColumnType) -> np.dtype[np.generic]:
    dtype = np.dtype(column.dtype)
    return np.dtype(np.uint8) if dtype == np.bool_ else dtype


def row_layout(source: ExportSource) -> np.dtype[np.void]:
    """Return the dtype of a row: its columns side by side, without gaps."""
    columns = source.columns
    return np.dtype([(name, _stored(columns[name]), columns[name].shape) for name in sorted(columns)])


def describe_columns(source: ExportSource) -> dict[str, object]:
    """Return the JSON that stands in each file and, with its size, in the index."""
    names = sorted(source.columns)
    layout = row_layout(source)
    return {
        "column_encodings": [_encoding(source.columns[name]) for name in names],
        "column_names": names,
        "column_sizes": [layout[name].itemsize for name in names],
        "compression": None,
        "format": "mds",
        "hashes": [],
        "size_limit": SIZE_LIMIT,
        "version": 2,
    }


def file_ranges(rows: int, *, row_bytes: int, header_bytes: int) -> list[tuple[int, int]]:
    """Return the rows [first, last) of each file that a shard's rows are cut into.

    Args:
        rows: of the shard.
        row_bytes: of one row.
        header_bytes: of the JSON in each file.
    """
    room = SIZE_LIMIT - 2 * _WIDTH - header_bytes
    step = max(1, room // (row_bytes + _WIDTH))
    return [(first, min(first + step, rows)) for first in range(0, rows, step)]


def header(rows: int, *, row_bytes: int, config: bytes) -> bytes:
    """Return what stands before the rows of a file."""
    begin = _WIDTH * (rows + 2) + len(config)
    offsets = begin + row_bytes * np.arange(rows + 1, dtype=np.int64)
    assert offsets[-1] <= MAX_OFFSET, "refused before anything is written"
    return np.uint32(rows).tobytes() + offsets.astype("<u4").tobytes() + config


def _encoding(column: ColumnType) -> str:
    name = _stored(column).name
    return f"ndarray:{name}:{','.join(map(str, column.shape))}" if column.shape else name


def _config(source: ExportSource) -> bytes:
    return json.dumps(describe_columns(source), sort_keys=True).encode()


def _ranges(source: ExportSource, shard: int) -> list[tuple[int, int]]:
    return file_ranges(
        source.manifest.shards[shard].rows,
        row_bytes=row_layout(source).itemsize,
        header_bytes=len(_config(source)),
    )


def _left_out(source: ExportSource) -> Collection[str]:
    """Return the name of the ids that no trainer is to read here."""
    return ("input_ids",) if TOKENS in source.available else ()


def _notes(sources: Sequence[ExportSource]) -> tuple[str, ...]:
    notes = list(row_notes(sources))
    if TOKENS in sources[0].columns:
        notes.append(
            "llm-foundry's StreamingTextDataset reads `tokens` alone: give it max_seq_len ="
            f" {sources[0].columns[TOKENS].shape[-1]}, and a tokenizer whose pad token is the id"
            f" {sources[0].manifest.special_ids['pad']}, since it makes labels of all other ids. With"
            f" eos_token_id = {sources[0].eos} in its config, documents of a row do not see each other."
        )
        if sources[0].has_loss_mask:
            notes.append("It does not read `labels`, so it would learn the tokens without a loss too.")
    return tuple(notes)


def _refuse(source: ExportSource) -> None:
    refuse_no_rows(source, name="mds")
    size = row_layout(source).itemsize
    if size + 3 * _WIDTH + len(_config(source)) > MAX_OFFSET:
        raise ConfigError(
            f"--format mds: a row of {source.manifest.name} has {size:,} bytes, but offsets end at"
            f" {MAX_OFFSET:,}; make the dataset with a smaller packing.seq_len"
        )


def _write_part(source: ExportSource, shard: int, files: ExportFiles) -> None:
    config, layout = _config(source), row_layout(source)
    before = sum(len(_ranges(source, earlier)) for earlier in range(shard))
    for number, (first, last) in enumerate(_ranges(source, shard), before):
        with files.append(f"{source.split}/shard.{number:05}.mds") as file:
            file.write(header(last - first, row_bytes=layout.itemsize, config=config))
            for block in source.rows(shard, first, last):
                rows = np.empty(len(next(iter(block.values()))), layout)
                for name, column in block.items():
                    rows[name] = column
                file.write(rows.view(np.uint8))


def _finish(source: ExportSource, files: ExportFiles) -> None:
    columns, config, layout = describe_columns(source), _config(source), row_layout(source)
    shards: list[dict[str, object]] = []
    for shard in range(source.num_shards):
        for first, last in _ranges(source, shard):
            size = _WIDTH * (last - first + 2) + len(config) + layout.itemsize * (last - first)
            name = f"shard.{len(shards):05}.mds"
            raw = {"basename": name, "bytes": size, "hashes": {}}
            shards.append(columns | {"raw_data": raw, "samples": last - first, "zip_data": None})
    index = {"shards": shards, "version": 2}
    files.write(f"{source.split}/index.json", json.dumps(index, sort_keys=True).encode())


def _read(sources: Sequence[ExportSource], folder: str) -> str:
    lines = ["from streaming import StreamingDataset", ""]
    for source in sources:
        options = f"local={quoted(f'{folder}/{source.split}')}, batch_size=8, shuffle=True"
        lines.append(f"{source.split} = StreamingDataset({options})")
    return "\n".join(lines)


def _stages(stages: Sequence[ExportedStage], folder: str) -> TrainerStages:
    first, *later = stages
    schedule = [
        line
        for stage in later
        for line in (
            "    - duration: 1ep",
            "      dataset:",
            f"        local: {quoted(stage.place(folder))}",
        )
    ]
    lines = [
        f"max_duration: {len(stages)}ep",
        "train_loader:",
        "  dataset:",
        f"    local: {quoted(first.place(folder))}",
        "callbacks:",
        "  curriculum_learning:",
        "    duration: 1ep",
        "    schedule:",
        *schedule,
    ]
    return TrainerStages(
        (
            (
                "A StreamingDataset knows no stages: its streams are mixed. llm-foundry has a callback,"
                " curriculum_learning, that goes from one dataset to the next. All durations are of the"
                " unit of max_duration, ep or tok, and add up to it."
            ),
            "Without the callback: train on the first folder, then begin with its last checkpoint.",
        ),
        "\n".join(lines),
        "yaml",
    )


MDS = Format(
    name="mds",
    holds=FormatContents.ROWS,
    client="MosaicML Streaming, llm-foundry",
    files=("SPLIT/index.json", "SPLIT/shard.NNNNN.mds"),
    markers=("index.json",),
    write_part=_write_part,
    finish=_finish,
    read=_read,
    refuse=_refuse,
    notes=_notes,
    left_out=_left_out,
    has_collator=True,
    stages=_stages,
)
