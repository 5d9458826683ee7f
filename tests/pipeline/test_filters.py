"""What filters promise to a run: each drop counted with its reason and a sample, whoever did the work.

The run has several filters, one of them twice, one of them for one source alone, and one that changes
texts. A run without any has the fingerprints that it had before there were filters.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.planning.plan import plan_steps
from pipeline.run_file.filters import filter_warnings
from pipeline.run_file.load import load_run_file
from pipeline.session.verifying import verify_session
from pipeline.state.ledger import checked_flow, read_flows
from stages.errors import ConfigError, DataError
from stages.filtering.length import Length
from stages.filtering.url import UrlLists
from tests.conftest import digests, run_small, small_run

SOURCES = [
    {"name": "mixed", "paths": ["[ab].jsonl*"], "id_column": "id", "language": {"column": "lang"}},
    {"name": "web", "paths": ["c.jsonl*"], "id_column": "id", "language": {"column": "lang"}},
]
FILTERS: list[dict[str, Any]] = [
    {"kind": "length", "min_chars": 150},
    {"kind": "gopher_repetition", "max_top": [0.3, 0.3, 0.3], "sources": ["web"]},
    {"kind": "c4", "min_sentences": 1, "sources": ["mixed"]},
    {"kind": "length", "max_chars": 2_000},
]
OPTIONS: dict[str, Any] = {
    "sources": SOURCES,
    "filters": FILTERS,
    "ingest": {"unit_size": "200KiB", "max_document_bytes": "1MiB"},
    "verify": {"learning": False},
}


@pytest.fixture(scope="module")
def filtered(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run with filters by a plain loop, and its report."""
    output = tmp_path_factory.mktemp("filtered") / "run"
    return output, run_small(small_corpus, output, until=None, **OPTIONS)


def drops_of(run: Path) -> list[dict[str, Any]]:
    """Return every record that a run dropped."""
    tables = [pq.read_table(path) for path in sorted((run / "ingest").rglob("drops.parquet"))]
    rows: list[dict[str, Any]] = pa.concat_tables(tables).to_pylist()
    return rows


@pytest.mark.slow
def test_every_drop_is_counted_with_its_reason_and_what_was_measured(filtered: tuple[Path, Any]) -> None:
    run, report = filtered
    drops = drops_of(run)
    counts = Counter(drop["reason"] for drop in drops)
    assert counts == report["documents"]["dropped"]
    wanted = {"length.too_short", "length-2.too_long", "c4.few_sentences", "bad_json"}
    assert wanted < counts.keys()
    assert any(reason.startswith("gopher_repetition.top") for reason in counts)
    gone = checked_flow("ingest", read_flows(run, "ingest")).gone
    assert {reason: tally.documents for reason, tally in gone.items()} == counts
    judged = [drop for drop in drops if drop["source"] == "web" and "." in drop["reason"]]
    assert judged
    assert all(drop["own_id"] is not None for drop in judged)
    short = next(drop["detail"] for drop in drops if drop["reason"] == "length.too_short")
    assert short.startswith("characters: ")
    assert short.endswith("; min_chars = 150")


@pytest.mark.slow
def test_a_filter_looks_at_the_documents_of_its_sources_alone(filtered: tuple[Path, Any]) -> None:
    drops = drops_of(filtered[0])
    by_kind = {
        kind: {drop["source"] for drop in drops if drop["reason"].startswith(f"{kind}.")}
        for kind in ("c4", "gopher_repetition", "length")
    }
    assert by_kind == {"c4": {"mixed"}, "gopher_repetition": {"web"}, "length": {"mixed", "web"}}


@pytest.mark.slow
def test_changes_are_counted_and_samples_of_drops_are_shown(filtered: tuple[Path, Any]) -> None:
    run, report = filtered
    documents = report["documents"]
    assert documents["changed"]["c4.lines"] >= documents["changed"]["c4.documents"] > 0
    samples = Counter(sample["reason"] for sample in documents["samples"])
    dropped = {reason: n for reason, n in documents["dropped"].items() if "." in reason}
    assert samples == {reason: min(3, number) for reason, number in dropped.items()}
    page = (run / "report" / "index.html").read_text()
    assert documents["samples"][0]["place"] in page
    assert "c4.lines" in page


@pytest.mark.slow
def test_verify_finds_nothing(filtered: tuple[Path, Any]) -> None:
    report = verify_session(filtered[0], workers=0, address=None, stream=None)
    assert report["passed"]
    assert report["audit"] is not None
    assert report["audit"]["findings"] == []


