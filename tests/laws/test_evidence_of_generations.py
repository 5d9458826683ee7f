"""Evidence of later generations and of runs made against others is made again, with what is there."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.session.verifying import verify_session
from pipeline.state import read_only
from stages.errors import ConfigError
from tests.laws.grown_folders import MIX, content_of, lines, make_first, make_mixed, request_of, write
from tests.made_once import MadeOnce
from tests.material.commit_seals import vouched
from tests.material.file_damages import Undo

pytestmark = pytest.mark.slow


def verified(run: Path) -> Mapping[str, Any]:
    """Return what verify says of a run."""
    return verify_session(run, workers=0, address=None, stream=None)


def steps_made_again(report: Mapping[str, Any]) -> set[str]:
    """Return the steps of which tasks were done again."""
    return {one["what"].partition(":")[0] for one in report["evidence"]["looked"]}


def request_against(folder: Path) -> RunRequest:
    """Return a call of the run that is deduplicated against the one beside it."""
    return request_of(folder / "new", dedup={"against": ["../old/run"]}, **MIX)


@pytest.fixture(scope="module")
def against(made_once: MadeOnce, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run, and one that was deduplicated against it."""
    folder = tmp_path_factory.mktemp("against")
    shutil.copytree(made_once(make_first), folder / "old")
    write(folder / "new", "b.jsonl", lines()[6:24])
    run_session(request_against(folder), stream=None)
    return folder


@pytest.fixture(scope="module")
def sound(against: Path) -> Mapping[str, Any]:
    """What verify says of the latter."""
    return verified(against / "new/run")


@pytest.fixture(scope="module")
def grown(made_once: MadeOnce) -> Path:
    """A folder with a run and a generation of it, both with a mix."""
    return made_once(make_mixed)


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
    against: Path, sound: Mapping[str, Any]
) -> None:
    run = against / "new/run"
    assert sound["passed"]
    assert "dedup" in steps_made_again(sound)
    before = made_of(run)
    with set_aside(against):
        run_session(request_against(against), stream=None)
        without = verified(run)
        assert made_of(run) == before, "a finished run stands"
        with pytest.raises(ConfigError, match="holds no run"):
            run_session(replace(request_against(against), output=against / "other"), stream=None)
    assert without["passed"]
    assert "dedup" not in steps_made_again(without)


def made_of(run: Path) -> dict[str, str]:
    """Return the digest of every file but of those that say which earlier runs are there."""
    aside = ("verify", "run.json", "commits/decode")
    return {
        name: digest for name, digest in content_of(run).items() if not any(one in name for one in aside)
    }


def test_another_run_in_the_place_of_an_earlier_one_is_no_witness(against: Path, grown: Path) -> None:
    with set_aside(against):
        shutil.copytree(grown, against / "old")
        report = verified(against / "new/run")
    assert report["passed"], report["audit"]
    assert "dedup" not in steps_made_again(report)


def test_numbers_of_a_mix_are_counted_again_and_words_for_people_are_not_compared(
    against: Path, sound: Mapping[str, Any]
) -> None:
    run, undo = against / "new/run", Undo(against / "new/run")
    (mix,) = (one for one in steps_made_again(sound) if one.startswith("mix"))
    units = sorted((run / "commits" / mix).glob("count-*.json"))
    assert units

    def other(record: Any) -> Any:
        more = {"unweighted": record["unweighted"] + 1} if "unweighted" in record else {}
        said = {"warnings": ["said by an earlier version"]} if "warnings" in record else {}
        return record | more | said

    changed = vouched(run, set(), record=other)
    told = [path for path, data in changed.items() if b"said by an earlier version" in data]
    assert [path for path in told if path.parent.name != mix], "steps that say nothing else"
    for path, data in changed.items():
        undo.write(path, data)
    report = verified(run)
    undo.undo()
    found = report["verify"]["mlm"]["findings"]
    named = {f"commits/{mix}/{name}" for name in ("choose.json", *(unit.name for unit in units))}
    assert {one["file"] for one in found} == named
    assert {one["message"].partition(" is ")[0] for one in found} == {"unweighted"}
    assert report["audit"]["findings"] == []


def test_a_later_generation_with_a_mix_is_made_again_as_it_was(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copied / "run"
    report = verified(run)
    assert report["passed"], report
    (later,) = report["generations"].values()
    assert {"dedup", "mix-mlm"} <= steps_made_again(later)
    wanted = later["whole"]
    assert wanted["mlm"]["generations"] == 2
    verdict = run / "commits" / "verify-mlm" / "_step.json"
    verdict.write_bytes(verdict.read_bytes()[:-20])  # an old verdict: it is made anew, and not kept
    monkeypatch.setattr(read_only, "can_write", lambda _: False)
    (again,) = verified(run)["generations"].values()
    assert again["whole"] == wanted, "a folder that can only be read has the sums of this verification"
