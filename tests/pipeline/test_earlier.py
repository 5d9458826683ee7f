"""Which earlier runs a run is deduplicated against, as it is planned.

Each folder counts once, with its generations. What a finished deduplication was made against stays
what it was, whatever becomes of those runs.
"""

import json
from pathlib import Path

import pytest

from pipeline.planning.against import find_earlier, recorded_or_found
from pipeline.run_file.config import RunFile
from pipeline.run_file.load import load_run_file
from stages.errors import ConfigError
from tests.unpacked_runs import generation_of, unpack_run


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """A finished run of three generations."""
    return unpack_run("grown", tmp_path)


def asking(folder: Path, *, against: str = "", replayed: str = "") -> RunFile:
    """Return the run file of the folder that names runs as earlier ones and replays one."""
    text = (folder / "run.toml").read_text("utf-8")
    if replayed:
        text = text.replace("[tokenizer.train]\nvocab_size = 560", '[tokenizer]\npath = "out"')
        text += f'[[sources]]\nname = "again"\nrun = "{replayed}"\n'
    (folder / "asking.toml").write_text(f"{text}[dedup]\nagainst = [{against}]\n", encoding="utf-8")
    return load_run_file(folder / "asking.toml")


@pytest.mark.parametrize(
    ("against", "replayed"), [('"out"', ""), ("", "out"), ('"out"', "out"), ('"out"', "./out")]
)
def test_a_run_that_is_named_and_replayed_counts_once(grown: Path, against: str, replayed: str) -> None:
    file = asking(grown, against=against, replayed=replayed)
    found = find_earlier(file, grown, output=grown / "new")
    assert [run.label for run in found] == ["out", "out/generations/0001", "out/generations/0002"]
    assert [run.folder for run in found] == [generation_of(grown, number) for number in range(3)]


def test_a_run_that_is_named_twice_is_refused(grown: Path) -> None:
    file = asking(grown, against='"out", "./out"')
    with pytest.raises(ConfigError, match=r"'\./out' and 'out' are the same run"):
        find_earlier(file, grown, output=grown / "new")


def test_a_finished_deduplication_stays_with_the_split_it_was_made_against(grown: Path) -> None:
    """The earlier run may have had none then: the sides of its documents were followed by nobody."""
    output, before = generation_of(grown, 2), [generation_of(grown, number) for number in (0, 1)]
    file = load_run_file(grown / "run.toml")
    now = recorded_or_found(file, grown, output=output, before=before)
    assert None not in [run.split for run in now]
    plan = json.loads((output / "run.json").read_bytes())
    plan["steps"]["dedup"]["config"]["against"][0]["split"] = None
    (output / "run.json").write_text(json.dumps(plan), encoding="utf-8")
    found = recorded_or_found(file, grown, output=output, before=before)
    assert [run.split for run in found] == [None, now[1].split]
    assert [run.folder for run in found] == before, "they are read where they are now"
    anew = recorded_or_found(file, grown, output=output, before=before, anew=True)
    assert [run.split for run in anew] == [run.split for run in now]
