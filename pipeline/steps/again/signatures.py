"""Signatures and vectors of some documents again, from their texts.

Groups: row groups of documents that are drawn, to make again what was made of their texts.

Row groups are drawn, not documents: texts are read from the disk by the group.

Vectors: those of some documents again, from their texts, by the encoder of semantic deduplication.

An encoder that computes in floating point may give slightly other numbers on another machine, or with
other texts beside a text. So a component may differ by `TOLERANCE` of 127.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from pipeline.engine.tasks import Workspace
from pipeline.steps.again.follow import MADE_AGAIN
from pipeline.steps.dedup.semantic import encoder_of, vectors_key
from pipeline.steps.records import CheckRecord, LookedAt
from pipeline.steps.recount import Found, recounted
from pipeline.steps.units import Unit
from stages.columns import utf8_of
from stages.dedup.compared_texts import compared_signatures
from stages.dedup.encoders import embedded
from stages.dedup.lsh import MinHashConfig
from stages.dedup.semantic import SemanticConfig, rounded
from stages.errors import ConfigError
from stages.findings import Finding
from stages.store.arrays import open_array

_Item = TypeVar("_Item")


def drawn(
    every: Iterable[_Item],
    key: str,
    *,
    name: Callable[[_Item], str],
    size: Callable[[_Item], int],
    wanted: int,
) -> Iterator[_Item]:
    """Yield some of many in the order of a draw, until they have a size together.

    Args:
        every: all of them, in any order.
        key: of the draw.
        name: returns the name of one, which is no other's.
        size: returns the size of one.
        wanted: the size.
    """
    left = wanted
    for one in sorted(every, key=lambda one: place_of(key, name(one))):
        if left <= 0:
            return
        yield one
        left -= size(one)


def place_of(key: str, name: str) -> bytes:
    """Return the place of something in the order of a draw."""
    return xxhash.xxh3_128_digest(f"{key}/{name}".encode())


@dataclass(frozen=True)
class DrawnUnit:
    """A unit of which some row groups are drawn."""

    unit: Unit
    documents: int
    """As many as these, at least, if it has them."""
    key: str
    """Of the draw."""


def drawn_units(units: Sequence[Unit], wanted: int, key: str) -> Iterator[DrawnUnit]:
    """Yield units that have a number of documents together, in the order of a draw.

    Args:
        units: of the run.
        wanted: the number.
        key: of the draw.
    """
    left = wanted
    for unit in drawn(
        units, key, name=lambda one: one.commit_name, size=lambda one: one.documents, wanted=wanted
    ):
        yield DrawnUnit(unit, left, key)
        left -= unit.documents


def drawn_groups(workspace: Workspace, some: DrawnUnit) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """Yield the texts of row groups, each with the row of its first document in the unit."""
    with pq.ParquetFile(workspace.path(some.unit.table)) as file:
        sizes = [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)]
        firsts = np.cumsum([0, *sizes]).tolist()
        groups = range(len(sizes))
        for group in drawn(groups, some.key, name=str, size=sizes.__getitem__, wanted=some.documents):
            texts = file.read_row_group(group, columns=["text"], use_threads=False).column("text")
            yield firsts[group], texts


@dataclass(frozen=True)
class SignedUnit:
    """A unit of which some row groups are signed again."""

    drawn: DrawnUnit
    minhash: MinHashConfig

    @property
    def signatures(self) -> str:
        """The key of its signatures."""
        return f"ingest/{self.drawn.unit.name}/signatures.npy"


def sign_again(workspace: Workspace, work: SignedUnit) -> CheckRecord:
    """Sign documents of a unit again, and say of which the signature is another."""
    signed: list[int] = []
    found = recounted((work.signatures, lambda: _signed(workspace, work, signed)))
    looked = LookedAt(what="signatures", unit="documents", looked=sum(signed), of=sum(signed))
    return found.model_copy(update={"looked": (looked,)})


def _signed(workspace: Workspace, work: SignedUnit, signed: list[int]) -> Found:
    """Sign drawn row groups again; their numbers of documents are added as they come."""
    stored: Any = open_array(workspace.path(work.signatures), dtype="<u4")
    for first, texts in drawn_groups(workspace, work.drawn):
        data, offsets = utf8_of(texts)
        again = compared_signatures(data, offsets, work.minhash, num_perm=work.minhash.num_perm)
        own = stored[:, first : first + len(texts)].T
        for row in np.flatnonzero((own != again).any(axis=1))[:1].tolist():
            lane = int(np.flatnonzero(own[row] != again[row])[0])
            message = (
                f"document {first + row:,}, minimum {lane}: is {own[row][lane]}, and from its text it is"
                f" {again[row][lane]}"
            )
            yield work.signatures, Finding(MADE_AGAIN, message)
        signed.append(len(texts))


MOST = 1_000
"""Texts of a run that an encoder is given again."""
TOLERANCE = 4
"""Of a component, the largest one of a vector being 127."""


@dataclass(frozen=True)
class EmbeddedUnit:
    """A unit of which some texts are embedded again."""

    drawn: DrawnUnit
    run: str
    """Name of the run of units that it is in."""
    first: int
    """Its first document, that of the run of units being 0."""
    config: SemanticConfig


def embed_again(workspace: Workspace, work: EmbeddedUnit) -> CheckRecord:
    """Embed texts of a unit again, and say of which the vector is another.

    Where the encoder of the user is not there, no text is looked at.
    """
    key, looked = vectors_key(work.run), [0]
    try:
        found = recounted((key, lambda: _embedded(workspace, work, key, looked)))
    except ConfigError:
        found = CheckRecord()
    one = LookedAt(what="vectors", unit="documents", looked=sum(looked), of=sum(looked))
    return found.model_copy(update={"looked": (one,)})


def _embedded(workspace: Workspace, work: EmbeddedUnit, key: str, looked: list[int]) -> Found:
    """Embed drawn texts again; how many they are is added as they come."""
    stored: Any = open_array(workspace.path(key), dtype="|i1")
    encode, left = encoder_of(workspace, work.config), work.drawn.documents
    for first, texts in drawn_groups(workspace, work.drawn):
        some = min(left, len(texts))
        place = int.from_bytes(place_of(work.drawn.key, f"row {first}")) % (len(texts) - some + 1)
        row = work.first + first + place
        again = rounded(embedded(encode, texts.slice(place, some).to_pylist())).astype(np.int64)
        own = np.asarray(stored[row : row + some]).astype(np.int64)
        if own.shape != again.shape:
            yield key, Finding(MADE_AGAIN, f"has vectors of shape {own.shape}, and not {again.shape}")
            return
        for number in np.flatnonzero((np.abs(own - again) > TOLERANCE).any(axis=1))[:1].tolist():
            lane = int(np.argmax(np.abs(own[number] - again[number])))
            message = (
                f"document {row + number:,}, component {lane}: is {own[number, lane]}, and from its text"
                f" it is {again[number, lane]}, where {TOLERANCE} more or less is allowed"
            )
            yield key, Finding(MADE_AGAIN, message)
        looked.append(some)
        left -= some
