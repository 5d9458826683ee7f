"""Documents and tokens by source: what a client found, and what the dataset and its mix say.

A client knows no sources. It gives the length of each document in its order, and the place of a document
says which one it is. So a copy that is missing, there twice or of another length changes a count.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from native import NativeSplit, Pieces


class Count(NamedTuple):
    """What there is of one source; each copy of a document counts."""

    documents: int
    tokens: int


Counts = dict[str, Count]
"""By the name of the source."""
NOTHING = Count(0, 0)


def count_found(native: NativeSplit, answer: dict[str, Any]) -> Counts:
    """Return the documents and tokens by source, from the lengths that a client gave."""
    pieces = native.pieces(answer["what"].split(" ", 1)[1])
    lengths = np.array(answer["lengths"], np.int64)
    number = min(len(lengths), len(pieces.documents))
    tokens = lengths[:number] - pieces.around[:number]
    return _count(native, Pieces(pieces.documents[:number], tokens, pieces.around[:number]))


def find_source_faults(answer: dict[str, Any], native: NativeSplit) -> Iterator[str]:
    """Yield where a client's counts by source are not those of the dataset, or not those of its mix."""
    pieces = native.pieces(answer["what"].split(" ", 1)[1])
    if len(answer["lengths"]) != len(pieces.documents):
        yield f"{answer['what']}: {len(answer['lengths'])} lengths, not {len(pieces.documents)}"
    found = count_found(native, answer)
    held_to = {"the dataset": _count(native, pieces)}
    if (plan := read_plan(native)) is not None:
        held_to["the plan of its mix"] = plan
    for whose, wanted in held_to.items():
        for source in sorted({*found, *wanted}):
            got, due = found.get(source, NOTHING), wanted.get(source, NOTHING)
            if got != due:
                yield f"{answer['what']}: {source} {_say(got)}, not {_say(due)} as {whose} has"


def read_plan(native: NativeSplit) -> Counts | None:
    """Return what the plan of a mix promises, or None: for a dataset without one, and for validation."""
    dataset = native.folder.parent
    path = dataset.parents[1] / "mix" / f"{dataset.name}.parquet"
    if native.folder.name != "train" or not path.exists():
        return None
    columns = ["source", "documents", "tokens"]
    rows = zip(*pq.read_table(path, columns=columns).to_pydict().values(), strict=True)
    counts: Counts = {}
    for source, documents, tokens in rows:
        before = counts.get(source, NOTHING)
        counts[source] = Count(before.documents + documents, before.tokens + tokens)
    return counts


def describe_counts(counts: Counts) -> str:
    """Return the counts in words: books 208 documents, 264,020 tokens; help ..."""
    return "; ".join(f"{source} {_say(counts[source])}" for source in sorted(counts))


def _count(native: NativeSplit, pieces: Pieces) -> Counts:
    owners = native.sources[pieces.documents]
    return {
        str(source): Count(
            len(np.unique(pieces.documents[owners == source])),
            int(pieces.tokens[owners == source].sum()),
        )
        for source in np.unique(owners)
    }


def _say(count: Count) -> str:
    return f"{count.documents:,} documents, {count.tokens:,} tokens"
