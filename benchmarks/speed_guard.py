"""The speed guard: fails if one of the hottest paths became much slower than it was when recorded.

    python benchmarks/speed_guard.py                    every path; exit code 1 if one is too slow
    python benchmarks/speed_guard.py --paths mask fim   these alone
    python benchmarks/speed_guard.py --record           record what is measured now

What counts is CPU time of this process, never time on the wall. A path is divided by a reference: fixed
work of numpy, zstd and plain Python, done before and after each path, so that the speed of the machine
cancels. The ratio is the median over rounds in which the paths take turns. speed_guard.json holds the
recorded ratios of each kind of CPU, because caches and vector units change some paths three times more
than others. On a CPU without records the slowest record of each path counts, and more is allowed. Paths
in doubt are measured again with more rounds.
"""

import argparse
import ctypes
import gc
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numba
import numpy as np
import zstandard
from guard_material import GuardMaterial
from guarded_paths import PATHS, Call
from llvmlite.binding import get_host_cpu_name

RECORDS = Path(__file__).with_suffix(".json")
FACTOR = 1.75
"""A path fails if its ratio is more than this many times the recorded one."""
FACTOR_ELSEWHERE = 3.0
"""The same on a kind of CPU that has no records, against the slowest of the others' records."""
TURN_SECONDS = 0.005
"""CPU time of a turn, of a path as of the reference: shorter ones are repeated."""
ROUNDS, MORE_ROUNDS = 11, 25
DOUBT = 1.5
"""A path whose ratio is this many times the recorded one, or so many times less, is measured again."""
_COMMAND = "python benchmarks/speed_guard.py"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of mallopt."""
_LARGE = 32 << 20
"""The most that mallopt takes as a threshold, and more than any path allocates."""
Clock = Callable[[], float]


class Reference:
    """The work that paths are divided by: a third numpy, a third zstd, a third plain Python."""

    def __init__(self) -> None:
        generator = np.random.default_rng(1)
        self._numbers = generator.integers(0, 1 << 63, 40_000, np.uint64)
        self._places = generator.integers(0, len(self._numbers), 200_000)
        words = [f"word{number % 977} " for number in generator.integers(0, 5_000, 12_000).tolist()]
        self._text = "".join(words)
        self._bytes = self._text.encode() * 3

    def __call__(self) -> None:
        """Do the work once: about as much CPU time as a turn."""
        for _ in range(2):
            np.sort(self._numbers)
            np.cumsum(self._numbers[self._places] * self._numbers[0])
        zstandard.ZstdCompressor(level=3).compress(self._bytes)
        counts: dict[str, int] = {}
        for word in self._text.split():
            counts[word] = counts.get(word, 0) + len(word)


@dataclass(frozen=True)
class Measured:
    """One path beside its record."""

    path: str
    ratio: float
    recorded: float
    bound: float = FACTOR

    @property
    def factor(self) -> float:
        """How many times slower it is than recorded."""
        return self.ratio / self.recorded

    @property
    def slow(self) -> bool:
        """Whether the guard fails."""
        return self.factor > self.bound

    @property
    def fast(self) -> bool:
        """Whether its record guards nothing any more."""
        return self.factor < 1 / self.bound

    @property
    def in_doubt(self) -> bool:
        """Whether it is measured again."""
        return not 1 / DOUBT <= self.factor <= DOUBT


@dataclass(frozen=True)
class SpeedRecords:
    """Ratios by path, and the versions that they were measured with."""

    versions: Mapping[str, str]
    ratios: Mapping[str, float]


def cpu_name() -> str:
    """Return the kind of this machine's CPU, as the compiler names it."""
    return str(get_host_cpu_name())


def versions() -> dict[str, str]:
    """Return what ratios depend on most, beside the CPU."""
    return {"python": platform.python_version(), "numpy": np.__version__, "numba": numba.__version__}


