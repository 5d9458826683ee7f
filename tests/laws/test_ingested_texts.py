"""What verify promises of ingest's documents: each is the one that its digest and its id say.

No file is held to its commit here: a table is written anew, and what its rows say of each other gives
the damage away. Documents that dedup removed are looked at like those that it kept.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.decode.check import DecodeUnit, check_texts
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.records import FoundIn
from pipeline.steps.tokenize.encode import TokenizeUnit
from pipeline.steps.units import Unit, kept_mask, units_of

Row = dict[str, Any]


@pytest.fixture
def run(reference: Path, tmp_path: Path) -> Path:
    """The small run with an ingest of its own, to be damaged."""
    (tmp_path / "run").mkdir()
    for folder in ("dedup", "split", "tokenizer", "tokens"):
        (tmp_path / "run" / folder).symlink_to(reference / folder)
    for path in (reference / "ingest").rglob("*.parquet"):
        copy = tmp_path / "run" / path.relative_to(reference)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return tmp_path / "run"


@pytest.fixture(scope="session")
def units(reference: Path) -> tuple[Unit, ...]:
    """Those of the small run."""
    commits = dict(Commits(LocalStorage(reference)).all("ingest"))
    return units_of(commits[STEP_COMMIT].read(IngestRecord).units)


def findings(run: Path, unit: Unit) -> list[FoundIn]:
    """Return what decode finds of a unit."""
    work = DecodeUnit(TokenizeUnit(unit, 2, 1, 11), sentences=False)
    return list(check_texts(Workspace(run, run / "tmp"), work).findings)


def test_nothing_is_found_of_a_sound_run(run: Path, units: tuple[Unit, ...]) -> None:
    assert [findings(run, unit) for unit in units] == [[]] * len(units)
    assert len(units) > 2


def other_text(row: Row) -> None:
    """Put another character in the place of the last: as many bytes, and the digest stays."""
    text = row["text"].encode()[:-1].decode(errors="ignore")
    row["text"] = text + "~" * (row["text_bytes"] - len(text.encode()))


def longer_text(row: Row) -> None:
    row["text"] += "~"


def other_length(row: Row) -> None:
    row["text_bytes"] += 1


def other_digest(row: Row) -> None:
    row["digest"] = bytes(16)


def other_id(row: Row) -> None:
    row["id"] = row["id"][::-1]


def other_place(row: Row) -> None:
    row["position"] += 1


CHANGES: dict[str, tuple[Callable[[Row], None], str]] = {
    "text": (other_text, "text_digest"),
    "longer": (longer_text, "text_digest"),
    "length": (other_length, "text_digest"),
    "digest": (other_digest, "text_digest"),
    "id": (other_id, "identity"),
    "place": (other_place, "identity"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_document_is_named_whether_it_was_kept_or_removed(
    name: str, run: Path, units: tuple[Unit, ...]
) -> None:
    change, check = CHANGES[name]
    looked_at = {True: 0, False: 0}
    for unit in units:
        place, kept = run / unit.table, kept_mask(Workspace(run, run), unit)
        table = pq.read_table(place)
        before = place.read_bytes()
        for number in {*range(0, unit.documents, 40), *np.flatnonzero(~kept)[:5].tolist()}:
            rows = table.to_pylist()
            change(rows[number])
            pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), place)
            (found,) = findings(run, unit)
            assert (found.file, found.check) == (unit.table, check)
            assert found.message.startswith(f"1 of {unit.documents} documents")
            assert found.message.endswith(f"the first is document {rows[number]['id'].hex()}")
            looked_at[bool(kept[number])] += 1
        place.write_bytes(before)
    assert min(looked_at.values()) > 5


def write(run: Path, unit: Unit, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write a unit's table anew."""
    table = pq.read_table(run / unit.table)
    pq.write_table(change(table), run / unit.table)


TABLES: dict[str, tuple[Callable[[pa.Table], pa.Table], set[str]]] = {
    "the last lost": (lambda table: table.slice(0, table.num_rows - 1), {"documents"}),
    "the first lost": (lambda table: table.slice(1), {"documents"}),
    "one twice": (
        lambda table: table.take([0, *range(table.num_rows)]),
        {"documents", "order"},
    ),
    "two exchanged": (lambda table: table.take([1, 0, *range(2, table.num_rows)]), {"order"}),
    "one in the place of the next": (
        lambda table: table.take([0, 0, *range(2, table.num_rows)]),
        {"order"},
    ),
    "all of another file": (
        lambda table: table.set_column(
            3, table.schema.field("path"), pa.array(["x"] * table.num_rows).dictionary_encode()
        ),
        {"identity"},
    ),
    "no rows": (lambda table: table.slice(0, 0), {"documents"}),
    "a column lost": (lambda table: table.drop_columns(["position"]), {"readable"}),
    "a column of another type": (
        lambda table: table.set_column(4, "position", table.column("position").cast(pa.int32())),
        {"readable"},
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_documents_that_are_lost_or_repeated_are_named(
    name: str, run: Path, units: tuple[Unit, ...]
) -> None:
    change, checks = TABLES[name]
    several = [unit for unit in units if unit.documents > 2]
    assert len(several) > 2
    for unit in several:
        write(run, unit, change)
        found = findings(run, unit)
        assert {(one.file, one.check) for one in found} == {(unit.table, c) for c in checks}


def test_a_table_that_cannot_be_read_is_named(run: Path, units: tuple[Unit, ...]) -> None:
    for unit in units:
        (run / unit.table).write_bytes((run / unit.table).read_bytes()[:-9])
        (found,) = findings(run, unit)
        assert (found.file, found.check) == (unit.table, "readable")


@pytest.mark.parametrize("change", [-1, 1])
def test_a_mask_of_other_documents_is_named(
    change: int, run: Path, reference: Path, units: tuple[Unit, ...]
) -> None:
    (run / "dedup").unlink()
    for unit in units:
        kept = kept_mask(Workspace(reference, reference), unit)
        (run / unit.keep_mask).parent.mkdir(parents=True, exist_ok=True)
        np.save(run / unit.keep_mask, np.resize(kept, unit.documents + change))
        (found,) = findings(run, unit)
        assert (found.file, found.check) == (unit.keep_mask, "readable")


@pytest.mark.parametrize("name", ["split/validation.parquet", "dedup/clusters.parquet"])
def test_a_table_of_evidence_that_cannot_be_read_is_named(
    name: str, run: Path, reference: Path, units: tuple[Unit, ...]
) -> None:
    folder = name.split("/", maxsplit=1)[0]
    (run / folder).unlink()
    shutil.copytree(reference / folder, run / folder)
    content = (reference / name).read_bytes()
    for damaged in (
        content[:-20],
        content[: len(content) // 2],
        b"",
        content[:4] + bytes(40) + content[44:],
    ):
        (run / name).write_bytes(damaged)
        for unit in units:
            (found,) = findings(run, unit)
            assert found.check == "readable"
            assert str(run / name) in found.message
