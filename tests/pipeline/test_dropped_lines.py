"""The line of a dropped record fits its position, and the drops before it in its file."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.steps.ingest.check import _wrong_line, recount_ingested
from pipeline.steps.recount import UnitRecount
from stages.ledger import Flow, Tally
from tests.pipeline.test_made_again import units_in


@pytest.mark.parametrize(
    ("path", "position", "line", "before", "fits"),
    [
        ("a.jsonl", 0, 1, (-1, 0), True),
        ("a.jsonl", 0, 2, (-1, 0), False),
        ("a.jsonl", 0, 0, (-1, 0), False),
        ("a.jsonl", 10, 11, (-1, 0), True),  # ten empty lines before it
        ("a.jsonl", 10, 12, (-1, 0), False),
        ("a.jsonl", 20, 6, (10, 5), True),
        ("a.jsonl", 20, 5, (10, 5), False),
        ("a.jsonl", 20, 15, (10, 5), True),
        ("a.jsonl", 20, 16, (10, 5), False),
        ("a.parquet", 3, 4, (-1, 0), True),
        ("a.parquet", 3, 3, (-1, 0), False),
        ("a.parquet", 3, 5, (-1, 0), False),
    ],
)
def test_a_line_has_at_least_a_byte_and_a_row_is_a_line(
    path: str, position: int, line: int, before: tuple[int, int], *, fits: bool
) -> None:
    assert (_wrong_line(path, position, line, before) is None) == fits


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "wrong"), [((3, 5, 2), []), ((3, 3, 2), [1]), ((3, 2, 1), [1])])
def test_lines_of_a_file_ascend_whatever_those_of_others_are(
    signed_run: Path, tmp_path: Path, lines: tuple[int, ...], wrong: list[int]
) -> None:
    unit = units_in(signed_run)[0]
    key = f"ingest/{unit.name}/drops.parquet"
    schema = pq.read_schema(signed_run / key)
    columns: dict[str, list[Any]] = {
        "source": ["s"] * 3,
        "path": ["a.jsonl", "a.jsonl", "b.jsonl"],
        "position": [100, 200, 300],
        "line": list(lines),
        "reason": ["bad_json"] * 3,
    }
    rows = [
        {name: columns[name][row] if name in columns else None for name in schema.names}
        for row in range(3)
    ]
    nullable = pa.schema([pa.field(one.name, one.type) for one in schema])
    (tmp_path / key).parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows, nullable), tmp_path / key)
    (tmp_path / unit.table).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / unit.table).write_bytes((signed_run / unit.table).read_bytes())
    work = UnitRecount(unit, Flow(input=Tally(), output=Tally()))
    found = recount_ingested(Workspace(tmp_path, tmp_path), work).findings
    named = [int(one.message.split()[1].rstrip(",")) for one in found if " line:" in one.message]
    assert named == wrong
    assert any("bad_json" in one.message for one in found), "a reason that the ledger has not"
