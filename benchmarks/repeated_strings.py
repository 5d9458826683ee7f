"""How much text stands twice: the share of words in strings of 50 words and more that a corpus repeats.

    python -m benchmarks.repeated_strings RUN [RUN ...]

RUN is the folder of a run that has finished its step `dedup`, or `cut` if it has one. Its kept documents
are read as later steps read them. A word is a token of `stages.dedup.shingles.split_tokens`. It counts
if it lies in a window of 50 words that stands at least twice; `beyond the first` are words that lie in
no window that is the first of its kind.

The counter shares no code with the step `cut`: each window is known by the BLAKE2b digest of its words.
"""

import argparse
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from pipeline.engine.tasks import Workspace
from pipeline.planning.kept_plan import kept_run, read_kept_plan
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.selection import as_kept_by, selecting
from pipeline.steps.units import kept_groups, units_of
from stages.dedup.shingles import split_tokens

SIZE = 50
_DIGEST = 16


class Repeated(NamedTuple):
    """What stands twice in a corpus."""

    words: int
    repeated: int
    """Words in strings that stand at least twice."""
    beyond: int
    """Of these, words that no first string covers."""


def kept_texts(run: Path) -> Iterator[str]:
    """Yield the kept documents of a run in canonical order."""
    commits, file = Commits(LocalStorage(run)), kept_run(run, read_kept_plan(run))
    ingested = dict(commits.all("ingest"))[STEP_COMMIT].read(IngestRecord)
    done = [name for name in selecting(file) if STEP_COMMIT in dict(commits.all(name))]
    workspace = Workspace(run, run / "tmp")
    for unit in units_of(ingested.units):
        for table in kept_groups(workspace, as_kept_by(unit, done[-1]), ["text"]):
            yield from table.column("text").to_pylist()


def count_repeated(texts: Iterator[str], size: int = SIZE) -> Repeated:
    """Count words in strings of `size` words that stand at least twice."""
    digests, lengths = [], []
    for text in texts:
        words = [word.encode() for word in split_tokens(text)]
        lengths.append(len(words))
        windows = (b" ".join(words[start : start + size]) for start in range(len(words) - size + 1))
        own = b"".join(hashlib.blake2b(one, digest_size=_DIGEST).digest() for one in windows)
        digests.append(np.frombuffer(own, f"S{_DIGEST}"))
    every = np.concatenate(digests)
    _, first, group, counts = np.unique(
        every, return_index=True, return_inverse=True, return_counts=True
    )
    twice = counts[group] > 1
    is_first = first[group] == np.arange(len(every))
    total = repeated = beyond = start = 0
    for of_text, length in zip(digests, lengths, strict=True):
        marks = np.zeros((2, length + 1), np.int64)
        rows = slice(start, start + len(of_text))
        for mark, chosen in zip(marks, (twice[rows], twice[rows] & is_first[rows]), strict=True):
            begins = np.flatnonzero(chosen)
            np.add.at(mark, begins, 1)
            np.add.at(mark, np.minimum(begins + size, length), -1)
        inside, of_first = np.cumsum(marks, axis=1)[:, :length] > 0
        total, repeated = total + length, repeated + int(inside.sum())
        beyond += int((inside & ~of_first).sum())
        start += len(of_text)
    return Repeated(total, repeated, beyond)


def main() -> None:
    """Print the shares of some runs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    for run in parser.parse_args().runs:
        found = count_repeated(kept_texts(run))
        print(
            f"{run.name}: {found.words:,} words, {found.repeated / found.words:.2%} in strings of {SIZE}"
            f" and more that stand twice, {found.beyond / found.words:.2%} beyond the first of each"
        )


if __name__ == "__main__":
    main()
