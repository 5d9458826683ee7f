"""How the cost of a run grows with its corpus: CPU, memory and files at several sizes.

    python benchmarks/growth.py --corpus '/data/*.jsonl.zst' --cache DIR --megabytes 10 100 1000 \
        --workers 1 2 --json growth.json

Smaller corpora hold a sample of the documents, chosen by a hash of their texts. Larger ones hold all of
them again and again, each time with their words in another order. So each time has as many duplicates
within it. One document of 20 keeps its order and gets one more word instead, so that it is a
near-duplicate of a document that stands far away. The runs are those of `benchmarks/scale.toml`, without
the learning check. Give them a tokenizer (`--set 'tokenizer={path="..."}'`): training one costs the same
for all sizes.
"""

import argparse
import glob
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path

import xxhash
from corpus_slice import CorpusSlice, read_documents, write_documents
from run_processes import corpus_override, run_command
from scale import describe, measure

from stages.reading.records import RawDocument

RUN_FILE = Path(__file__).with_name("scale.toml")
MB = 1_000_000
DRIVERS = ("shardmill", "pipeline.main")
"""What the command line of a driver names."""
ORDERS = tuple((step, first) for step in range(2, 6) for first in range(step))
"""Ways to give a text's words another order: of every `step` words, two change places."""
_FILES = 8
"""Of a small corpus, so that several workers can read it."""
_LEAST_FILE, _MOST_FILE = 16 * MB, 256 * MB
"""Of text: no unit is larger than its file."""
REPEATED = 20
"""Of so many documents, one is repeated in each lap."""
MEAN_WORD = 40
"""Characters between two spaces, above which a text is of a script without spaces."""


@dataclass(frozen=True)
class Point:
    """What a run over a corpus of one size took."""

    workers: int
    unit_mib: int
    """`ingest.unit_size`."""
    text_bytes: int
    documents: int
    cpu_seconds: float
    wall_seconds: float
    peak_mib: float
    peak_processes: dict[str, float]
    """MiB that the largest processes held at the peak."""
    files: int
    driver_seconds: float
    """CPU seconds of the driver, which gives out the tasks and commits them."""
    steps: dict[str, float]
    """CPU seconds of the tasks of each."""
    longest: dict[str, float]
    """CPU seconds of the longest task of each step."""
    commits: dict[str, int]
    """Of each step."""

    @property
    def cpu_of_a_mb(self) -> float:
        """CPU seconds for a MB of text."""
        return self.cpu_seconds / (self.text_bytes / MB)


def reworded(text: str, lap: int) -> str:
    """Return a text with its words in another order; its own for lap 0.

    Any five words in a row are others then, so that the new text is no near-duplicate of the old one.
    """
    if lap == 0:
        return text
    step, first = ORDERS[(lap - 1) % len(ORDERS)]
    separator = " " if len(text) < MEAN_WORD * (1 + text.count(" ")) else ""
    words = text.split(separator) if separator else list(text)
    left, right = words[first::step], words[first + 1 :: step]
    pairs = min(len(left), len(right))
    words[first : first + pairs * step : step] = right[:pairs]
    words[first + 1 : first + 1 + pairs * step : step] = left[:pairs]
    return separator.join(words)


def enlarged(paths: Iterable[Path], laps: int) -> Iterator[RawDocument]:
    """Yield the documents of some files, lap after lap."""
    paths = list(paths)
    for lap in range(laps):
        for record in read_documents(paths):
            if record is not None:
                own_id = f"{record.own_id}-{lap}" if lap else record.own_id
                yield replace(record, text=_of_lap(record.text, lap), own_id=own_id)


def _of_lap(text: str, lap: int) -> str:
    """Return a text as a lap has it: with its words in another order, or with one more."""
    if lap and xxhash.xxh3_64_intdigest(text.encode()) % REPEATED == 0:
        return f"{text} {lap}"
    return reworded(text, lap)


def sampled(paths: Iterable[Path], share: float) -> Iterator[RawDocument]:
    """Yield a share of the documents of some files, chosen by their texts."""
    for record in read_documents(paths):
        if record is not None and xxhash.xxh3_64_intdigest(record.text.encode()) < share * 2**64:
            yield record


