"""What an export of stages promises.

Each stage is the export that its dataset alone would be, in a folder of its own; the whole is there or
not, and goes on after a kill at any moment; nothing is mixed; READ.md says what the trainer has for
stages.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import shardmill
from pipeline import cli
from pipeline.tools.export import dataset
from pipeline.tools.export import folder as export_parts
from pipeline.tools.export.folder import DonePart, record_part
from pipeline.tools.export.stages import export_stages
from stages.errors import ConfigError, FormatError, VerificationError
from stages.export.table import FORMATS
from stages.store.manifest import MANIFEST_NAME, read_manifest, write_manifest
from tests.pipeline.exporting import TRAIN, VALIDATION, contents
from tests.stages.export.built_dataset import EOS, build_dataset

pytestmark = pytest.mark.slow

STAGES = ("general", "anneal")
RENAME = Path.rename


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with two datasets, of which one has a split for validation."""
    folder = tmp_path / "run"
    build_dataset(folder, {"train": TRAIN, "validation": VALIDATION}, name="general")
    build_dataset(folder, {"train": [[[30, 31, 32, 33, 34, EOS]] * 5]}, name="anneal")
    return folder


def export(run: Path, to: Path, format_: str = "megatron", *names: str, **options: Any) -> Any:
    """Export stages of the run, by default both."""
    return export_stages(run, names or STAGES, format_, to, **options)


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def test_each_stage_is_the_export_of_its_dataset_alone(run: Path, tmp_path: Path) -> None:
    report = export(run, tmp_path / "out")
    assert not report["already"]
    assert report["contents"] == [
        (
            "1. general: train: 4 documents, 14 tokens; validation: 1 documents, 3 tokens; seq_len 4,"
            " cut into rows by the trainer"
        ),
        "2. anneal: train: 5 documents, 30 tokens; seq_len 4, cut into rows by the trainer",
    ]
    files = contents(tmp_path / "out")
    for name in STAGES:
        alone = tmp_path / f"{name}-alone"
        dataset.export(run, name, "megatron", alone)
        prefix = f"{name}/"
        assert contents(alone) == {
            file.removeprefix(prefix): data for file, data in files.items() if file.startswith(prefix)
        }
    assert {file for file in files if "/" not in file} == {"READ.md", "stages.json"}
    summary = json.loads(files["stages.json"])
    assert [stage["dataset"] for stage in summary["stages"]] == list(STAGES)
    assert summary["stages"][1]["splits"]["train"]["tokens"] == 30
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    again = export(run, tmp_path / "out")
    assert again.pop("already")
    assert {**report, "already": True} == {**again, "already": True}
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")} == before


def test_an_export_killed_at_any_moment_ends_in_the_same_bytes(run: Path, tmp_path: Path) -> None:
    export(run, tmp_path / "whole" / "out")
    expected = contents(tmp_path / "whole" / "out")
    to, killed = tmp_path / "out", 0
    for moment in range(100):
        left = [moment % 2]  # each try does a part or none before it dies

        def keep_and_die(folder: Path, done: DonePart, left: list[int] = left) -> None:
            if not left[0]:
                raise Killed
            left[0] -= 1
            record_part(folder, done)

        def rename_and_die(self: Path, target: Path, moment: int = moment) -> Path:
            RENAME(self, target)
            if moment % 2:
                raise Killed
            return target

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(export_parts, "record_part", keep_and_die)
            patch.setattr(Path, "rename", rename_and_die)
            try:
                export(run, to)
                break
            except Killed:
                killed += 1
                for file in tmp_path.glob("out.partial/*.partial/*.bin"):
                    file.write_bytes(file.read_bytes() + b"half a token")
    assert killed > 10
    assert export(run, to)["already"]
    assert contents(to) == expected
    assert not (tmp_path / "out.partial").exists()


