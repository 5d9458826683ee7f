r"""Sound runs: runs with every method of deduplication and every cut, and no alarm of verify.

    python benchmarks/sound_runs.py WORK --cases 20 --json sound.jsonl

Each case writes a corpus of its own and makes a run whose settings are drawn: which methods find
duplicates, who stays, what is cut, decontamination, a run that it is deduplicated against, one that is
replayed, a mix, further generations, 0 to 2 workers. Then verify looks at it.

Passes if nothing is found, neither by the run nor by verify. A trial is one case: case 7 has the same
settings in every campaign of its seed.
"""

import random
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from trial_lines import Trials, campaign_main

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from tests.material.signed_evidence import run_file, settings, verified, write_corpus

METHODS: dict[str, Any] = {
    "minhash": {"threshold": 0.7, "num_perm": 64},
    "containment": {},
    "semantic": {"threshold": 0.985},
    "url": "url",
    "lines": {"min_documents": 3},
    "paragraphs": {"min_documents": 3},
    "substrings": {"min_bytes": 120},
}
"""Settings of `dedup`, each of which a case has or has not."""


@dataclass
class Case:
    """One run."""

    number: int
    features: list[str] = field(default_factory=list)
    workers: int = 0
    alarms: list[str] = field(default_factory=list)


def drawn(number: int, seed: int) -> tuple[Case, RunFile]:
    """Return a case and its run file; each feature is in three of four cases."""
    chance = random.Random(f"{seed}/{number}")  # noqa: S311  # settings
    case = Case(number, workers=number % 3)

    def has(feature: str) -> bool:
        if chance.random() < 0.75:  # noqa: PLR2004  # most
            case.features.append(feature)
            return True
        return False

    dedup = {name: setting for name, setting in METHODS.items() if has(name)}
    dedup |= {"near": "minhash" in dedup, "keep": "longest" if has("longest") else "first"}
    changes: dict[str, Any] = {"dedup": dedup}
    sets = [{"name": "held", "paths": ["held/g0-*.jsonl"]}]
    changes["decontamination"] = {"sets": sets} if has("decontamination") else None
    if has("against"):
        dedup["against"] = ["base/run"]
    if has("replay"):
        replay = {"name": "old", "run": "base/run", "epochs": 1.0}
        changes |= {"sources": [*settings()["sources"], replay], "tokenizer": {"path": "base/run"}}
    if has("mix"):
        changes["mix"] = {"language_alpha": 0.5}
    if has("epochs on disk"):
        objective = {"kind": "mlm"}
        changes["datasets"] = [{"name": "m", "materialized_epochs": 1, "objective": objective}]
    has("generations")
    return case, run_file(**changes)


def looked_at(folder: Path, case: Case, file: RunFile) -> Case:
    """Make the run of a case, let verify look at it, and note what is found."""
    write_corpus(folder / "base", seed=case.number)
    base = run_file(name="base", decontamination=None)
    assert run_session(RunRequest(base, folder / "base", folder / "base/run", 0), stream=None)["passed"]
    shutil.copy(folder / "base/0.jsonl", folder / "copied.jsonl")
    request = RunRequest(file, folder, folder / "run", workers=case.workers)
    for generation in range(1 + 2 * ("generations" in case.features)):
        write_corpus(folder, seed=100 + case.number + generation, name=f"g{generation}-")
        report = run_session(request, stream=None)
        case.alarms += [
            f"{one['file']}: {one['check']}: {one['message']}"
            for verdict in report["verify"].values()
            for one in verdict["findings"]
        ]
        assert report["passed"] or case.alarms, report
    text, failed = verified(folder / "run", workers=case.workers)
    if failed:
        case.alarms.append(text)
    return case


def tried(number: int, seed: int, work: Callable[[], Path]) -> dict[str, Any]:
    """Do a case in a folder of its own, which stays if there is an alarm, and return what came of it."""
    folder = work() / f"{number:03d}"
    case = looked_at(folder, *drawn(number, seed))
    print(f"{number}: {case.alarms or 'sound'}; {', '.join(case.features)}", flush=True)
    if not case.alarms:
        shutil.rmtree(folder)
    return asdict(case)


def campaign(trials: Trials, *, number: int, seed: int) -> dict[str, Any]:
    """Make one run after the other, and return what came of them."""
    work = cache(trials.new_folder)
    cases = [
        trials.trial(
            str(one),
            partial(tried, one, seed, work),
            failed=lambda case: bool(case["alarms"]),
        )
        for one in range(number)
    ]
    features = Counter(feature for case in cases for feature in case["features"])
    return {
        "cases": len(cases),
        "workers": dict(Counter(case["workers"] for case in cases)),
        "features": dict(features),
        "alarms": sum(bool(case["alarms"]) for case in cases),
        "faulty": [case for case in cases if case["alarms"]],
    }


def main() -> int:
    """Do a campaign and print what came of it."""
    return campaign_main(__doc__, campaign, cases=20)


if __name__ == "__main__":
    sys.exit(main())
