"""Filters beside datatrove's: the same verdicts, and MB of text a CPU second of each.

    filters.py --corpus 'CORPUS/*.jsonl.gz' --cache DIR --json out.json

Documents are drawn from the whole corpus by the hash of their text and cleaned as a run cleans them.
datatrove, in an environment of its own, is asked twice: with its own words, as its users have it, and
with ours in their place, which shows whether the rules are the same. Each filter runs by itself over all
documents, first one program, then the other; what is loaded and compiled at the first documents is not
counted. A CPU second is one of the process that filters, whoever else uses the machine. The filter of
personal data is compared with datatrove's formatter in what they replace (`personal_data.py`).
"""

import argparse
import glob
import hashlib
import heapq
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from peer_environments import DATATROVE, installed_versions, make_peer_environment
from personal_data import compare, our_texts, personal_data_table

from stages.cleaning.text import cleaned
from stages.filtering.c4 import CITATION, count_sentences
from stages.filtering.chain import FilterChain
from stages.filtering.filter import Document
from stages.filtering.table import FILTERS
from stages.filtering.words import split_words
from stages.reading.decompress import stream_chunks
from stages.reading.lines import split_lines

PEERS = Path(__file__).with_name("peers")
COMPARED = ("gopher_quality", "gopher_repetition", "c4", "fineweb")
SETTINGS: dict[str, dict[str, Any]] = {
    "c4": {"min_sentences": 5, "min_line_words": 3, "line_ends": [".", "?", "!", '"', "'"]}
}
"""Where our defaults are those of another program: datatrove's, with which the verdicts are compared."""
MEGA = 1e6
SHORTEST, LONGEST = 200, 200_000
"""Bytes of the documents that are drawn."""


@dataclass(frozen=True)
class Compared:
    """One filter beside datatrove's."""

    filter: str
    documents: int
    dropped: int
    """By our filter."""
    same_given_words: float
    """Share of documents with the same verdict, if datatrove is given our words."""
    same: float
    """Share of them with each one's own words."""
    ours: float
    """MB a CPU second."""
    theirs: float

    @property
    def times(self) -> float:
        """Return how many times as fast ours is."""
        return self.ours / self.theirs


