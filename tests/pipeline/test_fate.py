"""Fate: for each document of a run, what `inspect --document` says is what the tables say."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline.report.fate import find_document
from stages.errors import ConfigError
from tests.called import called


def test_a_removed_document_is_read_and_removed_for_another_and_in_no_row(reference: Path) -> None:
    table = pq.read_table(reference / "dedup" / "removed.parquet").to_pylist()
    for row in table[:3]:
        found = find_document(reference, row["id"])
        assert [one["what"] for one in found] == ["read", "removed"]
        assert (row["kept_own_id"] or row["kept_id"]) in found[1]["said"]
        if row["similarity"] is not None:
            assert f"{row['similarity']:.3f}" in found[1]["said"]
        assert found[1]["file"] == "dedup/removed.parquet"


def test_a_kept_document_is_in_the_rows_of_each_dataset_once(reference: Path) -> None:
    listed = sorted((reference / "datasets").rglob("documents.parquet"))
    table = pq.read_table(listed[0]).to_pylist()
    removed = set(pq.read_table(reference / "dedup" / "removed.parquet")["own_id"].to_pylist())
    row = next(one for one in table if one["own_id"] and one["own_id"] not in removed)
    found = find_document(reference, row["own_id"])
    rows = [one for one in found if one["what"] == "in rows"]
    assert len(rows) == 1
    assert f"{row['tokens']:,} tokens" in rows[0]["said"]
    assert find_document(reference, row["id"]) == found


def test_a_held_out_document_says_so(reference: Path) -> None:
    listed = sorted((reference / "datasets" / "clm" / "validation").rglob("documents.parquet"))
    found = find_document(reference, pq.read_table(listed[0])["id"].to_pylist()[0])
    assert [one["what"] for one in found] == ["read", "in rows"]
    assert "clm/validation, shard" in found[1]["said"]


def test_a_dropped_record_is_found_by_its_line(reference: Path) -> None:
    drops = [
        row
        for path in sorted((reference / "ingest").rglob("drops.parquet"))
        for row in pq.read_table(path).to_pylist()
    ]
    assert drops
    for row in drops:
        found = find_document(reference, f"{row['path']}:{row['line']}")
        assert [one["what"] for one in found] == ["dropped"]
        assert row["detail"] in found[0]["said"]


def test_the_command_prints_it_and_an_unknown_name_is_refused(reference: Path) -> None:
    row = pq.read_table(reference / "dedup" / "removed.parquet").to_pylist()[0]
    done = called("inspect", str(reference), "--document", row["id"], cwd=reference)
    assert "dedup/removed.parquet" in done.stdout
    as_json = called("inspect", str(reference), "--document", row["id"], "--json", cwd=reference)
    assert json.loads(as_json.stdout) == find_document(reference, row["id"])
    with pytest.raises(ConfigError, match="nothing here knows it"):
        find_document(reference, "none")
    assert called("inspect", str(reference), "--document", "none", cwd=reference).returncode == 2
