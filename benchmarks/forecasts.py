"""Forecasts beside runs: what `plan --sample` expects, and what the run then reads, gives and takes.

    forecasts.py --corpus NAME='CORPUS/en-*.jsonl.gz' --corpus ... --cache DIR [--workers 0 1 2]

The first texts of each corpus, one of each file after the other, are written anew as files of JSON
lines, from whose beginnings the sample is drawn. Each run is measured from the outside, all its
processes counted (`process_cost.py`). Models are not asked to learn, because that takes minutes
whatever the corpus.
"""

import argparse
import glob
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from corpus_slice import read_documents, write_documents
from process_cost import measure

from stages.reading.records import RawDocument

_RUN = """
name = "forecasts"
seed = 7
verify.learning = false
tokenizer.train.vocab_size = {pieces}
packing.seq_len = 1024
datasets = [{{ name = "clm" }}]

[[sources]]
name = "corpus"
paths = ["{folder}/*.jsonl.zst"]
id_column = "id"
language = {{ column = "lang" }}
"""
_MIB = 1 << 20


@dataclass(frozen=True)
class Measured:
    """A forecast, and the runs."""

    corpus: str
    megabytes: float
    forecast: dict[str, Any]
    report: dict[str, Any]
    """Of the run without workers, or the first."""
    disk: int
    """Bytes of that run's folder that the forecast tells of."""
    peaks: dict[int, float]
    """MiB by workers."""
    cpu_seconds: dict[int, float]
    """Of all processes, by workers."""


def measure_corpus(name: str, paths: Sequence[Path], arguments: argparse.Namespace) -> Measured:
    """Forecast a run over a corpus, then make it with each number of workers."""
    folder = arguments.cache / name
    size = int(arguments.megabytes * 1e6)
    made = write_documents(one_of_each(paths), folder / "corpus", max_bytes=size)
    run_file = folder / "run.toml"
    run_file.write_text(_RUN.format(folder=made.folder, pieces=arguments.vocab_size), encoding="utf-8")
    words = [arguments.command, "plan", str(run_file), "-o", str(folder / "never")]
    words += ["--sample", str(arguments.sample), "--json"]
    said = subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout  # noqa: S603  # ours
    peaks, seconds = dict[int, float](), dict[int, float]()
    report, disk, forecast = dict[str, Any](), 0, json.loads(said)
    for workers in arguments.workers:
        output = folder / f"run-{workers}"
        shutil.rmtree(output, ignore_errors=True)
        words = [arguments.command, "run", str(run_file), "-o", str(output), "--workers", str(workers)]
        cost = measure(words, folder / f"cost-{workers}")
        if cost.exit_code:
            raise SystemExit(f"{name} with {workers} workers failed; see {folder / f'cost-{workers}'}")
        peaks[workers], seconds[workers] = cost.peak_mib, cost.cpu_seconds
        report = report or json.loads((output / "report" / "report.json").read_text(encoding="utf-8"))
        disk = disk or sum(size_of(output / one) for one in forecast["disk"])
        shutil.rmtree(output)
    return Measured(name, made.text_bytes / 1e6, forecast, report, disk, peaks, seconds)


def one_of_each(paths: Sequence[Path]) -> Iterator[RawDocument | None]:
    """Yield a document of each file, then another of each, until all have ended."""
    rows = itertools.zip_longest(*(read_documents([path]) for path in paths))
    return (one for row in rows for one in row if one is not None)


def size_of(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return sum(path.stat().st_size for path in files)


def table(rows: Sequence[Measured]) -> str:
    """Return forecasts and what was measured as Markdown, forecast first."""
    workers = list(rows[0].peaks)
    heads = ["corpus", "read of it", "documents", "tokens, million", "disk, MB", "CPU s of the steps"]
    heads += [f"MiB, {number} workers" for number in workers]
    lines = [f"| {' | '.join(heads)} |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    for row in rows:
        found, report = row.forecast, row.report
        held = {one["workers"]: one["bytes"] / _MIB for one in found["memory"]}
        tokens = sum(one["tokens"] for one in report["languages"])
        cells = [
            f"{row.corpus}, {row.megabytes:.0f} MB",
            f"{found['share']:.1%}",
            f"{found['kept']:,} : {report['documents']['kept']:,}",
            f"{found['tokens'] / 1e6:.1f} : {tokens / 1e6:.1f}",
            f"{sum(found['disk'].values()) / 1e6:.0f} : {row.disk / 1e6:.0f}",
            f"{found['cpu_seconds']:.0f} : {sum(one['cpu_seconds'] for one in report['steps']):.0f}",
            *(f"{held[number]:.0f} : {row.peaks[number]:.0f}" for number in workers),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def steps_table(row: Measured) -> str:
    """Return the CPU seconds and what was held of each step of a corpus, forecast first."""
    actual = {one["step"]: one for one in row.report["steps"]}
    lines = [f"{row.corpus}:", "| step | CPU s | MiB held |", "|---|---:|---:|"]
    for step in row.forecast["steps"]:
        one = actual[step["step"]]
        lines.append(
            f"| {step['step']} | {step['cpu_seconds']:.1f} : {one['cpu_seconds']:.1f}"
            f" | {one['peak_memory'] / _MIB:.0f} |"
        )
    return "\n".join(lines)


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", action="append", required=True, metavar="NAME=GLOB")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="all that is made")
    parser.add_argument("--megabytes", type=float, default=60.0, help="of each corpus [default: 60]")
    parser.add_argument("--sample", type=float, default=0.1, help="[default: 0.1]")
    parser.add_argument("--workers", type=int, nargs="+", default=[0, 1, 2], help="[default: 0 1 2]")
    parser.add_argument("--vocab-size", type=int, default=16_000, help="[default: 16000]")
    parser.add_argument("--command", default=".venv/bin/shardmill", help="[default: %(default)s]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args(words)
    arguments.cache = arguments.cache.resolve()
    arguments.corpora = {}
    for one in arguments.corpus:
        name, _, pattern = one.partition("=")
        found = sorted(Path(path).resolve() for path in glob.glob(pattern))  # noqa: PTH207
        if not found:
            parser.error(f"--corpus {one}: there is no such file")
        arguments.corpora[name] = found
    return arguments


def main() -> int:
    """Measure each corpus and print the tables."""
    arguments = parse_arguments()
    rows = [measure_corpus(name, paths, arguments) for name, paths in arguments.corpora.items()]
    print(table(rows), *map(steps_table, rows), sep="\n\n")
    if arguments.json:
        content = [asdict(row) for row in rows]
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
