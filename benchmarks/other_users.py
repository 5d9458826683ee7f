r"""Other users: commands and `open_dataset` as a user without a home, of a program that root installed.

    python benchmarks/other_users.py WORK --json users.jsonl    as root: it changes users, and mounts

WORK must not be there. No home, and a program that cannot be written, are what `docker run -u`, a
read-only root, `DynamicUser` and cron give. `tests/material/user_places.py` lists places and commands.

Passes if each call ends with the code that root's has, says nothing of a bug, tells at most once that
kernels are not kept, and leaves no folder of this program in the temporary one; and if all runs, exports
and tokenizers have the bytes of root's. It also tells the seconds to the first row of `open_dataset`,
with kernels that are kept and without: medians of 5. A trial is one place with all its commands, because
a command needs what those before it made.
"""

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from digests import differences, file_digests
from trial_lines import Trials, campaign_main, refuse

from tests.material.user_places import (
    COMMANDS,
    KEPT,
    LEFT,
    MADE,
    PLACES,
    ROOT,
    RUNS,
    USER,
    Place,
    call,
    prepare,
    refusal,
)

if TYPE_CHECKING:
    from subprocess import CompletedProcess

_NOTE = "compiled kernels cannot be kept"
_FIRST_ROW = """
import time; began = time.perf_counter()
import shardmill; shardmill.open_dataset("/mnt/run/datasets/clm")[0]; print(time.perf_counter() - began)
"""
_TURNS = 5


@dataclass
class Case:
    """One command in one place."""

    place: str
    command: str
    code: int
    seconds: float
    notes: int
    """How often it tells that kernels are not kept."""
    faults: list[str] = field(default_factory=list)
    said: str = ""

    @property
    def cell(self) -> str:
        """What the table shows."""
        return "FAIL" if self.faults else f"{self.code}  {self.seconds:.1f} s"


def done(name: str, place: Place, command: str, folder: Path, *, wanted: int) -> Case:
    """Call a command in a place, and hold it to the code that is wanted."""
    began = time.perf_counter()
    called = call(["-m", "pipeline.main", *COMMANDS[command]], folder, place)
    seconds, notes = time.perf_counter() - began, (called.stdout + called.stderr).count(_NOTE)
    code, saying = place.refused.get(command, (wanted, ""))
    faults = faults_of(called, code, saying)
    return Case(name, command, called.returncode, seconds, notes, faults, called.stderr[-500:])


def faults_of(called: "CompletedProcess[str]", code: int, saying: str = "") -> list[str]:
    """Return what is wrong with the answer of a call.

    Args:
        called: its answer.
        code: the one that it should end with.
        saying: what it should say.
    """
    said = called.stdout + called.stderr
    found = {
        f"code {called.returncode}, not {code}": called.returncode != code,
        "tells of a bug": "this is a bug" in said or "Traceback" in said,
        f"tells {said.count(_NOTE)} times that kernels are not kept": said.count(_NOTE) > 1,
        "leaves a folder": f"\n{LEFT}" in f"\n{said}",
        f"does not say: {saying}": saying not in said,
    }
    return [fault for fault, is_there in found.items() if is_there]


def made_in(folder: Path) -> dict[str, str]:
    """Return the digests of what commands made: of runs, and of all files of exports and tokenizers."""
    runs = {name: file_digests(folder / name) for name in RUNS if (folder / name).is_dir()}
    found = {f"{name}/{path}": digest for name, files in runs.items() for path, digest in files.items()}
    others = (path for path in sorted((folder / MADE).rglob("*")) if path.is_file())
    return found | {
        str(path.relative_to(folder)): sha256(path.read_bytes()).hexdigest() for path in others
    }


def first_row(folder: Path, place: Place, *, turns: int = _TURNS) -> float:
    """Return the seconds to the first row of a dataset, the median of some turns."""
    found = []
    for _ in range(turns):
        called = call(["-c", _FIRST_ROW], folder, place)
        if faults := faults_of(called, 0):
            raise RuntimeError(f"open_dataset: {faults}: {called.stderr[-500:]}")
        found.append(float(called.stdout))
    return median(found)


