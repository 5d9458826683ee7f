"""What filters of columns promise to a run: the same verdicts from every format, columns that exist.

A block list and a function of the user's own stand beside a bound on a column.
"""

import csv
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.errors import ConfigError, DataError
from tests.conftest import digests, run_small

pytestmark = pytest.mark.slow

OWN = "def keep(text, columns):\n    return 'ends in 7' if str(columns['n']).endswith('7') else True\n"
ROWS = [
    {
        "text": f"The text of number {n} is long enough to be kept by the others.",
        "score": None if n % 10 == 9 else n / 40,
        "n": n,
        "url": "http://bad.org/x" if n % 8 == 3 else "http://good.org/y",
    }
    for n in range(40)
]
FILTERS: list[dict[str, Any]] = [
    {"kind": "column", "column": "score", "min": 0.25},
    {"kind": "url", "domains": ["blocked.txt"]},
    {"kind": "function", "function": "own_filter_of_columns:keep", "columns": ["n"]},
]
EXPECTED = {"bad": 0, "column.below_min": 9, "column.missing": 4, "function.dropped": 2, "url.domain": 3}


def write_jsonl(path: Path) -> None:
    path.with_suffix(".jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def write_csv(path: Path) -> None:
    with path.with_suffix(".csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, list(ROWS[0]))
        rows.writeheader()
        rows.writerows(ROWS)


def write_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), path.with_suffix(".parquet"), row_group_size=7)


def write_arrow(path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_file(path.with_suffix(".arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


WRITERS = [write_jsonl, write_csv, write_parquet, write_arrow]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a block list and a module of the user's own."""
    (tmp_path / "blocked.txt").write_text("bad.org\n")
    (tmp_path / "own_filter_of_columns.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_filter_of_columns", raising=False)  # of another test
    return tmp_path


def run(folder: Path, **options: Any) -> Any:
    """Run over the file in a folder up to ingest."""
    sources = [{"name": "s", "paths": ["a.*"]}]
    settings = {"sources": sources, "filters": FILTERS, "until": "ingest", **options}
    return run_small(folder, folder / "run", **settings)


@pytest.mark.parametrize("write", WRITERS)
def test_every_format_gives_the_same_verdicts(folder: Path, write: Callable[[Path], None]) -> None:
    write(folder / "a")
    report = run(folder)
    dropped = report["documents"]["dropped"]
    assert dropped == {name: number for name, number in EXPECTED.items() if number}
    details = {sample["reason"]: sample["detail"] for sample in report["documents"]["samples"]}
    assert details["function.dropped"] == "ends in 7"
    assert details["url.domain"] == "bad.org is in domains"
    assert details["column.missing"] == "column 'score' has no value"


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_columns_inside_of_others_give_the_same_verdicts(folder: Path, ending: str) -> None:
    rows = [{"text": row["text"], "meta": {**row}} for row in ROWS]
    if ending == "jsonl":
        (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    (folder / "own_filter_of_columns.py").write_text(OWN.replace("'n'", "'meta.n'"))
    bound, lists, own = FILTERS
    filters = [
        {**bound, "column": "meta.score"},
        {**lists, "column": "meta.url"},
        {**own, "columns": ["meta.n"]},
    ]
    dropped = run(folder, filters=filters)["documents"]["dropped"]
    assert dropped == {name: number for name, number in EXPECTED.items() if number}


@pytest.mark.parametrize("write", WRITERS)
def test_a_column_that_is_not_there_is_refused(folder: Path, write: Callable[[Path], None]) -> None:
    write(folder / "a")
    filters = [{"kind": "column", "column": "scores", "max": 1}]
    with pytest.raises(
        ConfigError, match=r"filters of sources.s: column = 'scores': .*columns there: text"
    ):
        run(folder, filters=filters)


def test_a_column_of_plain_text_is_refused(folder: Path) -> None:
    (folder / "a.txt").write_text("a text")
    with pytest.raises(
        ConfigError, match="plain text has no columns, and a filter reads column 'score'"
    ):
        run(folder)


def test_another_list_or_source_makes_ingest_stale_and_another_place_does_not(folder: Path) -> None:
    write_jsonl(folder / "a")
    run(folder)
    before = digests(folder / "run", "ingest")
    (folder / "moved.txt").write_text("# the same\nbad.org\n")
    moved = [FILTERS[0], {**FILTERS[1], "domains": ["moved.txt"]}, FILTERS[2]]
    run(folder, filters=moved)
    assert digests(folder / "run", "ingest") == before
    (folder / "blocked.txt").write_text("good.org\n")
    with pytest.raises(ConfigError, match=r"ingest .*filters.1.settings.digest"):
        run(folder)
    assert run(folder, replace=True)["documents"]["dropped"]["url.domain"] > EXPECTED["url.domain"]
    (folder / "own_filter_of_columns.py").write_text(f"{OWN}# other\n")
    with pytest.raises(ConfigError, match=r"ingest .*filters.2.settings.digest"):
        run(folder)


def test_an_error_of_the_function_names_the_record(folder: Path) -> None:
    write_jsonl(folder / "a")
    (folder / "own_broken_filter.py").write_text(
        "def keep(text, columns):\n    return columns['n'] / 2\n"
    )
    filters = [{"kind": "function", "function": "own_broken_filter:keep", "columns": ["n"]}]
    message = "s: a.jsonl, line 1: filters: own_broken_filter:keep returned float; it must return True"
    with pytest.raises(DataError, match=message):
        run(folder, filters=filters)


@pytest.mark.usefixtures("ray_session")
def test_two_workers_give_the_bytes_of_a_plain_loop(
    folder: Path,
) -> None:
    write_parquet(folder / "a")
    filters = FILTERS[:2]
    report = run(folder, filters=filters)
    before = digests(folder / "run", "ingest")
    sources = [{"name": "s", "paths": ["a.*"]}]
    again = run_small(
        folder, folder / "again", sources=sources, filters=filters, workers=2, until="ingest"
    )
    assert digests(folder / "again", "ingest") == before
    assert again["documents"] == report["documents"]
