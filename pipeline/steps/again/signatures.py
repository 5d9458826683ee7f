"""Signatures: those of some documents again, from their texts.

Row groups are drawn, not documents: texts are read from the disk by the group. So many are drawn that
they have 1% of the documents of a run, and 1,000 if it has as many.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import xxhash

from pipeline.engine.tasks import Workspace
from pipeline.steps.again.follow import MADE_AGAIN
from pipeline.steps.findings import CheckRecord, Looked
from pipeline.steps.recount import Found, recounted
from pipeline.steps.units import Unit
from stages.columns import utf8_of
from stages.dedup.compared import compared_signatures
from stages.dedup.lsh import MinHashConfig
from stages.findings import Finding
from stages.store.arrays import open_array


@dataclass(frozen=True)
class SignedUnit:
    """A unit of which some row groups are signed again."""

    unit: Unit
    documents: int
    """As many as these, at least, if it has them."""
    minhash: MinHashConfig
    key: str
    """Of the draw."""

    @property
    def signatures(self) -> str:
        """The key of its signatures."""
        return f"ingest/{self.unit.name}/signatures.npy"


def drawn_units(
    units: Sequence[Unit], wanted: int, minhash: MinHashConfig, key: str
) -> Iterator[SignedUnit]:
    """Yield units that have a number of documents together, in the order of a draw.

    Args:
        units: of the run.
        wanted: the number.
        minhash: shape of the signatures.
        key: of the draw.
    """
    left = wanted
    for unit in sorted(units, key=lambda unit: _place(key, unit.commit_name)):
        if left <= 0:
            return
        yield SignedUnit(unit, left, minhash, key)
        left -= unit.documents


def sign_again(workspace: Workspace, work: SignedUnit) -> CheckRecord:
    """Sign documents of a unit again, and say of which the signature is another."""
    signed: list[int] = []
    found = recounted((work.signatures, lambda: _signed(workspace, work, signed)))
    looked = Looked(what="signatures", unit="documents", looked=sum(signed), of=work.unit.documents)
    return found.model_copy(update={"looked": (looked,)})


def _signed(workspace: Workspace, work: SignedUnit, signed: list[int]) -> Found:
    """Sign drawn row groups again; their numbers of documents are added as they come."""
    stored: Any = open_array(workspace.path(work.signatures), dtype="<u4")
    with pq.ParquetFile(workspace.path(work.unit.table)) as file:
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        firsts = np.cumsum([0, *sizes])
        for group in sorted(range(len(sizes)), key=lambda n: _place(work.key, str(n))):
            if sum(signed) >= work.documents:
                return
            texts = file.read_row_group(group, columns=["text"], use_threads=False).column("text")
            data, offsets = utf8_of(texts)
            again = compared_signatures(data, offsets, work.minhash, num_perm=work.minhash.num_perm)
            own = stored[:, firsts[group] : firsts[group + 1]].T
            for row in np.flatnonzero((own != again).any(axis=1))[:1].tolist():
                lane = int(np.flatnonzero(own[row] != again[row])[0])
                message = (
                    f"document {firsts[group] + row:,}, minimum {lane}: is {own[row][lane]}, and from"
                    f" its text it is {again[row][lane]}"
                )
                yield work.signatures, Finding(MADE_AGAIN, message)
            signed.append(sizes[group])


def _place(key: str, name: str) -> bytes:
    return xxhash.xxh3_128_digest(f"{key}/{name}".encode())
