"""Evidence of later generations and of runs made against others is made again, with what is there."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pipeline.session.session import run_session
from pipeline.session.verifying import verify_session
from pipeline.state import read_only
from tests.laws.test_generations import lines, request_of, write
from tests.material.commit_seals import vouched
from tests.material.file_damages import Undo

pytestmark = pytest.mark.slow

MIX: dict[str, Any] = {"mix": {"language_alpha": 0.5}}


def verified(run: Path) -> Mapping[str, Any]:
    """Return what verify says of a run."""
    return verify_session(run, workers=0, address=None, stream=None)


def steps_made_again(report: Mapping[str, Any]) -> set[str]:
    """Return the steps of which tasks were done again."""
    return {one["what"].partition(":")[0] for one in report["evidence"]["looked"]}


@pytest.fixture(scope="module")
def against(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and one that was deduplicated against it."""
    folder = tmp_path_factory.mktemp("against")
    known = lines()
    write(folder / "old", "a.jsonl", known[:14])
    run_session(request_of(folder / "old"), stream=None)
    write(folder / "new", "b.jsonl", known[6:24])
    request = request_of(folder / "new", dedup={"against": ["../old/run"]}, **MIX)
    run_session(request, stream=None)
    return folder


@contextmanager
def set_aside(folder: Path) -> Iterator[None]:
    """Take the earlier run away, and bring it back in the place of what is there by then."""
    (folder / "old").rename(folder / "away")
    try:
        yield
    finally:
        shutil.rmtree(folder / "old", ignore_errors=True)
        (folder / "away").rename(folder / "old")


def test_what_was_compared_with_an_earlier_run_is_compared_again_while_it_is_there(
    against: Path,
) -> None:
    report = verified(against / "new/run")
    assert report["passed"]
    assert "dedup" in steps_made_again(report)
    with set_aside(against):
        without = verified(against / "new/run")
    assert without["passed"]
    assert "dedup" not in steps_made_again(without)


def test_another_run_in_the_place_of_an_earlier_one_is_no_witness(against: Path, tmp_path: Path) -> None:
    write(tmp_path / "other", "a.jsonl", lines()[20:30])
    run_session(request_of(tmp_path / "other"), stream=None)
    with set_aside(against):
        shutil.copytree(tmp_path / "other", against / "old")
        report = verified(against / "new/run")
    assert report["passed"], report["audit"]
    assert "dedup" not in steps_made_again(report)


def test_numbers_of_a_mix_are_counted_again(against: Path) -> None:
    run = against / "new/run"
    (mix,) = (one for one in steps_made_again(verified(run)) if one.startswith("mix"))
    units = sorted((run / "commits" / mix).glob("count-*.json"))
    assert units
    for unit in units:
        undo, place = Undo(run), f"commits/{mix}/{unit.name}"

        def more(record: Any) -> Any:
            return (
                record | {"unweighted": record["unweighted"] + 1} if "unweighted" in record else record
            )

        for path, data in vouched(run, set(), record=more).items():
            undo.write(path, data)
        report = verified(run)
        undo.undo()
        assert any(place in str(one) for one in report["verify"]["mlm"]["findings"]), report["verify"]


def test_a_later_generation_with_a_mix_is_made_again_as_it_was(tmp_path: Path) -> None:
    known = lines()
    write(tmp_path / "in", "a.jsonl", known[:14])
    run_session(request_of(tmp_path / "in", **MIX), stream=None)
    write(tmp_path / "in", "b.jsonl", known[14:24])
    run_session(request_of(tmp_path / "in", **MIX), stream=None)
    report = verified(tmp_path / "in/run")
    assert report["passed"], report
    later = report["generations"]["0001"]
    assert {"dedup", "mix-mlm"} <= steps_made_again(later)


def test_a_folder_that_can_only_be_read_has_the_sums_of_this_verification(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, documents in (("a.jsonl", lines()[:14]), ("b.jsonl", lines()[14:24])):
        write(tmp_path / "in", name, documents)
        run_session(request_of(tmp_path / "in", **MIX), stream=None)
    run = tmp_path / "in/run"
    (wanted,) = (one["whole"] for one in verified(run)["generations"].values())
    assert wanted["mlm"]["generations"] == 2
    verdict = run / "commits" / "verify-mlm" / "_step.json"
    verdict.write_bytes(verdict.read_bytes()[:-20])  # an old verdict: it is made anew, and not kept
    monkeypatch.setattr(read_only, "can_write", lambda _: False)
    assert [one["whole"] for one in verified(run)["generations"].values()] == [wanted]


def test_words_for_people_are_not_compared(against: Path) -> None:
    run, undo = against / "new/run", Undo(against / "new/run")

    def other(record: Any) -> Any:
        return record | {"warnings": ["said by an earlier version"]} if "warnings" in record else record

    changed = vouched(run, set(), record=other)
    assert any(b"said by an earlier version" in data for data in changed.values())
    for path, data in changed.items():
        undo.write(path, data)
    report = verified(run)
    undo.undo()
    assert report["passed"], report["audit"]