def texts_of(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the texts of files of JSON lines."""
    for path in paths:
        for line in split_lines(stream_chunks(path), max_bytes=1 << 25):
            record = json.loads(line.data) if line.data else {}
            if isinstance(record.get("text"), str):
                yield record["text"]


def draw(paths: Sequence[Path], count: int) -> list[str]:
    """Return the cleaned texts of least hash, each once."""
    hashed = (
        (hashlib.sha256(text.encode()).digest(), text)
        for text in texts_of(paths)
        if SHORTEST <= len(text.encode()) <= LONGEST
    )
    least = dict(heapq.nsmallest(2 * count, hashed))
    found = {cleaned(text).data.decode(): None for _, text in sorted(least.items())}
    return list(found)[:count]


def our_verdicts(kind: str, texts: Sequence[str]) -> tuple[list[str], float]:
    """Return what our filter says of texts, and the CPU seconds that it took."""
    chain = FilterChain(
        [FILTERS[kind].config.model_validate({"kind": kind, **SETTINGS.get(kind, {})})], "any"
    )
    documents = [Document(text.encode(), len(text)) for text in texts]
    for document in documents[:20]:
        chain.judge(document)
    before = time.process_time()
    found = [chain.judge(document) for document in documents]
    seconds = time.process_time() - before
    return [
        one.reason or "kept " + hashlib.sha256(one.document.text).hexdigest()[:16] for one in found
    ], seconds


def words_of(text: str) -> dict[str, Any]:
    """Return what datatrove is given in place of its own words."""
    lines = {line.strip() for line in text.split("\n")}
    cut = {CITATION.sub("", line) for line in lines}
    return {
        "text": text,
        "words": split_words(text),
        "sentences": {line: count_sentences(line) for line in lines | cut},
    }


def same_share(ours: Sequence[str], theirs: Sequence[str]) -> float:
    """Return the share of documents that both keep, with the same text, or both drop."""
    return sum(_decision(a) == _decision(b) for a, b in zip(ours, theirs, strict=True)) / len(ours)


def _decision(verdict: str) -> str:
    return verdict if verdict.startswith("kept") else "dropped"


def main() -> int:
    """Draw, ask both, print the table."""
    arguments = parse_arguments()
    cache = arguments.cache.resolve()
    cache.mkdir(parents=True, exist_ok=True)
    texts = draw(arguments.paths, arguments.documents)
    size = sum(len(text.encode()) for text in texts) / MEGA
    documents, words = cache / "documents.jsonl", cache / "words.jsonl"
    write_lines(documents, ({"text": text} for text in texts))
    write_lines(words, map(words_of, texts))
    python = make_peer_environment(cache, DATATROVE)
    verdicts_of = PEERS / "datatrove_filters.py"
    given = ask_peer(python, verdicts_of, documents, cache / "given.json", words)
    own = ask_peer(python, verdicts_of, documents, cache / "own.json")
    rows, found = [], {}
    for kind in COMPARED:
        verdicts, seconds = our_verdicts(kind, texts)
        found[kind] = {"ours": verdicts, "given": given[kind]["verdicts"], "own": own[kind]["verdicts"]}
        rows.append(
            Compared(
                filter=kind,
                documents=len(texts),
                dropped=sum(not verdict.startswith("kept") for verdict in verdicts),
                same_given_words=same_share(verdicts, given[kind]["verdicts"]),
                same=same_share(verdicts, own[kind]["verdicts"]),
                ours=size / seconds,
                theirs=size / own[kind]["cpu_seconds"],
            )
        )
    (cache / "verdicts.json").write_text(json.dumps(found), encoding="utf-8")
    versions = installed_versions(python, DATATROVE)
    print(f"{len(texts):,} documents, {size:.1f} MB; {versions}\n")
    print(table(rows))
    print()
    print(why_other(found))
    replaced = ask_peer(python, PEERS / "datatrove_pii.py", documents, cache / "replaced.json")
    compared, examples = compare(
        texts,
        replaced["texts"],
        replaced["spans"],
        ours=our_texts(texts),
        seconds=replaced["cpu_seconds"],
    )
    print("", personal_data_table(compared), "", *examples, sep="\n")
    if arguments.json:
        content = {"versions": versions, "megabytes": size, "filters": [asdict(row) for row in rows]}
        content["personal_data"] = asdict(compared)
        arguments.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


def table(rows: Sequence[Compared]) -> str:
    """Return the figures as Markdown."""
    heads = ["filter", "dropped", "same verdict, given the same words", "each with its own words"]
    heads += ["MB a CPU second", "datatrove", "times"]
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [
        f"| `{row.filter}` | {row.dropped:,} | {row.same_given_words:.2%} | {row.same:.2%}"
        f" | {row.ours:.1f} | {row.theirs:.2f} | {row.times:.0f} |"
        for row in rows
    ]
    return "\n".join(lines)


def why_other(found: dict[str, dict[str, list[str]]]) -> str:
    """Return, for each filter, the commonest pairs of verdicts that differ."""
    lines = []
    for kind, verdicts in found.items():
        for mode in ("given", "own"):
            pairs = Counter(
                (_short(a), _short(b))
                for a, b in zip(verdicts["ours"], verdicts[mode], strict=True)
                if _decision(a) != _decision(b)
            )
            lines += [
                f"{kind}, {mode} words: {number} times {a}, where datatrove has {b}"
                for (a, b), number in pairs.most_common(4)
            ]
    return "\n".join(lines)


def _short(verdict: str) -> str:
    return verdict.partition(" ")[0]


def ask_peer(python: Path, program: Path, *arguments: Path) -> dict[str, Any]:
    """Return what datatrove says, which a program writes into the second of the files."""
    subprocess.run([python, program, *arguments], check=True)  # noqa: S603  # the benchmark's own
    found: dict[str, Any] = json.loads(arguments[1].read_text(encoding="utf-8"))
    return found


def write_lines(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Write JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def parse_arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--corpus", nargs="+", required=True, metavar="GLOB", help="files of JSON lines")
    parser.add_argument("--cache", type=Path, required=True, metavar="DIR", help="all that is made")
    parser.add_argument("--documents", type=int, default=5_000, help="[default: 5000]")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the figures there too")
    arguments = parser.parse_args(words)
    found = (Path(path) for one in arguments.corpus for path in glob.glob(one))  # noqa: PTH207
    arguments.paths = sorted(path.resolve() for path in found)
    if not arguments.paths:
        parser.error(f"--corpus {' '.join(arguments.corpus)}: there is no such file")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
