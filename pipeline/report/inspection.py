"""Inspection: one row of a dataset as a person reads it: tokens, what became of them, documents.

A row is described as plain values first, which are also what `--json` prints; the terminal shows them in
colour, and in signs that are read without any.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import NotRequired, TypedDict, cast

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from rich.text import Text

from pipeline.report.plain import JsonObject, PlainConsole, PlainTable, print_json
from pipeline.state.places import reading
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.tokenizer.load import model_key
from pipeline.system.disk_faults import disk_faults
from pipeline.system.printable import printable
from stages.columns import keep_columns_of, kept_names
from stages.errors import ConfigError, FormatError
from stages.loading.arguments import no_rows
from stages.loading.dataset import ShardDataset, open_dataset
from stages.loading.mapped import map_shard
from stages.objectives.rows import IGNORED
from stages.stores.mounts import here
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import open_tokenizer
from stages.tokenizer.sampling import SPACE_SYMBOL


class PieceContent(TypedDict):
    """A piece of a document in a row."""

    start: int
    length: int
    doc_offset: int
    own_id: str | None
    id: str
    source: str
    language: str
    path: str
    position: int
    tokens: int
    record: NotRequired[dict[str, str | None]]
    """Of the document's record, what goes along with it, if anything does."""


class TokenContent(TypedDict):
    """A token, and what stood there if it is not what is shown."""

    id: int
    piece: str
    role: str
    loss: NotRequired[bool]
    """Whether it is to be predicted, where labels are the tokens themselves."""
    was_id: NotRequired[int]
    was: NotRequired[str]


class SequenceContent(TypedDict):
    """The tokens of one column, padding left out."""

    name: str
    padding: int
    tokens: list[TokenContent]


class RowContent(TypedDict):
    """A row as a person reads it."""

    dataset: str
    split: str
    row: int
    shard: str
    row_in_shard: int
    epoch: int
    objective: JsonObject
    numbers: dict[str, int]
    """Columns that are one number a row."""
    documents: list[PieceContent]
    sequences: list[SequenceContent]


_LOSS = "\u27e6", "\u27e7"
"""Stand around tokens with a loss, in rows in which others have none."""
_COLUMNS = ("own_id", "id", "source", "language", "path", "position", "tokens")


class Role(StrEnum):
    """What a token is in its row."""

    TEXT = "text"
    SILENT = "no loss"
    SPECIAL = "special"
    SENTINEL = "sentinel"
    MASKED = "masked"
    RANDOM = "random"
    KEPT = "kept"
    REPLACED = "replaced"


_STYLES = {
    Role.TEXT: "",
    Role.SILENT: "dim",
    Role.SPECIAL: "magenta",
    Role.SENTINEL: "bold cyan",
    Role.MASKED: "black on yellow",
    Role.RANDOM: "black on red",
    Role.KEPT: "black on green",
    Role.REPLACED: "black on red",
}


def inspect(
    folder: str | Path, dataset: str, *, split: str = "train", row: int = 0, epoch: int = 0
) -> RowContent:
    """Return a row as a person reads it: tokens, masks, spans, targets and documents.

    Args:
        folder: of the run.
        dataset: its name.
        split: train or validation.
        row: its number in stored order.
        epoch: the epoch that it is drawn for.

    Raises:
        ShardmillError: there is no such dataset, split or row.
    """
    with reading(Path(folder), key="folder") as place, disk_faults(place):
        run = RunFolder(place)
        run.generations()
        path = run.dataset(dataset)
        rows = open_dataset(path, split=split, epoch=epoch, shuffle=False)
        if not len(rows):
            raise ConfigError(no_rows(path, split))
        if not 0 <= row < len(rows):
            raise ConfigError(f"--row {row}: {dataset}/{split} has rows 0 to {len(rows) - 1:,}")
        shard, number = rows.locate(row)
        model = here((rows.folder / rows.manifest.tokenizer.file).resolve())
        if not model.exists():
            model_key(run.path)  # says what became of it
        tokenizer = open_tokenizer(model, rows.manifest.special_ids)
        columns = {name: column[0] for name, column in rows.batch(np.array([row])).items()}
        return {
            "dataset": dataset,
            "split": split,
            "row": row,
            "shard": rows.manifest.shards[shard].path,
            "row_in_shard": number,
            "epoch": epoch,
            "objective": rows.manifest.objective,
            "documents": list(_documents(rows, shard, number)),
            "numbers": {key: int(column) for key, column in columns.items() if column.ndim == 0},
            "sequences": list(_sequences(rows, columns, tokenizer)),
        }


