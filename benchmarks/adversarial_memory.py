"""Memory on inputs that are made to break its bound, measured from outside.

    adversarial_memory.py WORK [--inputs NAME ...] [--workers 0 ...] [--memory 1GiB ...] [--until STEP]
                               [--other-node]

Each input is run with each number of workers and each bound. The memory of all its processes is sampled;
of a run that is refused the advice is followed, as often as there is one, and the run must come to its
end within what it asked for. (That a model learns nothing from such texts is no matter here: a run that
fails its learning check, exit code 3, has come to its end.) The exit code is 1 if memory went over a
bound or an advice led nowhere. A trial is one input with one number of workers and one bound.

With --other-node, all workers are on a node of Ray that is not the driver's, though on this machine.
Then the memory of that node alone is sampled, with Ray's processes there.
"""

import argparse
import json
import re
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from process_memory import MemorySampler
from pydantic import ByteSize, TypeAdapter
from run_processes import (
    RunProcess,
    launched,
    new_marker,
    process_tree,
    run_processes,
    wait_until_gone,
)
from trial_lines import Trials, add_trial_options, conduct

from tests.material.adversarial_inputs import ADVERSARIES, Adversary
from tests.material.two_nodes import AUTHENTICATION, TwoNodes, two_nodes

CORPUS = Path(__file__).resolve().parents[1] / "examples" / "corpus" / "text"
PERIOD = 0.05
"""Seconds between two samples."""
MAX_ADVICE = 3
_ENDS = (0, 3)
_MEMORY = re.compile(r"set it to (\d+MiB) or more")
_SAMPLE = re.compile(r"set (tokenizer\.train\.sample_size) to (\d+MiB) or less")
_SIZE: TypeAdapter[ByteSize] = TypeAdapter(ByteSize)


@dataclass
class Attempt:
    """One call of the program."""

    memory: str
    peak: int
    exit_code: int
    seconds: float
    step: str
    message: str

    @property
    def over(self) -> bool:
        """Whether it held more than it was given."""
        return self.peak > _SIZE.validate_python(self.memory)


@dataclass
class Case:
    """One input, one number of workers, one bound."""

    name: str
    workers: int
    memory: str
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def over(self) -> bool:
        """Whether any attempt was over its bound."""
        return any(attempt.over for attempt in self.attempts)

    @property
    def dead_end(self) -> bool:
        """Whether it never ended well."""
        return self.attempts[-1].exit_code not in _ENDS


def run_file(adversary: Adversary, folder: Path, until: str) -> Path:
    """Write the run of an input, beside a small ordinary corpus; give its path."""
    sources = [
        {"name": "ordinary", "paths": [f"{CORPUS}/*.jsonl.gz"], "language": {"column": "lang"}},
        {"name": "adversary", "paths": [f"{folder / 'input'}/**/*.*"], **adversary.source},
    ]
    learning = {"labelled_tokens": 20_000, "min_labelled_tokens": 64, "min_heldout_tokens": 16}
    content = {
        "sources": sources,
        "ingest": {"max_bad_fraction": 0.9},
        "tokenizer": {"train": {"vocab_size": 2_000}},
        "datasets": [{"name": "clm"}],
        "verify": learning,
    }
    path = folder / f"{until}.toml"
    path.write_text("\n".join(_toml(key, value) for key, value in content.items()) + "\n")
    return path


