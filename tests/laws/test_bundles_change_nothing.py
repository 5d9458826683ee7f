"""The law of bundles: how many files share a unit changes no dataset, no decision and no evidence."""

import gzip
import itertools
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from pipeline.engine.tasks import Workspace
from pipeline.inputs import bundles
from pipeline.session.verifying import verify_session
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.journal import read_log
from pipeline.state.storage import LocalStorage
from pipeline.steps.decode.check import DecodeUnit, check_texts
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.tokenize.encode import TokenizeUnit
from pipeline.steps.units import units_of
from stages.columns import STORED_DOCUMENTS
from tests.conftest import bundled_lines, digests, run_small

SOURCES = [
    {"name": "lines", "paths": ["lines/*"], "id_column": "id", "language": {"column": "lang"}},
    {"name": "texts", "paths": ["texts/*.txt"], "language": "en"},
]
OPTIONS: dict[str, Any] = {
    "sources": SOURCES,
    "ingest": {"min_chars": 20},
    "tokenizer": {"train": {"vocab_size": 1500, "sample_size": "1MiB"}},
    "verify": {"learning": False},
}
FILES = 36
"""Of each source."""
PLACE = STORED_DOCUMENTS.get_field_index("path")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many small files: lines, compressed in two ways or not at all, and texts; some are empty."""
    folder = tmp_path_factory.mktemp("many")
    lines = bundled_lines("text/*", 30)
    (folder / "lines").mkdir()
    (folder / "texts").mkdir()
    for number in range(FILES):
        own = b"\n".join([*lines[number::FILES], *lines[number % 5 : number % 5 + number % 2]])
        data, ending = own if number % 7 else b"", number % 3
        packed = (data, gzip.compress(data, mtime=0), zstandard.compress(data))[ending]
        (folder / f"lines/{number:03}.jsonl{('', '.gz', '.zst')[ending]}").write_bytes(packed)
        text = json.loads(lines[3 * number])["text"] if number % 9 else ""
        (folder / f"texts/{number:03}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def bundled(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over them up to the shards, for reading only."""
    output = tmp_path_factory.mktemp("bundled") / "run"
    run_small(corpus, output, **OPTIONS)
    return output


def results(output: Path) -> dict[str, object]:
    """Return the digests of what a run decides and makes, and its drops, whichever unit they are of."""
    found = digests(output, "datasets", "tokenizer", "dedup", "split")
    made = {name: digest for name, digest in found.items() if not name.startswith("dedup/keep/")}
    drops = [pq.read_table(path).to_pylist() for path in output.glob("ingest/*/*/drops.parquet")]
    listed = sorted(map(str, itertools.chain.from_iterable(drops)))
    assert listed
    return {**made, "drops": listed}


def count_units(output: Path) -> int:
    """Return the number of ingest's units."""
    return len(list((output / "commits/ingest").glob("[!_]*.json")))


def test_a_run_with_bundles_makes_what_a_run_without_them_makes(
    corpus: Path, bundled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "SMALL", 1 << 40)  # no file is small, unless it is empty
    run_small(corpus, tmp_path / "alone", **OPTIONS)
    assert count_units(bundled) < 12
    assert count_units(tmp_path / "alone") > FILES
    assert results(bundled) == results(tmp_path / "alone")
    rows = pq.read_table(bundled / "datasets/clm/train/epoch-0000/00000/documents.parquet")
    assert len(set(rows.column("path").to_pylist())) > FILES // 4


def test_verify_finds_the_bundles_without_the_input_files(
    corpus: Path, bundled: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(bundled, tmp_path / "run"))
    corpus.rename(corpus.with_name("away"))
    try:
        assert verify_session(run, workers=0, address=None, stream=None)["passed"] is True
    finally:
        corpus.with_name("away").rename(corpus)


