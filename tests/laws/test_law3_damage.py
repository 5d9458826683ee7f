"""What law 3 promises of a run that somebody, or a kill, took something from.

Whatever commit is missing, exchanged or cannot be read, a run says so and changes nothing. With
--replace it makes the same bytes again. What belongs to somebody else is never removed.
"""

import contextlib
import math
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline.session.request import RunRequest
from pipeline.session.runner import Runner
from pipeline.session.session import run_session
from pipeline.session.verifying import verify_session
from pipeline.state.commit_object import Commit
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from stages.config import canonical_json
from stages.errors import ConfigError, DataError, ShardmillError, Stopped, VerificationError
from tests.campaign import FULL
from tests.conftest import digests, run_small, small_run


@pytest.fixture
def own(reference: Path, tmp_path: Path) -> Path:
    """A copy of a finished run that a test may damage."""
    return Path(shutil.copytree(reference, tmp_path / "run"))


def missing(commit: Path) -> None:
    """Remove a commit."""
    commit.unlink()


def exchanged(commit: Path) -> None:
    """Put the commit of another unit in its place."""
    other = next(path for path in sorted(commit.parent.iterdir()) if path != commit)
    shutil.copy(other, commit)


def resealed(commit: Path) -> None:
    """Let a commit report something else, and vouch for itself."""
    said = Commit.model_validate_json(commit.read_bytes())
    record = said.record | {"made": "up"}
    commit.write_bytes(canonical_json(said.model_copy(update={"record": record}).sealed()))


def cut(commit: Path) -> None:
    """Cut a commit short."""
    commit.write_bytes(commit.read_bytes()[:20])


def linked(commit: Path) -> None:
    """Put a link that leads nowhere in its place."""
    commit.unlink()
    commit.symlink_to(commit.parent / "nothing")


STEPS = ["ingest", "dedup", "tokenizer", "split", "tokenize", "shard-clm"]
DAMAGES = (missing, exchanged, resealed, cut, linked)
Damages = dict[str, Callable[[Path], None]]
TOGETHER: list[Damages] = [
    {"ingest": missing, "dedup": exchanged, "tokenizer": resealed},
    {"split": missing, "tokenize": linked, "shard-clm": cut},
]
ALONE: list[Damages] = [{step: damage} for step in STEPS for damage in DAMAGES]


@pytest.mark.parametrize(
    "damages",
    [*TOGETHER, *(ALONE if FULL else ())],
    ids=lambda damages: "-".join(f"{step}-{damage.__name__}" for step, damage in damages.items()),
)
def test_commits_that_are_lost_are_named_and_made_again(
    damages: Damages, own: Path, reference: Path, small_corpus: Path
) -> None:
    lost = []
    for step, damage in damages.items():
        units = sorted((own / "commits" / step).glob("*.json"))
        lost.append(next(path for path in units if path.stem != STEP_COMMIT))
        damage(lost[-1])
    before = digests(own)
    first = next(iter(damages))
    with pytest.raises(DataError, match=f"run again with --replace to make step {first} ") as refused:
        run_small(small_corpus, own)
    assert [path for path in lost if f"{path}: " not in str(refused.value)] == []
    assert digests(own) == before
    run_small(small_corpus, own, replace=True)
    assert digests(own, "commits") == digests(reference, "commits")
    assert digests(own) == digests(reference)


class Killed(BaseException):
    """Where a test ends a run."""


