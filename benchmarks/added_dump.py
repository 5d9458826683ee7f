"""What a new dump costs beside a run over everything: CPU, memory, and an old document's part of it.

    python benchmarks/added_dump.py CORPUS WORK --json out.json

The first run is over nine tenths of the corpus' files, the dump is the rest. Each run is one process
(`--workers 0`), so that CPU time and peak memory as far as deduplication are the system's own figures:
all files; the first run; the dump against the first run; the dump alone.

What an old document costs is told from pairs of runs of the dump, against the first run and alone, to
the verified shards with the tokenizer of the first run, as a generation has it. CPU seconds are those of
tasks, so the start of the program counts nowhere. Both lines are medians over pairs:

    to dedup    (dump against - alone) in scan, ingest, dedup / old documents,
                beside alone in these steps / new documents
    to shards   the same difference with split, the one later step that reads anything of earlier runs,
                beside alone in all steps / new documents

In other later steps the dump against the first run costs less than alone, because fewer documents are
kept: `all_steps_difference` has that in it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

RUN = """
verify = {{ learning = false }}
dedup = {{ against = {against} }}
tokenizer = {tokenizer}
[[sources]]
name = "corpus"
paths = {paths}
root = {root}
language = {{ column = "lang" }}
[[datasets]]
name = "clm"
"""
TRAINED = '{ train = { vocab_size = 8000, sample_size = "8MiB" } }'
GIVEN = '{ path = "first/tokenizer/tokenizer.model" }'
TENTH = 10
TO_DEDUP = ("scan", "ingest", "dedup")
READ_OLD = (*TO_DEDUP, "split")


def write_run(work: Path, name: str, files: list[Path], *, against: list[str], tokenizer: str) -> Path:
    """Write the run file of one of the runs."""
    path = work / f"{name}.toml"
    listed, root = json.dumps([str(file) for file in files]), json.dumps(str(files[0].parent))
    path.write_text(
        RUN.format(against=json.dumps(against), tokenizer=tokenizer, paths=listed, root=root)
    )
    return path


def run(run_file: Path, output: Path, *, until: str | None) -> dict[str, Any]:
    """Do one run as far as a step; return its CPU seconds and peak memory in MiB."""
    command = [sys.executable, "-m", "pipeline.main", "run", str(run_file), "-o", str(output)]
    began = time.monotonic()
    process = subprocess.Popen(  # noqa: S603  # our own program
        [*command, "--workers", "0", *(() if until is None else ("--until", until))],
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert not status, f"{run_file}: ended with {status}"
    return {
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "wall_seconds": round(time.monotonic() - began, 2),
        "peak_mib": usage.ru_maxrss // 1024,
    }


def measured(run_file: Path, output: Path) -> dict[str, Any]:
    """Do one run as far as deduplication; return what it took, its documents and what is kept."""
    took = run(run_file, output, until="dedup")
    record = json.loads((output / "commits/dedup/_step.json").read_text())["record"]
    return {
        **took,
        "documents": record["ledger"]["input"]["documents"],
        "text_bytes": record["ledger"]["input"]["bytes"],
        "kept": record["kept"],
        "removed": record["removed"],
        "steps": step_seconds(output),
    }


def step_seconds(output: Path) -> dict[str, float]:
    """Return the CPU seconds of the tasks of each step."""
    found: dict[str, float] = {}
    for line in (output / "log.jsonl").read_text().splitlines():
        entry = json.loads(line)
        if "cpu_seconds" in entry:
            found[entry["step"]] = found.get(entry["step"], 0.0) + entry["cpu_seconds"]
    return {step: round(seconds, 4) for step, seconds in found.items()}


def old_of_new(pairs: Sequence[Mapping[str, Mapping[str, float]]], old: int, new: int) -> dict[str, Any]:
    """Return what an old and a new document cost, in microseconds of tasks' CPU, and their ratio.

    Args:
        pairs: seconds by step, of the dump against the first run and of the dump alone.
        old: documents of the first run.
        new: documents of the dump.
    """

    def line(read_old: Sequence[str] | None, steps: Sequence[str] | None) -> dict[str, float]:
        extra = median(total(pair["dump"], read_old) - total(pair["alone"], read_old) for pair in pairs)
        whole = median(total(pair["alone"], steps) for pair in pairs)
        us_old, us_new = 1e6 * extra / old, 1e6 * whole / new
        return {
            "old_us": round(us_old, 2),
            "new_us": round(us_new, 2),
            "old_of_new": round(us_old / us_new, 4),
        }

    return {
        "to_dedup": line(TO_DEDUP, TO_DEDUP),
        "to_shards": line(READ_OLD, None),
        "all_steps_difference": line(None, None),
    }


def total(seconds: Mapping[str, float], steps: Sequence[str] | None) -> float:
    """Return the seconds of some steps, or of all."""
    return sum(seconds[step] for step in (seconds if steps is None else steps))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--pairs", type=int, default=3, metavar="N")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True)
    files = sorted(options.corpus.resolve().iterdir())
    dump = files[TENTH - 1 :: TENTH]
    first = sorted(set(files) - set(dump))
    runs: dict[str, tuple[list[Path], list[str], str]] = {
        "all": (files, [], TRAINED),
        "first": (first, [], TRAINED),
        "dump": (dump, ["first"], GIVEN),
        "alone": (dump, [], GIVEN),
    }
    found: dict[str, Any] = {"pairs": [{} for _ in range(options.pairs)]}

    def do(name: str, *, until: str | None) -> dict[str, float]:
        own, against, tokenizer = runs[name]
        run_file = write_run(options.work, name, own, against=against, tokenizer=tokenizer)
        output = options.work / name
        shutil.rmtree(output, ignore_errors=True)
        took = measured(run_file, output)
        print(name, json.dumps(took), flush=True)
        found.setdefault(name, took)
        if until != "dedup":
            run(run_file, output, until=until)
        return step_seconds(output)

    do("all", until="dedup")
    shutil.rmtree(options.work / "all")
    do("first", until="split")
    for pair in found["pairs"]:
        for name in ("dump", "alone"):
            pair[name] = do(name, until=None)
            print(name, json.dumps(pair[name]), flush=True)
    found |= old_of_new(found["pairs"], found["first"]["documents"], found["alone"]["documents"])
    print(json.dumps({key: found[key] for key in found if key not in (*runs, "pairs")}))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
