"""Runs on a cluster whose nodes are killed, hang, join late, or cannot do the work.

    node_runs.py WORK --json F --continue

plain     three nodes, nothing happens
kill-N    a node that is not the driver's is killed with all its processes, at N moments over the run
store     three nodes without a shared disk, the output in a store
raylet    the driver's own raylet is killed: the run stops, Ray is started anew, the run is resumed
gcs       likewise, Ray's control service
hang-S    a node hangs for S seconds: 30, of which Ray takes no note, and 120, after which it is gone
added     a node joins at a third of the run
refused   five nodes of which each lacks something: the run leaves them out by name, and ends well
only-X    the only node with cores lacks X: the run ends with exit code 2, and names it

The nodes are on this machine, each with an address, a host name, processes and mounts of its own
(`node_machines`). Each run must have the bytes of one in a single process.
"""

import argparse
import json
import os
import shutil
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from digests import file_digests
from node_machines import HEAD, ROOT, Machine, hidden, ray_machines, read_only, replaced
from node_trials import (
    LEARNING,
    JoinedRun,
    Record,
    Setting,
    count_commits,
    hosts_of_commits,
    run_in_one_process,
)
from trial_lines import STOPPED, Trials, add_trial_options, conduct

from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.material.store_server import BUCKET, changed_environment, shared_server
from tests.material.stored_runs import artifacts_of_store

KILLS = 20
PAUSE_SECONDS = 40.0
"""Longest time without a commit after a node was killed."""
STOP_SECONDS = 60.0
"""Longest time from the loss of the driver's Ray to the end of the run."""
DEATH_SECONDS = 60.0
"""A node that hangs for less must not be taken for lost, and one that hangs for twice as long must."""
_ZOMBIE_SECONDS = 10.0
"""How long a node that woke is let alone before bytes are compared."""
JOINED_SHARE = 0.15
"""Least part of the tasks that are left which a third node does."""
_INPUTS = ROOT / "examples" / "corpus" / "code"
_THREE = (Machine(HEAD), Machine("n2"), Machine("n3"))


def plain(setting: Setting, work: Path) -> Record:
    """Have three nodes to which nothing happens."""
    with ray_machines() as machines:
        machines.start(_THREE[0])
        machines.start(*_THREE[1:])
        run = JoinedRun(machines, work / "out", work / "said")
        return {"wrong": setting.judge(run), "commits": run.commits()}


def killed(setting: Setting, work: Path, *, share: float) -> Record:
    """Kill a node once a share of the units is committed."""
    with ray_machines() as machines:
        machines.start(_THREE[0])
        machines.start(*_THREE[1:])
        run = JoinedRun(machines, work / "out", work / "said")
        run.wait(lambda: run.commits() >= share * setting.commits)
        at = run.commits()
        processes = machines.kill("n3")
        pause = run.longest_pause()
        wrong = setting.judge(run)
        if pause > PAUSE_SECONDS:
            wrong.append(f"no commit for {pause:.0f} s")
        return {"wrong": wrong, "at": at, "processes": processes, "pause": round(pause, 1)}


def in_a_store(setting: Setting, work: Path) -> Record:
    """Have three nodes that share no disk, and the output in a store."""
    server = shared_server(work / "server", parent=os.getpid())
    try:
        for name in (HEAD, "n2", "n3"):
            (work / "shared" / name).mkdir(parents=True)
        hide = (hidden(work / "shared"),)
        caches = {
            name: {"SHARDMILL_CACHE": str(work / "shared" / name / "cache")}
            for name in (HEAD, "n2", "n3")
        }
        with ray_machines({**server.environment, **caches[HEAD]}) as machines:
            machines.start(Machine(HEAD))
            machines.start(*(Machine(n, mounts=hide, environment=caches[n]) for n in ("n2", "n3")))
            url = f"s3://{BUCKET}/{uuid.uuid4().hex}/run"
            run = JoinedRun(machines, url, work / "said")
            code = run.code()
            brought = {n: len(machines.files_seen(n, work / "shared")) for n in ("n2", "n3")}
        with changed_environment(server.environment):
            found = artifacts_of_store(ObjectStore(StoreUrl.parse(url, key="url")))
        wrong = [f"exit code {code}: {run.said()[-800:]}"] if code else []
        for path, digest in setting.reference.items():
            if found.get(path) != digest:
                wrong.append(f"{path} differs")
        wrong += [f"{name} did nothing" for name, files in brought.items() if not files]
        return {"wrong": wrong[:9], "files": len(found), "brought": brought}
    finally:
        os.kill(server.process, signal.SIGKILL)