def _documents(rows: ShardDataset, shard: int, row: int) -> Iterator[PieceContent]:
    """Yield the pieces of documents that lie in a row."""
    path = rows.folder / rows.manifest.shards[shard].path
    segments = map_shard(rows.folder, rows.manifest.shards[shard], rows.manifest).own_segments
    listed = path / "documents.parquet"
    kept = keep_columns_of(pq.read_schema(listed).names)
    table = pq.read_table(listed, columns=[*_COLUMNS, *kept_names(kept)])
    for segment in range(*segments["row_ptr"][row : row + 2]):
        place = int(segments["doc"][segment])
        if place >= table.num_rows:
            raise FormatError(
                f"{listed}: lists {table.num_rows:,} documents, and row {row} has a piece of document"
                f" {place:,}; `shardmill verify` says what is damaged"
            )
        (document,) = table.slice(place, 1).to_pylist()
        names = ("start", "length", "doc_offset")
        places = {name: int(segments[name][segment]) for name in names}
        if kept:
            values = {
                column: document.pop(name) for column, name in zip(kept, kept_names(kept), strict=True)
            }
            document["record"] = values
        yield cast("PieceContent", {**places, **document})


def _sequences(
    rows: ShardDataset, columns: Mapping[str, NDArray[np.int64]], tokenizer: Tokenizer
) -> Iterator[SequenceContent]:
    """Yield the row's sequences of tokens, padding left out."""
    pad = rows.vocabulary.named("pad")
    inputs = np.atleast_2d(columns["input_ids"])
    labels = columns.get("labels")
    apart = rows.reader.traits.label_convention == "targets"
    for number, ids in enumerate(inputs):
        name = "input_ids" if len(inputs) == 1 else f"input_ids[{number}]"
        kept = columns["segment_ids"] >= 0 if "segment_ids" in columns else ids != pad
        other = None if apart or labels is None else labels[kept]
        original = columns.get("original_ids")
        cells = _cells(rows, ids[kept], other, None if original is None else original[kept], tokenizer)
        yield {"name": name, "padding": int((~kept).sum()), "tokens": cells}
    if apart and labels is not None:
        kept = labels != IGNORED
        cells = _cells(rows, labels[kept], None, None, tokenizer)
        yield {"name": "labels", "padding": int((~kept).sum()), "tokens": cells}


def _cells(
    rows: ShardDataset,
    ids: NDArray[np.int64],
    labels: NDArray[np.int64] | None,
    original: NDArray[np.int64] | None,
    tokenizer: Tokenizer,
) -> list[TokenContent]:
    """Return each token with its role, and what stood there if it is not what is shown."""
    truth = ids
    if original is not None:
        truth = original
    elif labels is not None and rows.manifest.label_convention == "masked":
        truth = np.where(labels == IGNORED, ids, labels)
    shown, was = tokenizer.codec.pieces(ids.tolist()), tokenizer.codec.pieces(truth.tolist())
    cells: list[TokenContent] = []
    for place, number in enumerate(ids.tolist()):
        label = None if labels is None else int(labels[place])
        role = _role(rows, number, int(truth[place]), label)
        cell: TokenContent = {"id": number, "piece": shown[place], "role": role.value}
        if label is not None and rows.manifest.label_convention == "unshifted":
            cell["loss"] = label != IGNORED
        if truth[place] != number:
            cell["was_id"], cell["was"] = int(truth[place]), was[place]
        cells.append(cell)
    return cells


def _role(rows: ShardDataset, shown: int, truth: int, label: int | None) -> Role:
    vocabulary, convention = rows.vocabulary, rows.manifest.label_convention
    if convention == "masked" and label not in (None, IGNORED):
        kept = Role.KEPT if shown == truth else Role.RANDOM
        return Role.MASKED if shown == vocabulary.special_ids.get("mask") else kept
    if shown != truth:
        return Role.REPLACED
    if vocabulary.is_special[shown]:
        return Role.SENTINEL if shown in vocabulary.sentinels else Role.SPECIAL
    return Role.SILENT if convention == "unshifted" and label == IGNORED else Role.TEXT


