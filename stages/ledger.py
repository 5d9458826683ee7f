"""The ledger: what goes into a step comes out of it or is gone for a named reason.

    input + added = output + gone    in documents, in bytes or tokens, and in the sum of H(id, copy)

Only a mix adds documents: the copies of those that are seen more than once. The sum says *which*
documents: losing one and repeating another leaves their number as it was, but not the sum.
`pipeline.state.ledger` keeps a table of flows for each step and compares each step with the one before
it.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from stages.config import Config
from stages.hashing import GOLDEN, splitmix64
from stages.identity import ID_BYTES

_BITS = 128
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_LANES = (GOLDEN, np.uint64(0xD1B54A32D192ED03))
"""One odd constant for each half of an id, so that equal halves are not mixed alike."""


class Tally(Config):
    """A number of documents, with what names them and how much they hold."""

    documents: int = 0
    ids: str = Field("0" * 32, pattern=r"[0-9a-f]{32}")
    """Sum of H(id, copy) over the documents, modulo 2^128, as 32 hex digits."""
    bytes: int | None = None
    """Of their texts, as UTF-8; None where a step does not count them."""
    tokens: int | None = None
    """Each document's EOS included; None where a step does not count them."""
    rows: int | None = None
    """Rows of a dataset; None where a step does not count them."""

    def __add__(self, other: "Tally") -> "Tally":
        """Return the tally of both; an amount that one of them does not count, neither does the sum."""
        total = (int(self.ids, 16) + int(other.ids, 16)) % (1 << _BITS)
        return Tally(
            documents=self.documents + other.documents,
            ids=f"{total:032x}",
            **{name: _sum(getattr(self, name), getattr(other, name)) for name in _AMOUNTS},
        )

    def differences(self, other: "Tally") -> list[str]:
        """Return what differs, in words, of all that both count."""
        found = []
        for name in ("documents", *_AMOUNTS):
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours is not None and theirs is not None and ours != theirs:
                found.append(f"{ours:,} {name}, not {theirs:,}")
        if self.ids != other.ids and not found:
            found.append("as many documents, but other ones")
        return found


_AMOUNTS = ("bytes", "tokens", "rows")


class Flow(Config):
    """What went through a step, or through one unit of it."""

    input: Tally
    output: Tally
    gone: dict[str, Tally] = Field(default_factory=dict)
    """By reason; each reason has its evidence in a table of the step, or is computed again."""
    added: dict[str, Tally] = Field(default_factory=dict)
    """By reason."""

    @model_serializer(mode="wrap")
    def _without_nothing_added(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Leave out what most steps do not do, so that their commits have the bytes that they had."""
        content: dict[str, object] = dump(self)
        if not self.added:
            content.pop("added", None)
        return content

    def __add__(self, other: "Flow") -> "Flow":
        """Return the flow of both."""
        return Flow(
            input=self.input + other.input,
            output=self.output + other.output,
            gone=_sums(self.gone, other.gone),
            added=_sums(self.added, other.added),
        )

    def faults(self) -> list[str]:
        """Return what does not add up, in words; an empty list if input + added = output + gone."""
        came = _with_all(self.input, self.added.values())
        accounted = _with_all(self.output, self.gone.values())
        return [f"{fault} that came out or are gone" for fault in came.differences(accounted)]


def _with_all(tally: Tally, others: Iterable[Tally]) -> Tally:
    """Return the sum with tallies that may not count all amounts."""
    for other in others:
        tally += other.model_copy(update={name: getattr(other, name) or 0 for name in _AMOUNTS})
    return tally


def _sums(ours: Mapping[str, Tally], theirs: Mapping[str, Tally]) -> dict[str, Tally]:
    return {
        name: _either(ours.get(name), theirs.get(name)) for name in sorted(ours.keys() | theirs.keys())
    }


def total_flow(flows: Iterable[Flow]) -> Flow | None:
    """Return the sum of flows, or None of none."""
    total: Flow | None = None
    for flow in flows:
        total = flow if total is None else total + flow
    return total


class IdSum:
    """Add up H(id, copy) of documents as they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._sum = 0
        self.documents = 0

    def add(self, identity: bytes) -> None:
        """Count the first copy of a document by its 16-byte id."""
        self._buffer += identity
        self.documents += 1
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def add_all(self, identities: NDArray[np.uint8], copy: NDArray[np.int64] | int = 0) -> None:
        """Count copies of documents by their ids, (N, 16) uint8, and which copy each is, (N,)."""
        self._sum = (self._sum + id_sum(identities, copy=copy)) % (1 << _BITS)
        self.documents += len(identities)

    def tally(self, **amounts: int) -> Tally:
        """Return the tally of what was added, with amounts that the caller counted."""
        self._flush()
        return Tally(documents=self.documents, ids=f"{self._sum:032x}", **amounts)

    def _flush(self) -> None:
        identities = np.frombuffer(bytes(self._buffer), np.uint8).reshape(-1, ID_BYTES)
        self._sum = (self._sum + id_sum(identities)) % (1 << _BITS)
        self._buffer.clear()


_BUFFER_BYTES = ID_BYTES << 12


def tally_of(
    identities: NDArray[np.uint8], *, copy: NDArray[np.int64] | int = 0, **amounts: int
) -> Tally:
    """Return the tally of copies of documents by their ids, (N, 16) uint8."""
    return Tally(documents=len(identities), ids=f"{id_sum(identities, copy=copy):032x}", **amounts)


def id_sum(identities: NDArray[np.uint8], *, copy: NDArray[np.int64] | int = 0) -> int:
    """Return the sum of H(id, copy) modulo 2^128.

    H mixes each half of the id with the copy's number by the finaliser of SplitMix64.

    Args:
        identities: (N, 16) uint8, the ids of documents.
        copy: which copy of each, (N,), or of all.
    """
    halves = np.ascontiguousarray(identities).reshape(-1, ID_BYTES).view("<u8").astype(np.uint64)
    sums = []
    numbers = np.asarray(copy, np.int64).reshape(-1).astype(np.uint64) + np.uint64(1)
    for lane, constant in enumerate(_LANES):
        salt = numbers * constant  # modulo 2**64
        mixed = splitmix64(halves[:, lane] ^ salt)
        low, high = int((mixed & _LOW).sum()), int((mixed >> _HALF).sum())
        sums.append(low + (high << 32))
    return (sums[0] + (sums[1] << 64)) % (1 << _BITS)


def _sum(ours: int | None, theirs: int | None) -> int | None:
    return None if ours is None or theirs is None else ours + theirs


def _either(ours: Tally | None, theirs: Tally | None) -> Tally:
    if ours is None or theirs is None:
        found = ours or theirs
        assert found is not None
        return found
    return ours + theirs
