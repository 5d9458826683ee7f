"""What the evidence of cuts says of texts is held to the texts, row by row."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.cut import check as texts
from pipeline.steps.cut.check import CutTexts, check_cut_texts
from pipeline.steps.cut.ranges import shown_cut
from pipeline.steps.cut.table import method_of
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.records import CheckRecord
from pipeline.steps.units import Unit, units_of
from tests.material.file_damages import Undo
from tests.material.signed_evidence import run_file

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


def looked(run: Path, rows: int = 1_000, units: tuple[Unit, ...] = ()) -> CheckRecord:
    """Look at the evidence."""
    work = CutTexts(0, units or units_in(run), run_file().dedup, rows)
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
    last = (some.looked - 1) * -(-rows // 5)
    kept = pq.read_table(run / KEY).to_pylist()[last]["excerpt"]
    change(run, last, excerpt="other")
    assert found_columns(run, 5) == [f"row {last}, excerpt"]
    change(run, last, excerpt=kept)
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


def test_a_first_copy_right_behind_the_last_span_is_named(run: Path) -> None:
    number, row = row_of(run)
    method = method_of(run_file().dedup, row["method"])
    first = texts._TextsByNumber(Workspace(run, run), units_in(run)).of(row["first_document"])  # noqa: SLF001
    spans = method.spans(first, method.config(run_file().dedup)).keys
    change(run, number, first_at=len(spans))
    assert f"row {number}, first_at" in found_columns(run)


def test_a_range_that_ends_with_its_text_is_sound(run: Path) -> None:
    first = pq.read_table(run / units_in(run)[0].table, columns=["text"]).column("text")[0].as_py()
    number, row = row_of(run)
    size = len(first.encode())
    change(run, number, document=0, start=0, end=size + 1)
    assert f"row {number}, end" in found_columns(run)
    change(run, number, document=0, start=0, end=size)
    assert f"row {number}, end" not in found_columns(run)
    assert f"row {number}, excerpt" in found_columns(run) or row["excerpt"] in first


def test_a_first_copy_in_a_document_without_the_line_is_named(run: Path) -> None:
    number, row = row_of(run)
    known: dict[int, str] = {}
    for unit in units_in(run):
        column = pq.read_table(run / unit.table, columns=["text"]).column("text").to_pylist()
        known |= dict(enumerate(column, unit.first))
    cut = known[row["document"]].encode()[row["start"] : row["end"]].decode().strip()
    stranger = next(n for n, text in known.items() if cut not in text)
    change(run, number, first_document=stranger, first_at=0)
    assert f"row {number}, first_at" in found_columns(run)
    own = np.array([cut in text for text in known.values()])
    assert own.any()


def excerpt_without_its_end(row: dict[str, Any]) -> str:
    """Return all but the last character of what is shown of a cut."""
    return str(row["excerpt"])[:-1]


def test_an_excerpt_is_shown_to_its_end(run: Path) -> None:
    number, row = row_of(run)
    change(run, number, excerpt=excerpt_without_its_end(row))
    assert f"row {number}, excerpt" in found_columns(run)


def test_texts_are_found_in_any_row_group(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run / "ingest", tmp_path / "ingest")
    (tmp_path / KEY).parent.mkdir(parents=True)
    shutil.copy(run / KEY, tmp_path / KEY)
    for unit in units_in(run):
        pq.write_table(pq.read_table(run / unit.table), tmp_path / unit.table, row_group_size=2)
    assert looked(tmp_path, units=units_in(run)).findings == ()


LINES = [f"{name} line, {'with so many words that it is long enough ' * 4}" for name in ("a", "b", "c")]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A unit of two documents of lines."""
    texts = ["\n".join(LINES), "\n".join(reversed(LINES))]
    (tmp_path / "ingest/s").mkdir(parents=True)
    pq.write_table(pa.table({"text": texts}), tmp_path / "ingest/s/u-00000.parquet")
    return tmp_path


def span_faults(written: Path, start: int, end: int, first_at: int, method: str = "line") -> list[str]:
    """Return what is wrong with a cut of the first document whose first copy is in the second."""
    text = "\n".join(LINES)
    row = {
        "document": 0,
        "start": start,
        "end": end,
        "method": method,
        "first_document": 1,
        "first_at": first_at,
        "excerpt": shown_cut(np.frombuffer(text.encode()[start:end], np.uint8)),
    }

    class Texts:
        def of(self, number: int) -> Any:
            found = pq.read_table(written / "ingest/s/u-00000.parquet").column("text")[number].as_py()
            return np.frombuffer(found.encode(), np.uint8)

    dedup = run_file(dedup={"lines": {}, "substrings": {"min_bytes": 400}}).dedup
    texts_: Any = Texts()
    return [column for column, _ in texts._faults(row, texts_, dedup)]  # noqa: SLF001  # of one row


def test_a_first_copy_of_a_line_is_one_of_the_lines_that_are_cut(written: Path) -> None:
    begins = [0, len(LINES[0]) + 1, len(LINES[0]) + len(LINES[1]) + 2]
    ends = [*begins[1:], begins[2] + len(LINES[2])]
    for number in range(3):  # in the second document lines stand the other way round
        assert span_faults(written, begins[number], ends[number], 2 - number) == []
        for other in {0, 1, 2} - {2 - number}:
            assert span_faults(written, begins[number], ends[number], other) == ["first_at"]


def test_a_first_copy_of_a_string_has_its_bytes(written: Path) -> None:
    size = sum(map(len, LINES)) + 2
    assert span_faults(written, 0, size, 0, "substring") == ["first_at"]
    assert span_faults(written, 0, size, size, "substring") == ["first_at"]
    assert span_faults(written, 0, size, -5, "substring") == ["first_at"]
