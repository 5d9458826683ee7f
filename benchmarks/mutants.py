"""Mutants: faults planted into the product's code, one at a time, and whether the tests notice them.

    mutants.py                        those that a change can reach, against the tests named for them
    mutants.py --anew --jobs 8        all of mutants.jsonl
    mutants.py --reach whole          those that nothing notices against all tests

A line of the list is a mutant: {"file", "old", "new", "tests", "equivalent"}. `old` stands in the file
exactly once; `new` is put in its place, in a copy of the tree. The test that noticed it the last time
runs first, then those that are named, then the folder of tests that mirrors the file's, then, if asked
for, all. A mutant is noticed if a test fails or does not end, and the same test passes without the
mutant. A mutant that changes nothing that a caller could see says so under `equivalent`: it is not
counted, and a test that notices it shows that the list is wrong.

Results are kept, a line each, as they come: a call that was stopped goes on. A mutant is tried again if
nothing noticed it, or if its file or a file that its tests import changed since. Exits with 3 if fewer
than 99% are noticed, or another part by `--least`.
"""

import argparse
import hashlib
import json
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from mutant_trees import BrokenError, Mutant, SoundTree, Trial, mirrored_tests, read_list
from rested_on import rests_on

HERE = Path(__file__).resolve().parent
LEAST = 0.99
"""The part of the mutants that must be noticed, if no other is asked for."""
WHOLE = "tests"
Reach = Literal["named", "mirrored", "whole"]
REACHES: tuple[Reach, ...] = get_args(Reach)
"""How far tests are tried before a mutant counts as unnoticed."""


@dataclass(frozen=True)
class Result:
    """What came of one mutant."""

    mutant: Mutant
    stamp: str
    """The result is good as long as this is the mutant's."""
    noticed: bool
    tests: tuple[str, ...]
    """That ran last."""
    by: str
    """The first test that failed, or did not end; of an unnoticed one, what stopped its tests."""
    seconds: float

    def __str__(self) -> str:
        """Return a line that says what was planted where."""
        return said_of(self.mutant)


def said_of(mutant: Mutant) -> str:
    """Return a line that says what is planted where."""
    start, end = (" ".join(text.split()) for text in (mutant.old, mutant.new))
    return f"{mutant.file}: {start!r} -> {end!r}"


def try_mutant(mutant: Mutant, tree: SoundTree, *, reach: Reach, last: str = "") -> Result:
    """Plant a mutant and run tests, the nearest first, until one notices it.

    Args:
        mutant: what is planted.
        tree: a sound copy of the tree.
        reach: the last tests to try.
        last: the test that noticed it the last time; it goes first.
    """
    nearest = [mutant.tests, mirrored_tests(mutant.file, tree.folder), (WHOLE,)]
    rounds = nearest[: 1 + REACHES.index(reach)]
    if last and tree.passes(last):
        rounds.insert(0, (last,))
    trial, tried = Trial(noticed=False, by="", seconds=0.0), mutant.tests
    with tree.planted(mutant) as copy:
        for tests in dict.fromkeys(rounds):
            trial, tried = tree.noticed(copy, tests), tests
            if trial.noticed:
                break
    stamp = stamp_of(mutant, tree.folder)
    return Result(mutant, stamp, trial.noticed, tried, trial.by, round(trial.seconds, 1))


def stamp_of(mutant: Mutant, root: Path) -> str:
    """Return a digest of a mutant, its file, and all that its tests rest on."""
    files = {root / mutant.file}.union(
        *(rests_on(root, test.partition("::")[0]) for test in mutant.tests)
    )
    digest = hashlib.sha256(repr(mutant).encode())
    for path in sorted(files):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def load_results(path: Path, mutants: Iterable[Mutant]) -> dict[Mutant, Result]:
    """Return the kept results of some mutants; of two of one mutant, the later."""
    known = {_key_of(one): one for one in mutants}
    results = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        content = json.loads(line)
        mutant = known.get(content.pop("mutant"))
        if mutant:
            results[mutant] = Result(mutant, **{**content, "tests": tuple(content["tests"])})
    return results


def _key_of(mutant: Mutant) -> str:
    planted = (mutant.file, mutant.old, mutant.new)
    return hashlib.sha256(repr(planted).encode()).hexdigest()[:16]


def _line_of(result: Result) -> str:
    return json.dumps({**asdict(result), "mutant": _key_of(result.mutant)}) + "\n"


def is_good(result: Result | None, tree: SoundTree, *, reach: Reach) -> bool:
    """Say whether an earlier result answers what is asked now."""
    if result is None or result.stamp != stamp_of(result.mutant, tree.folder):
        return False
    tried = reach != "whole" or result.tests == (WHOLE,)
    return result.noticed or bool(result.mutant.equivalent and tried and not result.by)