def make_corpus(paths: list[Path], folder: Path, *, size: int, whole: int) -> CorpusSlice:
    """Write a corpus of about so many bytes of text.

    Args:
        paths: files of JSON lines.
        folder: replaced if it is there.
        size: bytes of text to write.
        whole: bytes of text in the files.
    """
    file_bytes = min(max(_LEAST_FILE, size // _FILES), _MOST_FILE)
    if size <= whole:
        return write_documents(sampled(paths, size / whole), folder, file_bytes=file_bytes)
    laps = -(-size // whole)
    return write_documents(enlarged(paths, laps), folder, max_bytes=size, file_bytes=file_bytes)


def run_once(
    corpus: CorpusSlice,
    output: Path,
    *,
    workers: int,
    unit_mib: int,
    command: str,
    overrides: Sequence[str],
) -> Point:
    """Do a run over a corpus, and remove what it made.

    Args:
        corpus: what is read.
        output: the folder of the run, replaced if it is there.
        workers: of the run.
        unit_mib: `ingest.unit_size`.
        command: the program.
        overrides: settings beside those of the run file.

    Raises:
        RuntimeError: the run failed.
    """
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    settings = [corpus_override(str(corpus.folder / "*.zst")), "verify.learning=false"]
    settings += [f'ingest.unit_size="{unit_mib}MiB"', *overrides]
    words = run_command(command, RUN_FILE, output, workers=workers, overrides=settings)
    log = output.with_name(f"{output.name}.out")
    run = measure(words, output, log=log, period=1.0)
    if run["exit_code"]:
        message = f"the run over {corpus.folder} ended with {run['exit_code']}; see {log}"
        raise RuntimeError(message)
    steps = describe(output, run)["steps"]
    memory = run["memory"]
    by_process = memory["cpu_seconds_by_process"]
    files = sum(1 for path in output.rglob("*") if path.is_file())
    shutil.rmtree(output)
    return Point(
        workers=workers,
        unit_mib=unit_mib,
        text_bytes=corpus.text_bytes,
        documents=corpus.documents,
        cpu_seconds=memory["cpu_seconds"],
        wall_seconds=run["wall_seconds"],
        peak_mib=memory["peak_mib"],
        peak_processes=summed((held["process"], held["mib"]) for held in memory["peak_processes"]),
        files=files,
        driver_seconds=sum(spent for name, spent in by_process.items() if name.endswith(DRIVERS)),
        steps={name: step["cpu_seconds"] for name, step in steps.items()},
        longest={name: step["longest_cpu_seconds"] for name, step in steps.items()},
        commits={name: int(step["units"]) for name, step in steps.items()},
    )


def summed(items: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Return the sum of each name's numbers."""
    sums: dict[str, float] = {}
    for name, number in items:
        sums[name] = sums.get(name, 0.0) + number
    return sums


def markdown(points: Iterable[Point]) -> str:
    """Return the points as a table."""
    rows = ["| MB | documents | unit, MiB | workers | CPU s | CPU s a MB | wall s | peak MiB | files |"]
    rows.append("|---:" * 9 + "|")
    for point in points:
        size = f"{point.text_bytes / MB:,.0f} | {point.documents:,} | {point.unit_mib} | {point.workers}"
        cost = f"{point.cpu_seconds:,.1f} | {point.cpu_of_a_mb:.3f} | {point.wall_seconds:,.1f}"
        rows.append(f"| {size} | {cost} | {point.peak_mib:,.0f} | {point.files:,} |")
    return "\n".join(rows)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="files of JSON lines")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="all that is made")
    parser.add_argument("--megabytes", nargs="+", type=int, default=[10, 100, 1000], metavar="N")
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2], metavar="N")
    parser.add_argument("--unit-mib", nargs="+", type=int, default=[64], metavar="MIB")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    parser.add_argument("--command", default="shardmill", help="the program [default: shardmill]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    return parser.parse_args()


def main() -> int:
    """Make each corpus, run over it, and print the table."""
    arguments = parse_arguments()
    paths = sorted(Path(path) for one in arguments.corpus for path in glob.glob(one))  # noqa: PTH207
    if not paths:
        print(f"--corpus {' '.join(arguments.corpus)}: names no file", file=sys.stderr)
        return 2
    whole = sum(len(record.text.encode()) for record in read_documents(paths) if record is not None)
    points = []
    for megabytes in arguments.megabytes:
        folder = arguments.cache / f"corpus-{megabytes}"
        corpus = make_corpus(paths, folder, size=megabytes * MB, whole=whole)
        for workers, unit_mib in product(arguments.workers, arguments.unit_mib):
            point = run_once(
                corpus,
                arguments.cache / f"run-{megabytes}-{workers}-{unit_mib}",
                workers=workers,
                unit_mib=unit_mib,
                command=arguments.command,
                overrides=arguments.overrides,
            )
            points.append(point)
            print(json.dumps(asdict(point)), flush=True)
        shutil.rmtree(folder)
    print(markdown(points))
    if arguments.json:
        arguments.json.write_text(
            json.dumps([asdict(p) for p in points], indent=1) + "\n", encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
