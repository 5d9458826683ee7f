"""Fate: what became of one document, from the evidence that the steps of a run left.

read       web: web-0.jsonl, position 4,096, 1,203 bytes, language en
removed    nearly the same as a kept document: similarity 0.912 to a17 of source web
in rows    clm/train, shard 00003, 312 tokens
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.report.plain import PlainConsole, PlainTable, print_json
from pipeline.report.words import said_of_reason
from pipeline.state.places import reading
from pipeline.steps.run_folder import RunFolder
from pipeline.system.disk_faults import disk_faults
from stages.errors import ConfigError
from stages.store.generations import GENERATIONS
from stages.stores.mounts import files_of, here

_OURS = re.compile(r"[0-9a-f]{32}")
_PLACE = re.compile(r"(.+):(\d{1,18})")
Row = Mapping[str, Any]
Wanted = list[list[tuple[str, str, object]]]
"""Columns and their values, as pyarrow takes them: any of these lists."""


class FateContent(TypedDict):
    """One thing that is known of a document."""

    what: str
    """read, dropped, removed, contaminated, or in rows."""
    said: str
    file: str
    """The table that says so, relative to the run."""


def find_document(folder: str | Path, document: str) -> list[FateContent]:
    """Return what became of a document: read, dropped, removed and for which other, in rows.

    Args:
        folder: of the run.
        document: its own id, the 32 digits of ours, or PATH:LINE of a record.

    Raises:
        ShardmillError: nothing is known of it.
    """
    order = ("read", "dropped", "removed", "contaminated", "in rows")
    with reading(Path(folder), key="folder") as run, disk_faults(run):
        found = sorted(_found(run, document), key=lambda one: (order.index(one["what"]), one["file"]))
    if not found:
        raise ConfigError(
            f"--document {document}: nothing here knows it; give its own id, if its source has an"
            " id_column, or the 32 digits that tables such as dedup/removed.parquet have, or PATH:LINE"
            " of a dropped record, as drops.parquet writes it"
        )
    return found


def print_fate(found: list[FateContent], *, as_json: bool) -> None:
    """Print what became of a document."""
    if as_json:
        print_json(found)
        return
    table = PlainTable("what", "how", "from")
    for one in found:
        table.add(one["what"], one["said"], one["file"])
    PlainConsole().show(table)


def _found(folder: Path, name: str) -> Iterator[FateContent]:
    RunFolder(folder).generations()
    for path in sorted(files_of(folder)):
        inside = path.relative_to(folder).as_posix()
        parts = inside.split("/")
        own = parts[2:] if parts[0] == GENERATIONS else parts
        if path.suffix == ".parquet":
            for what, said in _facts(path, own, name):
                yield {"what": what, "said": said, "file": inside}


def _facts(path: Path, parts: list[str], name: str) -> Iterator[tuple[str, str]]:
    """Yield what a table says of a document; of a run in a store, it is brought if it may say anything.

    Args:
        path: of the table.
        parts: its path in the run or the generation; sources and datasets may have the names of steps.
        name: of the document.
    """
    match parts:
        case ["ingest", _, _, "drops.parquet"]:
            yield from _dropped(path, name)
        case ["ingest", source, _, "documents.parquet"]:
            yield from _read(path, source, name)
        case ["datasets", dataset, split, *_, shard, "documents.parquet"]:
            for row in _rows(path, _named(path, name)):
                yield "in rows", f"{dataset}/{split}, shard {shard}, {row['tokens']:,} tokens"
        case ["dedup", "removed.parquet"]:
            yield from _removed(path, name)
        case ["decontaminate", "contaminated.parquet"]:
            for row in _rows(path, _named(path, name)):
                yield "contaminated", f"item {row['item_id'] or row['item']} of {row['set']}"


def _dropped(path: Path, name: str) -> Iterator[tuple[str, str]]:
    place = _PLACE.fullmatch(name)
    at = None if place is None else [[("path", "=", place[1]), ("line", "=", int(place[2]))]]
    for wanted in (_named(path, name), at):
        for row in _rows(path, wanted):
            yield "dropped", f"{said_of_reason(row['reason'])}: {row['detail']}"


def _read(path: Path, source: str, name: str) -> Iterator[tuple[str, str]]:
    for row in _rows(path, _named(path, name), without=("text",)):
        place = f"{source}: {row['path']}, position {row['position']:,}"
        yield "read", f"{place}, {row['text_bytes']:,} bytes, language {row['language']}"


def _removed(path: Path, name: str) -> Iterator[tuple[str, str]]:
    for row in _rows(path, _named(path, name)):
        kept = f"{row['kept_own_id'] or row['kept_id']} of source {row['kept_source']}"
        alike = "" if row["similarity"] is None else f", similarity {row['similarity']:.3f}"
        yield "removed", f"{said_of_reason(row['method'])}: {kept}{alike}"


def _named(path: Path, name: str) -> Wanted | None:
    """Return what finds a document by its own id or by ours; None in a table that has neither."""
    schema = pq.read_schema(here(path))
    wanted: Wanted = []
    if "own_id" in schema.names:
        wanted.append([("own_id", "=", name)])
    if "id" in schema.names and _OURS.fullmatch(name):
        is_text = pa.types.is_string(schema.field("id").type)
        wanted.append([("id", "=", name if is_text else bytes.fromhex(name))])
    return wanted or None


def _rows(
    path: Path,
    wanted: Wanted | None,
    *,
    without: tuple[str, ...] = (),
) -> list[Row]:
    """Return the rows of a table that are wanted."""
    if wanted is None:
        return []
    columns = [name for name in pq.read_schema(here(path)).names if name not in without]
    rows: list[Row] = pq.read_table(path, columns=columns, filters=wanted).to_pylist()
    return rows
