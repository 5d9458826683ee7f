"""How often what an objective draws was drawn, against its settings: all datasets of a finished run.

    python benchmarks/rates.py DIR [--dataset NAME ...] [--rows N] [--json rates.json]

Counts in epochs 0 and 1 (of kinds that are written out, in those on disk) what the trainer's columns
show of the rows of split train: what was masked, replaced, cut, moved or borrowed. Where a count follows
from the settings it must be exact; where it is drawn, its distance from the expectation is given in
sigmas, of which 5 are too many. The drawing functions are not asked again: expectations are worked out
here, from the laws that the modules of stages/objectives state. What is not counted of a kind, because
its columns do not tell it, stands in rate_masks.py, rate_texts.py, rate_targets.py and rate_fim.py.
Exit 1 if anything is off.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rate_fim import count_fim
from rate_masks import count_electra, count_mlm
from rate_parts import Part, parts_of
from rate_tally import LIMIT, Line, Tally
from rate_targets import count_bart, count_prefixes, count_spans
from rate_texts import count_clm, count_nsp, count_simcse, count_sop

from stages.loading.dataset import open_dataset
from stages.objectives.objective import Objective
from stages.objectives.table import weighted_components

_SHOWN = 1e-3
"""Shares below it are printed with an exponent."""


def measure(parts: Iterable[Part], objective: Objective) -> list[Line]:
    """Return the laws of an objective as parts of a dataset, shard by shard, keep them."""
    tally, number = Tally(), -1
    for part in parts:
        if part.shard.number != number:
            number = part.shard.number
            tally.close_shard()
            count_documents(tally, objective, part)
        count(tally, objective, part)
    tally.close_shard()
    return tally.lines()


COUNTERS: dict[str, Callable[[Tally, Any, Part], None]] = {
    "bart": count_bart,
    "clm": count_clm,
    "electra": count_electra,
    "fim": count_fim,
    "mlm": count_mlm,
    "nsp": count_nsp,
    "prefix_lm": count_prefixes,
    "simcse": count_simcse,
    "sop": count_sop,
    "span_corruption": count_spans,
}
"""What counts the draws of each kind."""


def count(tally: Tally, objective: Objective, part: Part) -> None:
    """Count what was drawn of some rows."""
    if weighted_components(objective):
        _count_components(tally, objective, part)
    else:
        COUNTERS[objective.kind](tally, objective, part)


def count_documents(tally: Tally, objective: Objective, part: Part) -> None:
    """Count which of a mixture's documents, of the whole shard of a part, have which component."""
    parts = weighted_components(objective)
    if not parts:
        return
    of, documents = part.shard.components, part.shard.whole.segments["doc"]
    wrong = np.zeros(len(of), np.bool_)
    wrong[documents[of[documents] != part.shard.component_of_segments]] = True
    tally.exact("documents have one component", wrong)
    total = sum(part.weight for part in parts)
    for number, (name, weight, _) in enumerate(parts):
        found = int(np.count_nonzero(of == number))
        tally.share(f"{name}: share of documents", int(np.count_nonzero(of >= 0)), found, weight / total)


def _count_components(tally: Tally, objective: Objective, part: Part) -> None:
    """Count the rows of each component by its laws."""
    ids = [batch["objective_id"] for batch in part.shown]
    stored = part.stored.components
    for found in ids:
        tally.exact("objective_id is as laid out", found != stored)
    for number, (name, _, each) in enumerate(weighted_components(objective)):
        rows = np.flatnonzero(ids[0] == number)
        if len(rows):
            count(tally.within(f"{name}: "), each, part.take(rows))


def print_line(dataset: str, line: Line) -> None:
    """Print one law."""
    verdict = "" if line.passed else "  WRONG"
    name = f"{dataset:16} {line.law:52}"
    if line.sigmas is None:
        print(f"{name} exact: {line.found:,.0f} wrong of {line.n:,} rows{verdict}")
        return
    kind = ".4e" if 0.0 < line.expected < _SHOWN else ".6f"
    print(
        f"{name} {line.n:>13,} {line.found:{kind}} {line.expected:{kind}} {line.sigmas:+7.2f}{verdict}"
    )


def run_laws(run: Path, names: Sequence[str], *, rows: int | None) -> list[dict[str, Any]]:
    """Count and print all datasets of a run, or those named; give one record for each law."""
    found = []
    print(f"{'dataset':16} {'law':52} {'n':>13} {'found':>8} {'expected':>8} {'sigmas':>7}")
    for path in sorted((run / "datasets").glob("*")):
        if names and path.name not in names:
            continue
        began = time.monotonic()
        dataset = open_dataset(path, shuffle=False)
        lines = measure(parts_of(dataset, rows), dataset.objective)
        for line in lines:
            print_line(path.name, line)
            found.append({"dataset": path.name, **asdict(line), "passed": line.passed})
        if not lines:
            print(f"{path.name:16} nothing to count  WRONG")
            found.append({"dataset": path.name, "law": "nothing to count", "passed": False})
        print(f"{path.name:16} {time.monotonic() - began:.1f} s", flush=True)
    return found


def main() -> int:
    """Count what a run's datasets drew and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run", type=Path, metavar="DIR", help="folder of a finished run")
    parser.add_argument("--dataset", nargs="+", default=[], metavar="NAME", help="these only")
    parser.add_argument("--rows", type=int, metavar="N", help="about so many of each [default: all]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.dataset if not (arguments.run / "datasets" / name).is_dir()]
    if unknown:
        parser.error(f"no dataset {', '.join(unknown)} in {arguments.run}")
    laws = run_laws(arguments.run, arguments.dataset, rows=arguments.rows)
    wrong = [law for law in laws if not law["passed"]]
    print(f"\n{len(laws):,} laws, {len(wrong):,} wrong (more than {LIMIT:g} sigmas, or any row)")
    if arguments.json:
        arguments.json.write_text(json.dumps({"laws": laws}, indent=1) + "\n", encoding="utf-8")
    return 0 if laws and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
