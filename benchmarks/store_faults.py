"""Runs in a store and its six verbs, through a proxy that injects faults.

    store_faults.py WORK --operations 10000 --runs 100 --seed 1 --json F --continue

Operations are held to a dict of what must be there, runs to one in a folder. An operation may be refused
for now (`Stopped`); then it is asked again. A run that is stopped is run again. Printed are the seed,
requests, faults by kind and verb, and what was wrong: other bytes, tracebacks, dead ends.
"""

import argparse
import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import traceback
import uuid
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from trial_lines import Trials, add_trial_options, conduct

from stages.errors import ShardmillError, Stopped
from stages.stores import bucket
from stages.stores.objects import ObjectStore
from stages.stores.url import StoreUrl
from tests.laws.tiny_run import tiny_run, write_tiny_corpus
from tests.material.fault_proxy import KINDS, VERBS, FaultProxy, Faults, fits
from tests.material.store_server import BUCKET, changed_environment, shared_server
from tests.material.stored_runs import artifacts_of_folder, artifacts_of_store

KEYS = 12
"""Of the objects that operations are about: few, so that they meet."""
HANG = 1.5
TIMEOUT = "1s"
"""Of a request, shorter than the proxy hangs."""
CALLS = 40
"""Of one run, or of one request, after which it counts as a dead end."""
BLOCK = 250
"""Operations of a trial."""
STOPPED = 75


@dataclass
class Outcome:
    """What came out."""

    operations: int = 0
    stopped: int = 0
    wrong: list[str] = field(default_factory=list)
    tracebacks: list[str] = field(default_factory=list)
    dead_ends: list[str] = field(default_factory=list)


def operate(store: ObjectStore, *, count: int, seed: int, outcome: Outcome) -> None:
    """Do drawn operations, and hold what is there to a dict."""
    draws = random.Random(seed)  # noqa: S311  # which operations, not secrets
    there: dict[str, bytes] = {}
    tags: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        for number in range(count):
            verb, key = draws.choice(VERBS), f"k/{draws.randrange(KEYS)}"
            data = f"{number} of {seed} ".encode() * draws.choice((1, 100, 10_000))
            try:
                _one(store, verb, key, data, there=there, tags=tags, file=file, outcome=outcome)
            except ShardmillError as error:
                outcome.dead_ends.append(f"{number} {verb} {key}: {error}")
            except Exception:  # noqa: BLE001  # what is looked for
                outcome.tracebacks.append(f"{number} {verb} {key}: {traceback.format_exc()}")
            outcome.operations += 1


def _one(  # noqa: C901, PLR0913  # a case for each verb
    store: ObjectStore,
    verb: str,
    key: str,
    data: bytes,
    *,
    there: dict[str, bytes],
    tags: dict[str, str],
    file: Path,
    outcome: Outcome,
) -> None:
    match verb:
        case "get":
            found = _until(lambda: store.get(key), outcome)
            if (found and found.data) != there.get(key):
                outcome.wrong.append(f"get {key}")
        case "put":
            file.write_bytes(data)
            tags[key] = _until(lambda: store.put(key, file), outcome)
            there[key] = data
        case "put_new":
            tag = _until(lambda: store.put_new(key, data), outcome)
            if (tag is not None) != (key not in there):
                outcome.wrong.append(f"put_new {key}: {'created' if tag else 'refused'}")
            if tag is not None:
                there[key], tags[key] = data, tag
        case "replace":
            tag = _until(lambda: store.replace(key, data, tags.get(key, '"none"')), outcome)
            if (tag is not None) != (key in there):
                outcome.wrong.append(f"replace {key}: {'done' if tag else 'refused'}")
            if tag is not None:
                there[key], tags[key] = data, tag
        case "list":
            listed = {one.key for one in _until(lambda: list(store.list("k")), outcome)}
            strange = listed - {f"k/{n}" for n in range(KEYS)}
            if strange:  # it may be behind, and no more
                outcome.wrong.append(f"list: {sorted(strange)}")
        case "delete":
            _until(lambda: store.delete([key]), outcome)
            there.pop(key, None)
            tags.pop(key, None)


def _until(ask: Any, outcome: Outcome) -> Any:
    """Ask again as long as the store has no answer now."""
    for _ in range(CALLS):
        try:
            return ask()
        except Stopped:
            outcome.stopped += 1
    raise Stopped(f"{CALLS} times without an answer")


def write_corpus(folder: Path) -> None:
    """Write a corpus, a run file, and the run in a folder."""
    write_tiny_corpus(folder / "corpus")
    source = {"name": "s", "paths": ["corpus/*.jsonl"], "language": {"column": "lang"}}
    (folder / "run.json").write_text(tiny_run(sources=[source]).model_dump_json())
    code, said = _run(folder, "out", environment={}, cache="none")
    assert not code, said


def do_run(folder: Path, environment: dict[str, str], direct: dict[str, str], outcome: Outcome) -> None:
    """Do a tiny run in a store until it is whole, and compare it with the one in a folder.

    Args:
        folder: of corpus, run file and the other run.
        environment: of the run, which leads to the proxy.
        direct: leads to the server.
        outcome: filled.
    """
    name = f"{uuid.uuid4().hex}/tiny"
    code, calls, said = STOPPED, 0, ""
    while code == STOPPED and calls < CALLS:
        code, said = _run(folder, f"s3://{BUCKET}/{name}", environment=environment, cache=name)
        calls += 1
    outcome.operations, outcome.stopped = 1, calls - 1
    if "Traceback" in said or "unexpected error" in said:
        outcome.tracebacks.append(said)
    elif code:
        outcome.dead_ends.append(f"exit code {code} after {calls} calls: {said}")
    with changed_environment(direct):
        found = artifacts_of_store(ObjectStore(StoreUrl("s3", BUCKET, name)))
    wanted = artifacts_of_folder(folder / "out")
    differ = sorted(key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key))
    if differ:
        outcome.wrong.append(f"{len(differ):,} of {len(wanted):,} files: {differ[:5]}")
    shutil.rmtree(folder / name.partition("/")[0], ignore_errors=True)