@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_two_workers_give_the_bytes_and_the_samples_of_a_plain_loop(
    small_corpus: Path, filtered: tuple[Path, Any], tmp_path: Path
) -> None:
    run, report = filtered
    again = run_small(small_corpus, tmp_path / "run", workers=2, **OPTIONS)
    folders = ("ingest", "dedup", "tokenizer", "tokens", "datasets")
    assert digests(tmp_path / "run", *folders) == digests(run, *folders)
    assert again["documents"] == report["documents"]


@pytest.mark.slow
def test_other_units_give_the_same_samples(
    small_corpus: Path, filtered: tuple[Path, Any], tmp_path: Path
) -> None:
    options = {**OPTIONS, "ingest": {**OPTIONS["ingest"], "unit_size": "64MiB"}}
    again = run_small(small_corpus, tmp_path / "run", until="ingest", **options)
    for key in ("dropped", "changed", "samples"):
        assert again["documents"][key] == filtered[1]["documents"][key]


def fingerprints(**changes: Any) -> dict[str, str]:
    """Return the fingerprint of each step."""
    return {step.name: step.fingerprint for step in plan_steps(small_run(**changes), [])}


def test_filters_are_in_the_fingerprint_in_their_order_and_only_if_there_are_any() -> None:
    plain = fingerprints()
    assert fingerprints(filters=[]) == plain
    one, other = {"kind": "length", "min_chars": 5}, {"kind": "fineweb"}
    every = [[one], [other], [one, other], [other, one], [{**one, "sources": ["mixed"]}]]
    found = [fingerprints(filters=filters)["ingest"] for filters in every]
    assert len({plain["ingest"], *found}) == len(every) + 1


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        ('kind = "gopher"', "filters.0.kind = 'gopher': must be one of 'length', 'gopher_quality'"),
        (
            'kind = "fineweb"\nshort_lines = 3',
            "filters.0.short_lines: no such key; did you mean 'short_line'?",
        ),
        (
            'kind = "fineweb"\nshort_line = -1',
            "filters.0.short_line = -1: must be at least",
        ),
        ('kind = "length"', "filters.0: has no bound; set min_chars, max_chars or both"),
        (
            'kind = "c4"\nsources = ["wbe"]',
            "filters.0 (kind = 'c4'): sources: no source is called 'wbe'",
        ),
        ('kind = "c4"\nsources = []', "filters.0.sources = []: must have at least 1 item"),
        (
            'kind = "c4"\nsources = ["web", "web"]',
            "filters.0.sources = ['web', 'web']: names 'web' twice; name it once",
        ),
        ("min_chars = 3", "filters.0: needs kind, one of 'length', 'gopher_quality', 'gopher_rep"),
    ],
)
def test_a_bad_setting_is_refused_with_its_place(filters: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    required = '[[sources]]\nname = "web"\npaths = ["*.jsonl"]\n[[datasets]]\nname = "clm"\n'
    path.write_text(f"{required}[[filters]]\n{filters}\n")
    with pytest.raises(ConfigError) as error:
        load_run_file(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_one_table_where_a_list_of_tables_belongs_is_refused_with_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    required = '[[sources]]\nname = "web"\npaths = ["*.jsonl"]\n[[datasets]]\nname = "clm"\n'
    path.write_text(f'{required}[filters]\nkind = "c4"\n')
    with pytest.raises(ConfigError, match=r"filters: is one table, .*; write \[\[filters\]\]$"):
        load_run_file(path)


def test_a_filter_that_changes_texts_is_refused_where_sections_end_within() -> None:
    sources = [{"name": "pairs", "paths": ["*.jsonl"], "section_columns": ["target"]}]
    with pytest.raises(
        ValueError, match="changes texts, and those of source 'pairs' are made of 2 columns"
    ):
        small_run(sources=sources, filters=[{"kind": "c4"}])
    small_run(sources=sources, filters=[{"kind": "c4", "remove_lines": False}])


@pytest.mark.slow
def test_a_run_of_which_filters_leave_nothing_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": "a few words that nobody will keep"}) + "\n")
    sources = [{"name": "s", "paths": ["a.jsonl"]}]
    with pytest.raises(
        DataError, match=r"length.too_short: characters: 27; .*check text_column and filters"
    ):
        run_small(
            tmp_path, tmp_path / "run", sources=sources, filters=[{"kind": "length", "min_chars": 99}]
        )


def test_a_filter_is_named_by_its_place_in_the_run_file(tmp_path: Path) -> None:
    (tmp_path / "domains.txt").write_text("one.org\nexample.org/path\n")
    lists = UrlLists(domains=(str(tmp_path / "domains.txt"),))
    (said,) = filter_warnings([Length(min_chars=1), lists])
    assert said.startswith("filters.1 (kind = 'url'): 1 line of the lists of domains names no host")
