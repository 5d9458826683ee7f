"""What kept columns promise to a run: each value stands beside its document in the shard's list.

From every format, for sources with other columns each, with any number of workers and after a stop; a
column that is nowhere is refused, a value that is too long is counted; and where nothing is kept, no
byte is another.
"""

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.report.inspection import inspect, print_row
from pipeline.session.verifying import verify_session
from stages.errors import ConfigError
from stages.reading.kept_values import MOST_BYTES
from tests.campaign import FULL, some_of
from tests.conftest import digests, run_small

pytestmark = pytest.mark.slow

ROWS: list[dict[str, Any]] = [
    {
        "id": f"d{n}",
        "text": f"The text of number {n} has some words of its own, {n * n} and {n * 7919}.",
        "url": None if n % 9 == 4 else f"https://example.org/{n}?é",
        "meta": {"quality": n / 8, "tags": ["a", str(n)]},
        "n": n,
    }
    for n in range(40)
]
KEPT = ["url", "meta.quality", "n", "meta.tags"]
NAMES = [f"record.{name}" for name in KEPT]
SOURCE = {"name": "s", "paths": ["a.*"], "id_column": "id", "keep_columns": KEPT}
SETTINGS: dict[str, Any] = {
    "sources": [SOURCE],
    "dedup": {"exact": False, "near": False},
    "tokenizer": {"train": {"vocab_size": 560, "sample_size": "64KiB"}},
    "validation": {"fraction": 0.2},
    "packing": {"seq_len": 32, "shards": 2},
    "ingest": {"unit_size": "1KiB"},
    "verify": {"learning": False},
}


def text_of(value: Any) -> str | None:
    """Return what a value of JSON is in the list."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"))


WANTED: dict[str, tuple[str | None, ...]] = {
    row["id"]: (
        row["url"],
        text_of(row["meta"]["quality"]),
        text_of(row["n"]),
        text_of(row["meta"]["tags"]),
    )
    for row in ROWS
}


def write_jsonl(folder: Path) -> None:
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def write_json(folder: Path) -> None:
    (folder / "a.json").write_text(json.dumps(ROWS, indent=1))


def write_csv(folder: Path) -> None:
    """Write columns whose own names hold the dots, of texts as JSON has them."""
    flat = [
        {
            "id": row["id"],
            "text": row["text"],
            "url": row["url"],
            "meta.quality": text_of(row["meta"]["quality"]),
            "meta.tags": text_of(row["meta"]["tags"]),
            "n": row["n"],
        }
        for row in ROWS
    ]
    with (folder / "a.csv").open("w", newline="") as file:
        rows = csv.DictWriter(file, list(flat[0]))
        rows.writeheader()
        rows.writerows(flat)


def write_parquet(folder: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "a.parquet", row_group_size=7)


def write_arrow(folder: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    with pa.ipc.new_stream(folder / "a.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


WRITERS = [write_jsonl, write_json, write_csv, write_parquet, write_arrow]


def listed(output: Path, pattern: str = "datasets/*/*/epoch-0000/*/documents.parquet") -> pa.Table:
    """Return the lists of documents of all shards, or of other tables."""
    tables = [pq.read_table(path) for path in sorted(output.glob(pattern))]
    assert tables
    return pa.concat_tables(tables)


def values_of(table: pa.Table, names: list[str]) -> dict[str, tuple[str | None, ...]]:
    """Return the values of each document, by its own id."""
    columns = (table.column(name).to_pylist() for name in names)
    return dict(zip(table.column("own_id").to_pylist(), zip(*columns, strict=True), strict=True))


def ingest(folder: Path, **options: Any) -> Any:
    """Run over the files of a folder, up to ingest."""
    source = {**SOURCE, **options.pop("source", {})}
    settings = {**SETTINGS, "sources": [source], "until": "ingest", **options}
    return run_small(folder, folder / "run", **settings)


@pytest.mark.parametrize("write", WRITERS)
def test_every_format_gives_the_values_of_its_records_to_the_shards(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    """A column goes the same way from ingest on: one format goes to the shards, a campaign's all do."""
    write(tmp_path)
    whole = FULL or write is write_jsonl
    run_small(tmp_path, tmp_path / "run", until="shard" if whole else "ingest", **SETTINGS)
    wanted = WANTED
    if write is write_csv:  # which has no null
        wanted = {name: (url or "", *rest) for name, (url, *rest) in WANTED.items()}
    for pattern in ("ingest/*/*/documents.parquet", "tokens/*/*/documents.parquet")[: 1 + whole]:
        table = listed(tmp_path / "run", pattern)
        assert values_of(table, NAMES) == wanted
        assert all(table.schema.field(name).type == pa.string() for name in NAMES)
    if not whole:
        return
    table = listed(tmp_path / "run")
    assert values_of(table, NAMES) == wanted
    assert table.schema.names[-len(NAMES) :] == NAMES
    assert {shard.parent.name for shard in (tmp_path / "run/datasets").rglob("documents.parquet")} == {
        "00000",
        "00001",
    }


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sources: two keep other columns each, one of them is of plain text."""
    folder = tmp_path_factory.mktemp("kept")
    write_jsonl(folder)
    with (folder / "b.jsonl").open("w") as file:
        for row in ROWS:
            content = {
                "id": f"b{row['n']}",
                "text": row["text"][::-1],
                "source": f"crawl-{row['n'] % 3}",
            }
            file.write(json.dumps({**content, "url": row["url"]}) + "\n")
    (folder / "c.txt").write_text("\n\n".join(f"A paragraph of number {n}." for n in range(20)))
    return folder


SOURCES = [
    {**SOURCE, "paths": ["a.jsonl"], "name": "z"},
    {"name": "b", "paths": ["b.jsonl"], "id_column": "id", "keep_columns": ["source", "url"]},
    {"name": "plain", "paths": ["c.txt"], "text_split": "blank_line"},
]
EVERY = ["record.source", *NAMES]
"""Of the sources in canonical order, each once."""


@pytest.fixture(scope="module")
def finished(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over them to its end."""
    output = tmp_path_factory.mktemp("finished") / "run"
    settings = {**SETTINGS, "sources": SOURCES}
    report = run_small(corpus, output, until=None, **settings)
    assert report["verify"]["clm"]["findings"] == []
    return output