def test_a_token_store_with_the_paths_of_other_documents_is_named(bundled: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(bundled, tmp_path / "run"))
    place = max(run.glob("tokens/*/*/documents.parquet"), key=lambda path: path.stat().st_size)
    table = pq.read_table(place)
    assert len(set(table.column("path").to_pylist())) > 2
    turned = pa.chunked_array([table.column("path").combine_chunks()[::-1]])
    pq.write_table(table.set_column(PLACE, table.schema.field("path"), turned), place)
    commits = dict(Commits(LocalStorage(run)).all("ingest"))
    units = units_of(commits[STEP_COMMIT].read(IngestRecord).units)
    (unit,) = (unit for unit in units if f"{unit.tokens}/" in f"{place}/")
    shards = json.loads((run / "commits/split/_step.json").read_text())["record"]["shards"]
    work = DecodeUnit(TokenizeUnit(unit, shards["train"], shards["validation"], 11), sentences=False)
    (found,) = check_texts(Workspace(run, run / "tmp"), work).findings
    assert found.message == "says another path of some documents than ingest"


def test_each_file_is_covered_by_one_unit(bundled: Path) -> None:
    commits = [json.loads(path.read_text()) for path in (bundled / "commits/ingest").glob("[!_]*.json")]
    read = Counter(path for commit in commits for path in commit["record"]["covered"])
    assert set(read.values()) == {1}
    assert len(read) == 2 * FILES


def test_a_file_that_came_is_read_with_its_neighbours_alone(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "MEAN_FILES", 6)
    own = Path(shutil.copytree(corpus, tmp_path / "corpus"))
    run_small(own, tmp_path / "run", until="ingest", **OPTIONS)
    units, before = count_units(tmp_path / "run"), len(list(read_log(tmp_path / "run")))
    assert units > 8
    (own / "texts/030b.txt").write_text("A text that nobody has seen before this test.")
    run_small(own, tmp_path / "run", until="ingest", replace=True, **OPTIONS)
    events = [event for event in list(read_log(tmp_path / "run"))[before:] if event["event"] == "commit"]
    again = [event for event in events if event["step"] == "ingest" and event["unit"] != "_step"]
    assert 1 <= len(again) <= 2


PARTS: dict[str, Any] = {
    "sources": [{"name": "lines", "paths": ["lines/*"]}, SOURCES[1]],
    "ingest": {"min_chars": 20, "unit_size": "8KiB"},
    "dedup": {"near": False},
    "tokenizer": {"train": {"vocab_size": 560, "sample_size": "1MiB"}},
}
"""Bundles of several parts: what is small is small when compressed, and larger than a unit inside."""


@pytest.fixture(scope="module")
def repetitive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of which a few bytes are left when they are compressed."""
    folder = tmp_path_factory.mktemp("repetitive")
    (folder / "lines").mkdir()
    (folder / "texts").mkdir()
    for number in range(80):
        lines = [json.dumps({"text": f"{number} {line} " + "a b " * 90}) for line in range(12)]
        packed = zstandard.compress("\n".join(lines if number % 4 else lines * 3).encode())
        (folder / f"lines/{number:03}.jsonl.zst").write_bytes(packed)
        (folder / f"texts/{number:03}.txt").write_text(f"{number} is a text of its own, and no more.")
    return folder


def run_parts(corpus: Path, output: Path, workers: int) -> dict[str, str]:
    """Run over bundles of several parts to the token store; return the digests of all that it made."""
    run_small(corpus, output, workers=workers, until="tokenize", **PARTS)
    return digests(output, "ingest", "tokens", "dedup", "tokenizer", "commits")


@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_bundles_of_several_parts_are_the_same_with_workers_and_resumed(
    repetitive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "SMALL", 8)
    monkeypatch.setattr(bundles, "MOST", 1)
    plain = run_parts(repetitive, tmp_path / "plain", 0)
    units = sorted((tmp_path / "plain/commits/ingest").glob("[!_]*.json"))
    later = [unit for unit in units if not unit.stem.endswith("-00000")]
    together = [len(json.loads(unit.read_text())["record"]["covered"]) for unit in units]
    assert len(later) > 10
    assert max(together) > 3
    assert run_parts(repetitive, tmp_path / "workers", 2) == plain
    for unit in (tmp_path / "workers/commits/ingest/_step.json", *later[::3]):
        (tmp_path / "workers/commits/ingest" / unit.name).unlink()
    assert run_parts(repetitive, tmp_path / "workers", 2) == plain
