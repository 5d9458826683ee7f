"""What a report reads from the run's files: lengths, languages before removals, what was cut most."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.report.before import languages_before, repeated_texts
from pipeline.report.flow import held_out
from pipeline.report.made import made_of
from pipeline.report.measured import _texts, measured_curve
from pipeline.report.report import Report
from pipeline.report.texts import lengths_of, texts_of
from stages.dedup.lsh import MinHashConfig, band_shape
from stages.filtering.characters import measure_text
from tests.conftest import bundled_lines, run_small, small_run

CUT = "Read more of this in the next number of our paper, which comes out every Thursday morning."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A run that cuts lines and removes duplicates, and its report."""
    folder = tmp_path_factory.mktemp("seen")
    lines = [json.loads(line) for line in bundled_lines("text/*", 8)]
    for number, line in enumerate(lines):
        line["text"] += f"\n{CUT}\n{number} times it was said." if number % 2 else ""
    records = [*lines, *lines[:5]]
    (folder / "a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    report = run_small(
        folder,
        folder / "run",
        until="verify",
        dedup={"lines": {"min_documents": 4}},
        tokenizer={"train": {"vocab_size": 1024, "sample_size": "1MiB"}},
        verify={"learning": False},
    )
    return folder / "run", report


def test_lengths_are_those_of_the_token_store(made: tuple[Path, Any]) -> None:
    output, report = made
    stored = np.concatenate(
        [
            pq.read_table(place, columns=["tokens"])["tokens"].to_numpy()
            for place in (output / "tokens").glob("*/*/documents.parquet")
        ]
    )
    found = report["lengths"]
    assert found["documents"] == len(stored) == sum(one["documents"] for one in found["bins"])
    assert found["longest"] == stored.max()
    assert sum(one["tokens"] for one in found["bins"]) == stored.sum()
    for one in found["bins"]:
        inside = (stored >= one["least"]) & (stored <= one["most"])
        assert (one["documents"], one["tokens"]) == (inside.sum(), stored[inside].sum())
    ordered = np.sort(stored)
    for name, share in (("p10", 0.1), ("median", 0.5), ("p90", 0.9)):
        assert found["points"][name] == ordered[int(np.ceil(share * len(ordered))) - 1]


def test_languages_before_are_of_all_that_was_not_dropped(made: tuple[Path, Any]) -> None:
    documents = made[1]["documents"]
    before = made[1]["languages_before"]
    assert sum(before.values()) == documents["kept"] + sum(documents["removed"].values())
    after = {row["language"]: row["documents"] for row in made[1]["languages"]}
    assert all(before[name] >= count for name, count in after.items())
    assert sum(before.values()) > sum(after.values())


def test_what_was_cut_most_stands_first_and_on_the_page(made: tuple[Path, Any]) -> None:
    output, report = made
    first, *_ = report["repeated"]
    assert first["excerpt"].startswith(CUT[:60])
    assert first["method"] == "line"
    assert sum(one["bytes"] for one in report["repeated"]) == report["documents"]["cut_bytes"]["line"]
    page = (output / "report" / "index.html").read_text(encoding="utf-8")
    for said in (
        CUT[:60],
        "What was cut most",
        "How long the documents are",
        "Half of the documents have",
    ):
        assert said in page
    assert '<th scope="col" class="n">before</th>' in page


@pytest.mark.parametrize("normalize", [(), ("case",)])
def test_the_measured_chance_of_comparison_is_that_of_theory(
    normalize: tuple[str, ...], made: tuple[Path, Any]
) -> None:
    config = MinHashConfig(threshold=0.7, num_perm=64, normalize=normalize)
    points = measured_curve(config, made[0])
    bands, rows = band_shape(config.threshold, config.num_perm)
    assert sum(point.pairs for point in points) > 200
    assert len(points) >= 6
    for point in points:
        low, high = (
            1 - (1 - max(0.0, min(1.0, point.similarity + off)) ** rows) ** bands
            for off in (-0.05, 0.05)
        )
        noise = 4 / point.pairs**0.5
        assert low - noise <= point.compared <= high + noise
    assert points[-1].compared > points[0].compared + 0.5


def test_texts_that_are_short_or_long_are_not_measured(tmp_path: Path) -> None:
    texts = [" ".join(f"w{number}" for number in range(count)) for count in (20, 3_000, 200)]
    place = tmp_path / "ingest" / "web" / "0000"
    place.mkdir(parents=True)
    table = pa.table({"text": texts, "text_bytes": [len(text) for text in texts]})
    pq.write_table(table, place / "documents.parquet")
    assert list(_texts(tmp_path)) == texts[2:]


