"""What a new dump costs beside a run over everything: CPU, memory, and an old document's part of it.

    python benchmarks/added_dump.py CORPUS WORK --json out.json

The first run is over nine tenths of the corpus' files, the dump is the rest. Four runs as far as
deduplication, each in one process (`--workers 0`), so that its CPU time and peak memory are the system's
own figures: all files; the first run; the dump against the first run; the dump alone, to tell what the
old documents cost. An old document's cost is (dump against - dump alone) / old documents.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

RUN = """
verify = {{ learning = false }}
dedup = {{ against = {against} }}
[[sources]]
name = "corpus"
paths = {paths}
root = {root}
language = {{ column = "lang" }}
[[datasets]]
name = "clm"
"""
TENTH = 10
STEPS = ("all", "first", "dump", "alone")


def write_run(work: Path, name: str, files: list[Path], *, against: list[str]) -> Path:
    """Write the run file of one of the runs."""
    path = work / f"{name}.toml"
    listed = json.dumps([str(file) for file in files])
    text = RUN.format(against=json.dumps(against), paths=listed, root=json.dumps(str(files[0].parent)))
    path.write_text(text)
    return path


def measured(run_file: Path, output: Path) -> dict[str, Any]:
    """Do one run; return its CPU seconds, peak memory in MiB, documents and what is kept."""
    command = [sys.executable, "-m", "pipeline.main", "run", str(run_file), "-o", str(output)]
    began = time.monotonic()
    process = subprocess.Popen(  # noqa: S603  # our own program
        [*command, "--workers", "0", "--until", "dedup"]
    )
    _, status, usage = os.wait4(process.pid, 0)
    assert not status, f"{run_file}: ended with {status}"
    record = json.loads((output / "commits/dedup/_step.json").read_text())["record"]
    return {
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 2),
        "wall_seconds": round(time.monotonic() - began, 2),
        "peak_mib": usage.ru_maxrss // 1024,
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
    return {step: round(seconds, 2) for step, seconds in found.items()}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True)
    files = sorted(options.corpus.resolve().iterdir())
    dump = files[TENTH - 1 :: TENTH]
    first = sorted(set(files) - set(dump))
    runs = {"all": (files, []), "first": (first, []), "dump": (dump, ["first"]), "alone": (dump, [])}
    found: dict[str, Any] = {}
    for name in STEPS:
        own, against = runs[name]
        run_file = write_run(options.work, name, own, against=against)
        found[name] = measured(run_file, options.work / name)
        print(name, json.dumps(found[name]), flush=True)
    old = found["first"]["documents"]
    extra = found["dump"]["cpu_seconds"] - found["alone"]["cpu_seconds"]
    new = found["alone"]["cpu_seconds"] / found["alone"]["documents"]
    found["old_document_cpu_us"] = round(1e6 * extra / old, 2)
    found["new_document_cpu_us"] = round(1e6 * new, 2)
    found["old_of_new"] = float(np.round(extra / old / new, 4))
    print(json.dumps({key: found[key] for key in found if key not in STEPS}))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
