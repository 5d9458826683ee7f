"""Previews beside runs: what `plan --sample` says of duplicates, and what the run then removes.

    previews.py --corpus 'CORPUS/*.jsonl.gz' --wheels A-1.whl A-2.whl --cache DIR [--shares 0.01 0.2]

Three corpora: the one given; the Python files of several versions of a package; and texts of the corpus,
each repeated as often as a Zipf law says, in an order of chance.
"""

import argparse
import glob
import json
import random
import subprocess
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from corpus_slice import read_documents

_RUN = """
datasets = [{{ name = "clm" }}]
dedup.max_removed_fraction = 1.0

[[sources]]
name = "corpus"
paths = [{paths}]
"""
_TEXTS = 4_000
"""Different texts that are repeated."""
_EXPONENT = 1.1
_MOST = 4_000
"""Copies of the most frequent text."""


def write_texts(place: Path, texts: Iterator[str]) -> Path:
    """Write texts as JSON lines, once, and return the place."""
    if not place.exists():
        with place.open("w", encoding="utf-8") as target:
            target.writelines(json.dumps({"text": text}) + "\n" for text in texts)
    return place


def code_of(wheels: Sequence[Path]) -> Iterator[str]:
    """Yield the Python files of some packages."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as opened:
            for name in sorted(opened.namelist()):
                text = opened.read(name).decode(errors="ignore") if name.endswith(".py") else ""
                if text.strip():
                    yield text


def repeated(paths: Sequence[Path]) -> Iterator[str]:
    """Yield texts, each as often as its rank in a Zipf law says, shuffled."""
    every = (one for path in paths for one in islice(read_documents([path]), 100) if one is not None)
    texts = [one.text for one in islice(every, _TEXTS)]
    copies = [text for n, text in enumerate(texts, 1) for _ in range(max(1, int(_MOST / n**_EXPONENT)))]
    random.Random(7).shuffle(copies)  # noqa: S311  # no secret
    yield from copies


def measured(name: str, paths: Sequence[str], arguments: argparse.Namespace) -> Iterator[str]:
    """Yield a row of the table for each share."""
    folder = arguments.cache / name
    folder.mkdir(parents=True, exist_ok=True)
    run_file = folder / "run.toml"
    run_file.write_text(_RUN.format(paths=", ".join(map(json.dumps, paths))), encoding="utf-8")
    report = folder / "run" / "report" / "report.json"
    if not report.exists():
        words = ["run", str(run_file), "-o", str(folder / "run"), "--until", "dedup", "--workers", "2"]
        subprocess.run([*arguments.command, *words], check=True, capture_output=True)  # noqa: S603  # ours
    documents: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))["documents"]
    removed = sum(documents["removed"].values())
    total = removed + documents["kept"]
    for share in arguments.shares:
        words = ["plan", str(run_file), "-o", str(folder / "never"), "--sample", str(share), "--json"]
        said = subprocess.run([*arguments.command, *words], check=True, capture_output=True)  # noqa: S603
        found = json.loads(said.stdout)["duplicates"]
        own = found["all"]
        inside = own["low"] - 5e-4 <= removed / total <= own["high"] + 5e-4
        cells = [
            f"{name}, {total:,} documents",
            f"{share:.0%}",
            f"{found['sampled']:,}",
            f"{own['likely']:.1%}",
            f"{own['low']:.1%} to {own['high']:.1%}",
            f"{removed / total:.1%}",
            "yes" if inside else "no",
        ]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print a table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", required=True)
    parser.add_argument("--wheels", nargs="+", type=Path, required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--shares", nargs="+", type=float, default=[0.01, 0.05, 0.2])
    parser.add_argument("--command", nargs=1, default=["shardmill"])
    arguments = parser.parse_args()
    arguments.cache.mkdir(parents=True, exist_ok=True)
    paths = [Path(path) for path in sorted(glob.glob(arguments.corpus))]  # noqa: PTH207  # an absolute one
    code = write_texts(arguments.cache / "code.jsonl", code_of(arguments.wheels))
    zipf = write_texts(arguments.cache / "zipf.jsonl", repeated(paths))
    heads = ["corpus", "sample", "documents in it", "likely", "interval", "truth", "inside"]
    print(f"| {' | '.join(heads)} |\n|---{'|---:' * (len(heads) - 1)}|")
    corpora = (
        ("code in two versions", [str(code)]),
        ("Zipf", [str(zipf)]),
        ("large", [arguments.corpus]),
    )
    for name, own in corpora:
        for row in measured(name, own, arguments):
            print(row, flush=True)


if __name__ == "__main__":
    main()
