"""What the evidence of cuts says of texts is held to the texts, row by row."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from file_damages import Undo
from signed_values import run_file

from pipeline.engine.tasks import Workspace
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.cut.texts import CutTexts, check_cut_texts
from pipeline.steps.findings import CheckRecord
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.units import Unit, units_of

pytestmark = pytest.mark.slow
KEY = "cut/found/00000.parquet"


@pytest.fixture
def run(signed_run: Path) -> Iterator[Path]:
    """The run; its evidence is put back."""
    undo = Undo(signed_run)
    undo.write(signed_run / KEY, (signed_run / KEY).read_bytes())
    yield signed_run
    undo.undo()


def units_in(run: Path) -> tuple[Unit, ...]:
    """Return the units of a run."""
    whole = Commits(LocalStorage(run)).survey(INGEST.name).commits[STEP_COMMIT]
    return units_of(whole.read(INGEST.record).units)


def looked(run: Path, rows: int = 1_000) -> CheckRecord:
    """Look at the evidence."""
    work = CutTexts(0, units_in(run), run_file().dedup, rows)
    return check_cut_texts(Workspace(run, run), work)


def change(run: Path, row: int, **values: Any) -> None:
    """Change values of a row."""
    table = pq.read_table(run / KEY)
    rows = table.to_pylist()
    rows[row] |= values
    pq.write_table(pa.Table.from_pylist(rows, table.schema), run / KEY)


def found_columns(run: Path, rows: int = 1_000) -> list[str]:
    """Return the row and the column of each finding."""
    return [one.message.split(":")[0] for one in looked(run, rows).findings]


def row_of(run: Path) -> tuple[int, dict[str, Any]]:
    """Return a row whose first copy is in another document, and its place."""
    rows = pq.read_table(run / KEY).to_pylist()
    return next((n, row) for n, row in enumerate(rows) if row["document"] != row["first_document"])


def test_sound_evidence_has_no_finding_and_all_of_it_is_looked_at(run: Path) -> None:
    found, rows = looked(run), pq.read_metadata(run / KEY).num_rows
    assert found.findings == ()
    assert rows > 10
    assert [(one.looked, one.of, one.unit) for one in found.looked] == [(rows, rows, "rows")]


def test_of_many_rows_some_are_looked_at_evenly(run: Path) -> None:
    rows = pq.read_metadata(run / KEY).num_rows
    (some,) = looked(run, 5).looked
    assert some.of == rows
    assert some.looked == len(range(0, rows, -(-rows // 5))) <= 5
    change(run, 0, excerpt="other")
    assert found_columns(run, 1) == ["row 0, excerpt"]
    change(run, 1, excerpt="other")
    assert found_columns(run, 1) == ["row 0, excerpt"]
    assert found_columns(run, rows) == ["row 0, excerpt", "row 1, excerpt"]


@pytest.mark.parametrize(
    ("column", "value", "found"),
    [
        ("excerpt", lambda row: row["excerpt"] + "x", "excerpt"),
        ("start", lambda row: row["end"], "end"),
        ("start", lambda _: -1, "end"),
        ("end", lambda _: 1 << 20, "end"),
        ("first_document", lambda _: 82, "first_document"),
        ("first_document", lambda _: -1, "first_document"),
        ("first_at", lambda row: row["first_at"] + 500, "first_at"),
        ("first_at", lambda _: -1, "first_at"),
        ("method", lambda _: "paragraphs", "method"),
        ("document", lambda _: 82, "document"),
        ("document", lambda _: -1, "document"),
    ],
)
def test_a_value_that_the_texts_contradict_is_named(
    run: Path, column: str, value: Any, found: str
) -> None:
    number, row = row_of(run)
    change(run, number, **{column: value(row)})
    assert f"row {number}, {found}" in found_columns(run)


def test_a_range_that_ends_with_its_text_is_sound(run: Path) -> None:
    texts = pq.read_table(run / units_in(run)[0].table, columns=["text"]).column("text").to_pylist()
    number, row = row_of(run)
    size = len(texts[0].encode())
    change(run, number, document=0, start=0, end=size + 1)
    assert f"row {number}, end" in found_columns(run)
    change(run, number, document=0, start=0, end=size)
    assert f"row {number}, end" not in found_columns(run)
    assert f"row {number}, excerpt" in found_columns(run) or row["excerpt"] in texts[0]


def test_a_first_copy_in_a_document_without_the_line_is_named(run: Path) -> None:
    number, row = row_of(run)
    texts: dict[int, str] = {}
    for unit in units_in(run):
        column = pq.read_table(run / unit.table, columns=["text"]).column("text").to_pylist()
        texts |= dict(enumerate(column, unit.first))
    cut = texts[row["document"]].encode()[row["start"] : row["end"]].decode().strip()
    stranger = next(n for n, text in texts.items() if cut not in text)
    change(run, number, first_document=stranger, first_at=0)
    assert f"row {number}, first_at" in found_columns(run)
    own = np.array([cut in text for text in texts.values()])
    assert own.any()
