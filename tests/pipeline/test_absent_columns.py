"""What columns promise: one that no JSON record has is refused by name, one that some lack is told.

So is one that holds another type than it must. A wrong name would else give documents without language
and ids without a word.
"""

import gzip
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.run_file.source import Source
from pipeline.steps.ingest.columns import SourceColumns
from pipeline.steps.ingest.record import ColumnCounts
from pipeline.steps.ingest.unreadable import MIN_RECORDS
from stages.errors import ConfigError
from tests.conftest import run_small

pytestmark = pytest.mark.slow

KEYS: dict[str, dict[str, Any]] = {
    "text_column": {"text_column": "wrong"},
    "section_columns": {"section_columns": ["wrong"]},
    "id_column": {"id_column": "wrong"},
    "language.column": {"language": {"column": "wrong"}},
}


def write(path: Path, records: list[dict[str, Any]]) -> None:
    """Write records as JSON lines, compressed if the name says so."""
    data = b"".join(json.dumps(record).encode() + b"\n" for record in records)
    path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def records(count: int, **more: Any) -> list[dict[str, Any]]:
    """Return records with a text, an id and a language."""
    return [{"id": n, "lang": "en", "text": f"a text with the number {n}", **more} for n in range(count)]


def ingest(corpus: Path, output: Path, **options: Any) -> Any:
    """Ingest a folder's files as one source."""
    unit_size = options.pop("unit_size", "64MiB")
    bad = options.pop("max_bad_fraction", 0.05)
    replace = options.pop("replace", False)
    source = {"name": "web", "paths": ["*.jsonl*"], **options}
    settings = {"unit_size": unit_size, "max_bad_fraction": bad}
    return run_small(corpus, output, until="ingest", sources=[source], ingest=settings, replace=replace)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """An empty folder."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize("bad", [0.05, 1.0])
@pytest.mark.parametrize("key", KEYS)
def test_a_column_that_no_record_has_is_refused_with_those_that_exist(
    key: str, bad: float, ending: str, corpus: Path, tmp_path: Path
) -> None:
    write(corpus / f"a.{ending}", records(20))
    with pytest.raises(ConfigError) as caught:
        ingest(corpus, tmp_path / "run", max_bad_fraction=bad, **KEYS[key])
    assert str(caught.value) == (
        f"sources.web.{key} = 'wrong': none of 20 records has such a column; columns"
        " there: id, lang, text. Correct it and run again with --replace"
    )
    corrected = {"id_column": "id", "language": {"column": "lang"}, "replace": True}
    assert ingest(corpus, tmp_path / "run", **corrected)["documents"]["read"] == 20


@pytest.mark.parametrize("key", KEYS)
def test_a_misspelt_column_stops_the_run_before_its_end(key: str, corpus: Path, tmp_path: Path) -> None:
    write(corpus / "a.jsonl", records(10 * MIN_RECORDS))
    with pytest.raises(ConfigError, match=r"none of 1,\d\d\d records has such a column"):
        ingest(corpus, tmp_path / "run", unit_size="8KiB", **KEYS[key])
    size = (corpus / "a.jsonl").stat().st_size
    units = len(list((tmp_path / "run/commits/ingest").iterdir()))
    assert 2 <= units < size / (8 << 10) / 5


def test_a_nested_column_that_no_record_has_is_refused_with_those_inside(
    corpus: Path, tmp_path: Path
) -> None:
    write(corpus / "a.jsonl", [{"text": "some words of text", "meta": {"lang": "en"}}] * 3)
    with pytest.raises(ConfigError) as caught:
        ingest(corpus, tmp_path / "run", language={"column": "meta.language"})
    message = str(caught.value)
    assert message.startswith(
        "sources.web.language.column = 'meta.language': none of 3 records has such"
    )
    assert "columns there: text, meta.lang. Correct" in message


@pytest.mark.parametrize("key", ["id_column", "language.column"])
def test_a_column_that_some_records_lack_is_told_with_their_share(
    key: str, corpus: Path, tmp_path: Path
) -> None:
    write(corpus / "a.jsonl", records(60))
    write(corpus / "b.jsonl", records(40, wrong="x"))
    report = ingest(corpus, tmp_path / "run", **KEYS[key])
    gives = "no id of their own" if key == "id_column" else "no language"
    (warning,) = report["warnings"]
    assert warning == (
        f"sources.web.{key} = 'wrong': absent in 60 of 100 records (60.00%), first in a.jsonl; these"
        f" have {gives}"
    )
    again = ingest(corpus, tmp_path / "run", **KEYS[key])
    assert again["warnings"] == report["warnings"]


def test_columns_are_counted_for_each_source_and_null_is_there(corpus: Path, tmp_path: Path) -> None:
    write(corpus / "a.jsonl", records(5, lang=None))
    report = ingest(corpus, tmp_path / "run", language={"column": "lang"})
    assert report["warnings"] == []
    write(corpus / "b.jsonl", records(5, other=1))
    sources = [
        {"name": "one", "paths": ["a.jsonl"], "id_column": "other"},
        {"name": "two", "paths": ["b.jsonl"], "id_column": "other"},
    ]
    with pytest.raises(ConfigError, match=r"sources\.one\.id_column = 'other': none of 5 records"):
        run_small(corpus, tmp_path / "two", until="ingest", sources=sources)


UNUSABLE: dict[str, list[tuple[Any, str]]] = {
    "id_column": [({"a": 1}, "an object"), ([1], "a list"), (True, "true or false"), (1.5, "a float")],
    "language.column": [
        ({}, "an object"),
        (["en"], "a list"),
        (False, "true or false"),
        (7, "an integer"),
    ],
}
"""For each setting, values of another type than it takes."""
CASES = [(key, value, kind) for key, values in UNUSABLE.items() for value, kind in values]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize(("key", "value", "kind"), CASES)
def test_a_column_that_holds_another_type_in_all_records_is_refused(
    key: str, value: Any, kind: str, ending: str, corpus: Path, tmp_path: Path
) -> None:
    rest: list[dict[str, Any]] = [
        {"text": "no such column"},
        {"text": "null", "wrong": None},
        {"wrong": "a", "text": 7},
    ]
    write(corpus / f"a.{ending}", [*records(20, wrong=value), *rest])
    with pytest.raises(ConfigError) as caught:
        ingest(corpus, tmp_path / "run", **KEYS[key])
    message = str(caught.value)
    assert message.startswith(
        f"sources.web.{key} = 'wrong': all 20 records that have it hold {kind} there; it must be a"
    )
    assert message.endswith("and run again with --replace")
    corrected = {"id_column": "id", "language": {"column": "lang"}, "replace": True}
    bound = {"max_bad_fraction": 0.1}
    assert ingest(corpus, tmp_path / "run", **corrected, **bound)["documents"]["read"] == 23


@pytest.mark.parametrize(("key", "value", "kind"), CASES)
def test_a_column_that_holds_another_type_in_some_records_is_told_with_their_share(
    key: str, value: Any, kind: str, corpus: Path, tmp_path: Path
) -> None:
    write(corpus / "a.jsonl", records(10, wrong="x"))
    write(corpus / "b.jsonl", [*records(29, wrong=value), *records(1, wrong="y")])
    (warning,) = ingest(corpus, tmp_path / "run", **KEYS[key])["warnings"]
    gives = "no id of their own" if key == "id_column" else "no language"
    assert warning == (
        f"sources.web.{key} = 'wrong': {kind} in 29 of 40 records (72.50%), first in b.jsonl; these have"
        f" {gives}"
    )


@pytest.mark.parametrize("key", UNUSABLE)
def test_a_column_of_another_type_stops_the_run_before_its_end(
    key: str, corpus: Path, tmp_path: Path
) -> None:
    write(corpus / "a.jsonl", records(10 * MIN_RECORDS, wrong=[]))
    with pytest.raises(ConfigError, match=r"all 1,\d\d\d records that have it hold a list there"):
        ingest(corpus, tmp_path / "run", unit_size="8KiB", **KEYS[key])


def test_one_column_may_be_id_and_language(corpus: Path, tmp_path: Path) -> None:
    write(corpus / "a.jsonl", records(5, wrong=7))
    assert ingest(corpus, tmp_path / "run", **KEYS["id_column"])["warnings"] == []
    with pytest.raises(ConfigError, match=r"language\.column = 'wrong': all 5 records .* an integer"):
        ingest(corpus, tmp_path / "two", **KEYS["id_column"], **KEYS["language.column"])


def test_of_several_units_the_first_file_is_named() -> None:
    source = Source(name="web", paths=("*.jsonl",), id_column="own")
    columns = SourceColumns([source])
    for file in ("a.jsonl", "b.jsonl"):
        counts = ColumnCounts(
            records=4,
            absent={"own": 1},
            first={"own": file},
            there=("text",),
            textless=0,
            untaken={"id_column": {"a list": 1}},
            first_wrong={"id_column": file},
        )
        unit: Any = SimpleNamespace(source="web", columns=counts, documents=4, too_long={})
        columns.add(unit)
    absent, wrong = columns.warnings()
    assert "absent in 2 of 8 records (25.00%), first in a.jsonl" in absent
    assert "a list in 2 of 8 records (25.00%), first in a.jsonl" in wrong
