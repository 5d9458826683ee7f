"""What a forecast promises: a run over all inputs is told as it is, one over a share of them about so.

Nothing but a temporary folder is written to, and what a sample cannot tell is said.
"""

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.report.plain import bar
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.tools.forecast.forecast import forecast_run, room_at
from pipeline.tools.forecast.sample import draw_sample
from pipeline.tools.forecast.terminal import CutsForecast, Forecast, print_forecast, require_room
from stages.errors import ConfigError
from tests.campaign import some_of
from tests.stages.tokenizer.existing_files import texts

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("measured_once")]

WORDS = ["tide", "shore", "salt", "wind", "net", "boat", "harbour", "lamp", "gull", "rope"]


def documents(number: int, first: int = 0) -> list[dict[str, Any]]:
    """Return documents of a few lines each, of which none repeats another."""
    return [
        {
            "id": n,
            "body": f"{texts()[n % len(texts())]} {n} "
            + " ".join(WORDS[n * k % 10] for k in range(1, 30)),
            "lang": ("en", "de", "xx")[n % 3],
            "meta": {"score": n % 10},
        }
        for n in range(first, first + number)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of several formats, compressed and not, one with records that cannot be read."""
    place = tmp_path_factory.mktemp("inputs")
    lines = [json.dumps(row) for row in documents(150)]
    (place / "a.jsonl").write_text("\n".join([*lines, "{", "[]"]) + "\n")
    with gzip.open(place / "b.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in documents(150, 150))
    pq.write_table(pa.Table.from_pylist(documents(100, 300)), place / "c.parquet", row_group_size=25)
    return place


def run_file(**changes: Any) -> RunFile:
    """Return a run over those files."""
    content: dict[str, Any] = {
        "sources": [
            {
                "name": "mixed",
                "paths": ["*"],
                "text_column": "body",
                "id_column": "id",
                "language": {"column": "lang"},
            }
        ],
        "ingest": {"min_chars": 40},
        "dedup": {"near": False},
        "filters": [{"kind": "column", "column": "meta.score", "min": 2}],
        "tokenizer": {"train": {"vocab_size": 1024, "sample_size": "256KiB"}},
        "validation": {"fraction": 0.05},
        "datasets": [{"name": "clm"}],
    }
    return RunFile.model_validate({**content, **changes})


def request(folder: Path, file: RunFile | None = None) -> RunRequest:
    return RunRequest(file or run_file(), folder, folder / "never", 0)


_ALONE = """
import json, sys
from pathlib import Path
from pipeline.tools.forecast.forecast import forecast_run
from pipeline.report.plain import bar
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
file, folder, share = RunFile.model_validate_json(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
print(json.dumps(forecast_run(RunRequest(file, folder, folder / "never", 0), share=share)))
"""


def forecast_alone(folder: Path, file: RunFile, share: float) -> dict[str, Any]:
    """Return a forecast that a new process makes: it measures what its own process holds."""
    command = [sys.executable, "-c", _ALONE, file.model_dump_json(), str(folder), str(share)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    found: dict[str, Any] = json.loads(said.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def whole(folder: Path) -> Forecast:
    """A forecast from all of the inputs."""
    return forecast_run(request(folder), share=1.0)


def test_a_sample_of_all_is_the_run(whole: Forecast, folder: Path, tmp_path: Path) -> None:
    found = whole | {"dropped": dict(whole["dropped"])}
    file = run_file(verify={"learning": False})
    report = run_session(RunRequest(file, folder, tmp_path / "run", 0), stream=None)
    assert found["share"] == 1.0
    assert found["read"] == report["documents"]["read"] == 402
    unreadable = found["dropped"].pop("unreadable")
    assert unreadable == 2
    dropped = {
        name: count for name, count in report["documents"]["dropped"].items() if name in found["dropped"]
    }
    assert found["dropped"] == dropped
    assert sum(found["dropped"].values()) == 80
    assert found["kept"] == report["documents"]["kept"] == 320
    counts = [(row["language"], row["documents"], row["bytes"]) for row in found["languages"]]
    assert counts == [(row["language"], row["documents"], row["bytes"]) for row in report["languages"]]
    tokens = sum(
        row["tokens"] for row in report["languages"]
    )  # other documents are held out in training
    assert found["tokens"] == pytest.approx(tokens, rel=0.01)
    assert [step["step"] for step in found["steps"]] == [step["step"] for step in report["steps"]]
    assert found["disk"].keys() == {"ingest", "dedup", "tokens", "datasets", "commits"}


def test_a_run_that_the_disk_will_not_hold_is_refused(whole: Forecast) -> None:
    found = whole
    assert Path(found["place"]).is_dir()
    assert found["disk_free"] is not None
    assert found["disk_free"] > sum(found["disk"].values()), "of this machine"
    require_room(found)
    full = Forecast(**{**found, "disk_free": sum(found["disk"].values()) - 1})
    with pytest.raises(ConfigError, match="free some, or name an --output on another disk"):
        require_room(full)


def test_of_a_store_no_room_is_measured_and_none_is_asked_for(
    whole: Forecast, capsys: pytest.CaptureFixture[str]
) -> None:
    assert room_at(Path("s3://bucket/run")) == ("s3://bucket/run", None)
    found = Forecast(**{**whole, "place": "s3://bucket/run", "disk_free": None})
    require_room(found)
    print_forecast(found, as_json=False)
    assert "free at" not in capsys.readouterr().out


def test_bars_are_as_long_as_the_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for encoding, sign in (("utf-8", "█"), ("latin-1", "#")):
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
        assert [bar(part, 8) for part in (0, 1e-9, 4, 8)] == ["", sign, sign * 12, sign * 24]
    assert bar(0, 0) == ""


@pytest.mark.campaign
def test_more_workers_are_expected_to_hold_more_memory(folder: Path) -> None:
    found = forecast_alone(folder, run_file(), 1.0)
    held = [row["bytes"] for row in found["memory"]]
    assert [row["workers"] for row in found["memory"]] == [0, 1, 2, 4, 8]
    assert 50 << 20 < held[0] < held[1] < held[2] < held[3] < held[4] <= 8 << 30


def test_a_vocabulary_is_made_smaller_the_disk_of_cuts_is_forecast_and_nothing_is_left_of_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = sorted(folder.rglob("*"))
    changes = {
        "dedup": {"near": False, "substrings": {}},
        "tokenizer": {"train": {"vocab_size": 32_000}},
    }
    found = forecast_run(request(folder, run_file(**changes)), share=0.3)
    assert found["disk"]["cut"] > 0
    assert any("the sample is too small to train 32,000 pieces" in note for note in found["notes"])
    assert sorted(folder.rglob("*")) == before
    assert list(tmp_path.iterdir()) == []


def test_a_share_is_read_of_large_files(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        with (tmp_path / name).open("w") as file:
            file.writelines(json.dumps(row) + "\n" for row in documents(4_000))
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size > 12 << 20
    sample = draw_sample(run_file(), tmp_path, tmp_path, share=0.2)
    assert sample.stored == size
    assert sample.taken / size == pytest.approx(0.2, abs=0.01)
    assert sample.records * sample.stored / sample.taken == pytest.approx(8_000, rel=0.02)
    lines = [json.loads(line) for line in (tmp_path / "mixed.jsonl").read_text().splitlines()]
    assert len(lines) == sample.records
    assert lines[0] == {
        "meta.score": 0,
        "_text": documents(1)[0]["body"],
        "_language": "en",
        "_id": "0",
    }


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz", "parquet"])
def test_a_file_whose_documents_grow_is_forecast_as_it_is(tmp_path: Path, ending: str) -> None:
    sized = ((n, f"{n} " * (1 + n // 50)) for n in range(9_000))
    rows = [{"id": n, "body": text, "lang": "en", "meta": {"score": 5}} for n, text in sized]
    path = tmp_path / f"a.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=500)
    else:
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(data) if ending.endswith("gz") else data)
    sample = draw_sample(run_file(), tmp_path, tmp_path, share=0.3)
    total = sum(len(str(row["body"])) for row in rows)
    assert sample.records * sample.times == pytest.approx(9_000, rel=0.05)
    assert sample.text_bytes * sample.times == pytest.approx(total, rel=0.05)


def test_of_many_small_files_some_are_read_whole(tmp_path: Path) -> None:
    for number in range(60):
        rows = documents(200, number)
        (tmp_path / f"{number}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sample = draw_sample(run_file(), tmp_path, tmp_path, share=0.2)
    assert sample.records == pytest.approx(0.2 * 60 * 200, rel=0.1)
    assert sample.records % 200 == 0
    assert sample.records * sample.stored / sample.taken == pytest.approx(60 * 200, rel=0.01)


def test_sections_go_along_and_a_source_of_which_nothing_was_drawn_is_told(tmp_path: Path) -> None:
    """A filter names the source without a document; a sample without it would be no run file."""
    rows = [{**row, "more": f" and {row['id']}"} for row in documents(100)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "b.jsonl").write_text("\n\n")
    fields = {"text_column": "body", "section_columns": ["more"], "id_column": "id"}
    sources = [{"name": name, "paths": [f"{name}.jsonl"], **fields} for name in ("a", "b")]
    pairs = {"name": "pairs", "objective": {"kind": "prefix_lm", "split": "source"}}
    named = [{"kind": "column", "column": "meta.score", "min": 2, "sources": ["b"]}]
    changes = {"datasets": [pairs], "filters": named}
    found = forecast_run(request(tmp_path, run_file(sources=sources, **changes)), share=1.0)
    assert found["kept"] == 100
    assert any("no document was drawn of source b" in note for note in found["notes"])


def test_of_each_source_a_file_is_read(tmp_path: Path) -> None:
    """The share is less than one file, and there are three sources; an empty file says nothing.

    One file of ten, one of two and one of one are read. As much is used of each source: about 9%.
    """
    for number in range(20):
        rows = "".join(json.dumps(row) + "\n" for row in documents(20, 20 * number))
        (tmp_path / f"{number}.jsonl").write_text(rows)
    (tmp_path / "empty.jsonl").write_text("")
    source = {"text_column": "body", "id_column": "id"}
    sources = [
        {**source, "name": "many", "paths": ["??.jsonl"]},
        {**source, "name": "few", "paths": ["1.jsonl", "2.jsonl", "empty.jsonl"]},
        {**source, "name": "one", "paths": ["3.jsonl"]},
    ]
    sample = draw_sample(run_file(sources=sources), tmp_path, tmp_path, share=0.01)
    assert [one.name for one in sample.sources] == ["many", "few", "one"]
    assert sample.read == pytest.approx(0.22 * sample.stored, rel=0.1)
    used = {part.name: part.documents for part in sample.parts}
    assert used == {"few": 3, "many": 20, "one": 2}
    assert sample.times == pytest.approx(10 * 20 / 20, rel=0.2)


def test_a_sample_that_makes_no_run_file_is_refused_in_a_line(tmp_path: Path) -> None:
    """Of one digit no tokenizer can be trained, not even the smallest that a run file may ask for."""
    for number in range(20):
        (tmp_path / f"{number}.jsonl").write_text(json.dumps({"body": "7" * (50 + number)}) + "\n")
    source = {"name": "s", "paths": ["*.jsonl"], "text_column": "body"}
    changes = {"dedup": {"exact": False, "near": False}, "validation": {"fraction": 0.0}}
    file = run_file(sources=[source], filters=[], **changes)
    said = r"^--sample: the sample cannot be run: tokenizer.train.vocab_size = \d+: .* larger --sample$"
    with pytest.raises(ConfigError, match=said):
        forecast_run(request(tmp_path, file), share=0.5)


def test_sections_are_text_of_the_sample(tmp_path: Path) -> None:
    rows = [{"prompt": "", "target": "über alles"}, {"prompt": "so", "target": "what"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"name": "p", "paths": ["a.jsonl"], "text_column": "prompt", "section_columns": ["target"]}
    sample = draw_sample(run_file(sources=[source], filters=[]), tmp_path, tmp_path, share=1.0)
    assert sample.text_bytes == len("über allessowhat".encode())


@pytest.mark.parametrize("wanted", some_of([2048, 32_000], 1))
def test_a_vocabulary_that_little_text_cannot_give_is_no_fault_of_the_run_file(
    wanted: int, tmp_path: Path
) -> None:
    for number in range(40):
        row = json.dumps({"body": f"{number} {' '.join(WORDS)}"}) + "\n"
        (tmp_path / f"{number}.jsonl").write_text(row)
    source = {"name": "s", "paths": ["*.jsonl"], "text_column": "body"}
    changes = {"tokenizer": {"train": {"vocab_size": wanted}}, "validation": {"fraction": 0.0}}
    file = run_file(sources=[source], filters=[], **changes)
    found = forecast_run(request(tmp_path, file), share=0.2)
    said = [note for note in found["notes"] if "the sample is too small to train" in note]
    assert said
    assert f"{wanted:,} pieces: its tokenizer has" in said[0]
    with pytest.raises(ConfigError, match=r"the sample gives at most \d+ pieces"):
        forecast_run(request(tmp_path, run_file(sources=[source], filters=[], **changes)), share=1.0)


def test_characters_that_need_more_pieces_than_the_sample_gets_get_them(tmp_path: Path) -> None:
    rows = [{"body": "".join(chr(0x4E00 + n * 97 % 2_500 + k) for k in range(50))} for n in range(200)]
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"name": "s", "paths": ["*.jsonl"], "text_column": "body"}
    changes = {"dedup": {"exact": False, "near": False}, "tokenizer": {"train": {"vocab_size": 9_000}}}
    found = forecast_run(request(tmp_path, run_file(sources=[source], filters=[], **changes)), share=0.4)
    assert any("to train 9,000 pieces: its tokenizer has" in note for note in found["notes"])


@pytest.mark.campaign
def test_no_more_memory_is_expected_than_the_run_may_hold(folder: Path) -> None:
    file = run_file(resources={"memory": "1GiB"}, ingest={"max_document_bytes": "1MiB"})
    found = forecast_alone(folder, file, 0.5)
    assert max(row["bytes"] for row in found["memory"]) == 1 << 30
    assert found["most_workers"] == 1


@pytest.mark.parametrize("share", [0.0, -1.0, 1.5, float("nan")])
def test_a_share_out_of_bounds_is_refused(share: float, folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"--sample .*: must be above 0 and at most 1"):
        forecast_run(request(folder), share=share)


def test_inputs_without_a_document_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n\n")
    with pytest.raises(ConfigError, match="no document was drawn of 2 bytes in 1 files; raise it"):
        forecast_run(request(tmp_path), share=0.5)


def test_it_is_printed_for_people(whole: Forecast, capsys: pytest.CaptureFixture[str]) -> None:
    print_forecast(whole, as_json=False)
    said = capsys.readouterr().out
    assert said.splitlines()[1].startswith("Forecast from 402 records, 100.00% of the bytes")
    assert "  dropped: unreadable" in said
    assert "memory at the peak, by workers: about " in said
    assert "resources.memory has room for " in said
    assert "documents would be removed" in said
    assert "note: tokens are an upper bound" in said
    assert "cuts: " not in said
    cuts: CutsForecast = {"bytes": {"lines": 12_000, "substrings": 3_400}, "share": 0.25, "documents": 7}
    line = "cuts: 25.0% of the text (lines 12 kB, substrings 3 kB), in 7 documents"
    more = ", at least: what repeats outside of the sample comes on top"
    for share, told in ((1.0, line), (0.5, line + more)):
        print_forecast({**whole, "cuts": cuts, "share": share}, as_json=False)
        assert told in capsys.readouterr().out.splitlines()
