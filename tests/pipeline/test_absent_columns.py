"""What columns promise: one that no JSON record has is refused by name, one that some lack is told.

A misspelt name would else give documents without language and ids without a word.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.steps.unreadable import MIN_RECORDS
from stages.errors import ConfigError
from tests.conftest import run_small

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


def ingest(corpus: Path, output: Path, **options: Any) -> dict[str, Any]:
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
        f"sources.web.{key} = 'wrong': none of 20 records has such a column at its top level; columns"
        " there: id, lang, text. Correct the name and run again with --replace"
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


def test_a_nested_column_is_no_column_and_the_message_says_so(corpus: Path, tmp_path: Path) -> None:
    write(corpus / "a.jsonl", [{"text": "some words of text", "meta": {"lang": "en"}}] * 3)
    with pytest.raises(ConfigError) as caught:
        ingest(corpus, tmp_path / "run", language={"column": "meta.lang"})
    message = str(caught.value)
    assert message.startswith("sources.web.language.column = 'meta.lang': none of 3 records has such")
    assert (
        "columns there: text, meta; a column stands at the top level, a name with dots finds" in message
    )


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
