"""What the report of packing promises: padding and cuts of documents, by source and by language.

They equal a plain loop over the rows, and add up to the split; what was counted is not counted again;
damage is no reason to write no report.
"""

import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.report.counted import Counted
from pipeline.report.packing import count_documents, packing_of
from pipeline.report.report import Report, RunReport
from pipeline.report.terminal import print_report
from stages.packing.layout import Layout, Strategy
from stages.packing.strategies import PACKINGS
from stages.ragged import Ragged
from stages.store.manifest import SEGMENT_COLUMNS, read_manifest
from stages.verify.mechanics import SegmentedRows
from tests.campaign import examples
from tests.conftest import run_small

DATASETS: list[dict[str, Any]] = [
    {"name": "clm"},
    {"name": "concat", "packing": {"strategy": "concat"}},
    {"name": "document", "packing": {"strategy": "document", "seq_len": 64}},
    {"name": "nsp", "objective": {"kind": "nsp"}},
    {"name": "t5", "objective": {"kind": "span_corruption"}},
]


@pytest.fixture(scope="module")
def run(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with rows of several kinds."""
    output = tmp_path_factory.mktemp("packed") / "run"
    sources = [
        {"name": "one", "paths": ["a.jsonl"], "id_column": "id", "language": {"column": "lang"}},
        {"name": "two", "paths": ["[bc].jsonl*"], "id_column": "id", "language": "xx"},
    ]
    run_small(small_corpus, output, sources=sources, datasets=DATASETS)
    return output


def report_of(run: Path) -> dict[str, Any]:
    """Return what the run's report says."""
    report: dict[str, Any] = json.loads((run / "report" / "report.json").read_text())
    return report


def plainly(layout: Layout, documents: int, losses: NDArray[np.uint8]) -> list[list[float]]:
    """Count each document by a loop: tokens, padding, tokens behind cuts, losses, pieces without one."""
    homes: dict[int, int] = {}
    found = [[0.0] * 5 for _ in range(documents)]
    for row in range(layout.num_rows):
        some = range(layout.row_ptr[row], layout.row_ptr[row + 1])
        filled = sum(int(layout.length[n]) for n in some)
        for n in some:
            if layout.doc_offset[n] == 0:
                homes[int(layout.doc[n])] = row
            sums, length = found[layout.doc[n]], int(layout.length[n])
            sums[0] += length
            sums[1] += (layout.row_length - filled) * length / filled
            learned = int(losses[row, layout.start[n] : layout.start[n] + length].sum())
            sums[3] += learned
            sums[4] += not learned
    for row in range(layout.num_rows):
        for n in range(layout.row_ptr[row], layout.row_ptr[row + 1]):
            if homes[int(layout.doc[n])] != row:
                found[layout.doc[n]][2] += int(layout.length[n])
    return found


@pytest.mark.parametrize("strategy", list(Strategy))
@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=30),
    row_length=st.integers(2, 16),
    every=st.integers(1, 20),
)
def test_documents_are_counted_as_a_plain_loop_counts(
    strategy: Strategy, lengths: list[int], row_length: int, every: int
) -> None:
    tokens = np.array(lengths, np.int64)
    whole = Ragged(np.arange(len(lengths) + 1), tokens)
    layout = PACKINGS[strategy].packer()(tokens, row_length=row_length, sentences=whole)
    segments = {name: np.asarray(getattr(layout, name), np.int64) for name in SEGMENT_COLUMNS}
    ids = np.zeros((layout.num_rows, row_length), np.uint16)
    losses = (np.arange(ids.size) % every == 0).astype(np.uint8).reshape(ids.shape)
    counted = count_documents(SegmentedRows(ids, segments), len(lengths), loss_mask=losses)
    expected = np.array(plainly(layout, len(lengths), losses))
    assert counted.tokens.tolist() == lengths
    assert np.allclose(counted.padding, expected[:, 1])
    assert counted.behind.tolist() == expected[:, 2].tolist()
    assert counted.learned.tolist() == expected[:, 3].tolist()
    assert counted.silent.tolist() == expected[:, 4].tolist()
    unsaid = count_documents(SegmentedRows(ids, segments), len(lengths))
    assert not unsaid.learned.any()
    assert not unsaid.silent.any()
    padding = layout.num_rows * row_length - sum(lengths)
    assert abs(counted.padding.sum() - padding) < 1e-6


