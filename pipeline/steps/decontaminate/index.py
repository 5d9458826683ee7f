"""The index of the evaluation sets: made once, and then read by every task.

    decontaminate/index/NAME.npy        the arrays of `EvaluationIndex` and of the folding of characters
    decontaminate/index/items.parquet   the items, in the order of sets and files

The arrays are mapped, so that all workers of a machine share them. The folding is kept with them,
because another version of Python has other Unicode data.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.inputs.evaluation_sets import EvaluationItem, ItemsRead, read_items
from pipeline.steps.records import UnitRecord
from pipeline.steps.units import read_table
from stages.decontamination.config import Decontamination
from stages.decontamination.index import (
    EvaluationIndex,
    Grams,
    IndexBuilder,
    Passages,
    passages_of,
)
from stages.decontamination.tables import ITEMS
from stages.decontamination.words import FoldTables, KnownWords, folding
from stages.store.arrays import open_array, write_array

FOLDER = "decontaminate/index"
ITEMS_KEY = f"{FOLDER}/items.parquet"
_ROWS = 1 << 16


class IndexRecord(UnitRecord):
    """What was read of each set, by name."""

    items: dict[str, int]
    unread: dict[str, int]
    """Records that could not be read."""
    unused: dict[str, int]
    """Items of which nothing is looked for."""
    ngrams: int


@dataclass(frozen=True, eq=False)
class OpenIndex:
    """The evaluation sets as tasks read them."""

    folding: FoldTables
    index: EvaluationIndex


def make_index(workspace: Workspace, work: Decontamination) -> IndexRecord:
    """Read the items of all sets and write their index.

    Raises:
        DataError: a file changed since the run was planned.
    """
    builder = IndexBuilder()
    listed: list[tuple[str, int, EvaluationItem]] = []
    words: list[int] = []
    unread: dict[str, int] = {}
    for number, wanted in enumerate(work.sets):
        found = ItemsRead()
        for place, item in enumerate(read_items(wanted, found)):
            passages = list(passages_of(item.fields, min_words=work.min_words))
            builder.add(passages, number_of_set=number)
            words.append(sum(map(len, passages)))
            bare = EvaluationItem(item.file, item.record, item.own_id, ())
            listed.append((wanted.name, place, bare))
        unread[wanted.name] = found.unread
    index = builder.build(work)
    for name, array in _arrays(OpenIndex(folding(), index)).items():
        write_array(workspace.create(f"{FOLDER}/{name}.npy"), array)
    searched = np.bincount(index.passages.item, index.passages.usable, minlength=len(listed))
    columns = {
        "set": [name for name, _, _ in listed],
        "item": [place for _, place, _ in listed],
        "item_id": [item.own_id for _, _, item in listed],
        "file": [item.file for _, _, item in listed],
        "record": [item.record for _, _, item in listed],
        "words": words,
        "searched": searched.astype(np.int64),
    }
    table = pa.table(columns, schema=ITEMS)
    pq.write_table(table, workspace.create(ITEMS_KEY), compression="zstd", row_group_size=_ROWS)
    names = np.array(columns["set"], object)
    return IndexRecord(
        items={one.name: int((names == one.name).sum()) for one in work.sets},
        unread=unread,
        unused={one.name: int(((names == one.name) & (searched == 0)).sum()) for one in work.sets},
        ngrams=len(index.grams.at),
    )


def open_index(workspace: Workspace) -> OpenIndex:
    """Return the index, mapped; a worker opens it once.

    Raises:
        FormatError: an array is missing or damaged.
    """
    return workspace.cached(FOLDER, lambda: _opened(workspace))


def _opened(workspace: Workspace) -> OpenIndex:
    read = {name: _open(workspace, name) for name in _NAMES}
    words = KnownWords(*(read[f"words-{name}"] for name in ("codes", "ptr", "table")))
    lengths = read["grams-lengths"]
    stream, at, table = (read[f"grams-{name}"] for name in ("stream", "at", "table"))
    grams = Grams(stream, at, lengths, table, np.unique(lengths))
    own = ("ptr", "item", "usable", "place_ptr", "places")
    passages = Passages(*(read[f"passages-{name}"] for name in own))
    folded = FoldTables(*(read[f"folding-{name}"] for name in ("single", "several", "kinds")))
    return OpenIndex(folded, EvaluationIndex(words, grams, passages))


def open_items(workspace: Workspace) -> pa.Table:
    """Return the items of all sets.

    Raises:
        FormatError: the table is missing or damaged.
    """
    return read_table(workspace, ITEMS_KEY)


def _arrays(opened: OpenIndex) -> dict[str, Any]:
    """Return all arrays by the names of their files."""
    parts = {
        "folding": opened.folding,
        "words": opened.index.vocabulary,
        "grams": opened.index.grams,
        "passages": opened.index.passages,
    }
    return {name: getattr(parts[part], field) for name, part, field in _split(_NAMES)}


def _split(names: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    for name in names:
        part, _, field = name.partition("-")
        yield name, part, field


def _open(workspace: Workspace, name: str) -> Any:
    return open_array(workspace.path(f"{FOLDER}/{name}.npy"))


_NAMES = (
    "folding-single",
    "folding-several",
    "folding-kinds",
    "words-codes",
    "words-ptr",
    "words-table",
    "grams-stream",
    "grams-at",
    "grams-lengths",
    "grams-table",
    "passages-ptr",
    "passages-item",
    "passages-usable",
    "passages-place_ptr",
    "passages-places",
)
