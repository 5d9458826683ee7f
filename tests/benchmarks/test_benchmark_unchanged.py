"""What the comparison of two versions promises: it sees what a user would, and nothing else."""

import json
from pathlib import Path

import pytest
from unchanged import compared
from unchanged_cases import toml_of
from unchanged_files import differences, masked

RECORD = {"seconds": 1.5, "kept": 7, "began": "2026-11-30 10:00:00 UTC", "parts": [{"cpu": 3, "n": 1}]}


def write(folder: Path, **changes: object) -> Path:
    """Write a folder as a run leaves it."""
    (folder / "run" / "datasets").mkdir(parents=True)
    (folder / "run" / "datasets" / "rows.npy").write_bytes(b"rows")
    (folder / "run" / "log.jsonl").write_text(f"{folder}")
    (folder / "run" / "lock").touch()
    (folder / "run" / "record.json").write_text(json.dumps({**RECORD, **changes}))
    (folder / "run" / "page.html").write_text(f"<p>{folder}: 7 kept in {len(folder.name)}.5 s</p>\n")
    return folder


def test_times_and_places_are_no_difference(tmp_path: Path) -> None:
    before = write(tmp_path / "before")
    later = {"seconds": 9, "began": "2027-01-01 10:00:00 UTC", "parts": [{"cpu": 4, "n": 1}]}
    after = write(tmp_path / "after", **later)
    assert list(differences(before, after)) == []


def test_the_seal_of_a_commit_with_seconds_is_no_difference_and_what_it_says_is(tmp_path: Path) -> None:
    before, after = write(tmp_path / "before"), write(tmp_path / "after")
    for folder, seal in ((before, "1"), (after, "2")):
        for step in ("verify-clm", "shard-clm"):
            commit = {"xxh3": seal, "record": {"seconds": int(seal), "rows": 3}}
            place = folder / "run" / "commits" / step / "learning.json"
            place.parent.mkdir(parents=True)
            place.write_text(json.dumps(commit))
    assert list(differences(before, after)) == ["run/commits/shard-clm/learning.json: .xxh3: 1 and 2"]
    place = after / "run" / "commits" / "verify-clm" / "learning.json"
    place.write_text(json.dumps({"xxh3": "2", "record": {"rows": 4}}))
    assert f"{place.relative_to(after)}: .record.rows: 3 and 4" in differences(before, after)


@pytest.mark.parametrize(
    ("changed", "data", "said"),
    [
        ("run/datasets/rows.npy", b"rowS", "run/datasets/rows.npy: bytes differ: 4 bytes, "),
        ("run/datasets/new.npy", b"", "run/datasets/new.npy: only after"),
        (
            "run/record.json",
            b'{"kept": 7, "parts": [{"n": 2}]}',
            "run/record.json: .parts[0].n: 1 and 2",
        ),
        ("run/record.json", b'{"kept": 7}', "run/record.json: .parts: only before"),
        ("run/page.html", b"<p>WORK: 8 left in 1 s</p>\n", "run/page.html: line 1: "),
    ],
)
def test_all_else_is_one(changed: str, data: bytes, said: str, tmp_path: Path) -> None:
    before, after = write(tmp_path / "before"), write(tmp_path / "after")
    (after / changed).write_bytes(data)
    (found,) = differences(before, after)
    assert found.startswith(said)
    assert list(differences(before, after, but=("run/*",))) == []


def test_a_file_that_is_gone_is_one(tmp_path: Path) -> None:
    before, after = write(tmp_path / "before"), write(tmp_path / "after")
    (after / "run" / "datasets" / "rows.npy").unlink()
    assert list(differences(before, after)) == ["run/datasets/rows.npy: only before"]


def test_exit_codes_and_words_are_compared() -> None:
    call = {"call": "status run", "code": 0, "stdout": "done", "stderr": ""}
    assert compared([call], [call]) == []
    (code,) = compared([call], [{**call, "code": 2, "stderr": ""}])
    assert code.startswith("status run: exit code 0; now 2")
    (word,) = compared([call], [{**call, "stdout": "Done"}])
    assert word == "status run: stdout: line 1: 'done' and 'Done'"


def test_amounts_that_no_two_runs_share_are_masked() -> None:
    said = "3 documents, 12.5 s, 512 MiB, 2026-11-30 10:00:00 UTC"
    assert masked(said, Path("/x")) == "3 documents, AMOUNT, AMOUNT, DATE"


def test_toml_of_a_run_file() -> None:
    content = {"a": 1, "b": [True, "x\n"], "c": {"d": 0.5, "none": None}}
    assert toml_of(content) == '{ "a" = 1, "b" = [true, "x\\n"], "c" = { "d" = 0.5 } }'
