r"""Signed values: a value of the evidence of a finished run is changed and signed; verify names it.

    python benchmarks/signed_values.py WORK --json signed.jsonl
    python benchmarks/signed_values.py WORK --cases 40            some of them, spread over all

WORK gets a small run with exact and near-duplicates, containment, values, cuts, evaluation sets and a
validation split. Of each column of each kind of table outside of the datasets a value is changed, and
of each kind of record each number; commits and digests then vouch for what is there. The rows of
datasets have a campaign of their own (`planted_faults.py`).

A case is `named` if verify fails and names the file, its commit or its step. It is `stopped` if verify
fails otherwise, `silent` if it passes. Exits with 1 if a case is not named. Some cases are tried again
with a sample that is smaller than the tables. A trial is one case.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from trial_lines import Trials, campaign_main

from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.session.verifying import verify_session
from pipeline.steps.again import choice
from tests.material.signed_evidence import (
    NAMED,
    UNIT,
    Case,
    cases_of,
    looked_at,
    run_file,
    verified,
    write_corpus,
)

_SMALL = (8, 10)
"""Documents and rows that are looked at where tables are to be larger than the sample."""
_SAMPLED = 150
"""Cases that are tried so."""


def make_signed_run(work: Path) -> Path:
    """Make the run whose values are changed, and return its folder."""
    write_corpus(work / "corpus")
    run = work / "run"
    report = run_session(RunRequest(run_file(), work / "corpus", run, workers=0), stream=None)
    assert report["passed"], report["verify"]
    return run


def campaign(trials: Trials, *, number: int, seed: int) -> dict[str, Any]:
    """Change one value after the other, and return what came of it."""
    run = cache(lambda: make_signed_run(trials.new_folder()))
    every = [Case(**one) for one in trials.fact("values", lambda: list(map(asdict, cases_of(run()))))]
    chance = random.Random(seed)  # noqa: S311  # which cases, no secret
    cases = chance.sample(every, number) if 0 < number < len(every) else every
    looked = [_tried(trials, "", case, run) for case in cases]
    choice.LEAST, choice.ROWS = _SMALL
    some = chance.sample(cases, min(len(cases), _SAMPLED))
    sampled = [_tried(trials, "of a sample: ", case, run) for case in some]
    shares = trials.fact("share looked at", lambda: _shares(run()))
    return {
        "cases": len(looked),
        "outcomes": dict(Counter(case.outcome for case in looked)),
        "by table": _by_table(looked),
        "sample": f"{_SMALL[0]} documents, {_SMALL[1]} rows: {len(sampled)} cases",
        "outcomes of it": dict(Counter(case.outcome for case in sampled)),
        "share looked at": shares,
        "faulty": [asdict(case) for case in looked if case.outcome != NAMED],
        "faulty of it": [asdict(case) for case in sampled if case.outcome != NAMED],
    }


def _tried(trials: Trials, group: str, case: Case, run: Callable[[], Path]) -> Case:
    """Look at a case, and print it if it is not named."""

    def look() -> dict[str, Any]:
        looked = looked_at(run(), case)
        if looked.outcome != NAMED:
            print(f"{looked.outcome}: {case.file}, {case.where}: {looked.said}", flush=True)
        return asdict(looked)

    name = f"{group}{case.file}, {case.where}"
    return Case(**trials.trial(name, look, failed=lambda one: one["outcome"] != NAMED))


def _by_table(cases: list[Case]) -> dict[str, str]:
    """Return the outcomes by kind of file, where not all are named."""
    found: dict[str, Counter[str]] = {}
    for case in cases:
        found.setdefault(UNIT.sub("*", case.file), Counter())[case.outcome] += 1
    return {kind: str(dict(one)) for kind, one in sorted(found.items()) if set(one) != {NAMED}}


def _shares(run: Path) -> dict[str, str]:
    """Return how many of how many tasks and rows are looked at, where not all are; the run is sound."""
    text, failed = verified(run)
    assert not failed, text
    evidence = verify_session(run, workers=0, address=None, stream=None)["evidence"]["looked"]
    some = [one for one in evidence if one["looked"] < one["of"]]
    return {f"{one['what']}, {one['unit']}": f"{one['looked']} of {one['of']}" for one in some}


def main() -> int:
    """Do a campaign and print what came of it."""
    return campaign_main(__doc__, campaign, cases=0)


if __name__ == "__main__":
    sys.exit(main())
