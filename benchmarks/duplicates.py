"""What programs remove as near-duplicates, held to brute force, and its cost: a table and a picture.

    duplicates.py NAME=FOLDER ... --cache DIR [--json PATH] [--picture duplicates.svg]

Each FOLDER has *.jsonl or *.jsonl.gz with a field `text`. All programs get the same cleaned texts in the
same order, shingles of 5 words, 128 permutations and a threshold of 0.8, and are otherwise run as their
own pages say. Ours is `run --workers 0 --until dedup`. The measure is the rule of docs/dedup.md and the
exact similarity of every pair. datatrove and text-dedup compare other words than ours, so 0.8 means
something else to them, and the table says how they agree with this rule, not with their own.

CPU seconds are those of all processes of a program, start and imports included. Peers are installed in
CACHE (`peer_environments.py`); one that cannot be is a row without figures.
"""

import argparse
import gzip
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow.parquet as pq
from brute_force import Ideal, Judgement, ideal_of, judge
from duplicates_picture import draw
from peer_environments import (
    DATATROVE,
    RENSA,
    TEXT_DEDUP,
    PeerEnvironment,
    PeerNotInstalledError,
    make_peer_environment,
)
from process_cost import last_line, measure

from pipeline.run_file.config import RunFile
from stages.cleaning.text import clean_text
from stages.dedup.lsh import band_shape

PEERS = Path(__file__).resolve().parent / "peers"
SIZE, NUM_PERM, THRESHOLD = 5, 128, 0.8
BANDS, ROWS = band_shape(THRESHOLD, NUM_PERM)
_BRAKE = "max_removed_fraction"
_SETTINGS = RunFile.model_fields["dedup"].annotation.model_fields  # type: ignore[union-attr]
_RUN_FILE = """
[[sources]]
name = "texts"
paths = [{paths}]
id_column = "id"
language = "en"

[dedup]
{brake}
[[datasets]]
name = "clm"
"""
_QUIET = ("env", "-u", "PYTHONPATH", "HF_HUB_OFFLINE=1", "TOKENIZERS_PARALLELISM=false")


@dataclass(frozen=True)
class Program:
    """A program that takes part."""

    name: str
    commands: Callable[[str, Path, Path], list[list[str]]]
    """Given a python, the corpus and a new folder: what is run, one after the other."""
    environment: PeerEnvironment | None = None
    removed: Callable[[Path], list[str]] = lambda output: list(
        json.loads((output / "removed.json").read_bytes())
    )


@dataclass(frozen=True)
class Row:
    """How a program did on a corpus."""

    program: str
    judgement: Judgement | None
    cpu_seconds: float = 0.0
    peak_mib: float = 0.0
    error: str = ""


def _facts(corpus: Path, output: Path, **more: object) -> str:
    facts = {"corpus": str(corpus), "output": str(output), "shingle": SIZE, **more}
    return json.dumps(facts | {"num_perm": NUM_PERM, "threshold": THRESHOLD})


def shardmill(python: str, corpus: Path, output: Path) -> list[list[str]]:
    """Return the run that ends with dedup."""
    brake = f"{_BRAKE} = 1.0\n" if _BRAKE in _SETTINGS else ""
    run_file = output / "run.toml"
    run_file.write_text(_RUN_FILE.format(paths=json.dumps(str(corpus / "*.jsonl")), brake=brake))
    words = [python, "-m", "pipeline.main", "run", str(run_file), "--output", str(output / "run")]
    return [[*words, "--workers", "0", "--until", "dedup"]]


def removed_by_shardmill(output: Path) -> list[str]:
    """Return the ids in the evidence."""
    table = pq.read_table(output / "run" / "dedup" / "removed.parquet", columns=["own_id"])
    names: list[str] = table.column("own_id").to_pylist()
    return names


def sketches(program: str) -> Callable[[str, Path, Path], list[list[str]]]:
    """Return the command of a library of sketches."""

    def commands(python: str, corpus: Path, output: Path) -> list[list[str]]:
        script = str(PEERS / "sketch_dedup.py")
        return [[*_QUIET, python, script, _facts(corpus, output, program=program)]]

    return commands


def datatrove(python: str, corpus: Path, output: Path) -> list[list[str]]:
    """Return the command of datatrove's four stages."""
    script = str(PEERS / "datatrove_dedup.py")
    return [[*_QUIET, python, script, _facts(corpus, output, bands=BANDS, rows=ROWS)]]


def text_dedup(python: str, corpus: Path, output: Path) -> list[list[str]]:
    """Return the commands of text-dedup, and of what reads its output."""
    words = ["-m", "text_dedup.minhash", "--path", "json", "--split", "train", "--column", "text"]
    words += ["--data_files", str(corpus / "*.jsonl"), "--output", str(output / "kept")]
    words += ["--cache_dir", str(output / "cache"), "--num_proc", "1", "--min_length", "1"]
    words += ["--ngram", str(SIZE), "--num_perm", str(NUM_PERM), "--threshold", str(THRESHOLD)]
    quiet = [*_QUIET, f"HF_HOME={output / 'cache'}"]
    script = str(PEERS / "text_dedup_removed.py")
    return [[*quiet, python, *words], [*quiet, python, script, _facts(corpus, output)]]