def campaign(mutants: Sequence[Mutant], tree: SoundTree, chosen: argparse.Namespace) -> list[Result]:
    """Try every mutant of which no good result is kept, several at a time; return all results.

    One whose tests all fail without it too is left out, and named.

    Args:
        mutants: of the list.
        tree: a sound copy of the tree.
        chosen: the arguments of the command.
    """
    reach, kept = chosen.reach, chosen.results
    known = load_results(kept, mutants)
    waiting = [one for one in mutants if chosen.anew or not is_good(known.get(one), tree, reach=reach)]
    print(f"{len(mutants)} mutants, {len(waiting)} to try", flush=True)
    results = {one: known[one] for one in set(mutants).difference(waiting)}

    def attempt(mutant: Mutant) -> Result:
        last = known.get(mutant)
        by = last.by if last and last.by.startswith(WHOLE) else ""
        return try_mutant(mutant, tree, reach=reach, last=by)

    with ThreadPoolExecutor(chosen.jobs) as pool:
        try:
            tried = {pool.submit(attempt, one): one for one in waiting}
            for done in as_completed(tried):
                if isinstance(problem := done.exception(), BrokenError):
                    print(f"UNTRIED: {said_of(tried[done])}: {problem}", file=sys.stderr, flush=True)
                    continue
                result = results[tried[done]] = done.result()
                word = "noticed" if result.noticed else "UNNOTICED"
                print(f"{word}: {result} ({result.by})", flush=True)
                with kept.open("a", encoding="utf-8") as file:
                    file.write(_line_of(result))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [results[one] for one in mutants if one in results]


def table_of(results: Iterable[Result]) -> str:
    """Return the counts by area, as a table."""
    areas: dict[str, list[Result]] = {}
    for result in results:
        areas.setdefault(str(PurePosixPath(result.mutant.file).parent), []).append(result)
    lines = ["| area | planted | equivalent | noticed | unnoticed |", "|---|---|---|---|---|"]
    rows = [*sorted(areas.items()), ("all", [one for area in areas.values() for one in area])]
    for area, own in rows:
        real = [result for result in own if not result.mutant.equivalent]
        noticed = sum(result.noticed for result in real)
        counts = (len(own), len(own) - len(real), noticed, len(real) - noticed)
        lines.append(f"| {area} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines) + "\n"


def verdict_of(results: Sequence[Result], *, least: float = LEAST) -> tuple[str, bool]:
    """Return what to read after the table, and whether enough was noticed."""
    real = [result for result in results if not result.mutant.equivalent]
    noticed = [result for result in real if result.noticed]
    same = [result for result in results if result.mutant.equivalent]
    lines = [f"equivalent: {result}: {result.mutant.equivalent}" for result in same]
    lines += [f"hangs: {result}" for result in noticed if result.by.startswith("no end")]
    lines += [f"UNNOTICED: {result}" for result in real if not result.noticed]
    wrong = [result for result in same if result.noticed]
    lines += [f"CALLED EQUIVALENT, but {result.by} notices it: {result}" for result in wrong]
    part = len(noticed) / len(real) if real else 0.0
    lines.append(f"noticed {len(noticed)} of {len(real)} ({part:.1%}); at least {least:.0%} must be")
    return "\n".join(lines), part >= least and not wrong


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument(
        "lists",
        nargs="*",
        type=Path,
        default=[HERE / "mutants.jsonl"],
        help="of mutants, a JSON object a line [default: mutants.jsonl beside this file]",
    )
    parser.add_argument("--root", type=Path, default=HERE.parent, help="the tree [default: this one]")
    parser.add_argument("--only", default="", metavar="TEXT", help="files whose path contains this")
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at a time [default: 1]")
    parser.add_argument(
        "--reach",
        choices=REACHES,
        default="mirrored",
        help="the last tests to try: those named, the mirrored folder, or all [default: mirrored]",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=HERE / "results" / "mutants.jsonl",
        help="keep results there, and go on from them [default: results/mutants.jsonl]",
    )
    parser.add_argument("--anew", action="store_true", help="try those with a good result again")
    parser.add_argument(
        "--patience",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="no test takes longer than this without a mutant [default: 120]",
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=math.inf,
        metavar="SECONDS",
        help="after which no further test of a call of pytest begins [default: no bound]",
    )
    parser.add_argument(
        "--least",
        type=float,
        default=LEAST,
        metavar="PART",
        help=f"of the mutants that must be noticed [default: {LEAST}]",
    )
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Try the mutants; return the exit status."""
    chosen = arguments(given)
    try:
        mutants = [one for path in chosen.lists for one in read_list(path, chosen.root)]
        mutants = [one for one in mutants if chosen.only in one.file]
        with (
            tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True) as work,
            SoundTree.copied(
                chosen.root, Path(work), patience=chosen.patience, budget=chosen.budget
            ) as tree,
        ):
            results = campaign(mutants, tree, chosen)
    except BrokenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text, passed = verdict_of(results, least=chosen.least)
    print(table_of(results), text, sep="\n")
    if untried := len(mutants) - len(results):
        print(f"error: {untried} mutants were not tried: their tests fail without them", file=sys.stderr)
        return 2
    return 0 if passed else 3


if __name__ == "__main__":
    sys.exit(main())