def test_a_shard_has_the_columns_of_all_sources_and_null_where_one_has_none(finished: Path) -> None:
    table = listed(finished)
    assert table.schema.names[9:] == ["record.source", "record.url", *NAMES[1:]]
    by_source = {
        name: values_of(table.filter(pa.array([s == name for s in table["source"].to_pylist()])), EVERY)
        for name in ("z", "b", "plain")
    }
    assert by_source["z"] == {name: (None, *values) for name, values in WANTED.items()}
    assert by_source["b"] == {
        f"b{row['n']}": (f"crawl-{row['n'] % 3}", row["url"], None, None, None) for row in ROWS
    }
    assert set(by_source["plain"].values()) == {(None,) * len(EVERY)}
    stored = [pq.read_schema(path).names[8:] for path in sorted(finished.glob("tokens/*/*/*.parquet"))]
    assert {tuple(names) for names in stored} == {("record.source", "record.url"), (), tuple(NAMES)}


def test_a_row_is_shown_with_the_values_of_its_documents(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: dict[str, dict[str, str | None]] = {}
    for row in range(8):
        content = inspect(finished, "clm", split="train", row=row, epoch=0)
        shown |= {part["own_id"] or part["id"]: part["record"] for part in content["documents"]}
        print_row(content, as_json=False)
    out = capsys.readouterr().out
    assert len(shown) > 5
    for name, record in shown.items():
        if name in WANTED:
            assert record == {"source": None, **dict(zip(KEPT, WANTED[name], strict=True))}
            said = [f"{key} = {value}" for key, value in record.items() if value is not None]
            assert f"\n{name}: {'; '.join(said)}\n" in out
    assert shown.keys() & WANTED.keys()


@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_two_workers_and_a_stop_give_the_bytes_of_a_plain_loop(
    corpus: Path, finished: Path, tmp_path: Path
) -> None:
    settings = {**SETTINGS, "sources": SOURCES}
    run_small(corpus, tmp_path / "run", workers=2, until="ingest", **settings)
    run_small(corpus, tmp_path / "run", workers=2, until="tokenize", **settings)
    for victim in sorted((tmp_path / "run/commits/tokenize").iterdir())[::2]:
        victim.unlink()
    run_small(corpus, tmp_path / "run", workers=2, **settings)
    folders = ("ingest", "tokens", "datasets")
    assert digests(tmp_path / "run", *folders) == digests(finished, *folders)


@pytest.mark.campaign
def test_other_units_give_the_same_shards(corpus: Path, finished: Path, tmp_path: Path) -> None:
    settings = {**SETTINGS, "sources": SOURCES, "ingest": {"unit_size": "64MiB"}}
    run_small(corpus, tmp_path / "run", **settings)
    assert digests(tmp_path / "run", "datasets") == digests(finished, "datasets")


def test_the_shards_hold_the_same_rows_as_without(corpus: Path, finished: Path, tmp_path: Path) -> None:
    """The units are others, too: neither changes more than the kept columns."""
    settings = {**SETTINGS, "ingest": {"unit_size": "64MiB"}}
    settings["sources"] = [{**source, "keep_columns": []} for source in SOURCES]
    run_small(corpus, tmp_path / "run", **settings)
    found, kept = (digests(output, "datasets") for output in (tmp_path / "run", finished))
    differ = {Path(name).name for name in found if found[name] != kept[name]}
    assert differ == {"documents.parquet", "dataset.json"}
    table = listed(finished)
    assert listed(tmp_path / "run").equals(table.select(table.schema.names[:9]))


def swapped(table: pa.Table, name: str) -> pa.Table:
    """Exchange the first two values of a column that differ."""
    values = table.column(name).to_pylist()
    second = next(n for n, one in enumerate(values) if one != values[0])
    values[0], values[second] = values[second], values[0]
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), pa.array(values, pa.string()))


