"""What law 3 promises of a loss of power: a unit is whole or absent, and what was committed stays.

`LossyDisk` loses what was not synced. Real code runs on it; at each moment the power may go, and each
state that the disk could then be in is held to the law and gone on with.
"""

import contextlib
import itertools
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pipeline.engine.tasks import Task, Worker, Workspace
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.state.attempts import new_attempt, sweep
from pipeline.state.commit_object import Commit
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.journal import read_log
from pipeline.state.publishing import Outcome, publish
from pipeline.state.storage import TEMPORARY, LocalStorage, make_folder, replace_file
from pipeline.state.worker_place import FolderPlace
from pipeline.steps.run_folder import RunFolder
from stages.config import Config
from stages.errors import DataError
from stages.store.digests import digest_file
from stages.store.drawn import DRAWN_NAME
from stages.store.manifest import MANIFEST_NAME
from tests.campaign import FULL, some_of
from tests.conftest import digests
from tests.laws.lossy_disk import Fate, KilledError, LossyDisk, Moment, fates, survive
from tests.laws.tiny_run import tiny_run, write_tiny_corpus

STEP = "shard-d"
SHARDS = "datasets/d/train"
SIGN = "sign-train"
"""Not first among the units, so that only the rule puts its manifest before the other files."""
EVERY, PHASE = (37 if FULL else 149), 5
"""Of the calls of a whole run, those at which its power goes."""
FLOW = ("ingest", "dedup", "tokenizer", "split", "tokenize", "shard-mlm", "draw-mlm")
FOLDERS = ("commits", "datasets", "dedup", "ingest", "split", "tokenizer", "tokens")
"""All of a run that a power cut must not change."""


class Nothing(Config):
    """A record that says nothing."""


class ShardMade(Config):
    """The record of a shard."""

    shard: int


def _write_shard(work: Workspace, payload: Any) -> ShardMade:
    """Write two files of a shard."""
    number, version = payload
    for name in ("input_ids.npy", "segments/length.npy"):
        text = f"{name} of shard {number}, version {version}"
        work.create(f"{SHARDS}/{number:05d}/{name}").write_text(text)
    return ShardMade(shard=number)


def _write_manifest(work: Workspace, payload: Any) -> Nothing:
    """Write a manifest that lists every file of every shard."""
    shards = [
        {"path": place.name, "files": {n: digest_file(place / n).model_dump() for n in payload}}
        for place in sorted(work.path(SHARDS).iterdir())
        if place.is_dir()
    ]
    work.create(f"{SHARDS}/{MANIFEST_NAME}").write_text(json.dumps({"shards": shards}))
    return Nothing()


def _make(root: Path, version: str, tell: Callable[[set[str]], None] = lambda _: None) -> list[str]:
    """Do what a session does: forget what is stale, do what is missing; return the units it did.

    `tell` is told, whenever that changes, which units must outlast a power cut from now on.
    """
    make_folder(root)
    sweep(root)
    commits = Commits(LocalStorage(root))
    stale = [unit for unit, commit in commits.all(STEP) if commit.fingerprint != version]
    if stale:
        tell(set())
        commits.drop(STEP, stale)
    tasks = [Task(STEP, f"shard-{n}", _write_shard, (n, version), version) for n in range(2)]
    tasks.append(Task(STEP, SIGN, _write_manifest, ("input_ids.npy", "segments/length.npy"), version))
    worker, done = Worker(FolderPlace(root, root / TEMPORARY / new_attempt())), []
    for task in tasks:
        if commits.get(STEP, task.unit, version) is None:
            commits.put(STEP, task.unit, version, worker.run(task))
            commits.flush()
            done.append(task.unit)
            tell(set(done))
    if commits.get(STEP, STEP_COMMIT, version) is None:
        commits.put(STEP, STEP_COMMIT, version, Outcome(root, {}, {}))
        commits.flush()
        done.append(STEP_COMMIT)
        tell(set(done))
    sweep(root)
    return done