def driver_lost(setting: Setting, work: Path, *, daemon: str) -> Record:
    """Kill a daemon of Ray on the driver's node; start Ray anew, and resume the run."""
    with ray_machines() as machines:
        machines.start(_THREE[0])
        machines.start(*_THREE[1:])
        run = JoinedRun(machines, work / "out", work / "said")
        run.wait(lambda: run.commits() >= setting.commits / 3)
        os.kill(machines.daemon(HEAD, daemon), signal.SIGKILL)
        began = time.monotonic()
        code = run.code()
        took, at = time.monotonic() - began, run.commits()
        wrong = [] if code == STOPPED else [f"exit code {code}, not 75: {run.said()[-800:]}"]
        status = machines.call(["-m", "pipeline.main", "status", str(run.output)], work / "status")
        if status.wait() or "stopped" not in (work / "status").read_text(encoding="utf-8"):
            wrong.append(f"status: {(work / 'status').read_text(encoding='utf-8')[:400]}")
    if took > STOP_SECONDS:
        wrong.append(f"stopped after {took:.0f} s")
    with ray_machines() as machines:
        machines.start(_THREE[0])
        machines.start(*_THREE[1:])
        again = JoinedRun(machines, work / "out", work / "said-again")
        wrong += setting.judge(again)
    return {"wrong": wrong, "at": at, "stopped_after": round(took, 1), "code": code}


def hanging(setting: Setting, work: Path, *, seconds: float) -> Record:
    """Let a node hang for a while; if the run ends meanwhile, it wakes afterwards."""
    with ray_machines() as machines:
        machines.start(_THREE[0])
        machines.start(*_THREE[1:])
        run = JoinedRun(machines, work / "out", work / "said")
        run.wait(lambda: run.commits() >= setting.commits / 3)
        machines.stop("n3")
        began = time.monotonic()
        run.wait(lambda: time.monotonic() > began + seconds)
        at, ended = run.commits(), run.ended
        time.sleep(max(0.0, began + seconds - time.monotonic()))
        machines.wake("n3")
        wrong = setting.judge(run)
        is_gone = "node n3 is gone" in run.said()
        if is_gone != (seconds > DEATH_SECONDS):
            wrong.append(f"n3 is {'' if is_gone else 'not '}gone")
        time.sleep(_ZOMBIE_SECONDS)
        wrong += setting.differing(Path(run.output))
        return {"wrong": wrong, "commits_when_it_woke": at, "ended_before": ended, "gone": is_gone}


def added(setting: Setting, work: Path) -> Record:
    """Let a node join at a third of the run."""
    with ray_machines() as machines:
        machines.start(_THREE[0])
        machines.start(_THREE[1])
        run = JoinedRun(machines, work / "out", work / "said")
        run.wait(lambda: run.commits() >= setting.commits / 3)
        at = run.commits()
        machines.start(_THREE[2])
        wrong = setting.judge(run)
    hosts = Counter(hosts_of_commits(Path(run.output))[at:])
    share = hosts["n3"] / max(1, hosts.total())
    if share < JOINED_SHARE:
        wrong.append(f"n3 did {share:.0%} of the tasks that were left")
    return {"wrong": wrong, "at": at, "hosts": dict(hosts), "share": round(share, 3)}


@dataclass(frozen=True)
class Lack:
    """What a node lacks."""

    words: str
    """In the warning."""
    mounts: Callable[[Path], tuple[str, ...]] = lambda _: ()
    """Of a trial's folder."""
    watched: Callable[[Path], Path | None] = lambda _: None
    """The folder of the trial, or of the inputs, that must stay as the node has it."""

    def machine(self, name: str, work: Path, code: Path = ROOT) -> Machine:
        """Return a node that lacks it."""
        return Machine(
            name,
            mounts=self.mounts(work),
            code=code,
            environment={"PYTHONDONTWRITEBYTECODE": "1"},
        )


LACKS = {
    "folder": Lack(
        "it does not see what the driver writes in",
        lambda work: (hidden(work / "shared"),),
        lambda work: work / "shared",
    ),
    "rights": Lack("it cannot write to", lambda work: (read_only(work / "shared"),)),
    "mount": Lack(
        "it does not see what the driver writes in",
        lambda work: (replaced(work / "shared", work / "earlier"),),
        lambda work: work / "shared",
    ),
    "input": Lack(
        f"it cannot read the input {_INPUTS}", lambda _: (hidden(_INPUTS),), lambda _: _INPUTS
    ),
    "code": Lack("it runs other code than the driver", watched=lambda work: work / "code"),
}
"""By what a node lacks."""


