"""Runs in a store whose processes are killed, frozen, or started twice: the same bytes.

    store_stops.py WORK --kills 20 --freezes 20 --pairs 50 --servers 2 --late 20 --json F --continue

kill      the run's processes get signal 9 at a drawn moment
freeze    they get SIGSTOP until another run has taken over and ended, and then go on
pair      two runs begin at once
server    the server gets signal 9 at a drawn moment, and is started again
late      the run is killed, another one takes over and ends, and only then does the server get what the
          killed one sent last: an upload of other bytes, or a batch of deletes

Every second trial is a run with --replace, which removes what other settings made. After each trial the
same command is called until it is done, and then `verify`. The objects are those of a run in a folder.
What `verify` names after a freeze or a late request is counted, made again by --replace, and compared.
"""

import argparse
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from trial_lines import Trials, add_trial_options, conduct

from stages.errors import ShardmillError
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.laws.tiny_run import tiny_run, write_tiny_corpus
from tests.material.fault_proxy import FaultProxy, LateRequest
from tests.material.store_server import BUCKET, StoreServer, shared_server
from tests.material.stored_runs import artifacts_of_folder, artifacts_of_store

ROOT = Path(__file__).resolve().parents[1]
PERIOD = 3.0
"""Of the lease, seconds."""
CALLS = 20
SAID = 20_000
"""Characters of what a call said: each changed object may have some lines."""
STOPPED, FAILED = 75, 3
SHORT, LONG = 64, 48
"""`packing.seq_len` of the run, and of the one that it replaces."""
PROGRAM = """
import sys
from pathlib import Path
import pipeline.commands.api as api
from pipeline.run_file.config import RunFile
from pipeline.state import lease
from pipeline.main import main
lease.PERIOD = float(sys.argv[1])
file = RunFile.model_validate_json(Path(sys.argv[2]).read_text())
api._read = lambda run_file, settings: (file, Path.cwd())
sys.argv = ["shardmill", *sys.argv[3:]]
main()
"""