def cases_in(
    name: str, folder: Path, made_by_root: Mapping[str, str], codes: Mapping[str, int]
) -> Iterator[Case]:
    """Yield a case of each command in a place, and one of the bytes."""
    for command, code in codes.items():
        yield done(name, PLACES[name], command, folder, wanted=code)
    made = made_in(folder)
    there = set(map(_whole, made))  # what was refused is not there
    wanted = {path: digest for path, digest in made_by_root.items() if _whole(path) in there}
    yield Case(name, "the same bytes", 0, 0.0, 0, differences(made, wanted))


def _whole(path: str) -> tuple[str, ...]:
    """Return the run, the export or the tokenizer that a file is of."""
    parts = Path(path).parts
    return parts[: 2 if parts[0] == MADE else 1]


def print_table(cases: Sequence[Case]) -> None:
    """Print a line a command, and a column a place: codes and seconds."""
    cells = {(case.command, case.place): case for case in cases}
    places = dict.fromkeys(case.place for case in cases)
    print(f"{'':<26}" + "".join(f"{place:>16}" for place in places))
    for command in dict.fromkeys(case.command for case in cases):
        found = [cells.get((command, place)) for place in places]
        print(f"{command:<26}" + "".join(f"{'' if case is None else case.cell:>16}" for case in found))


def tried_by_root(folder: Path) -> dict[str, Any]:
    """Call all commands as root, and return what came of it, with the digests of what they made."""
    prepare(folder, 0)
    cases = []
    for command in COMMANDS:
        cases.append(done("root", ROOT, command, folder, wanted=0))
        print("root", command, cases[-1].cell, *cases[-1].faults, flush=True)
    rows = {"root": first_row(folder, ROOT)}
    return {"cases": [asdict(case) for case in cases], "rows": rows, "made": made_in(folder)}


def tried_in(name: str, folder: Path, root: dict[str, Any]) -> dict[str, Any]:
    """Call all commands in a place, and return what came of it."""
    prepare(folder, USER)
    codes = {case["command"]: case["code"] for case in root["cases"]}
    cases = []
    for case in cases_in(name, folder, root["made"], codes):
        cases.append(case)
        print(name, case.command, case.cell, *case.faults, flush=True)
    rows = {name: first_row(folder, PLACES[name])}
    if name == list(PLACES)[-1]:
        rows["NUMBA_CACHE_DIR"] = first_row(folder, KEPT)
    return {"cases": [asdict(case) for case in cases], "rows": rows}


def campaign(trials: Trials, *, number: int, seed: int) -> dict[str, Any]:
    """Call all commands in root's place and in `number` others; return what came of it."""
    del seed
    if (why := refusal()) is not None:
        refuse(why)
    work = cache(trials.new_folder)
    root = trials.trial("root", lambda: tried_by_root(work() / "root"), failed=_has_faulty_case)
    results = [root]
    for name in list(PLACES)[:number]:

        def do(name: str = name) -> dict[str, Any]:
            return tried_in(name, work() / re.sub(r"\W+", "-", name), root)

        results.append(trials.trial(name, do, failed=_has_faulty_case))
    cases = [Case(**case) for result in results for case in result["cases"]]
    print_table(cases)
    rows = {name: seconds for result in results for name, seconds in result["rows"].items()}
    return {
        "calls": len(cases) - len(results) + 1,
        "told of kernels": sum(case.notes for case in cases),
        "first row": {name: f"{seconds:.2f} s" for name, seconds in rows.items()},
        "faulty": [asdict(case) for case in cases if case.faults],
    }


def _has_faulty_case(result: dict[str, Any]) -> bool:
    return any(case["faults"] for case in result["cases"])


def main() -> int:
    """Do a campaign and print what came of it."""
    return campaign_main(__doc__, campaign, cases=len(PLACES))


if __name__ == "__main__":
    sys.exit(main())