def test_nothing_is_written_if_one_stage_is_refused(run: Path, tmp_path: Path) -> None:
    build_dataset(run, {"train": TRAIN}, name="large", vocab_size=70_000)
    build_dataset(run, {"train": TRAIN}, name="failed")
    (run / "verify" / "failed").mkdir(parents=True)
    (run / "verify" / "failed" / "verdict.json").write_text('{"passed": false}')
    for names, error, said in (
        (("general", "none"), ConfigError, "no dataset 'none'; datasets here: anneal, failed, general"),
        (("general", "large"), ConfigError, "--format nanogpt: holds ids below 65,536, but large has"),
        (("general", "failed"), VerificationError, "failed/train: failed verify"),
        (("general", "anneal", "general"), ConfigError, "--dataset general: named twice"),
    ):
        with pytest.raises(error, match=said):
            export(run, tmp_path / "out", "nanogpt", *names)
    with pytest.raises(ConfigError, match="--dataset: none is named"):
        export_stages(run, (), "nanogpt", tmp_path / "out")
    with pytest.raises(ConfigError, match="overlaps with the run folder"):
        export(run, run / "out")
    place = build_dataset(run, {"train": TRAIN}, name="other") / "train" / MANIFEST_NAME
    manifest = read_manifest(place.parent)
    tokenizer = manifest.tokenizer.model_copy(update={"sha256": "0" * 64})
    write_manifest(place, manifest.model_copy(update={"tokenizer": tokenizer}).signed())
    with pytest.raises(ConfigError, match="--dataset other: ids of another tokenizer than those of g"):
        export(run, tmp_path / "out", "nanogpt", "general", "other")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_nothing_is_mixed(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    half = tmp_path / "out.partial"
    half.mkdir()
    (half / "mine.txt").write_text("mine")
    with pytest.raises(ConfigError, match=r"out\.partial: holds mine\.txt, which no export of these"):
        export(run, out)
    (half / "mine.txt").unlink()
    (half / "begun.json").write_text('{"form')  # cut by a crash, so nothing else was written
    export(run, out)
    for again, said in (
        (lambda: export(run, out, "nanogpt"), "format: megatron there, nanogpt asked for"),
        (
            lambda: export(run, out, "megatron", "anneal", "general"),
            "datasets: general, anneal there, anneal, general asked for",
        ),
        (lambda: export(run, out, split="train"), "splits: train, validation there, train asked for"),
        (
            lambda: dataset.export(run, "general", "megatron", out),
            "is there and no export",
        ),
    ):
        with pytest.raises(ConfigError, match=said):
            again()
    (out / "anneal" / "export.json").unlink()
    with pytest.raises(FormatError, match=r"anneal/export\.json: gone, but the stage was exported"):
        export(run, out)


@pytest.mark.parametrize("format_", [name for name in FORMATS if name != "megatron-sentences"])
def test_each_format_says_what_its_trainer_has_for_stages(
    run: Path, tmp_path: Path, format_: str
) -> None:
    report = export(run, tmp_path / "out", format_, split="train")
    read_me = (tmp_path / "out" / "READ.md").read_text()
    assert read_me.startswith(f"# 2 stages for {FORMATS[format_].client}\n\n1. general: ")
    assert report["notes"]
    assert all(f"- {note}\n" in read_me for note in report["notes"])
    assert str(tmp_path) not in read_me
    lines = report["lines"]
    assert all(f'{tmp_path}/out/{name}/train"' in lines for name in STAGES) or format_ not in (
        "datatrove",
        "mds",
    )
    yaml = pytest.importorskip("yaml")
    if format_ == "datatrove":
        first, second = yaml.safe_load(lines)["data_stages"]
        assert (first["name"], first["start_training_step"]) == ("general", 1)
        # windows of 5 tokens in files of 8 and 6, one a shard
        assert "STEP_2  # 1 + 2 // GLOBAL_BATCH_SIZE" in lines
        assert second["data"]["dataset"]["token_size_in_bytes"] == 2
    if format_ == "mds":
        schedule = yaml.safe_load(lines)["callbacks"]["curriculum_learning"]["schedule"]
        assert [stage["duration"] for stage in schedule] == ["1ep"]
    if format_ == "megatron":
        assert f"--train-data-path {tmp_path}/out/anneal/train --phase-transition-iterations" in lines
    if format_ == "olmo-core":
        compile(lines, "lines", "exec")
        assert 'load_path="runs/general"' in lines


def test_the_command_and_the_function_take_several_datasets(run: Path, tmp_path: Path) -> None:
    asked = ["export", str(run), "--format", "litdata", "--to", str(tmp_path / "out")]
    asked += [part for name in STAGES for part in ("--dataset", name)]
    done = CliRunner().invoke(cli.app, asked)
    assert done.exit_code == 0, done.output
    assert "out: 2 stages, " in done.output
    assert "litgpt has nothing for stages" in done.output
    report = shardmill.export_stages(run, STAGES, "litdata", tmp_path / "out")
    assert report["already"]
    machine = CliRunner().invoke(cli.app, [*asked, "--json"])
    assert json.loads(machine.stdout) == json.loads(json.dumps(report))
    assert shardmill.export_stages(run, "anneal", "litdata", tmp_path / "one")["stages"]