def test_a_replace_killed_at_any_moment_leaves_no_step_that_looks_whole(
    own: Path, reference: Path, small_corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = next((own / "datasets").rglob("input_ids.npy"))
    sound, delete = damaged.read_bytes(), LocalStorage.delete

    def replaced(moment: float) -> int:
        """Damage the run and replace it, up to a deletion; return the number of deletions."""
        damaged.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        done = 0

        def stop(storage: LocalStorage, key: str) -> None:
            nonlocal done
            if done == moment:
                raise Killed
            done += 1
            delete(storage, key)

        with monkeypatch.context() as patch, contextlib.suppress(Killed):
            patch.setattr(LocalStorage, "delete", stop)
            run_small(small_corpus, own, replace=True)
        return done

    deletions = replaced(math.inf)
    assert deletions > 3
    for moment in range(deletions) if FULL else (1, deletions - 1):
        assert replaced(moment) == moment
        commits = Commits(LocalStorage(own)).survey("shard-clm").commits
        assert (STEP_COMMIT in commits) == (moment == 0)
        run_small(small_corpus, own, replace=True)
        assert digests(own) == digests(reference), moment


@pytest.mark.parametrize("name", ["datasets", "datasets/clm", "ingest", "tokens"])
def test_what_a_link_leads_to_is_never_changed(
    name: str, own: Path, small_corpus: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(own / name, elsewhere)
    (own / name).symlink_to(elsewhere)
    before = digests(tmp_path, "elsewhere")
    assert before
    with pytest.raises(DataError, match=f"{own / name}: is a symbolic link; .*Remove the link"):
        run_small(small_corpus, own, replace=True)
    assert digests(tmp_path, "elsewhere") == before


def test_a_folder_in_place_of_a_file_is_left_as_it_is(own: Path, small_corpus: Path) -> None:
    place = next((own / "datasets").rglob("input_ids.npy"))
    place.unlink()
    place.mkdir()
    (place / "thesis.txt").write_text("mine")
    with pytest.raises(DataError, match=f"{place}: .*committed with"):
        run_small(small_corpus, own)
    with pytest.raises(DataError, match=f"{place}: is a folder.*move it away"):
        run_small(small_corpus, own, replace=True)
    assert (place / "thesis.txt").read_text() == "mine"


def test_files_under_tmp_that_no_attempt_left_stay(
    own: Path, small_corpus: Path, tmp_path: Path
) -> None:
    (own / "tmp" / "mine").mkdir(parents=True)
    (own / "tmp" / "0123456789ab" / "u").mkdir(parents=True)
    run_small(small_corpus, own)
    assert [path.name for path in (own / "tmp").iterdir()] == ["mine"]
    shutil.rmtree(own / "tmp")
    (own / "tmp").symlink_to(tmp_path)
    with pytest.raises(DataError, match=r"tmp: is a symbolic link.*Remove the link"):
        run_small(small_corpus, own)


def test_damage_to_a_step_that_is_planned_no_more_is_told_with_what_helps(
    own: Path, small_corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = own
    run_small(small_corpus, output, datasets=[{"name": "clm"}, {"name": "other"}])
    next((output / "datasets" / "other").rglob("input_ids.npy")).unlink()
    before = digests(output)
    for replace in (False, True):
        request = RunRequest(small_run(), small_corpus, output, 0, until="shard", replace=replace)
        run_session(request, stream=sys.stderr)
        told = capsys.readouterr().err
        assert "input_ids.npy: committed with " in told
        assert "has no step shard-other any more: restore the file, or put the dataset back" in told
        assert "or delete commits/shard-other and datasets/other" in told
        assert digests(output) == before


@pytest.mark.parametrize("steps", [("ingest", "tokenizer", "tokenize"), ("dedup", "split")], ids=str)
def test_steps_that_lost_their_last_commit_are_named_and_a_run_finishes_them(
    steps: tuple[str, ...], own: Path, reference: Path, small_corpus: Path
) -> None:
    for step in steps:
        (own / "commits" / step / f"{STEP_COMMIT}.json").unlink()
    with pytest.raises(VerificationError) as caught:
        verify_session(own, workers=0, address=None, stream=None)
    for step in steps:
        named = f"commits/{step}/{STEP_COMMIT}.json: files: found nothing, and step .* is finished"
        assert re.search(named, str(caught.value))
    assert str(caught.value).endswith("is finished; run again")
    run_small(small_corpus, own)
    assert digests(own) == digests(reference)


def test_the_files_of_a_step_without_its_last_commit_are_no_strays(own: Path) -> None:
    (own / "commits" / "shard-clm" / f"{STEP_COMMIT}.json").unlink()
    with pytest.raises(ConfigError, match="step shard-clm is not done; finish the run first"):
        verify_session(own, workers=0, address=None, stream=None)


def test_files_that_changed_places_are_named_whatever_they_do_to_the_other_checks(own: Path) -> None:
    read = min(own.glob("ingest/**/documents.parquet"))
    stored = min(own.glob("tokens/**/documents.parquet"))
    content = read.read_bytes()
    read.write_bytes(stored.read_bytes())
    stored.write_bytes(content)
    with pytest.raises(VerificationError) as caught:
        verify_session(own, workers=0, address=None, stream=None)
    for path in (read, stored):
        assert path.relative_to(own).as_posix() in str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        Stopped("SIGTERM"),
        pytest.param(ConfigError("memory"), marks=pytest.mark.campaign),
        OSError(28, "full"),
    ],
)
def test_what_stops_a_verify_for_reasons_of_its_own_is_said_of_a_damaged_run_too(
    error: Exception, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    damaged = next((own / "datasets").rglob("input_ids.npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\x07")

    def stop(*_: object) -> None:
        raise error

    monkeypatch.setattr(Runner, "do", stop)
    with pytest.raises(ShardmillError) as caught:
        verify_session(own, workers=0, address=None, stream=None)
    assert not isinstance(caught.value, VerificationError)
