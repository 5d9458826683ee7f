"""What `shardmill export` promises.

An export is whole or not there; killed after any part it goes on and ends in the same bytes; a finished
one is left alone; nothing is mixed, and nothing that a format cannot hold is begun.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipeline.state import atomic_write as written_whole
from pipeline.state.journal import run_lock
from pipeline.tools.export import dataset
from pipeline.tools.export import folder as export_parts
from pipeline.tools.export.folder import DonePart, record_part
from stages.errors import ConfigError, FormatError, Stopped, VerificationError
from stages.export import megatron
from stages.export.table import FORMATS
from tests.called import called
from tests.pipeline.exporting import ENDS, SPLITS, TRAIN, build_both, contents, export
from tests.stages.export.built_dataset import EOS, MODEL, build_dataset

pytestmark = pytest.mark.slow

PARTS = [
    *(f"train/{n:05d}" for n in range(3)),
    "train/end",
    "validation/00000",
    "validation/end",
    "about",
]
RAW = ("megatron", "megatron-sentences", "nanogpt", "olmo-core", "datatrove")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a dataset of both splits that stores where sentences end."""
    return build_both(tmp_path / "run")


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def kill(monkeypatch: pytest.MonkeyPatch, part: int, *, committed: bool) -> None:
    """Let the process end at a part, before or after the journal names it."""
    count = 0

    def keep_and_die(folder: Path, done: DonePart) -> None:
        nonlocal count
        count += 1
        if committed or count <= part:
            record_part(folder, done)
        if count > part:
            raise Killed

    monkeypatch.setattr(export_parts, "record_part", keep_and_die)


@pytest.mark.parametrize("format_", RAW)
@pytest.mark.parametrize("committed", [False, True])
def test_an_export_killed_at_any_part_ends_in_the_same_bytes(
    run: Path, tmp_path: Path, *, format_: str, committed: bool
) -> None:
    export(run, tmp_path / "whole" / "out", format_)
    expected = contents(tmp_path / "whole" / "out")
    for part in range(len(PARTS)):
        to = tmp_path / f"{part}" / "out"
        with pytest.MonkeyPatch.context() as patch:
            kill(patch, part, committed=committed)
            with pytest.raises(Killed):
                export(run, to, format_)
        assert not to.exists()
        half = to.with_name("out.partial")
        for file in half.rglob("*.bin"):
            file.write_bytes(file.read_bytes() + b"half a token")
        with (half / "parts.jsonl").open("ab") as journal:
            journal.write(b'{"part": "tr')
        (half / "stranger").write_bytes(b"of an attempt that nobody committed")
        assert not export(run, to, format_)["already"]
        assert contents(to) == expected
        assert not half.exists()
    assert tuple(json.loads(expected["export.json"])["parts"]) == tuple(PARTS)


def test_a_journal_whose_last_line_was_cut_is_gone_on_with_as_often_as_it_takes(
    run: Path, tmp_path: Path
) -> None:
    to = tmp_path / "out"
    for part in range(3):
        with pytest.MonkeyPatch.context() as patch:
            kill(patch, 1 if part else 2, committed=False)
            with pytest.raises(Killed):
                export(run, to)
        with (tmp_path / "out.partial" / "parts.jsonl").open("ab") as journal:
            journal.write(b'{"part": "tr')
    export(run, to)
    assert tuple(json.loads((to / "export.json").read_bytes())["parts"]) == tuple(PARTS)


KILL_ITSELF = """
import os, signal, sys
from pathlib import Path
from pipeline.tools.export import dataset as export
from pipeline.tools.export import folder as export_parts

keep, count = export_parts.record_part, 0

def keep_twice(folder, journal):
    global count
    keep(folder, journal)
    count += 1
    if count == 2:
        os.kill(os.getpid(), signal.SIGKILL)

export_parts.record_part = keep_twice
run, to = map(Path, sys.argv[1:])
export.export(run, "tiny", "megatron", to)
"""