def _run(folder: Path, output: str, *, environment: dict[str, str], cache: str) -> tuple[int, str]:
    code = (
        "import sys; from pipeline.run_file.config import RunFile; from pathlib import Path\n"
        "from stages.stores import bucket; from pipeline.state import lease\n"
        f"bucket.TIMEOUT = {TIMEOUT!r}; lease.PERIOD = 6.0\n"
        "from pipeline.main import main\n"
        "import pipeline.commands.api as api\n"
        "file = RunFile.model_validate_json(Path('run.json').read_text())\n"
        "api._read = lambda run_file, settings: (file, Path.cwd())\n"
        f"sys.argv = ['shardmill', 'run', 'run.json', '--output', {output!r}]\n"
        "sys.argv += ['--workers', '0', '--quiet']\n"
        "main()\n"
    )
    done = subprocess.run(  # noqa: S603  # this program
        [sys.executable, "-c", code],
        check=False,
        cwd=folder,
        env={
            **os.environ,
            **environment,
            "SHARDMILL_CACHE": str(folder / cache),
            "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stderr[-2_000:]


def try_operations(work: Path, *, seed: int, rate: float) -> dict[str, Any]:
    """Do a block of operations through the proxy."""
    outcome, faults = Outcome(), Faults(seed, rate, HANG)
    server = shared_server(work / "server", parent=os.getpid())
    with FaultProxy(int(server.endpoint.rpartition(":")[2]), faults) as proxy:
        bucket.TIMEOUT = TIMEOUT
        with changed_environment({**server.environment, "AWS_ENDPOINT_URL": proxy.endpoint}):
            store = ObjectStore(StoreUrl("s3", BUCKET, uuid.uuid4().hex))
            operate(store, count=BLOCK, seed=seed, outcome=outcome)
    return result_of(outcome, faults)


def try_run(work: Path, *, seed: int, rate: float) -> dict[str, Any]:
    """Do one run through the proxy, until it is whole."""
    outcome, faults = Outcome(), Faults(seed, rate, HANG)
    server = shared_server(work / "server", parent=os.getpid())
    if not (work / "corpus").exists():
        write_corpus(work)
    with FaultProxy(int(server.endpoint.rpartition(":")[2]), faults) as proxy:
        environment = {**server.environment, "AWS_ENDPOINT_URL": proxy.endpoint}
        do_run(work, environment, server.environment, outcome)
    return result_of(outcome, faults)


def result_of(outcome: Outcome, faults: Faults) -> dict[str, Any]:
    """Return what a trial did, for its line."""
    return {
        **asdict(outcome),
        "requests": dict(faults.requests),
        "faults": {f"{kind} {verb}": n for (kind, verb), n in sorted(faults.done.items())},
    }


def campaign(trials: Trials, *, operations: int, runs: int, seed: int, rate: float) -> dict[str, Any]:
    """Do all trials; return their sums."""
    work = trials.new_folder()
    blocks = -(-operations // BLOCK)
    asked = [("operations", try_operations, n) for n in range(blocks)]
    asked += [("run", try_run, n) for n in range(runs)]
    total: dict[str, Any] = {"seed": seed, "rate": rate, "operations": 0, "runs": 0, "stopped": 0}
    counts: Counter[str] = Counter()
    requests: Counter[str] = Counter()
    found: dict[str, list[str]] = {"wrong": [], "tracebacks": [], "dead_ends": []}
    for kind, do, number in asked:
        own = functools.partial(do, work, seed=seed * 100_000 + number, rate=rate)
        result = trials.trial(f"{kind} {number}", own, failed=lambda one: any(map(one.get, found)))
        total["runs" if kind == "run" else "operations"] += result["operations"]
        total["stopped"] += result["stopped"]
        counts.update(result["faults"])
        requests.update(result["requests"])
        for name, texts in found.items():
            texts += [f"{kind} {number}: {text}" for text in result[name]]
    there = [f"{kind} {verb}" for kind in KINDS for verb in VERBS if fits(kind, verb)]
    return {
        **total,
        "requests": dict(requests),
        "faults": {name: counts[name] for name in there},
        "least": min(counts[name] for name in there),
        **{name: texts[:20] for name, texts in found.items()},
    }


def tell(total: dict[str, Any]) -> int:
    """Print the sums; return the exit code."""
    print(json.dumps(total, indent=1))
    return int(any(total[name] for name in ("wrong", "tracebacks", "dead_ends")))


def main() -> int:
    """Do the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder")
    parser.add_argument("--operations", type=int, default=10_000, help="[default: 10000]")
    parser.add_argument("--runs", type=int, default=100, help="[default: 100]")
    parser.add_argument("--seed", type=int, default=1, help="of the draws [default: 1]")
    parser.add_argument(
        "--rate", type=float, default=0.2, help="of requests with a fault [default: 0.2]"
    )
    add_trial_options(parser)
    given = parser.parse_args()
    chosen = {name: getattr(given, name) for name in ("operations", "runs", "seed", "rate")}
    return conduct(
        lambda trials: tell(campaign(trials, **chosen)), given, chosen, work=given.work.resolve()
    )


if __name__ == "__main__":
    sys.exit(main())
