"""One whole run, measured from the outside: time, CPU and memory by step, and what came out of it.

    python benchmarks/scale.py RUN.toml --output DIR --workers 2 --json out.json

The folder must be new, or `--resume` given; then the figures of the log cover all attempts, those of
memory and time this one. CPU of a step is that of its committed tasks; CPU of the run is that of all its
processes, Ray's and the driver's among them. Memory is explained in process_memory.py.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from digests import print_summary, summary
from process_memory import PERIOD, MemorySampler, mib
from run_log import edges, step_figures
from run_processes import (
    corpus_override,
    launch,
    new_marker,
    run_command,
    run_processes,
    wait_until_gone,
)

from pipeline.state.journal import read_log

TOP_LANGUAGES = 15
LEFTOVER_SECONDS = 60.0
"""Longest wait for Ray's processes after the driver's end."""


def measure(command: Sequence[str], output: Path, *, log: Path, period: float) -> dict[str, Any]:
    """Do a run; give its exit code, times and memory."""
    marker = new_marker()
    began, clock = time.time(), time.monotonic()
    process = launch(command, marker, log=log)
    sampler = MemorySampler(lambda: run_processes(marker), output, period=period)
    sampler.start()
    try:
        code = process.wait()
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        code = process.wait()
    wall = time.monotonic() - clock
    leftover = wait_until_gone(marker, timeout=LEFTOVER_SECONDS)
    return {
        "command": list(command),
        "exit_code": code,
        "began": began,
        "wall_seconds": round(wall, 2),
        "leftover_seconds": None if leftover is None else round(leftover, 2),
        "memory": sampler.stop(),
    }


def describe(output: Path, run: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a run with those of its log, its report and its artifacts."""
    events = list(read_log(output))
    steps = {
        name: {column: round(value, 2) for column, value in step.items()}
        for name, step in step_figures(events).items()
    }
    peaks = run["memory"]["by_step_mib"]
    for name, step in steps.items():
        step["peak_mib"] = peaks.get(name, 0.0)
        step["worker_vmhwm_mib"] = mib(step.pop("peak_rss"))
    content = {**run, "steps": steps, "log": log_edges(events, run)}
    report = output / "report" / "report.json"
    if report.exists():
        content["report"] = json.loads(report.read_bytes())
    return content


def log_edges(events: Sequence[Mapping[str, Any]], run: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds before the first step, where the program starts, and after the last event."""
    found = edges([event for event in events if event["time"] >= run["began"] - 1])
    if found is None:
        return {}
    ended = run["began"] + run["wall_seconds"]
    return {
        "before_first_step_seconds": round(found[0] - run["began"], 2),
        "after_last_event_seconds": round(ended - found[1], 2),
    }


def top_languages(languages: Sequence[Mapping[str, Any]], limit: int) -> list[dict[str, Any]]:
    """Return the languages of the most tokens, and the others as one row."""
    rows = sorted(languages, key=lambda row: (-row["tokens"], row["language"]))
    top = [dict(row) for row in rows[:limit]]
    if rest := rows[limit:]:
        sums = {name: sum(row[name] for row in rest) for name in ("documents", "bytes", "tokens")}
        top.append({"language": f"{len(rest)} others", **sums})
    return top


def counts_of(figures: Mapping[str, Any], before: str = "") -> dict[str, int]:
    """Return the counts of a section of the report: {"dropped": {"a": 2}} -> {"dropped.a": 2}."""
    found: dict[str, int] = {}
    for name, value in figures.items():
        if isinstance(value, Mapping):
            found |= counts_of(value, f"{before}{name}.")
        elif isinstance(value, int):
            found[f"{before}{name}"] = value
    return found


def print_figures(content: Mapping[str, Any]) -> None:
    """Print the run's figures as tables."""
    print(f"\n{'step':<16}{'units':>8}{'wall s':>10}{'task s':>10}{'CPU s':>10}{'peak MiB':>10}")
    for name, step in content["steps"].items():
        print(
            f"{name:<16}{step['units']:>8,.0f}{step['wall_seconds']:>10,.1f}"
            f"{step['worker_seconds']:>10,.1f}{step['cpu_seconds']:>10,.1f}{step['peak_mib']:>10,.1f}"
        )
    memory = content["memory"]
    print(
        f"{'run':<16}{'':>8}{content['wall_seconds']:>10,.1f}{'':>10}{memory['cpu_seconds']:>10,.1f}"
        f"{memory['peak_mib']:>10,.1f}"
    )
    for name, seconds in content["log"].items():
        print(f"{name.replace('_', ' ')}: {seconds}")
    print(f"peak in {memory['peak_step']}, of it:")
    for entry in memory["peak_processes"]:
        print(f"{entry['mib']:>12,.1f} MiB  {entry['process']}")
    print("CPU seconds by process, those of under one second left out:")
    for name, seconds in memory["cpu_seconds_by_process"].items():
        if seconds >= 1:
            print(f"{seconds:>12,.1f} s    {name}")
    if "report" in content:
        _print_report(content["report"])


def _print_report(report: Mapping[str, Any]) -> None:
    print("\ndocuments")
    for name, value in counts_of(report["documents"]).items():
        print(f"{name:>24}: {value:,}")
    print(f"\n{'language':<20}{'documents':>12}{'bytes':>16}{'tokens':>16}")
    for row in top_languages(report.get("languages", []), TOP_LANGUAGES):
        print(f"{row['language']:<20}{row['documents']:>12,}{row['bytes']:>16,}{row['tokens']:>16,}")
    for dataset, splits in report.get("datasets", {}).items():
        for split, figures in splits.items():
            counts = {k: v for k, v in figures.items() if isinstance(v, int)}
            print(f"{dataset}/{split}: " + ", ".join(f"{k} {v:,}" for k, v in counts.items()))
    for dataset, verdict in (report.get("verify") or {}).items():
        print(f"verify {dataset}: {'pass' if verdict['passed'] else 'FAIL'}")


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run_file", type=Path, metavar="RUN.toml", help="the run file")
    parser.add_argument("--output", type=Path, required=True, metavar="DIR", help="folder of the run")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="[default: 2]")
    parser.add_argument("--corpus", metavar="GLOB", help="read these files instead of the run file's")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--command", default="shardmill", help="the program [default: shardmill]")
    parser.add_argument("--period", type=float, default=PERIOD, help="seconds between two samples")
    parser.add_argument("--resume", action="store_true", help="go on with a folder that holds a run")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args()
    if arguments.corpus:
        arguments.overrides.append(corpus_override(arguments.corpus))
    if (arguments.output / "log.jsonl").exists() and not arguments.resume:
        parser.error(f"--output {arguments.output}: holds a run; choose another or add --resume")
    return arguments


def main() -> int:
    """Do a run and print its figures."""
    arguments = parse_arguments()
    command = run_command(
        arguments.command,
        arguments.run_file,
        arguments.output,
        workers=arguments.workers,
        overrides=arguments.overrides,
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    log = arguments.output.with_name(f"{arguments.output.name}.out")
    print(" ".join(command), f"> {log}", flush=True)
    run = measure(command, arguments.output, log=log, period=arguments.period)
    content = describe(arguments.output, run)
    print_figures(content)
    content["digests"] = summary(arguments.output)
    print()
    print_summary(content["digests"])
    if run["exit_code"]:
        print(f"exit code {run['exit_code']}; see {log}")
    if arguments.json:
        arguments.json.write_text(
            json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
    return 1 if run["exit_code"] else 0


if __name__ == "__main__":
    sys.exit(main())