def read_records(path: Path) -> dict[str, SpeedRecords]:
    """Return the records of a file by kind of CPU; none if there is no file."""
    if not path.exists():
        return {}
    return {
        cpu: SpeedRecords(**one) for cpu, one in json.loads(path.read_text(encoding="utf-8")).items()
    }


def write_records(path: Path, records: Mapping[str, SpeedRecords]) -> None:
    """Write the records of the guarded paths, ratios in four digits."""
    content = {}
    for cpu, one in sorted(records.items()):
        ratios = {name: float(f"{one.ratios[name]:.4g}") for name in PATHS if name in one.ratios}
        content[cpu] = {"versions": one.versions, "ratios": ratios}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def expected(records: Mapping[str, SpeedRecords], cpu: str) -> tuple[dict[str, float], dict[str, float]]:
    """Return the ratio of each recorded path on a kind of CPU, and how many times slower it may be.

    A path without a record there has the largest ratio of the other kinds, and may be slower.
    """
    ratios: dict[str, float] = {}
    for one in records.values():
        for name, ratio in one.ratios.items():
            ratios[name] = max(ratio, ratios.get(name, 0.0))
    here = records[cpu].ratios if cpu in records else {}
    bounds = {name: FACTOR if name in here else FACTOR_ELSEWHERE for name in ratios}
    return {**ratios, **here}, bounds


def record_faults(paths: Iterable[str], recorded: Iterable[str]) -> list[str]:
    """Say which paths have no record, and which records have no path."""
    known, held = set(paths), set(recorded)
    return [
        *(f"{name}: no record; add it with --record --paths {name}" for name in sorted(known - held)),
        *(f"{name}: recorded, but no path; remove it with --record" for name in sorted(held - known)),
    ]


def guard(
    calls: Mapping[str, Call],
    recorded: Mapping[str, float],
    *,
    bounds: Mapping[str, float] | None = None,
    reference: Call | None = None,
    clock: Clock = time.process_time,
) -> list[Measured]:
    """Measure each call, again with more rounds where the first figure is in doubt.

    Args:
        calls: what is timed, by name.
        recorded: the ratio of each.
        bounds: how many times slower each may be; None: FACTOR.
        reference: the fixed work; None: that of the records.
        clock: seconds of CPU time.
    """

    def beside_records() -> list[Measured]:
        bound = bounds or dict.fromkeys(recorded, FACTOR)
        return [Measured(name, ratio, recorded[name], bound[name]) for name, ratio in ratios.items()]

    ratios = measure(calls, rounds=ROUNDS, reference=reference, clock=clock)
    doubted = {one.path: calls[one.path] for one in beside_records() if one.in_doubt}
    if doubted:
        ratios |= measure(doubted, rounds=MORE_ROUNDS, reference=reference, clock=clock)
    return beside_records()


def measure(
    calls: Mapping[str, Call],
    *,
    rounds: int,
    reference: Call | None = None,
    clock: Clock = time.process_time,
) -> dict[str, float]:
    """Return the ratio of each call to the reference beside it, the median over rounds.

    A round   reference  path  reference  path  reference  ...      the next begins with another path
    """
    reference = reference or Reference()
    reference()
    repeats = {name: _repeats(call, clock) for name, call in calls.items()}
    ratios: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    collecting = gc.isenabled()
    gc.disable()  # or one path pays for another's objects
    try:
        for number in range(rounds):
            start = number % len(names)
            before = _seconds(reference, 1, clock)
            for name in names[start:] + names[:start]:
                taken = _seconds(calls[name], repeats[name], clock)
                after = _seconds(reference, 1, clock)
                ratios[name].append(2 * taken / (before + after))
                before = after
    finally:
        if collecting:
            gc.enable()
    return {name: statistics.median(found) for name, found in ratios.items()}


def _repeats(call: Call, clock: Clock) -> int:
    """Return the calls of one turn; the first call of all loads kernels and fills caches."""
    call()
    return max(1, round(TURN_SECONDS / max(_seconds(call, 1, clock), 1e-9)))


