"""How many short documents deduplication decides about in a CPU second, all its phases apart.

    decision.py FOLDER [--documents 1000000] [--json decision.json]

The documents have 20 to 59 words each, drawn as in a language, the frequent ones often. Of 20 documents
one repeats an earlier one, and two repeat one but for their last word. The run is inline, and ends with
dedup. The CPU seconds are those of its tasks, which read what the phase before wrote, and write and
digest what the next one reads. The sum goes from sorted band keys to the evidence of who was removed.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import orjson
from run_processes import corpus_override, run_command

RUN_FILE = Path(__file__).with_name("scale.toml")
WORDS, POOL, FILES = 50_000, 200_000, 8
EXACT, REPEATED = 0.05, 0.15
"""Shares of documents that repeat another one, to the letter or at all."""
PHASES = {
    "digests": "sort digests",
    "exact": "find exact duplicates",
    "keys": "sort band keys",
    "band": "find candidates in buckets",
    "shingles": "hash candidates",
    "pairs": "verify candidate pairs",
    "decide": "decide",
    "members": "count, name",
    "rows": "write the evidence",
    "join": "join the evidence",
}
"""What the names of dedup's tasks begin with."""
SUMMED = ("band", "shingles", "pairs", "decide", "members", "rows", "join")


def short_documents(count: int, *, seed: int = 5) -> Iterator[str]:
    """Yield texts of 20 to 59 words; 5% repeat an earlier one, 10% do so but for the last word."""
    rng = np.random.default_rng(seed)
    chances = np.cumsum(1 / np.arange(1, WORDS + 1) ** 0.9)
    earlier: list[list[str]] = []
    for number in range(count):
        kind, length = rng.random(), int(rng.integers(20, 60))
        if kind < REPEATED and len(earlier) > POOL // 200:
            words = list(earlier[int(rng.integers(len(earlier)))])
            if kind >= EXACT:
                words[-1] = f"last{number:x}"
        else:
            drawn = np.searchsorted(chances, rng.random(length) * chances[-1])
            words = [f"w{word:x}" for word in drawn.tolist()]
        if len(earlier) < POOL:
            earlier.append(words)
        yield " ".join(words)


def write_corpus(folder: Path, count: int) -> None:
    """Write documents as JSON lines, into `FILES` files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    texts = short_documents(count)
    for file in range(FILES):
        with (folder / f"{file}.jsonl").open("wb") as lines:
            for number in range(file * count // FILES, (file + 1) * count // FILES):
                record = {"id": str(number), "lang": "en", "text": next(texts)}
                lines.write(orjson.dumps(record) + b"\n")


def phase_seconds(log: Path) -> dict[str, float]:
    """Return the CPU seconds of the tasks of each phase of dedup."""
    seconds: defaultdict[str, float] = defaultdict(float)
    for line in log.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        if event["event"] == "commit" and event["step"] == "dedup":
            seconds[event["unit"].partition("-")[0]] += event.get("cpu_seconds", 0.0)
    return {name: seconds[name] for name in PHASES}


def markdown(seconds: dict[str, float], documents: int) -> str:
    """Return a table of the phases."""
    lines = ["| phase | CPU s | thousand documents a CPU s |", "|---|---:|---:|"]
    summed = sum(seconds[name] for name in SUMMED)
    rows = [*((PHASES[name], value) for name, value in seconds.items()), ("buckets to decision", summed)]
    rows = [(title, value) for title, value in rows if value]  # a small table is not joined
    lines += [f"| {title} | {value:.2f} | {documents / 1e3 / value:,.0f} |" for title, value in rows]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the corpus, run, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="for the corpus and the run, replaced")
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--command", default=str(Path(sys.executable).with_name("shardmill")))
    parser.add_argument("--json", type=Path, metavar="PATH")
    arguments = parser.parse_args(argv)
    output = arguments.folder / "run"
    write_corpus(arguments.folder / "corpus", arguments.documents)
    shutil.rmtree(output, ignore_errors=True)
    overrides = [corpus_override(f"{arguments.folder}/corpus/*.jsonl")]
    command = run_command(arguments.command, RUN_FILE, output, workers=0, overrides=overrides)
    with (arguments.folder / "run.out").open("wb") as out:
        subprocess.run([*command, "--until", "dedup"], check=True, stdout=out, stderr=out)  # noqa: S603
    seconds = phase_seconds(output / "log.jsonl")
    print(markdown(seconds, arguments.documents))
    if arguments.json:
        arguments.json.write_text(
            json.dumps({"documents": arguments.documents, "seconds": seconds}) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