def print_row(content: RowContent, *, as_json: bool) -> None:
    """Print a described row."""
    if as_json:
        print_json(content)
        return
    console = PlainConsole()
    parameters = ", ".join(
        f"{key} = {value}"
        for key, value in content["objective"].items()
        if key not in ("kind", "form") and value is not None
    )
    console.line(
        f"{content['dataset']}/{content['split']}: row {content['row']:,} (shard {content['shard']}, row"
        f" {content['row_in_shard']:,} there), epoch {content['epoch']}"
    )
    console.line(f"{content['objective']['kind']}: {parameters}")
    numbers = [f"{key} {value}" for key, value in content["numbers"].items()]
    if numbers:
        console.line(", ".join(numbers))
    console.show(_table(content["documents"]))
    for line in _kept(content["documents"]):
        console.line(line)
    for sequence in content["sequences"]:
        count, padding = len(sequence["tokens"]), sequence["padding"]
        console.line()
        heading = f"{sequence['name']}: {count:,} tokens, {padding:,} padding"
        silent = sum(not cell.get("loss", True) for cell in sequence["tokens"])
        if silent:
            heading += f", {count - silent:,} with a loss"
        console.show(Text(printable(heading), "bold"))
        console.show(_text(sequence["tokens"]))
    roles = {cell["role"] for part in content["sequences"] for cell in part["tokens"]}
    legend = Text("\n")
    if any(_has_both(part["tokens"]) for part in content["sequences"]):
        legend.append(f" {_LOSS[0]}has a loss{_LOSS[1]} ").append("  ")
    for role in Role:
        if role.value in roles and role is not Role.TEXT:
            legend.append(f" {role.value} ", _STYLES[role]).append("  ")
    console.show(legend)


def _table(documents: list[PieceContent]) -> PlainTable:
    table = PlainTable("stored at", "document", "language", "place")
    for part in documents:
        first, length = part["doc_offset"], part["length"]
        table.add(
            f"{part['start']} .. {part['start'] + length - 1}",
            f"{part['own_id'] or part['id']}: {first:,} .. {first + length - 1:,} of {part['tokens']:,}",
            part["language"],
            f"{part['source']}: {part['path']} at {part['position']:,}",
        )
    return table


def _kept(documents: list[PieceContent]) -> Iterator[str]:
    """Yield a line for each document of which values of its record go along."""
    for part in {part["id"]: part for part in documents}.values():
        values = {name: value for name, value in part.get("record", {}).items() if value is not None}
        if values:
            said = "; ".join(f"{name} = {value}" for name, value in values.items())
            yield f"{part['own_id'] or part['id']}: {said}"


def _has_both(cells: list[TokenContent]) -> bool:
    """Say whether some tokens have a loss and others have none."""
    return {cell["loss"] for cell in cells if "loss" in cell} == {True, False}


def _text(cells: list[TokenContent]) -> Text:
    """Return tokens as running text; what is not as it was is shown as [now|before].

    Where others have none, tokens with a loss are shown as ⟦tokens⟧.
    """
    text, marked, inside = Text(), _has_both(cells), False
    for cell in cells:
        role, learned = Role(cell["role"]), marked and cell["loss"]
        if learned != inside:
            text.append(_LOSS[inside])
            inside = learned
        now = readable(cell["piece"])
        if "was" in cell:
            now = f"[{now}|{readable(cell['was'])}]"
        elif role is Role.KEPT:
            now = f"[{now}|=]"
        text.append(now, f"{_STYLES[role]} dim" if marked and not learned else _STYLES[role])
    return text.append(_LOSS[1] if inside else "")


def readable(piece: str) -> str:
    """Return a piece as text: ends of lines and tabs as signs, other control characters in letters."""
    lines = piece.replace(SPACE_SYMBOL, " ").replace("\t", "\u21e5").split("\n")
    return "\u23ce\n".join(printable(line) for line in lines)