def test_what_a_kill_leaves_of_the_status_goes(tmp_path: Path) -> None:
    for name in (".status.json.0a1b2c3d4e5f", ".metrics.prom.0a1b2c3d4e5f", "status.json", ".hidden"):
        (tmp_path / name).write_text("{")
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "status.json"]


def _commits(root: Path) -> dict[tuple[str, str], Commit]:
    """Return every commit, by step and unit."""
    commits = Commits(LocalStorage(root))
    steps = sorted(path.name for path in (root / "commits").glob("*"))
    return {(step, unit): commit for step in steps for unit, commit in commits.all(step)}


def _torn(root: Path) -> Iterator[str]:
    """Return what law 3 forbids: a commit or a manifest that lists a file which is not whole."""
    for place, commit in _commits(root).items():
        for key, digest in commit.files.items():
            if not (root / key).exists() or digest_file(root / key) != digest:
                yield f"commit {'/'.join(place)}: {key}"
    for name in (MANIFEST_NAME, DRAWN_NAME):
        for manifest in (root / "datasets").rglob(name):
            shards = json.loads(manifest.read_bytes())["shards"]
            if name == DRAWN_NAME:
                shards = [shard for epoch in shards for shard in epoch]
            for shard in shards:
                for listed, digest in shard["files"].items():
                    path = manifest.parent / shard["path"] / listed
                    if not path.exists() or digest_file(path).model_dump() != digest:
                        yield f"manifest {manifest.relative_to(root)}: {path.relative_to(root)}"


@contextmanager
def _no_syncs() -> Iterator[None]:
    """Save the time of syncs that nothing is to be learned from."""
    with patch.object(os, "fsync", lambda _: None):
        yield


@pytest.fixture
def states(tmp_path: Path) -> Iterator[Path]:
    """A folder for hundreds of small trees: in memory if there is a place, since disks take seconds."""
    memory = Path("/dev/shm")  # noqa: S108  # a folder of its own is made below it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)


@dataclass
class _Recording:
    """What was watched while version one was made, and then two in its place."""

    moments: list[Moment]
    promised: list[tuple[int, str, set[str]]]
    """From which call on which units of which version must be there."""
    expected: dict[str, dict[str, str]]
    """Digests of all files of an undisturbed version."""

    def version(self, moment: Moment) -> tuple[str, set[str]]:
        """Return the version that is made at a moment, and the units of it that must be there."""
        return [(v, units) for call, v, units in self.promised if call <= moment.number][-1]


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> _Recording:
    """Two versions made one after the other, watched from the first call to the last."""
    base = tmp_path_factory.mktemp("watched")
    promised: list[tuple[int, str, set[str]]] = []
    expected = {}
    with LossyDisk(base) as disk:
        for version in ("one", "two"):
            promised.append((disk.calls, version, set()))

            def tell(units: set[str], version: str = version) -> None:
                promised.append((disk.calls, version, units))

            _make(base / "run", version, tell)
            expected[version] = digests(base / "run", "commits", "datasets")
    return _Recording(disk.moments, promised, expected)


def test_every_sync_and_every_change_of_a_name_is_a_moment_at_which_the_power_may_go(
    recording: _Recording,
) -> None:
    calls = Counter(moment.call.split()[0] for moment in recording.moments)
    assert set(calls) == {"fsync", "rename", "link", "unlink", "mkdir", "rmdir", "the"}
    assert calls["rename"] == 2  # of the folder of each worker, when it goes
    assert calls["link"] == 2 * (5 + 4)


