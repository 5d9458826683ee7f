"""A corpus to tokens on disk: this program beside others that do the same, from end to end.

    end_to_end.py --corpus 'CORPUS/*.jsonl.zst' --cache DIR --json out.json
    end_to_end.py --corpus 'CORPUS/*.jsonl.zst' --cache DIR --limit-mb 100 --only shardmill-0 datatrove

All read the same documents, remove near-duplicates, and encode what is left with the same model. They
take turns; each turn begins with another one. contestants.py says what each one does, process_cost.py
what is counted. A contestant that fails is a row that says so, and the exit code is then 1.
"""

import argparse
import glob
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from competition import WARM_UP, compete, exit_code, take_turn
from contestants import CONTESTANTS, RUN_FILE, Contestant, Counts
from preparation import NUM_PERM, SHINGLE, THRESHOLD, Preparation, prepare
from process_cost import PERIOD
from standings import MEGA, Standing, TurnCost, cost_ratios, costs_table, ratios_table


def describe_machine() -> dict[str, Any]:
    """Return what a figure says little without."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],  # noqa: S607  # from the shell's path
        cwd=RUN_FILE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return {
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "load_before": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "commit": commit.stdout.strip(),
    }


def hold_competition(
    contestants: Sequence[Contestant], made: Preparation, arguments: argparse.Namespace
) -> list[Standing]:
    """Let contestants take their turns; return how they stand."""
    command, work = arguments.command, arguments.cache.resolve() / "work"

    def turn(contestant: Contestant, number: int) -> tuple[TurnCost, Counts]:
        corpus = made.first if number == WARM_UP else made.slice_of(contestant)
        task = made.assignment(corpus, shardmill=command)
        output = work / contestant.name
        return take_turn(contestant, task, output, turn=number, period=arguments.period)

    standings = [made.standing(contestant) for contestant in contestants]
    compete(contestants, {standing.name: standing for standing in standings}, turn, arguments.turns)
    return standings


def figures(standings: Sequence[Standing], made: Preparation, machine: dict[str, Any]) -> dict[str, Any]:
    """Return all figures for a report."""
    return {
        "machine": machine,
        "corpus": {
            "documents": made.whole.documents,
            "text_bytes": made.whole.text_bytes,
            "unread_lines": made.whole.unread,
            "first_documents": made.first.documents,
        },
        "near_duplicates": {"shingle": SHINGLE, "num_perm": NUM_PERM, "threshold": THRESHOLD},
        "converted_tokenizer": {"compared": made.compared, "differing": made.differing},
        "contestants": [standing.figures() for standing in standings],
        "ratios": [asdict(ratio) for ratio in cost_ratios(standings)],
    }


def print_figures(standings: Sequence[Standing], made: Preparation, machine: dict[str, Any]) -> None:
    """Print the tables, and what they say little without."""
    print(", ".join(f"{name} {value}" for name, value in machine.items()))
    print(f"{made.whole.documents:,} documents, {made.whole.text_bytes / MEGA:,.1f} MB of texts", end="")
    print(f"; of the start-up {made.first.documents:,} documents")
    print(f"converted tokenizer: other ids in {made.differing} of {made.compared} texts\n")
    print(costs_table(standings))
    print()
    print(ratios_table(cost_ratios(standings)))


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="files of JSON lines")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="all that is made")
    parser.add_argument("--model", type=Path, help="a SentencePiece BPE model [default: trained once]")
    parser.add_argument("--vocab-size", type=int, default=32_000, help="of a model that is trained")
    parser.add_argument("--limit-mb", type=float, metavar="N", help="take the first N MB of texts alone")
    parser.add_argument("--turns", type=int, default=3, help="[default: 3]")
    names = [contestant.name for contestant in CONTESTANTS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--period", type=float, default=PERIOD, help="seconds between two samples")
    command = f"{sys.executable} -m pipeline.main"
    parser.add_argument("--command", default=command, help="this program [default: the installed one]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args(words)
    found = (Path(path) for one in arguments.corpus for path in glob.glob(one))  # noqa: PTH207
    arguments.paths = sorted(path.resolve() for path in found)
    if not arguments.paths:
        parser.error(f"--corpus {' '.join(arguments.corpus)}: there is no such file")
    if arguments.turns < 1:
        parser.error(f"--turns {arguments.turns}: at least 1")
    return arguments


def main() -> int:
    """Prepare, compete, and print the tables."""
    arguments = parse_arguments()
    machine = describe_machine()
    contestants = [contestant for contestant in CONTESTANTS if contestant.name in arguments.only]
    made = prepare(
        arguments.paths,
        arguments.cache.resolve(),
        contestants,
        max_bytes=None if arguments.limit_mb is None else round(arguments.limit_mb * MEGA),
        model=arguments.model and arguments.model.resolve(),
        vocab_size=arguments.vocab_size,
        shardmill=arguments.command,
    )
    standings = hold_competition(contestants, made, arguments)
    print_figures(standings, made, machine)
    if arguments.json:
        content = json.dumps(figures(standings, made, machine), indent=1)
        arguments.json.write_text(content + "\n", encoding="utf-8")
    return exit_code(standings)


if __name__ == "__main__":
    sys.exit(main())