def test_sources_and_languages_each_add_up_to_the_split(run: Path) -> None:
    report = report_of(run)
    assert report["packing"].keys() == {dataset["name"] for dataset in DATASETS}
    for name, splits in report["packing"].items():
        assert splits.keys() == {"train", "validation"}
        for split, content in splits.items():
            manifest = read_manifest(run / "datasets" / name / split)
            totals = manifest.totals
            padding = totals.rows * manifest.columns["input_ids"].shape[0] - totals.tokens
            for rows in (content["sources"], content["languages"]):
                assert sum(row["documents"] for row in rows) == totals.documents
                assert sum(row["tokens"] for row in rows) == totals.tokens
                assert sum(row["tokens_cut"] for row in rows) == totals.tokens_cut == 0
                assert abs(sum(row["padding"] for row in rows) - padding) <= len(rows)
                assert [row["padding"] for row in rows] == sorted(
                    (row["padding"] for row in rows), reverse=True
                )
            assert {row["name"] for row in content["sources"]} == {"one", "two"}
            assert "xx" in {row["name"] for row in content["languages"]}


def test_the_terminal_shows_the_padding_and_cuts_of_each_source(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = report_of(run)
    print_report(RunReport(report), as_json=False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for row in report["packing"]["clm"]["train"]["sources"]:
        share = row["padding"] / (row["padding"] + row["tokens"])
        cuts = (f"{row[key]:,}" for key in ("cut_documents", "tokens_behind_cuts"))
        assert ["clm/train", row["name"], f"{row['padding']:,}", f"{share:.2%}", *cuts] in lines


@pytest.mark.parametrize("name", ["clm", "concat", "document"])
def test_cuts_are_those_of_the_documents_of_each_source(run: Path, name: str) -> None:
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for shard in sorted((run / "datasets" / name / "train" / "epoch-0000").iterdir()):
        sources = pq.read_table(shard / "documents.parquet").column("source").to_pylist()
        row_ptr, doc, offset, length = (
            np.load(shard / "segments" / f"{part}.npy")
            for part in ("row_ptr", "doc", "doc_offset", "length")
        )
        assert (np.diff(row_ptr) > 0).all()
        for number, source in enumerate(sources):
            pieces = np.flatnonzero(doc == number)
            found[source][0] += len(pieces) > 1  # a piece is a row's: none of these has two in one
            found[source][1] += int(length[pieces][offset[pieces] > 0].sum())
    said = report_of(run)["packing"][name]["train"]["sources"]
    assert {row["name"]: [row["cut_documents"], row["tokens_behind_cuts"]] for row in said} == dict(
        found
    )
    assert sum(cuts for cuts, _ in found.values()) > 0


def test_halves_of_a_pair_in_one_row_are_no_cut(run: Path) -> None:
    segments = 0
    for shard in (run / "datasets" / "nsp" / "train" / "epoch-0000").iterdir():
        segments += len(np.load(shard / "segments" / "doc.npy"))
    rows = report_of(run)["packing"]["nsp"]["train"]["sources"]
    assert segments > sum(row["documents"] for row in rows)
    assert all(row["tokens_behind_cuts"] < row["tokens"] for row in rows)


def test_what_was_counted_is_not_counted_again(run: Path, tmp_path: Path) -> None:
    report = report_of(run)
    for shard in (run / "datasets").rglob("documents.parquet"):
        assert shard.exists()
    shutil.copytree(run / "report", tmp_path / "report")  # no dataset is there
    read = Report.model_validate(report)
    assert packing_of(tmp_path, read.datasets, Counted(tmp_path)) == read.packing
    (tmp_path / "report" / "counted.json").write_text("[]")
    counted = Counted(tmp_path)
    again = packing_of(tmp_path, read.datasets, counted)
    counted.write(whole=True)
    reasons = [split.reason for splits in again.values() for split in splits.values()]
    assert all("not counted" in str(reason) for reason in reasons)
    shutil.copytree(run / "datasets", tmp_path / "datasets")
    assert packing_of(tmp_path, read.datasets, Counted(tmp_path)) == read.packing, "once it can be read"


@pytest.mark.parametrize(
    "name",
    ["dataset.json", "documents.parquet", "segments/doc.npy", "segments/row_ptr.npy", "input_ids.npy"],
)
def test_a_damaged_file_is_said_and_no_reason_to_stop(run: Path, tmp_path: Path, name: str) -> None:
    report = Report.model_validate(report_of(run))
    shutil.copytree(run / "datasets", tmp_path / "datasets")
    folder = tmp_path / "datasets" / "clm" / "train"
    path = folder / name if name == "dataset.json" else folder / "epoch-0000" / "00000" / name
    data = path.read_bytes()
    for damaged in (data[: len(data) // 2], data[:-40] + b"\xff" * 40):
        path.write_bytes(damaged)
        found = packing_of(tmp_path, report.datasets, Counted(tmp_path))
        path.write_bytes(data)
        assert found["clm"]["validation"] == report.packing["clm"]["validation"]
        if found["clm"]["train"].reason is not None:
            assert found["clm"]["train"].sources == ()
        else:
            assert name == "input_ids.npy", "of which nothing but the shape is looked at"