def test_a_power_cut_at_any_moment_leaves_units_whole_or_absent_and_no_commit_is_lost(
    recording: _Recording, states: Path
) -> None:
    cases = [(moment, fate) for moment in recording.moments for fate in fates(moment)]
    for number, (moment, fate) in enumerate(some_of(cases, 120)):
        version, promised = recording.version(moment)
        root, where = states / f"{number}" / "run", f"before {moment.number}: {moment.call}"
        survive(moment.folder, root.parent, fate)
        assert list(_torn(root)) == [], where
        commits = _commits(root)
        there = {unit for (_, unit), made in commits.items() if made.fingerprint == version}
        assert promised <= there, where
        with _no_syncs():
            done = _make(root, version)
        assert there.isdisjoint(done), where
        assert not any((root / "tmp").glob("*")), where
        assert digests(root, "commits", "datasets") == recording.expected[version], where
    assert len(cases) > 300


@pytest.mark.parametrize("version", ["one", "two"])
def test_a_second_power_cut_does_no_more_harm_be_it_in_the_same_run_or_in_one_that_replaces_it(
    version: str, recording: _Recording, states: Path
) -> None:
    first = [moment for moment in recording.moments if recording.version(moment)[0] == "one"]
    cuts = 0
    for moment in first[3 :: 4 if FULL else 12]:
        base = states / f"{moment.number}"
        survive(moment.folder, base, Fate(0.5, moment.number))
        with LossyDisk(base, every=13, phase=moment.number % 13) as disk:
            _make(base / "run", version)
        for again in disk.moments:
            root, where = (
                base.with_name(f"{base.name}-{again.number}") / "run",
                (moment.call, again.call),
            )
            survive(again.folder, root.parent, Fate(again.number % 3 / 2, again.number))
            assert list(_torn(root)) == [], where
            with _no_syncs():
                _make(root, version)
            assert digests(root, "commits", "datasets") == recording.expected[version], where
            cuts += 1
    assert cuts > (60 if FULL else 20)


def test_what_is_committed_after_a_kill_outlasts_a_power_cut_too(
    recording: _Recording, states: Path
) -> None:
    last = next(m.number for m in recording.moments if recording.version(m)[0] == "two")
    named = ("mkdir", "link", "replace")  # after each there is a name that is not synced
    made = [n.number for m, n in itertools.pairwise(recording.moments) if m.call.startswith(named)]
    for at in sorted({*some_of(range(last), 8), *(number for number in made if number < last)}):
        base, left = states / f"{at}", states / f"{at}-left"
        base.mkdir()
        with LossyDisk(base, every=last + 1) as disk:
            disk.kill_at = at
            with contextlib.suppress(KilledError):
                _make(base / "run", "one")
            disk.kill_at = None
            _make(base / "run", "one")
        survive(disk.moments[-1].folder, left, Fate(0.0, at))
        assert digests(left / "run", "commits", "datasets") == recording.expected["one"], at
    assert last > 50
    assert len(made) > 20


def test_a_file_that_is_replaced_is_the_old_or_the_new_one_and_in_the_end_the_new(states: Path) -> None:
    base = states / "watched"
    base.mkdir()
    (base / "run.json").write_bytes(b"old")
    with LossyDisk(base) as disk:
        replace_file(base / "run.json", b"the new one")
    for moment in disk.moments:
        for number, fate in enumerate(fates(moment)):
            left = states / f"{moment.number}-{number}"
            survive(moment.folder, left, fate)
            assert (left / "run.json").read_bytes() in {b"old", b"the new one"}, moment.call
    assert (left / "run.json").read_bytes() == b"the new one"
    survive(disk.moments[-1].folder, states / "lost", Fate(0.0, 0))
    assert (states / "lost" / "run.json").read_bytes() == b"the new one"
    assert len(disk.moments) == 4


def test_a_commit_of_other_work_is_none_of_this(tmp_path: Path) -> None:
    commits = Commits(LocalStorage(tmp_path))
    commits.put(
        STEP,
        "u",
        "one",
        Worker(FolderPlace(tmp_path, tmp_path / "tmp/a")).run(
            Task(STEP, "u", _write_shard, (0, "one"), "one")
        ),
    )
    assert commits.get(STEP, "u", "two") is None
    assert commits.get(STEP, "v", "one") is None
    assert commits.get("other", "u", "one") is None
    assert commits.get(STEP, "u", "one") == dict(commits.all(STEP))["u"]


