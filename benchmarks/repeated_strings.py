"""How much text stands twice: the share of words in strings of 50 words and more that a corpus repeats.

    python -m benchmarks.repeated_strings FOLDER [FOLDER ...]

FOLDER is a folder of JSONL files (plain or gzip, field `text`), read in order of name, or a run that has
finished its step `dedup`, or `cut` if it has one: of a run the kept documents are read as later steps
read them. A word is a token of `stages.dedup.shingles.split_tokens`. It counts if it lies in a window of
50 words that stands at least twice in the corpus, in all its copies; `beyond the first` are words that
lie in no window that is the first of its kind. No window crosses the end of a document.

The counter shares no code with the step `cut`, and no hash decides: windows get numbers by prefix
doubling (Karp, Miller and Rosenberg, STOC 1972), the first half of the sorting of suffixes.
"""

import argparse
import gzip
import json
import resource
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.state.commits import STEP_COMMIT
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.selection import as_kept_by, selecting
from pipeline.steps.units import kept_groups, units_of
from stages.dedup.shingles import split_tokens

SIZE = 50


class Repeated(NamedTuple):
    """What stands twice in a corpus."""

    words: int
    repeated: int
    """Words in strings that stand at least twice."""
    beyond: int
    """Of these, words that no first string covers."""


def texts_of(folder: Path) -> Iterator[str]:
    """Yield the texts of a run, or of a folder of JSONL files."""
    if (folder / "commits").is_dir():
        yield from kept_texts(folder)
        return
    paths = sorted([*folder.rglob("*.jsonl"), *folder.rglob("*.jsonl.gz")])
    if not paths:
        raise SystemExit(f"{folder} is neither a run nor a folder with files *.jsonl or *.jsonl.gz")
    for path in paths:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if path.suffix == ".gz"
            else path.open(encoding="utf-8") as lines
        ):
            for line in lines:
                yield json.loads(line)["text"]


def kept_texts(run: Path) -> Iterator[str]:
    """Yield the kept documents of a run in canonical order."""
    commits, file = RunFolder(run).commits, RunFolder(run).file
    ingested = dict(commits.all("ingest"))[STEP_COMMIT].read(IngestRecord)
    done = [name for name in selecting(file) if STEP_COMMIT in dict(commits.all(name))]
    workspace = Workspace(run, run / "tmp")
    for unit in units_of(ingested.units):
        for table in kept_groups(workspace, as_kept_by(unit, done[-1]), ["text"]):
            yield from table.column("text").to_pylist()


def window_numbers(words: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Number the windows of `size` words: (T - size + 1,) int64, equal for equal windows alone."""
    numbers, length = words, 1
    while length < size:
        step = min(length, size - length)
        left, right = numbers[:-step], numbers[step:]
        pairs = left * (int(numbers.max(initial=0)) + 1) + right
        numbers = np.unique(pairs, return_inverse=True)[1].astype(np.int64)
        length += step
    return numbers


def covered(starts: NDArray[np.int64], length: int, size: int) -> NDArray[np.bool_]:
    """Return which of `length` words lie in a window of `size` words at one of the starts."""
    marks = np.zeros(length + 1, np.int64)
    np.add.at(marks, starts, 1)
    np.add.at(marks, starts + size, -1)
    return np.cumsum(marks)[:length] > 0


def count_repeated(texts: Iterable[str], size: int = SIZE) -> Repeated:
    """Count words in strings of `size` words that stand at least twice."""
    known: dict[str, int] = {}
    parts = [
        np.array([known.setdefault(word, len(known)) for word in split_tokens(text)], np.int64)
        for text in texts
    ]
    words = np.concatenate([*parts, np.empty(0, np.int64)])
    lengths = np.array([len(part) for part in parts], np.int64)
    if len(words) < size:
        return Repeated(len(words), 0, 0)
    room = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))  # words to the document's end
    starts = np.flatnonzero(room >= size)
    numbers = window_numbers(words, size)[starts]
    _, first, group, counts = np.unique(
        numbers, return_index=True, return_inverse=True, return_counts=True
    )
    twice = counts[group] > 1
    is_first = first[group] == np.arange(len(starts))
    inside = covered(starts[twice], len(words), size)
    of_first = covered(starts[twice & is_first], len(words), size)
    return Repeated(len(words), int(inside.sum()), int((inside & ~of_first).sum()))


def main() -> None:
    """Print the shares of some folders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    for folder in parser.parse_args().folders:
        begun = time.process_time()
        found = count_repeated(texts_of(folder))
        if not found.words:
            print(f"{folder.name}: no words")
            continue
        print(
            f"{folder.name}: {found.words:,} words,"
            f" {found.repeated / found.words:.2%} in strings of {SIZE} and more that stand twice,"
            f" {found.beyond / found.words:.2%} beyond the first of each;"
            f" {time.process_time() - begun:.1f} CPU s,"
            f" peak so far {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB"
        )


if __name__ == "__main__":
    main()
