"""Planted faults: what `verify` catches of wrong datasets whose manifests vouch for them.

    planted_faults.py WORK --json faults.jsonl --table faults.md   every fault, every objective
    planted_faults.py WORK --seeds 20                                    false alarms of sound runs

WORK gets a small corpus of bundled texts and runs over it with datasets of every objective. Each fault
is planted alone into a copy of a dataset, which is then signed again, so that every digest, size, total
and fingerprint is right, and checked by what `shardmill verify` calls. Exits with 1 if a fault goes
unnoticed, if one is noticed by a digest, or if anything is found of a sound dataset. A trial is
one fault in one dataset, also where the dataset has no place for it; or one sound run.
"""

import argparse
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

from trial_lines import Trials, add_trial_options, conduct

from tests.material.beside_faults import BESIDE
from tests.material.code_faults import CODE
from tests.material.described_faults import DESCRIBED
from tests.material.fault_copies import NUMBER, Copy, NoPlaceError, copied
from tests.material.fault_material import OBJECTIVES, Material, make_material
from tests.material.record_faults import OF_RECORDS
from tests.material.stored_faults import STORED, Plant
from tests.material.written_faults import WRITTEN

SIGNED = {"digests", "manifest"}
"""Checks that a fault must not be caught by alone: it was signed again."""
STORED_FORM, WRITTEN_FORM, CODE_FORM = FORMS = ("stored", "written", "code")
OF_STORED = {**STORED, **BESIDE, **DESCRIBED, **OF_RECORDS}
"""What is planted under rows that are drawn when they are read."""


@dataclass(frozen=True)
class Case:
    """One fault in one dataset."""

    dataset: str
    form: str
    """`stored`, under rows that are drawn when they are read, `written` out by epochs, or of the `code`
    that draws and reads them."""
    fault: str
    checks: tuple[str, ...]
    """That found something, sorted."""
    message: str
    """Of the first finding."""

    @property
    def caught(self) -> bool:
        """Whether a check of the content found it."""
        return bool(set(self.checks) - SIGNED)


def faults_of(form: str) -> dict[str, Plant]:
    """Return the faults by name."""
    return {STORED_FORM: OF_STORED, WRITTEN_FORM: WRITTEN, CODE_FORM: CODE}[form]


def plant(
    material: Material, name: str, form: str, fault: str, *, root: Path, cache: dict[str, Any]
) -> Case | None:
    """Plant one fault and look for it; None if the dataset has no place for it."""
    with copied(material, name, root, written=form == WRITTEN_FORM, cache=cache) as copy:
        try:
            faults_of(form)[fault](copy)
        except NoPlaceError:
            return None
        copy.sign()
        return _case(copy, form, fault)


def _case(copy: Copy, form: str, fault: str) -> Case:
    found = copy.findings()
    checks = tuple(sorted({finding.check for finding in found}))
    return Case(copy.name, form, fault, checks, found[0].message if found else "")


def campaign(trials: Trials, given: argparse.Namespace) -> Iterator[Case]:
    """Plant every fault into every dataset, one at a time; yield those that had a place."""

    @cache
    def material() -> Material:
        return make_material(trials.new_folder(), seed=given.seed, names=given.datasets)

    kept: dict[str, Any] = {}
    for name, form in product(given.datasets, FORMS):
        for fault in given.faults or faults_of(form):
            if fault in faults_of(form):

                def do(name: str = name, form: str = form, fault: str = fault) -> dict[str, Any]:
                    root = material().root.parent / "copy"
                    case = plant(material(), name, form, fault, root=root, cache=kept)
                    return {"case": None if case is None else asdict(case)}

                result = trials.trial(f"{name}, {form}, {fault}", do, failed=_is_uncaught)["case"]
                if result is not None:
                    yield _case_of(result)


def _case_of(result: dict[str, Any]) -> Case:
    return Case(**{**result, "checks": tuple(result["checks"])})


def _is_uncaught(result: dict[str, Any]) -> bool:
    return result["case"] is not None and not _case_of(result["case"]).caught


def alarms(material: Material, names: Iterable[str], *, root: Path) -> list[dict[str, str]]:
    """Return what is found of sound datasets: nothing, or it is a false alarm."""
    found = []
    for name in names:
        cache: dict[str, Any] = {}
        with copied(material, name, root, written=True, cache=cache) as copy:
            copy.everything = True
            found += [{"dataset": name, **finding.model_dump()} for finding in copy.findings()]
    return found