def test_bytes_that_were_lost_before_a_file_is_published_are_refused(tmp_path: Path) -> None:
    written = tmp_path / "tmp" / "length.npy"
    written.parent.mkdir()
    written.write_bytes(b"whole")
    commit = Commit(
        step=STEP, unit="u", fingerprint="one", files={"length.npy": digest_file(written)}, record={}
    )
    written.write_bytes(b"cut")
    with pytest.raises(DataError, match=r"length\.npy: has 3 bytes, and its worker wrote 5"):
        publish(LocalStorage(tmp_path), written.parent, commit.sealed())
    assert _commits(tmp_path) == {}


def _run(corpus: Path, output: Path, seq_len: int) -> dict[str, str]:
    """Do the run up to the rows, in place of a run of another length if there is one."""
    file = tiny_run(packing={"seq_len": seq_len, "shards": 2})
    request = RunRequest(file, corpus, output, 0, until="draw", replace=True)
    run_session(request, stream=None)
    return digests(output, *FOLDERS)


def test_a_run_cut_at_any_moment_is_finished_by_the_same_command_with_the_same_bytes(
    states: Path,
) -> None:
    corpus, base = states / "corpus", states / "watched"
    write_tiny_corpus(corpus)
    base.mkdir()
    expected, begun = {}, {}
    with LossyDisk(base, every=EVERY, phase=PHASE) as disk:
        for seq_len in (64, 80):
            begun[seq_len] = disk.calls
            expected[seq_len] = _run(corpus, base / "run", seq_len)
    assert min(map(len, expected.values())) > 60
    survived = 0
    for moment in disk.moments:
        seq_len = max(length for length, call in begun.items() if call <= moment.number)
        base = states / f"{moment.number}"
        survive(moment.folder, base, Fate(moment.number % 3 / 2, moment.number))
        root, where = base / "run", f"before {moment.number}: {moment.call}"
        assert list(_torn(root)) == [], where
        before, known = _commits(root), {event.get("attempt") for event in read_log(root)}
        whole = [(step, STEP_COMMIT) in before for step in FLOW]
        assert whole == sorted(whole, reverse=True), f"{where}: a step is there, one before it is not"
        if before:
            assert RunFolder(root).plan.run["name"] == "tiny", where
        with _no_syncs():
            assert _run(corpus, root, seq_len) == expected[seq_len], where
        after = _commits(root)
        events = [event for event in read_log(root) if event["attempt"] not in known]
        again = {(e["step"], e["unit"]) for e in events if e["event"] == "dispatch"}
        assert not {place for place in again & before.keys() if before[place] == after[place]}, where
        survived += len(before)
    assert len(disk.moments) >= (24 if FULL else 6)
    assert survived > (200 if FULL else 50)


def test_more_epochs_on_disk_replace_those_before_and_leave_the_dataset_alone(states: Path) -> None:
    write_tiny_corpus(states / "corpus")
    found = {}
    for name, counts in {"grown": (1, 2), "whole": (2,)}.items():
        for count in counts:
            datasets = [{"name": "mlm", "materialized_epochs": count, "objective": {"kind": "mlm"}}]
            file, output = tiny_run(datasets=datasets), states / name
            request = RunRequest(file, states / "corpus", output, 0, until="draw", replace=True)
            run_session(request, stream=None)
            assert list(_torn(output)) == []
        found[name] = digests(states / name, *FOLDERS)
    assert found["grown"] == found["whole"]
    events = list(read_log(states / "grown"))
    done = Counter(e["step"] for e in events if e["event"] == "step")
    assert {step for step, times in done.items() if times == 2} == {"draw-mlm"}