PROGRAMS = (
    Program("shardmill", shardmill, removed=removed_by_shardmill),
    Program("datasketch", sketches("datasketch")),
    Program("rensa", sketches("rensa"), RENSA),
    Program("datatrove", datatrove, DATATROVE),
    Program("text-dedup", text_dedup, TEXT_DEDUP),
)
"""All of them. datasketch is installed beside the tests."""


def texts_of(folder: Path) -> Iterator[str]:
    """Yield the cleaned texts of a folder that are not empty."""
    for path in sorted(folder.glob("*.jsonl*")):
        data = path.read_bytes()
        lines = gzip.decompress(data) if path.suffix == ".gz" else data
        for line in lines.splitlines():
            text = clean_text(json.loads(line)["text"])
            if text.strip():
                yield text


def name_of(number: int) -> str:
    """Return the id of a document; no program takes it for a number."""
    return f"d{number:08}"


def take_part(program: Program, python: str, corpus: Path, ideal: Ideal, work: Path) -> Row:
    """Run a program in a new folder, and judge it."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    costs = []
    for command in program.commands(python, corpus, work):
        costs.append(measure(command, work))
        if costs[-1].exit_code:
            return Row(program.name, None, error=f"exit code {costs[-1].exit_code}: {last_line(work)}")
    try:
        removed = frozenset(int(name[1:]) for name in program.removed(work))
    except (OSError, ValueError) as error:
        return Row(program.name, None, error=f"its output cannot be read: {error}")
    cpu, peak = costs[0].cpu_seconds, costs[0].peak_mib  # what follows only reads its output
    return Row(program.name, judge(ideal, removed), cpu, peak)


def pythons(cache: Path) -> dict[str, str]:
    """Return the python of each program, or the reason why there is none, behind a `!`."""
    found = {}
    for program in PROGRAMS:
        found[program.name] = sys.executable
        if program.environment is not None:
            try:
                found[program.name] = str(make_peer_environment(cache, program.environment))
            except PeerNotInstalledError as error:
                found[program.name] = f"!{error}"
    return found


def table(rows: list[Row]) -> str:
    """Return the rows as a table."""
    lines = ["| program | removed | left | recall | none alike kept | precision | CPU s | peak MiB |"]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    for row in rows:
        if row.judgement is None:
            lines.append(f"| {row.program} | {row.error} | | | | | | |")
            continue
        got = row.judgement
        lines.append(
            f"| {row.program} | {got.removed:,} | {got.left:,} of {got.ideal:,} | {got.recall:.4f}"
            f" | {got.unmatched:,} | {got.precision:.4f} | {row.cpu_seconds:.1f} | {row.peak_mib:,.0f} |"
        )
    return "\n".join(lines)


def contest(folder: Path, found: dict[str, str], work: Path) -> tuple[int, list[Row]]:
    """Let all programs work on a corpus; return its number of documents and their rows."""
    texts = list(texts_of(folder))
    corpus = work / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir(parents=True)
    with (corpus / "texts.jsonl").open("w", encoding="utf-8") as file:
        for number, text in enumerate(texts):
            file.write(json.dumps({"id": name_of(number), "text": text}) + "\n")
    ideal = ideal_of(texts, size=SIZE, threshold=THRESHOLD)
    rows = []
    for program in PROGRAMS:
        python = found[program.name]
        if python.startswith("!"):
            rows.append(Row(program.name, None, error=f"not installed: {python[1:]}"))
        else:
            rows.append(take_part(program, python, corpus, ideal, work / "output"))
        print(rows[-1], file=sys.stderr, flush=True)
    return len(texts), rows


def main() -> int:
    """Print a table for each corpus; exit 1 if a program failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpora", nargs="+", metavar="NAME=FOLDER", help="what it is called, and where")
    parser.add_argument("--cache", type=Path, required=True, help="where peers are installed")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    parser.add_argument("--picture", type=Path, metavar="PATH", help="draw them there, as SVG")
    options = parser.parse_args()
    found, results = pythons(options.cache), {}
    with tempfile.TemporaryDirectory() as temporary:
        for named in options.corpora:
            name, _, folder = named.partition("=")
            documents, rows = contest(Path(folder), found, Path(temporary))
            results[f"{name}, {documents:,} documents"] = rows
            print(f"\n{name}, {documents:,} documents\n\n{table(rows)}", flush=True)
    if options.json:
        figures = {name: [asdict(row) for row in rows] for name, rows in results.items()}
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    if options.picture:
        drawn = {
            name: [
                (row.program, (row.judgement.recall, row.judgement.precision, row.cpu_seconds))
                for row in rows
                if row.judgement
            ]
            for name, rows in results.items()
        }
        options.picture.write_text(draw(drawn), encoding="utf-8")
    return int(any(row.judgement is None for rows in results.values() for row in rows))


if __name__ == "__main__":
    sys.exit(main())