def _prepare(work: Path) -> None:
    """Make the folder that nodes share, an earlier one, and other code."""
    (work / "shared").mkdir(parents=True)
    (work / "earlier" / "out").mkdir(parents=True)
    (work / "earlier" / "out" / "log.jsonl").write_text("{}\n", encoding="utf-8")
    for package in ("pipeline", "stages"):
        unread = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, work / "code" / package, ignore=unread)
    with (work / "code" / "pipeline" / "engine" / "actors.py").open("a", encoding="utf-8") as file:
        file.write("# changed\n")


def _try_lacks(work: Path, run_on: Machine, lacks: dict[str, Lack]) -> tuple[JoinedRun, list[str]]:
    """Run on a head and on nodes that lack something; return the run, at its end, and what is wrong."""
    _prepare(work)
    nodes = {f"n{number}": (what, lack) for number, (what, lack) in enumerate(lacks.items(), start=2)}
    with ray_machines() as machines:
        machines.start(run_on)
        machines.start(
            *(
                lack.machine(name, work, work / "code" if what == "code" else ROOT)
                for name, (what, lack) in nodes.items()
            )
        )
        watched = {name: lack.watched(work) for name, (_, lack) in nodes.items()}
        look = {name: folder for name, folder in watched.items() if folder is not None}
        before = {name: machines.files_seen(name, folder) for name, folder in look.items()}
        run = JoinedRun(machines, work / "shared" / "out", work / "said", LEARNING)
        run.wait()
        after = {name: machines.files_seen(name, folder) for name, folder in look.items()}
    wrong = [f"{name}: {look[name]} changed" for name in look if before[name] != after[name]]
    for name, (what, lack) in nodes.items():
        told = [line for line in run.said().splitlines() if f"node {name} is left out: " in line]
        if len(told) != 1 or lack.words not in told[0]:
            wrong.append(f"{name}, which lacks {what}: told {told}")
    return run, wrong


def refused(setting: Setting, work: Path) -> Record:
    """Have nodes that lack something, and the head, which does all the work."""
    run, wrong = _try_lacks(work, Machine(HEAD), LACKS)
    return {"wrong": wrong + setting.judge(run)}


def refused_alone(setting: Setting, work: Path, *, what: str) -> Record:
    """Have one node with cores, which lacks something."""
    run, wrong = _try_lacks(work, Machine(HEAD, cores=0), {what: LACKS[what]})
    return {"wrong": wrong + setting.judge(run, 2)}


Trial = Callable[[Setting, Path], Record]


def trials_of(kills: int) -> dict[str, Trial]:
    """Return the trials by name."""
    moments = {f"kill-{n + 1}": partial(killed, share=(n + 0.5) / kills) for n in range(kills)}
    alone = {f"only-{what}": partial(refused_alone, what=what) for what in LACKS}
    daemons = {"raylet": "raylet", "gcs": "gcs_server"}
    return {
        "plain": plain,
        "store": in_a_store,
        **moments,
        **{name: partial(driver_lost, daemon=daemon) for name, daemon in daemons.items()},
        **{f"hang-{seconds}": partial(hanging, seconds=seconds) for seconds in (30, 120)},
        "added": added,
        "refused": refused,
        **alone,
    }


def try_one(do: Trial, setting: Setting, name: str) -> Record:
    """Do a trial in a folder of its own, which goes if nothing was wrong."""
    work = setting.work / name
    work.mkdir()
    result = do(setting, work)
    if not result["wrong"]:
        shutil.rmtree(work)
    print(f"{name}: {json.dumps(result)}", flush=True)
    return result


def campaign(trials: Trials, *, names: list[str], kills: int) -> int:
    """Do all trials, and print what came of them."""
    work = trials.new_folder()
    chosen = {
        name: do
        for name, do in trials_of(kills).items()
        if not names or any(name == one or name.startswith(f"{one}-") for one in names)
    }
    if any(name not in trials.lines for name in chosen):
        reference = work / "one-process"
        run_in_one_process(reference)
        setting = Setting(work, file_digests(reference), count_commits(reference))
        for name, do in chosen.items():
            trials.trial(
                name, partial(try_one, do, setting, name), failed=lambda one: bool(one["wrong"])
            )
    results = {name: trials.lines[name].result for name in chosen}
    print(json.dumps(results, indent=1))
    return int(any(one["wrong"] for one in results.values()))


def main() -> int:
    """Do the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    told = "names or their beginnings, such as kill [default: all]"
    parser.add_argument("--trials", nargs="+", default=[], metavar="NAME", help=told)
    parser.add_argument("--kills", type=int, default=KILLS, metavar="N", help=f"[default: {KILLS}]")
    add_trial_options(parser)
    given = parser.parse_args()
    chosen = {"names": given.trials, "kills": given.kills}
    return conduct(lambda trials: campaign(trials, **chosen), given, chosen, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