@pytest.mark.parametrize(
    ("pattern", "names"),
    some_of(
        [
            ("datasets/clm/train/epoch-0000/00000/documents.parquet", EVERY),
            ("tokens/z/*/documents.parquet", NAMES),
            ("tokens/b/*/documents.parquet", ["record.source"]),
        ],
        1,
    ),
)
def test_values_of_other_records_are_found_by_name(
    finished: Path, tmp_path: Path, pattern: str, names: list[str]
) -> None:
    shutil.copytree(finished, tmp_path / "run")
    path = max((tmp_path / "run").glob(pattern), key=lambda path: pq.read_metadata(path).num_rows)
    table = pq.read_table(path)
    for name in names:
        table = swapped(table, name)
    pq.write_table(table, path, compression="zstd")
    report: Any = verify_session(tmp_path / "run", workers=0, address=None, stream=None)
    said = [finding["message"] for finding in report["verify"]["clm"]["findings"]]
    named = [
        message.removeprefix("says another ").partition(" of some documents")[0].split(", ")
        for message in said
        if message.startswith("says another ")
    ]
    assert any(set(names) <= set(one) for one in named), said


def test_a_column_that_no_record_has_is_refused_with_those_that_exist(tmp_path: Path) -> None:
    write_jsonl(tmp_path)
    with pytest.raises(ConfigError) as caught:
        ingest(tmp_path, source={"keep_columns": ["url", "meta.score"]})
    assert str(caught.value) == (
        "sources.s.keep_columns = 'meta.score': none of 40 records has such a column; columns there:"
        " id, text, url, meta.quality, meta.tags, n. Correct it and run again with --replace"
    )


@pytest.mark.parametrize("write", [write_parquet, write_arrow])
def test_a_table_without_a_column_is_refused_before_a_row_is_read(
    tmp_path: Path, write: Callable[[Path], None]
) -> None:
    write(tmp_path)
    message = (
        r"sources\.s\.keep_columns = 'meta\.score': .* has no such column; columns there: id, text, url"
    )
    with pytest.raises(ConfigError, match=message):
        ingest(tmp_path, source={"keep_columns": ["url", "meta.score"]})


