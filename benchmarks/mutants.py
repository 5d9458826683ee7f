"""Mutants: faults planted into the product's code, one at a time, and whether the tests notice them.

    mutants.py                        every mutant of mutants.jsonl against the tests named for it
    mutants.py --reach whole --jobs 8 those that nothing notices against all tests

A line of the list is a mutant: {"file", "old", "new", "tests", "equivalent"}. `old` stands in the file
exactly once; `new` is put in its place, in a copy of the tree. The named tests run first, then the
folder of tests that mirrors the file's, then, if asked for, all. A mutant is noticed if a test fails or
the tests do not end. A mutant that changes nothing that a caller could see says so under `equivalent`:
it is not counted, and a test that notices it shows that the list is wrong.

The tests must pass without any mutant, or nothing could be learned. Results are kept; a mutant is tried
again if its file or its tests changed since, or if nothing noticed it. Exits with 3 if fewer than 95%
are noticed.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from mutant_trees import BrokenError, Mutant, SoundTree, Trial, mirrored_tests, read_list, stamp_of

HERE = Path(__file__).resolve().parent
LEAST = 0.95
"""The part of the mutants that must be noticed."""
WHOLE = "tests"
Reach = Literal["named", "mirrored", "whole"]
REACHES: tuple[Reach, ...] = get_args(Reach)
"""How far tests are tried before a mutant counts as unnoticed."""


@dataclass(frozen=True)
class Result:
    """What came of one mutant."""

    mutant: Mutant
    stamp: str
    """Of its file and its tests: the result is good as long as these stay."""
    noticed: bool
    tests: tuple[str, ...]
    """That ran last."""
    by: str
    """The first test that failed, or that the tests did not end."""
    seconds: float

    def __str__(self) -> str:
        """Return a line that says what was planted where."""
        start, end = (" ".join(text.split()) for text in (self.mutant.old, self.mutant.new))
        return f"{self.mutant.file}: {start!r} -> {end!r}"


def try_mutant(mutant: Mutant, tree: SoundTree, *, reach: Reach) -> Result:
    """Plant a mutant and run tests, the nearest first, until one notices it."""
    rounds = [mutant.tests, mirrored_tests(mutant.file, tree.folder), (WHOLE,)][
        : 1 + REACHES.index(reach)
    ]
    trial, tried = Trial(noticed=False, by="", seconds=0.0), mutant.tests
    with tree.planted(mutant) as copy:
        for tests in dict.fromkeys(rounds):
            trial, tried = copy.run(tests), tests
            if trial.noticed:
                break
    stamp = stamp_of(mutant, tree.folder)
    return Result(mutant, stamp, trial.noticed, tried, trial.by, round(trial.seconds, 1))


def load_results(path: Path | None) -> dict[Mutant, Result]:
    """Return the results of earlier calls."""
    if path is None or not path.exists():
        return {}
    results = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        content = json.loads(line)
        mutant = Mutant.of(content.pop("mutant"))
        results[mutant] = Result(mutant, **{**content, "tests": tuple(content["tests"])})
    return results


def is_good(result: Result | None, tree: SoundTree, *, reach: Reach) -> bool:
    """Say whether an earlier result answers what is asked now."""
    if result is None or result.stamp != stamp_of(result.mutant, tree.folder):
        return False
    tried = reach != "whole" or result.tests == (WHOLE,)
    return result.noticed or bool(result.mutant.equivalent and tried)


def campaign(
    mutants: Sequence[Mutant], tree: SoundTree, *, jobs: int, reach: Reach, kept: Path | None
) -> list[Result]:
    """Try every mutant of which no good result is kept, several at a time; return all results."""
    known = load_results(kept)
    waiting = [one for one in mutants if not is_good(known.get(one), tree, reach=reach)]
    results = {one: known[one] for one in mutants if one not in waiting}
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for done in as_completed(
                [pool.submit(try_mutant, one, tree, reach=reach) for one in waiting]
            ):
                result = results[done.result().mutant] = done.result()
                word = "noticed" if result.noticed else "UNNOTICED"
                print(f"{word}: {result} ({result.by})", flush=True)
                if kept is not None:
                    with kept.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(asdict(result)) + "\n")
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [results[one] for one in mutants]


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


def verdict_of(results: Sequence[Result]) -> tuple[str, bool]:
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
    lines.append(f"noticed {len(noticed)} of {len(real)} ({part:.1%}); at least {LEAST:.0%} must be")
    return "\n".join(lines), part >= LEAST and not wrong


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
    parser.add_argument("--results", type=Path, help="keep results there, and go on from them")
    parser.add_argument(
        "--patience",
        type=float,
        default=120.0,
        metavar="SECONDS",
        help="tests end in this and five times what they take without a mutant [default: 120]",
    )
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Try the mutants; return the exit status."""
    chosen = arguments(given)
    try:
        mutants = [one for path in chosen.lists for one in read_list(path, chosen.root)]
        mutants = [one for one in mutants if chosen.only in one.file]
        with tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True) as work:
            tree = SoundTree.copied(chosen.root, Path(work), patience=chosen.patience)
            results = campaign(mutants, tree, jobs=chosen.jobs, reach=chosen.reach, kept=chosen.results)
    except BrokenError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text, passed = verdict_of(results)
    print(table_of(results), text, sep="\n")
    return 0 if passed else 3


if __name__ == "__main__":
    sys.exit(main())
