"""Sentences: where the sentences of every document end, for the objectives that ask; from ids alone.

sentences/UNIT/ptr.npy    (D + 1,) <i8   sentences of document d of the unit's token store
sentences/UNIT/ends.npy   (S,) <i8       after how many of its tokens each ends, the EOS with the last
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from pipeline.engine.tasks import Workspace
from pipeline.steps.names import read_rows
from pipeline.steps.records import UnitRecord
from pipeline.steps.tokenizer.load import load_pieces
from pipeline.steps.units import Unit, stored_tally
from stages.ledger import Flow
from stages.store.arrays import array_writer, write_array
from stages.store.token_store import TokenUnit
from stages.tokenizer.sentences import split_sentences


@dataclass(frozen=True)
class SentenceUnit:
    """One unit of the token store."""

    unit: Unit


class SentencesRecord(UnitRecord):
    """The sentences of a unit."""

    documents: int
    sentences: int


def find_sentences(workspace: Workspace, work: SentenceUnit) -> SentencesRecord:
    """Split the documents of one unit."""
    pieces = load_pieces(workspace)
    folder = workspace.path(work.unit.tokens)
    store = TokenUnit.open(folder)
    target = workspace.create(work.unit.sentences)
    ids, count = np.asarray(store.ids), len(store.places)
    ptr, tokens = np.zeros(count + 1, "<i8"), 0
    with array_writer(target / "ends.npy", dtype="<i8") as append:
        languages = languages_of(workspace, work.unit, count)
        for number, (language, place) in enumerate(zip(languages, store.places.tolist(), strict=True)):
            ends = split_sentences(ids[slice(*place)], language, pieces)
            append(ends)
            tokens += int(ends[-1]) if len(ends) else 0
            ptr[number + 1] = ptr[number] + len(ends)
    write_array(target / "ptr.npy", ptr)
    received = stored_tally(folder / "documents.parquet")
    flow = Flow(
        input=received,
        output=received.model_copy(update={"documents": count, "tokens": tokens}),
    )
    return SentencesRecord(documents=count, sentences=int(ptr[-1]), flow=flow)


def languages_of(workspace: Workspace, unit: Unit, count: int) -> Iterator[str]:
    """Return the language of each document of a unit of the store."""
    path = workspace.path(unit.tokens) / "documents.parquet"
    for table in read_rows(path, ["language"], 0, count):
        yield from table.column("language").to_pylist()