def table_of(cases: Sequence[Case]) -> str:
    """Return the campaign as Markdown: each fault, in how many datasets, and by what it was caught."""
    lines = ["| planted | in | caught | by |", "|---|---|---|---|"]
    for form in FORMS:
        for fault in faults_of(form):
            own = [case for case in cases if (case.form, case.fault) == (form, fault)]
            if own:
                checks = Counter(check for case in own for check in case.checks)
                named = ", ".join(f"`{check}`" for check, _ in checks.most_common(3))
                lines.append(f"| {fault} | {len(own)} | {sum(c.caught for c in own)} | {named} |")
    return "\n".join(lines) + "\n"


def by_objective(cases: Sequence[Case]) -> str:
    """Return how many faults were planted into each dataset, and how many caught."""
    lines = ["| dataset | planted | caught |", "|---|---|---|"]
    for name in dict.fromkeys(case.dataset for case in cases):
        own = [case for case in cases if case.dataset == name]
        lines.append(f"| `{name}` | {len(own)} | {sum(case.caught for case in own)} |")
    return "\n".join(lines) + "\n"


def sound(trials: Trials, given: argparse.Namespace) -> int:
    """Look at sound runs of some seeds; return the exit code: 1 if there is a false alarm."""
    folder, names, found = cache(trials.new_folder), given.datasets, []

    def look(seed: int) -> dict[str, Any]:
        material = make_material(folder(), seed=seed, names=names)
        own = alarms(material, names, root=folder() / "copy")
        shutil.rmtree(material.root)
        return {"alarms": [{"seed": str(seed), **finding} for finding in own]}

    for seed in range(given.seed, given.seed + given.seeds):
        key = f"sound run of seed {seed}"
        own = trials.trial(key, partial(look, seed), failed=lambda one: bool(one["alarms"]))["alarms"]
        print(f"seed {seed}: {len(own)} false alarms of {len(names)} datasets", flush=True)
        found += own
    print(*found, f"{len(found)} false alarms: {len(names)} datasets, {given.seeds} seeds", sep="\n")
    return int(bool(found))


def planted(trials: Trials, given: argparse.Namespace) -> int:
    """Plant the faults, print the tables and return the exit code: 1 if one was not caught."""
    cases = []
    for case in campaign(trials, given):
        cases.append(case)
        print(case.dataset, case.form, case.fault, case.checks or "NOT CAUGHT", sep=" | ", flush=True)
    print(table_of(cases), by_objective(cases), sep="\n")
    missed = [case for case in cases if not case.caught]
    print(f"caught {len(cases) - len(missed)} of {len(cases)}; shard {NUMBER} of each dataset")
    if given.table:
        given.table.write_text(table_of(cases))
    return int(bool(missed))


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    known = [fault for form in FORMS for fault in faults_of(form)]
    parser.add_argument("work", type=Path, metavar="WORK", help="a new folder, for corpus and runs")
    parser.add_argument(
        "--datasets",
        nargs="*",
        default=list(OBJECTIVES),
        choices=list(OBJECTIVES),
        metavar="NAME",
        help="datasets to plant into, of " + ", ".join(OBJECTIVES) + " [default: all]",
    )
    parser.add_argument(
        "--faults",
        nargs="*",
        default=[],
        choices=known,
        metavar="FAULT",
        help="faults to plant, by the names in docs/benchmarks.md [default: all]",
    )
    parser.add_argument("--seed", type=int, default=1, help="of the run [default: 1]")
    parser.add_argument("--seeds", type=int, default=0, help="look at sound runs of so many seeds")
    parser.add_argument("--table", type=Path, help="write the table there, as Markdown")
    add_trial_options(parser)
    return parser.parse_args(given)


def main(words: Sequence[str] | None = None) -> int:
    """Run the campaign, or look for false alarms; give the exit status."""
    given = arguments(words)
    settings = {name: getattr(given, name) for name in ("datasets", "faults", "seed", "seeds")}
    body = sound if given.seeds else planted
    return conduct(lambda trials: body(trials, given), given, settings, work=given.work.resolve())


if __name__ == "__main__":
    sys.exit(main())