class Trial:
    """A place in the store, and the calls that are made there.

    Args:
        work: folder of corpus, run files and the run in a folder.
        workers: of each call.
    """

    def __init__(self, work: Path, *, workers: int) -> None:
        self.work = work
        self.server: StoreServer = shared_server(work / "server", parent=os.getpid())
        os.environ.update(self.server.environment)
        self.name = f"{uuid.uuid4().hex}/tiny"
        self.store = ObjectStore(StoreUrl("s3", BUCKET, self.name))
        self._workers = workers
        self._calls = 0

    def start(
        self, *, replace: bool, seq_len: int = SHORT, endpoint: str = ""
    ) -> "subprocess.Popen[str]":
        """Begin a run, on a cache of its own, as another machine would; it may ask by a proxy."""
        more = ["--replace"] if replace else []
        arguments = ("--output", self.store.place, "--workers", str(self._workers), "--quiet", *more)
        run = f"run-{seq_len}.json"
        return self._started("run", run, *arguments, file=run, endpoint=endpoint)

    def verify(self) -> tuple[int, str]:
        """Verify the run."""
        arguments = (self.store.place, "--workers", "0", "--quiet")
        return ended(self._started("verify", *arguments, file=f"run-{SHORT}.json"))

    def until_done(self, *, replace: bool) -> tuple[int, int, str]:
        """Call until it is done; return the exit code, the calls and what the last one said."""
        for calls in range(1, CALLS + 1):
            code, said = ended(self.start(replace=replace))
            if code != STOPPED:
                return code, calls, said
        return code, CALLS, said

    def objects(self) -> int:
        """Return how many objects the log has."""
        return sum("state" not in one.key for one in self.store.list("log"))

    def differ(self) -> list[str]:
        """Return the keys whose objects are not the files of the run in a folder."""
        found, wanted = artifacts_of_store(self.store), artifacts_of_folder(self.work / "out")
        return sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))

    def clear(self) -> None:
        """Remove the caches."""
        shutil.rmtree(self.work / "caches", ignore_errors=True)

    def _started(self, *arguments: str, file: str, endpoint: str = "") -> "subprocess.Popen[str]":
        self._calls += 1
        cache = self.work / "caches" / f"{self._calls % 2}"
        return subprocess.Popen(  # noqa: S603  # this program
            [sys.executable, "-c", PROGRAM, str(PERIOD), file, *arguments],
            cwd=self.work,
            env={
                **os.environ,
                **({"AWS_ENDPOINT_URL": endpoint} if endpoint else {}),
                "PYTHONPATH": str(ROOT),
                "SHARDMILL_CACHE": str(cache),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Wait for a call; return its exit code and the end of what it said."""
    said, _ = process.communicate(timeout=600)
    return process.returncode, said[-SAID:]


def prepare(work: Path) -> None:
    """Write corpus and run files, and do the run in a folder."""
    write_tiny_corpus(work / "corpus")
    source = {"name": "s", "paths": ["corpus/*.jsonl"], "language": {"column": "lang"}}
    for seq_len in (SHORT, LONG):
        file = tiny_run(sources=[source], packing={"seq_len": seq_len, "shards": 2})
        (work / f"run-{seq_len}.json").write_text(file.model_dump_json())
    done = subprocess.run(  # noqa: S603  # this program
        [
            *(sys.executable, "-c", PROGRAM, str(PERIOD), f"run-{SHORT}.json", "run"),
            *(f"run-{SHORT}.json", "--output", "out", "--workers", "0", "--quiet"),
        ],
        check=False,
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr


def try_one(kind: str, work: Path, *, seed: int, number: int) -> dict[str, Any]:
    """Do one trial; return what came of it."""
    draws = random.Random(seed * 10_000 + number)  # noqa: S311  # moments, not secrets
    trial = Trial(work, workers=0)
    replace = bool(number % 2)
    result: dict[str, Any] = {"kind": kind, "replace": replace, "wrong": [], "named": 0}
    if replace:
        code, _, said = _first(trial)
        if code:
            result["wrong"].append(f"the run before: {code}: {said}")
    begun = trial.objects()
    process = None if kind == "late" else trial.start(replace=replace)
    if process is None:
        _late(trial, result, draws, replace=replace)
    elif kind == "pair":
        _pair(process, trial.start(replace=replace), result)
    else:
        _wait(trial, process, begun + draws.randrange(1, 14), draws.random() / 4)
        result["log"] = trial.objects() - begun
        if kind == "kill":
            _kill(process)
        elif kind == "server":
            result["served"] = _kill_server(process, work)
        else:
            _freeze(process, trial, result, replace=replace)
    code, result["calls"], said = trial.until_done(replace=False)
    if code:
        result["wrong"].append(f"exit code {code}: {said}")
    _check(trial, result)
    trial.clear()
    return result


def _first(trial: Trial) -> tuple[int, int, str]:
    code, said = ended(trial.start(replace=False, seq_len=LONG))
    return code, 1, said


def _wait(trial: Trial, process: "subprocess.Popen[str]", objects: int, more: float) -> None:
    """Wait until the log has so many objects, or the process ends, and then some."""
    end = time.monotonic() + 120
    while process.poll() is None and trial.objects() < objects and time.monotonic() < end:
        time.sleep(0.005)
    time.sleep(more)


def _kill(process: "subprocess.Popen[str]") -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def _kill_server(process: "subprocess.Popen[str]", work: Path) -> int:
    """Kill the server, and wait for the run; return its exit code, or -1 if it ended before."""
    found = json.loads((work / "server" / "ready.json").read_text())
    if process.poll() is not None:
        return -1
    os.kill(found["process"], signal.SIGKILL)
    return ended(process)[0]


def _freeze(
    process: "subprocess.Popen[str]", trial: Trial, result: dict[str, Any], *, replace: bool
) -> None:
    """Freeze a run until another one has ended in its place, and let it go on."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGSTOP)
    code, calls, said = trial.until_done(replace=replace)
    if code:
        result["wrong"].append(f"the run that took over: {code} after {calls} calls: {said}")
    taken = {one.key: one.tag for one in trial.store.list("")}
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGCONT)
    code, said = ended(process)
    result["frozen"] = code
    if code not in (0, STOPPED):
        result["wrong"].append(f"the frozen run: {code}: {said}")
    _require_named(trial, result, taken)


def _late(trial: Trial, result: dict[str, Any], draws: random.Random, *, replace: bool) -> None:
    """Let what a killed run sent last arrive once another one has ended in its place.

    With --replace that is a batch of deletes, of keys that the other one writes; without, an upload of
    the run that the other one replaces, to a key of both.
    """
    deletes = LateRequest(0, 0.0, verb="delete", number=draws.randrange(1, 4))
    uploads = LateRequest(0, 0.0, verb="put", part="/datasets/", number=draws.randrange(1, 12))
    faults = deletes if replace else uploads
    with FaultProxy(int(trial.server.endpoint.rpartition(":")[2]), faults) as proxy:
        process = trial.start(
            replace=replace, seq_len=SHORT if replace else LONG, endpoint=proxy.endpoint
        )
        while process.poll() is None and not faults.begun.wait(0.05):
            pass
        result["late"] = faults.begun.is_set()
        _kill(process)
        code, calls, said = trial.until_done(replace=True)
        if code:
            result["wrong"].append(f"the run that took over: {code} after {calls} calls: {said}")
        taken = {one.key: one.tag for one in trial.store.list("")}
        faults.let_go.set()
        if result["late"]:
            faults.ended.wait(60)
    _require_named(trial, result, taken)


def _require_named(trial: Trial, result: dict[str, Any], taken: dict[str, str]) -> None:
    """Have `verify` name what has changed since another run took over, and --replace make it again."""
    now = {one.key: one.tag for one in trial.store.list("")}
    changed = [key for key in taken if now.get(key) != taken[key] and not _of_the_session(key)]
    result["changed"] = changed
    code, said = trial.verify()
    result["named"] = sum(key in said for key in changed)
    if changed and (code != FAILED or result["named"] != len(changed)):
        result["wrong"].append(f"{changed} changed, and verify says {code}: {said}")
    if not changed and code:
        result["wrong"].append(f"nothing changed, and verify says {code}: {said}")
    if changed:
        code, _, said = trial.until_done(replace=True)
        if code:
            result["wrong"].append(f"made again: {code}: {said}")


def _pair(one: "subprocess.Popen[str]", other: "subprocess.Popen[str]", result: dict[str, Any]) -> None:
    """Let two runs that began at once come to their ends: one does the work, and one is told so."""
    codes = sorted(ended(process)[0] for process in (one, other))
    result["codes"] = codes
    if codes not in ([0, 0], [0, STOPPED]):
        result["wrong"].append(f"exit codes {codes}")


def _of_the_session(key: str) -> bool:
    name = key.partition("/")[0]
    return name in ("lease.json", "log", "events", "status.json", "metrics.prom", "report", "files") or (
        key.startswith(("verify/", "probe/")) or key == "run.json"
    )


def _check(trial: Trial, result: dict[str, Any]) -> None:
    """Compare the objects, and hold the log to its epochs: they never go back."""
    code, said = trial.verify()
    if code:
        result["wrong"].append(f"verify: {code}: {said}")
    differ = trial.differ()
    if differ:
        result["wrong"].append(f"{len(differ):,} differ: {differ[:5]}")
    try:
        epochs = [
            json.loads(found.data)["epoch"]
            for one in trial.store.list("log")
            if "state" not in one.key and (found := trial.store.get(one.key)) is not None
        ]
    except ShardmillError as error:
        result["wrong"].append(str(error))
        return
    if epochs != sorted(epochs):
        result["wrong"].append(f"epochs are interleaved: {epochs}")
    result["epochs"] = len(set(epochs))


def campaign(
    trials: Trials, *, kills: int, freezes: int, pairs: int, servers: int, late: int, seed: int
) -> int:
    """Do all trials, and print their sums."""
    work = trials.new_folder()
    prepare(work)
    first = (("kill", kills), ("freeze", freezes), ("pair", pairs))
    asked = [*first, ("server", servers), ("late", late)]
    sums: Counter[str] = Counter()
    wrong = []
    for kind, count in asked:
        for number in range(count):
            do = functools.partial(try_one, kind, work, seed=seed, number=number)
            one = trials.trial(f"{kind} {number}", do, failed=lambda one: bool(one["wrong"]))
            sums[kind] += 1
            sums["objects changed after a takeover"] += len(one.get("changed", ()))
            sums["of these named"] += one["named"]
            sums["calls"] += one["calls"]
            sums[f"frozen ended with {one.get('frozen')}"] += "frozen" in one
            sums["requests that came late"] += one.get("late", 0)
            sums[f"server killed: ended with {one.get('served')}"] += "served" in one
            sums[f"codes {one.get('codes')}"] += "codes" in one
            wrong += [f"{kind} {number}: {text}" for text in one["wrong"]]
    print(
        json.dumps(
            {"seed": seed, **{name: n for name, n in sums.items() if n}, "wrong": wrong}, indent=1
        )
    )
    return int(bool(wrong))


def main() -> int:
    """Do the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    counts = {"kills": 20, "freezes": 20, "pairs": 50, "servers": 2, "late": 20}
    for name, count in counts.items():
        parser.add_argument(f"--{name}", type=int, default=count, help=f"[default: {count}]")
    parser.add_argument("--seed", type=int, default=1, help="of the moments [default: 1]")
    add_trial_options(parser)
    given = parser.parse_args()
    chosen = {name: getattr(given, name) for name in (*counts, "seed")}
    return conduct(lambda trials: campaign(trials, **chosen), given, chosen, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