def test_plain_text_has_no_columns_to_keep(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text")
    source = {"id_column": None, "keep_columns": ["url"]}
    with pytest.raises(
        ConfigError, match=r"keep_columns = \['url'\]: .*a\.txt is plain text and has no"
    ):
        ingest(tmp_path, source=source)


def test_a_column_that_few_records_have_is_told_with_its_share(tmp_path: Path) -> None:
    rows = [row if n < 4 else {**row, "meta": {"tags": []}} for n, row in enumerate(ROWS)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report = ingest(tmp_path)
    assert report["warnings"] == [
        (
            "sources.s.keep_columns = 'meta.quality': absent in 36 of 40 records (90.00%), first in"
            " a.jsonl; these have no such value"
        )
    ]
    assert values_of(listed(tmp_path / "run", "ingest/*/*/documents.parquet"), NAMES[1:2]) == {
        row["id"]: (text_of(row["meta"]["quality"]) if n < 4 else None,) for n, row in enumerate(ROWS)
    }


@pytest.mark.parametrize("write", [write_jsonl, write_parquet])
def test_a_value_that_is_too_long_is_null_and_counted_and_its_document_stays(
    tmp_path: Path, write: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {**row, "url": "x" * (MOST_BYTES + 1)} if n in (7, 30) else row for n, row in enumerate(ROWS)
    ]
    monkeypatch.setitem(globals(), "ROWS", rows)
    write(tmp_path)
    report = ingest(tmp_path)
    place = "row 7" if write is write_parquet else "line 8"
    name = "a.parquet" if write is write_parquet else "a.jsonl"
    assert report["warnings"] == [
        (
            "sources.s.keep_columns = 'url': over 4,096 bytes, or nested over 64 deep, in 2 of 40"
            f" documents (5.00%), first in s: {name}, {place}; these have no such value"
        )
    ]
    assert report["documents"]["dropped"] == {}
    urls = values_of(listed(tmp_path / "run", "ingest/*/*/documents.parquet"), NAMES[:1])
    assert [name for name, (url,) in urls.items() if url is None and WANTED[name][0]] == ["d7", "d30"]


def test_a_column_that_filters_ask_for_may_go_along(tmp_path: Path) -> None:
    write_jsonl(tmp_path)
    filters = [{"kind": "column", "column": "meta.quality", "min": 1.0}]
    report = ingest(tmp_path, filters=filters)
    assert report["documents"]["dropped"] == {"column.below_min": 8}
    found = values_of(listed(tmp_path / "run", "ingest/*/*/documents.parquet"), NAMES)
    assert found == {name: values for name, values in WANTED.items() if int(values[2] or 0) >= 8}


def test_other_columns_make_ingest_stale(tmp_path: Path) -> None:
    write_jsonl(tmp_path)
    ingest(tmp_path)
    before = digests(tmp_path / "run", "ingest")
    ingest(tmp_path)
    assert digests(tmp_path / "run", "ingest") == before
    with pytest.raises(ConfigError, match=r"ingest .*keep_columns"):
        ingest(tmp_path, source={"keep_columns": KEPT[:2]})
    ingest(tmp_path, source={"keep_columns": KEPT[:2]}, replace=True)
    table = listed(tmp_path / "run", "ingest/*/*/documents.parquet")
    assert [name for name in table.schema.names if name.startswith("record.")] == NAMES[:2]


def test_long_values_make_smaller_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.steps.ingest.files.BATCH_NAMES", 16 << 10)
    with (tmp_path / "a.jsonl").open("w") as file:
        for n in range(40):
            file.write(json.dumps({"id": str(n), "text": f"text {n}", "url": "é" * 2_000}) + "\n")
    ingest(tmp_path, source={"keep_columns": ["url"]}, ingest={"unit_size": "64MiB"})
    (path,) = (tmp_path / "run").glob("ingest/*/*/documents.parquet")
    with pq.ParquetFile(path) as file:
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
    assert len(sizes) > 4
    assert max(sizes) <= 8
