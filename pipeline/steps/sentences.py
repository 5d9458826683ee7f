"""Sentences: where the sentences of every document end, for the objectives that ask; from ids alone.

sentences/UNIT/ptr.npy    (D + 1,) <i8   sentences of document d of the unit's token store
sentences/UNIT/ends.npy   (S,) <i8       after how many of its tokens each ends, the EOS with the last
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from pipeline.steps.split import load_pieces
from pipeline.steps.units import Unit, fixed_bytes
from pipeline.tasks import Workspace
from stages.identity import ID_BYTES
from stages.ledger import Flow, tally_of
from stages.store.arrays import array_writer, write_array
from stages.store.token_store import TokenUnit
from stages.tokenizer.sentences import split_sentences


@dataclass(frozen=True)
class SentenceUnit:
    """One unit of the token store."""

    unit: Unit


def find_sentences(workspace: Workspace, work: SentenceUnit) -> dict[str, Any]:
    """Split the documents of one unit."""
    pieces = load_pieces(workspace)
    folder = workspace.path(work.unit.tokens)
    store = TokenUnit.open(folder)
    table = pq.read_table(folder / "documents.parquet", columns=["id", "language", "tokens"])
    target = workspace.create(work.unit.sentences)
    ids, offsets = np.asarray(store.ids), store.offsets.tolist()
    counts, tokens = [0], 0
    with array_writer(target / "ends.npy", dtype="<i8") as append:
        languages = table.column("language").to_pylist()
        for language, (first, last) in zip(languages, pairwise(offsets), strict=True):
            ends = split_sentences(ids[first:last], language, pieces)
            append(ends)
            tokens += int(ends[-1]) if len(ends) else 0
            counts.append(len(ends))
    write_array(target / "ptr.npy", np.cumsum(counts).astype("<i8"))
    ids = fixed_bytes(table.column("id"), ID_BYTES)
    flow = Flow(
        input=tally_of(ids, tokens=sum(table.column("tokens").to_pylist())),
        output=tally_of(ids[: len(counts) - 1], tokens=tokens),
    )
    return {
        "documents": table.num_rows,
        "sentences": sum(counts),
        "flow": flow.model_dump(mode="json"),
    }