def _toml(key: str, value: object) -> str:
    """Return one key of a run file; JSON's strings, numbers and lists are TOML's."""
    return f"{key} = {_inline(value)}"


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name} = {_inline(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


@dataclass(frozen=True)
class Where:
    """Whose processes are sampled, and where the workers are."""

    nodes: TwoNodes | None = None
    """A cluster; None if the run starts its own Ray."""

    def command(self, *words: str) -> list[str]:
        """Return the command of a call of the program."""
        command = [sys.executable, "-m", "pipeline.main", *words]
        if self.nodes is None:
            return command
        return ["env", f"{AUTHENTICATION}=disabled", *command, "--address", self.nodes.address]

    def processes(self, marker: str) -> list[RunProcess]:
        """Return those to sample: the run's, or all of the node that is not the driver's."""
        return run_processes(marker) if self.nodes is None else process_tree(self.nodes.raylet)


HERE = Where()


def attempt(
    run: Path,
    output: Path,
    *,
    workers: int,
    memory: str,
    until: str,
    settings: Sequence[str],
    where: Where,
) -> Attempt:
    """Run once and sample the memory of its processes."""
    marker, log = new_marker(), output.with_suffix(".log")
    log.unlink(missing_ok=True)
    words = where.command("run", str(run), "--output", str(output))
    words += ["--workers", str(workers), "--set", f"resources.memory={memory}"]
    words += [word for setting in settings for word in ("--set", setting)]
    words += ["--replace"] if settings else []
    words += [] if until == "verify" else ["--until", until]
    began = time.monotonic()
    with launched(words, marker, log=log) as process:
        sampler = MemorySampler(
            lambda: where.processes(marker), output, period=PERIOD, driver=process.pid
        )
        sampler.start()
        exit_code = process.wait()
    seconds = time.monotonic() - began
    wait_until_gone(marker, timeout=30)
    sampler.stop()
    said = [line for line in log.read_text().splitlines() if line.startswith("shardmill:")]
    peaks = sampler.peaks
    return Attempt(memory, peaks.peak, exit_code, round(seconds, 1), peaks.peak_step, "".join(said[-1:]))


def run_case(
    adversary: Adversary,
    folder: Path,
    *,
    workers: int,
    memory: str,
    until: str,
    keep: bool = False,
    where: Where = HERE,
) -> Case:
    """Run an input within a bound, and follow the advice that comes; what it made is kept if asked."""
    case, output = Case(adversary.name, workers, memory), folder / "output"
    shutil.rmtree(output, ignore_errors=True)
    settings: list[str] = []
    run = run_file(adversary, folder, until)
    while len(case.attempts) <= MAX_ADVICE:
        case.attempts.append(
            attempt(
                run,
                output,
                workers=workers,
                memory=memory,
                until=until,
                settings=settings,
                where=where,
            )
        )
        message = case.attempts[-1].message
        if sample := _SAMPLE.search(message):
            settings = [f"{sample[1]}={sample[2]}"]
        elif more := _MEMORY.search(message):
            memory = more[1]
        else:
            break
    if not keep:
        shutil.rmtree(output, ignore_errors=True)
    return case


def show(case: Case) -> None:
    """Print a case, a line an attempt."""
    for number, one in enumerate(case.attempts):
        name = f"{case.name:<12} {case.workers}" if not number else f"{'  advice followed':<14}"
        over = "OVER" if one.over else "    "
        bound = _SIZE.validate_python(one.memory) / 2**20
        print(
            f"{name:<16} {one.peak / 2**20:>7,.0f} of {bound:>6,.0f} MiB {over} {one.step:<12}"
            f" exit {one.exit_code:>3} {one.seconds:>6.1f} s  {one.message[:300]}",
            flush=True,
        )


def tried(
    adversary: Adversary, work: Path, workers: int, memory: str, given: argparse.Namespace
) -> dict[str, Any]:
    """Do a case, over the input that is written when it is first needed; return what came of it."""
    folder = work / adversary.name
    if not (folder / "input").exists():
        (folder / "input").mkdir(parents=True)
        adversary.write(folder / "input", given.scale)
    with ExitStack() as stack:
        where = Where(stack.enter_context(two_nodes(workers))) if given.other_node else HERE
        case = run_case(
            adversary, folder, workers=workers, memory=memory, until=given.until, where=where
        )
    return asdict(case)


def campaign(trials: Trials, given: argparse.Namespace) -> int:
    """Do the campaign and print what came of it."""
    work, cases = cache(trials.new_folder), []
    chosen = [adversary for adversary in ADVERSARIES if adversary.name in given.inputs]
    for adversary, workers, memory in product(chosen, given.workers, given.memory):

        def do(
            of: Adversary = adversary, workers: int = workers, memory: str = memory
        ) -> dict[str, Any]:
            return tried(of, work(), workers, memory, given)

        key = f"{adversary.name}, {workers} workers, {memory}"
        cases.append(_case_of(trials.trial(key, do, failed=lambda one: _failed(_case_of(one)))))
        show(cases[-1])
    over, dead = sum(case.over for case in cases), sum(case.dead_end for case in cases)
    advised = [case for case in cases if len(case.attempts) > 1]
    true = sum(not case.dead_end for case in advised)
    print(
        f"{len(cases)} cases: over the bound {over}, dead ends {dead}, refusals whose advice led to the"
        f" end {true} of {len(advised)}"
    )
    return int(any(map(_failed, cases)))


def _case_of(result: dict[str, Any]) -> Case:
    return Case(**{**result, "attempts": [Attempt(**one) for one in result["attempts"]]})


def _failed(case: Case) -> bool:
    return case.over or case.dead_end


def main() -> int:
    """Run the campaign."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    names = [adversary.name for adversary in ADVERSARIES]
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder, for inputs and outputs")
    parser.add_argument("--inputs", nargs="+", default=names, choices=names, metavar="NAME")
    parser.add_argument("--workers", nargs="+", type=int, default=[0, 1, 2, 4])
    parser.add_argument("--memory", nargs="+", default=["1GiB", "2GiB"])
    parser.add_argument("--until", default="verify", help="the last step (default: all)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the inputs' sizes")
    parser.add_argument(
        "--other-node", action="store_true", help="on a node of a cluster that is not the driver's"
    )
    add_trial_options(parser)
    given = parser.parse_args()
    if given.other_node and 0 in given.workers:
        parser.error("--other-node: workers are on that node, so --workers must be 1 or more")
    names = ["inputs", "workers", "memory", "until", "scale", "other_node"]
    settings = {name: getattr(given, name) for name in names}
    return conduct(lambda trials: campaign(trials, given), given, settings, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