def test_a_process_that_is_killed_leaves_no_folder_of_the_final_name(run: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILL_ITSELF, str(run), str(tmp_path / "out")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == -signal.SIGKILL
    assert not (tmp_path / "out").exists()
    lines = (tmp_path / "out.partial" / "parts.jsonl").read_text().splitlines()
    assert [json.loads(line)["part"] for line in lines[1:]] == PARTS[:2]
    export(run, tmp_path / "out")
    export(run, tmp_path / "other" / "out")
    assert contents(tmp_path / "out") == contents(tmp_path / "other" / "out")


def test_a_finished_export_is_left_alone(run: Path, tmp_path: Path) -> None:
    first = export(run, tmp_path / "out")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    second = export(run, tmp_path / "out")
    assert (first.pop("already"), second.pop("already")) == (False, True)
    assert first == second
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


def test_the_summary_tells_every_file_with_its_digest(run: Path, tmp_path: Path) -> None:
    report = export(run, tmp_path / "out")
    files = contents(tmp_path / "out")
    assert report["files"].keys() == files.keys() - {"export.json"}
    assert report["bytes"] == sum(file["bytes"] for file in report["files"].values())
    assert files["tokenizer.model"] == MODEL
    page = files["READ.md"].decode()
    assert 'train = IndexedDataset("EXPORT/train")' in page
    assert "train: 4 documents, 14 tokens" in page
    assert f'train = IndexedDataset("{tmp_path}/out/train")' in report["read"]
    for name, content in files.items():
        assert str(tmp_path).encode() not in content, name


def test_one_split_can_be_exported_alone(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "out", "nanogpt", split="validation")
    files = contents(tmp_path / "out").keys()
    assert files == {"val.bin", "meta.pkl", "tokenizer.model", "READ.md", "export.json"}


@pytest.mark.parametrize("half", [False, True])
def test_two_exports_are_never_mixed(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, half: bool
) -> None:
    to = tmp_path / "out"
    if half:
        with monkeypatch.context() as patch:
            kill(patch, 2, committed=True)
            with pytest.raises(Killed):
                export(run, to)
    else:
        export(run, to)
    with pytest.raises(ConfigError, match="format: megatron there, nanogpt asked for"):
        export(run, to, "nanogpt")
    with pytest.raises(ConfigError, match="splits: train, validation there, train asked for"):
        export(run, to, split="train")
    build_dataset(run, SPLITS, sentences=ENDS, seed=8)
    with pytest.raises(ConfigError, match="the dataset was made anew since"):
        export(run, to)


@pytest.mark.parametrize("torn", [False, True])
def test_a_half_made_folder_that_no_export_began_is_left_alone(
    run: Path, tmp_path: Path, *, torn: bool
) -> None:
    notes = tmp_path / "out.partial" / "notes.txt"
    notes.parent.mkdir()
    notes.write_text("mine")
    if torn:  # a journal whose first line a crash cut is one all the same
        (notes.parent / "parts.jsonl").write_text('{"format": ')
        export(run, tmp_path / "out")
        return
    with pytest.raises(ConfigError, match=r"holds notes\.txt and no journal"):
        export(run, tmp_path / "out")
    assert notes.read_text() == "mine"
    assert not (tmp_path / "out").exists()


def test_bytes_do_not_depend_on_what_the_target_is_called(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "one")
    export(run, tmp_path / "another")
    assert contents(tmp_path / "one") == contents(tmp_path / "another")


def test_a_target_without_a_name_of_its_own_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    monkeypatch.chdir(tmp_path / "empty")
    for to in (tmp_path / "link", tmp_path / "dangling", Path()):
        with pytest.raises(ConfigError, match="is a link or has no name of its own"):
            export(run, to)
    assert not list(tmp_path.glob("*partial"))


def test_a_target_that_another_process_finished_meanwhile_is_left_alone(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = tmp_path / "out"

    @contextmanager
    def late(folder: Path) -> Iterator[None]:
        monkeypatch.setattr(written_whole, "run_lock", run_lock)
        export(run, to)
        folder.mkdir(exist_ok=True)
        with run_lock(folder):
            yield

    monkeypatch.setattr(written_whole, "run_lock", late)
    with pytest.raises(Stopped, match="finished by another process"):
        export(run, to)
    assert (to / "export.json").exists()


def test_a_split_without_a_row_is_left_out_unless_it_is_asked_for(tmp_path: Path) -> None:
    build_dataset(tmp_path / "run", {"train": TRAIN, "validation": [[]]})
    assert list(export(tmp_path / "run", tmp_path / "out")["splits"]) == ["train"]
    with pytest.raises(ConfigError, match=r"nothing to export: .*'validation' has 0 rows; raise"):
        export(tmp_path / "run", tmp_path / "other", split="validation")


def test_a_folder_of_something_else_is_refused_and_an_empty_one_taken(run: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    export(run, tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="is there and no export"):
        export(run, tmp_path / "mine")
    assert not (tmp_path / "mine.partial").exists()


@pytest.mark.parametrize("shorter", [False, True])
def test_a_half_made_export_that_was_changed_is_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, shorter: bool
) -> None:
    with monkeypatch.context() as patch:
        kill(patch, 0, committed=True)
        with pytest.raises(Killed):
            export(run, tmp_path / "out")
    file = tmp_path / "out.partial" / "train.bin"
    content = file.read_bytes()
    file.write_bytes(content[:-2] if shorter else bytes([content[0] ^ 1]) + content[1:])
    said = "14 bytes of 16 that were committed" if shorter else "not those that were committed"
    with pytest.raises(FormatError, match=said):
        export(run, tmp_path / "out")


def test_a_finished_part_whose_byte_was_flipped_is_refused_on_going_on(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        kill(patch, 1, committed=True)
        with pytest.raises(Killed):
            export(run, tmp_path / "out", "olmo-core")  # each shard has files of its own
    file = tmp_path / "out.partial" / "train" / "00000.npy"
    content = file.read_bytes()
    file.write_bytes(bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(FormatError, match="not those that were committed"):
        export(run, tmp_path / "out", "olmo-core")


def test_sentences_beyond_the_index_are_refused_before_anything_is_written(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(megatron, "I32_LIMIT", 7)
    with pytest.raises(ConfigError, match="counts sequences in 32 bits, but there are 7"):
        export(run, tmp_path / "out", "megatron-sentences")
    assert not list(tmp_path.glob("out*"))


def test_a_document_without_a_token_is_refused(tmp_path: Path) -> None:
    build_dataset(tmp_path / "run", {"train": [[[10, EOS]], [[]]]})
    with pytest.raises(FormatError, match="document 0 does not end in EOS"):
        export(tmp_path / "run", tmp_path / "out")


def test_an_export_of_another_version_is_refused(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "out")
    place = tmp_path / "out" / "export.json"
    content = json.loads(place.read_text())
    content["identity"]["format_version"] = 9
    place.write_text(json.dumps(content))
    with pytest.raises(FormatError, match=r"identity\.format_version: Input should be 1"):
        export(run, tmp_path / "out")


def test_two_processes_do_not_write_one_export(run: Path, tmp_path: Path) -> None:
    (tmp_path / "out.partial").mkdir()
    with run_lock(tmp_path / "out.partial"), pytest.raises(Stopped, match=f"process {os.getpid()}"):
        export(run, tmp_path / "out")


def test_what_cannot_be_exported_is_refused_before_anything_is_written(
    run: Path, tmp_path: Path
) -> None:
    build_dataset(run, SPLITS, name="plain")
    to = tmp_path / "out"
    for name, format_, options, said in (
        ("tiny", "megatrn", {}, "did you mean 'megatron'"),
        ("tiny", "x", {}, f"formats: {', '.join(FORMATS)}"),
        ("other", "megatron", {}, "datasets here: plain, tiny"),
        ("../datasets/tiny", "megatron", {}, "no dataset '../datasets/tiny'; datasets"),
        ("tiny/", "megatron", {}, "no dataset 'tiny/'"),
        ("tiny/train/..", "megatron", {}, "no dataset 'tiny/train/..'"),
        (str(run / "datasets" / "tiny"), "megatron", {}, "no dataset '/"),
        ("..", "megatron", {}, r"no dataset '\.\.'"),
        ("", "megatron", {}, "no dataset ''"),
        ("tiny", "megatron", {"split": "test"}, "no split 'test'"),
        ("tiny", "megatron", {"epoch": 3}, "the same in every epoch"),
        ("plain", "megatron-sentences", {}, "does not store where sentences end"),
    ):
        with pytest.raises(ConfigError, match=said):
            dataset.export(run, name, format_, to, **options)
    assert not list(tmp_path.glob("out*"))


def test_a_dataset_that_failed_its_checks_is_not_exported(run: Path, tmp_path: Path) -> None:
    place = run / "verify" / "tiny" / "verdict.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"passed": False}))
    with pytest.raises(VerificationError, match=f"failed verify.*run `shardmill verify {run}`"):
        export(run, tmp_path / "out")
    manifest = json.loads((run / "datasets" / "tiny" / "train" / "dataset.json").read_text())
    place.write_text(json.dumps({"passed": False, "fingerprints": {"train": manifest["fingerprint"]}}))
    with pytest.raises(VerificationError, match="tiny/train: failed verify"):
        export(run, tmp_path / "out")
    for broken in (
        '{"passed": fal',
        "[]",
        "null",
        '"passed"',
        "{}",
        '{"passed": 1, "fingerprints": []}',
    ):
        place.write_text(broken)
        with pytest.raises(FormatError, match=r"verdict\.json: .*shardmill verify"):
            export(run, tmp_path / "out")
    place.write_text(json.dumps({"passed": False, "fingerprints": {"train": "0", "validation": "1"}}))
    export(run, tmp_path / "out")  # of a dataset that was made anew since


def test_a_tokenizer_that_is_another_one_or_gone_is_refused_before_anything_is_written(
    run: Path, tmp_path: Path
) -> None:
    (run / "tokenizer" / "tokenizer.model").write_bytes(b"another")
    with pytest.raises(FormatError, match="not the tokenizer that made tiny"):
        export(run, tmp_path / "out")
    (run / "tokenizer" / "tokenizer.model").unlink()
    with pytest.raises(FormatError, match=r"tokenizer\.model: gone, but it .* made tiny; put it back"):
        export(run, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_the_command_prints_json_and_says_how_far_it_is(run: Path, tmp_path: Path) -> None:
    command = ["export", str(run), "--dataset", "tiny", "--format", "nanogpt", "--to", "out", "--json"]
    done = called(*command, cwd=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["files"]["train.bin"]["bytes"] == 28
    assert "7/7" in done.stderr