def _seconds(call: Call, repeats: int, clock: Clock) -> float:
    """Return the seconds of one call, on average over a turn."""
    began = clock()
    for _ in range(repeats):
        call()
    return (clock() - began) / repeats


def keep_memory() -> None:
    """Let the allocator keep what is freed, where it is glibc's.

    Else it returns free memory to the system or not, by what other paths hold. A batch of the loader
    took 0.7 ms, and 4 ms with 2,000 page faults beside another path's arrays.
    """
    allocator = ctypes.CDLL(None)
    if hasattr(allocator, "mallopt"):
        for option in (_TRIM_THRESHOLD, _MMAP_THRESHOLD):
            allocator.mallopt(option, _LARGE)


def table(found: Sequence[Measured]) -> str:
    """Return what was measured as a table."""
    width = max(len(one.path) for one in found)
    lines = [f"{'path':{width}}    ratio  recorded  factor"]
    for one in found:
        verdict = "  SLOWER" if one.slow else "  faster" if one.fast else ""
        numbers = f"{one.ratio:>8.4f}  {one.recorded:>8.4f}  {one.factor:>6.2f}"
        lines.append(f"{one.path:{width}} {numbers}{verdict}")
    return "\n".join(lines)


def advice(found: Sequence[Measured], made_with: Mapping[str, str]) -> list[str]:
    """Return what there is to do."""
    lines = []
    slow, fast = [one for one in found if one.slow], [one for one in found if one.fast]
    if slow:
        bound = min(one.bound for one in slow)
        lines += [
            f"FAILED, over {bound} times slower than recorded: {_names(slow, ', ')}.",
            f"Mend the code. If the change is meant: {_COMMAND} --record --paths {_names(slow, ' ')}",
            "and say why in the commit.",
        ]
    if fast:
        lines += [
            f"Hint, much faster than recorded: {_names(fast, ', ')}. A slow-down could go unnoticed:",
            f"run {_COMMAND} --record --paths {_names(fast, ' ')}",
        ]
    others = [
        f"{name} {version}" for name, version in made_with.items() if versions().get(name) != version
    ]
    if not made_with and (slow or fast):
        lines.append(f"No records were made with {cpu_name()}; that may be why.")
    if others and (slow or fast):
        lines.append(f"The records were made with {', '.join(others)}; that may be why.")
    return lines or [
        f"No path is over {max(one.bound for one in found)} times slower or faster than recorded."
    ]


def _names(found: Sequence[Measured], between: str) -> str:
    return between.join(one.path for one in found)


def main(
    words: Sequence[str] | None = None, *, path: Path = RECORDS, clock: Clock = time.process_time
) -> int:
    """Measure, then compare or record; return the exit code: 1 too slow, 2 records that do not fit.

    Args:
        words: of the command line.
        path: the file of the records.
        clock: seconds of work so far.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--paths", choices=PATHS, nargs="+", default=list(PATHS), help="[default: all]")
    parser.add_argument("--record", action="store_true", help="write the records of this kind of CPU")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args(words)
    records, cpu = read_records(path), cpu_name()
    faults = record_faults(PATHS, {name for one in records.values() for name in one.ratios})
    if faults and not arguments.record:
        print("\n".join(faults), file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        material = GuardMaterial(Path(folder))
        calls = {name: PATHS[name](material) for name in arguments.paths}
        if arguments.record:
            held = records.get(cpu, SpeedRecords({}, {})).ratios
            here = SpeedRecords(versions(), {**held, **measure(calls, rounds=MORE_ROUNDS, clock=clock)})
            write_records(path, {**records, cpu: here})
            return 0
        recorded, bounds = expected(records, cpu)
        found = guard(calls, recorded, bounds=bounds, clock=clock)
    print(table(found))
    print("\n".join(advice(found, records[cpu].versions if cpu in records else {})))
    if arguments.json:
        rows = [{**asdict(one), "factor": one.factor} for one in found]
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return int(any(one.slow for one in found))


if __name__ == "__main__":
    keep_memory()
    sys.exit(main())