def test_measures_of_texts_are_those_of_the_ingested_documents(made: tuple[Path, Any]) -> None:
    output, report = made
    texts = [
        text
        for place in (output / "ingest").glob("*/*/documents.parquet")
        for text in pq.read_table(place, columns=["text"])["text"].to_pylist()
    ]
    found = report["texts"]
    assert found["documents"] == len(texts) > 50
    for name, one in found["measures"].items():
        values = np.sort([getattr(measure_text(text), name) for text in texts])
        for point, share in (("p5", 0.05), ("p25", 0.25), ("median", 0.5), ("p75", 0.75)):
            assert one["points"][point] == values[int(np.ceil(share * len(values))) - 1]
        ends = [*one["edges"][1:], np.inf]
        inside = [
            int(((low <= values) & (values < high)).sum())
            for low, high in zip(one["edges"], ends, strict=True)
        ]
        assert one["counts"] == inside
        assert sum(inside) == len(texts)
    page = (output / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count(", histogram") == len(found["measures"]) == 10


def test_of_many_documents_a_sample_from_all_places_is_measured(tmp_path: Path) -> None:
    for unit in range(40):
        place = tmp_path / "ingest" / "a" / f"{unit:02}" / "documents.parquet"
        place.parent.mkdir(parents=True)
        texts = [f"{'x' * (unit + 1)} {row}" for row in range(300)]
        pq.write_table(pa.table({"text": texts}), place, row_group_size=150)
    found = texts_of(tmp_path)
    assert found is not None
    assert found.documents == 2048
    words = found.measures["word_characters"].points
    assert 9 < words["median"] < 13
    assert words["p5"] < 4
    assert words["p95"] > 18


def test_small_files_are_measured_too(tmp_path: Path) -> None:
    def write(unit: str, texts: list[str]) -> None:
        place = tmp_path / "ingest" / "a" / unit / "documents.parquet"
        place.parent.mkdir(parents=True)
        pq.write_table(pa.table({"text": texts}), place)

    for unit in range(30):
        write(f"{unit:02}", ["few words"] * 3)
    write("large", ["many of them"] * 1900)
    assert texts_of(tmp_path).documents == 30 * 3 + 1900  # type: ignore[union-attr]
    for unit in range(30, 900):
        write(f"{unit:03}", ["few words"] * 3)
    found = texts_of(tmp_path)
    assert found is not None
    assert found.documents == 2048
    low, high = (one for one in found.measures["word_characters"].counts if one)
    assert {low, high} == {13 * 64, 19 * 64}, "of the 4,600 documents, 1,900 are in one file"


def test_what_is_held_out_is_counted_in_documents(made: tuple[Path, Any]) -> None:
    report = Report.model_validate(made[1])
    (splits,) = report.datasets.values()
    assert held_out(report) == f"{splits['validation'].documents:,}"
    assert report.split is not None
    unpacked = report.model_copy(update={"datasets": {}})
    assert held_out(unpacked) == f"{report.split.clusters:,} or more"
    assert held_out(unpacked.model_copy(update={"split": None})) == ""


def test_a_run_that_found_all_done_is_no_attempt(made: tuple[Path, Any], tmp_path: Path) -> None:
    log = (made[0] / "log.jsonl").read_text(encoding="utf-8")
    again = [
        {"event": event, "attempt": "again", "time": 4e9, "workers": 0} for event in ("start", "stop")
    ]
    (tmp_path / "log.jsonl").write_text(log + "".join(json.dumps(one) + "\n" for one in again))
    file = small_run()
    assert made_of(file, tmp_path).attempts == 1
    assert made_of(file, tmp_path).seconds == made_of(file, made[0]).seconds > 0


def test_damaged_files_make_no_report_fail(made: tuple[Path, Any], tmp_path: Path) -> None:
    assert lengths_of(tmp_path) is None
    assert languages_before(tmp_path) is None
    assert repeated_texts(tmp_path) == ()
    assert texts_of(tmp_path) is None
    for name in ("tokens/a/b/offsets.npy", "ingest/a/b/documents.parquet", "dedup/cuts.parquet"):
        place = tmp_path / name
        place.parent.mkdir(parents=True)
        place.write_bytes(b"no such thing")
    assert lengths_of(tmp_path) is None
    assert languages_before(tmp_path) is None
    assert repeated_texts(tmp_path) == ()
    assert texts_of(tmp_path) is None
    assert lengths_of(made[0]) is not None
