"""Proof: what an opened tokenizer is held to, text by text.

    text     encode -> ids -> decode      the text, its normalised text, or a text of the same ids
             its library -> ids           the same, by this program's use of it and by the file as it is
             other batches -> ids         the same
             special ids                  none of them among the ids

A text whose ids have the unknown one cannot come back; it is counted apart.

Untouched files: the ids that a file's own library gives, by the file as it is.

It is what a proof compares with: nothing is disarmed, and no text is cut or normalised apart.
Truncation, padding, dropout and what a file puts around texts are off, as they are in a run.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise

import numpy as np
import orjson
import sentencepiece
import tokenizers
from numpy.typing import NDArray

from stages.pieces import is_text
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.coverage import BLOCKS, characters_of
from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import ModelKind, SentencePieceModel
from stages.tokenizer.texts import batches_of, joined_texts

LibraryIds = Callable[[Sequence[str]], list[list[int] | None]]
"""Gives the ids of texts; None of those of which the library's choice may depend on their length."""
_LONGEST_OF_SUMS = 4_096
"""Characters up to which unigram's sums of 32-bit floats are taken over a text as a run takes them."""


def untouched(data: bytes, kind: TokenizerKind) -> LibraryIds:
    """Return what gives the ids of texts by a file as it is; it must be one that was described."""
    if kind is TokenizerKind.SENTENCEPIECE:
        return _by_sentencepiece(data)
    file = orjson.loads(data) | {"truncation": None, "padding": None, "post_processor": None}
    if "dropout" in file["model"]:
        file["model"]["dropout"] = None
    library = tokenizers.Tokenizer.from_str(orjson.dumps(file).decode())
    return lambda texts: [library.encode(text, add_special_tokens=False).ids for text in texts]


def _by_sentencepiece(data: bytes) -> LibraryIds:
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    sums = SentencePieceModel(data).kind is ModelKind.UNIGRAM

    def ids_of(texts: Sequence[str]) -> list[list[int] | None]:
        return [
            None if sums and len(text) > _LONGEST_OF_SUMS else processor.encode(text) for text in texts
        ]

    return ids_of


_INT32 = np.dtype(np.int32)
_SMALL = 7
"""Texts of the small batches that ids are compared with."""
_SHOWN = 5
"""Failures of a check that are shown."""
_MOST_MISSING = 64
"""Characters of a block that are listed."""

Ids = NDArray[np.integer]
Verdicts = list[bool | None]
"""Of each text whether it holds; None if it is not asked."""


class RoundTrip(StrEnum):
    """What ids decode to."""

    TEXT = "text"
    """The text itself."""
    NORMALISED = "normalised"
    """The text as the normaliser leaves it."""
    ENCODED = "same ids"
    """Another text, which encodes to the same ids."""
    UNKNOWN = "unknown"
    """Not the text, as the unknown id is among them."""
    LOST = "lost"
    """Another text, with other ids."""


@dataclass
class CheckResult:
    """What a check found."""

    texts: int = 0
    """Texts it was asked of."""
    left_out: int = 0
    failed: int = 0
    first: list[str] = field(default_factory=list)
    """The first texts that failed."""

    def add(self, texts: Sequence[str], verdicts: Verdicts) -> None:
        """Count the verdicts on some texts."""
        for text, holds in zip(texts, verdicts, strict=True):
            self.texts += holds is not None
            self.left_out += holds is None
            self.failed += holds is False
            if holds is False and len(self.first) < _SHOWN:
                self.first.append(text)


@dataclass(frozen=True)
class ProofResult:
    """What is found of a tokenizer."""

    round_trips: dict[str, Counter[str]]
    """By group of texts, how many come back in which way."""
    checks: dict[str, CheckResult]
    """By name."""

    @property
    def failed(self) -> dict[str, int]:
        """Texts that failed, by check, of checks that any failed."""
        return {name: check.failed for name, check in self.checks.items() if check.failed}


@dataclass(frozen=True)
class ProvenBatch:
    """Some texts with their ids."""

    tokenizer: Tokenizer
    library: LibraryIds
    texts: list[str]
    ids: list[Ids]

    @property
    def special(self) -> set[int]:
        """Ids that no text may give."""
        return set(self.tokenizer.special_ids.values()) - {self.tokenizer.unk}


def round_trips(batch: ProvenBatch) -> list[RoundTrip]:
    """Say of each text how it comes back."""
    tokenizer = batch.tokenizer
    decoded = tokenizer.decode(batch.ids)
    again = _encode(tokenizer, decoded)
    found = []
    for text, back, ids, same in zip(batch.texts, decoded, batch.ids, again, strict=True):
        if back == text:
            found.append(RoundTrip.TEXT)
        elif back == tokenizer.normalise(text):
            found.append(RoundTrip.NORMALISED)
        elif tokenizer.unk is not None and bool((ids == tokenizer.unk).any()):
            found.append(RoundTrip.UNKNOWN)
        else:
            found.append(RoundTrip.ENCODED if np.array_equal(ids, same) else RoundTrip.LOST)
    return found


def comes_back(tokenizer: Tokenizer, trips: Sequence[RoundTrip]) -> Verdicts:
    """Say whether texts come back as they must: all of them, if every text can be written."""
    good = {RoundTrip.TEXT, RoundTrip.NORMALISED}
    if tokenizer.writes_all:
        return [trip in good for trip in trips]
    good.add(RoundTrip.ENCODED)
    return [None if trip is RoundTrip.UNKNOWN else trip in good for trip in trips]


def _equals_library(batch: ProvenBatch) -> Verdicts:
    """Ids are those that the library gives where this program calls it."""
    theirs = batch.tokenizer.encode_by_library(batch.texts)
    return list(map(np.array_equal, batch.ids, theirs))


def _equals_file(batch: ProvenBatch) -> Verdicts:
    """Ids are those of the file as it is, unless these have a special one, or U+2581 is no space."""
    special, exact = batch.special, batch.tokenizer.exact
    return [
        None
        if theirs is None or not special.isdisjoint(theirs) or (exact and SPACE_SYMBOL in text)
        else np.array_equal(ours, theirs)
        for text, ours, theirs in zip(batch.texts, batch.ids, batch.library(batch.texts), strict=True)
    ]


def _gives_no_special(batch: ProvenBatch) -> Verdicts:
    """No id is special."""
    special = np.array(sorted(batch.special), np.int64)
    return [not np.isin(ids, special).any() for ids in batch.ids]


def _does_not_depend_on_others(batch: ProvenBatch) -> Verdicts:
    """Ids are the same if texts are encoded in reverse order and in small batches."""
    found: list[Ids] = []
    backwards = batch.texts[::-1]
    for begin in range(0, len(backwards), _SMALL):
        found += _encode(batch.tokenizer, backwards[begin : begin + _SMALL])
    return list(map(np.array_equal, batch.ids, found[::-1]))


ROUND_TRIP = "texts come back"
CHECKS: Mapping[str, Callable[[ProvenBatch], Verdicts]] = {
    "ids are the library's": _equals_library,
    "ids are those of the untouched file": _equals_file,
    "no text gives a special id": _gives_no_special,
    "ids do not depend on order or batches": _does_not_depend_on_others,
}
"""What is asked of every text beside its round trip."""


def prove(
    tokenizer: Tokenizer, texts: Mapping[str, Sequence[str]], *, library: LibraryIds
) -> ProofResult:
    """Hold a tokenizer to all checks.

    Args:
        tokenizer: an unguarded one.
        texts: by group.
        library: what its file gives as it is.
    """
    found = ProofResult({}, {name: CheckResult() for name in (ROUND_TRIP, *CHECKS)})
    for group, own in texts.items():
        trips = found.round_trips.setdefault(group, Counter())
        for part in batches_of(own):
            batch = ProvenBatch(tokenizer, library, part, _encode(tokenizer, part))
            back = round_trips(batch)
            trips.update(trip.value for trip in back)
            found.checks[ROUND_TRIP].add(part, comes_back(tokenizer, back))
            for name, check in CHECKS.items():
                found.checks[name].add(part, check(batch))
    return found


@dataclass(frozen=True)
class BlockCoverage:
    """How the characters of a block are written, each as a text of its own."""

    characters: int
    pieces: int
    """Those of whole pieces."""
    in_bytes: int
    """Those without a piece, written in bytes."""
    unknown: int
    dropped: int
    """Those that the normaliser takes away."""
    missing: str
    """The first ones without a piece."""


def coverage(tokenizer: Tokenizer, blocks: Sequence[str] = tuple(BLOCKS)) -> dict[str, BlockCoverage]:
    """Say of each block how its characters are written."""
    spelled = tokenizer.codec.piece_bytes()
    partial = np.array([not is_text(piece) for piece in spelled])
    blank = np.array([not piece.strip() for piece in spelled])
    return {name: _covered(tokenizer, characters_of(name), partial, blank) for name in blocks}


def _covered(
    tokenizer: Tokenizer, characters: list[str], partial: NDArray[np.bool_], blank: NDArray[np.bool_]
) -> BlockCoverage:
    counts, missing = Counter[str](), []
    encoded = tokenizer.encode_texts(joined_texts([one.encode() for one in characters]), dtype=_INT32)
    for one, (begin, end) in zip(characters, pairwise([0, *encoded.ends.tolist()]), strict=True):
        ids = encoded.ids[begin:end]
        if tokenizer.unk is not None and bool((ids == tokenizer.unk).any()):
            how = "unknown"
        elif bool(partial[ids].any()):
            how = "in_bytes"
        else:
            how = "dropped" if bool(blank[ids].all()) and not one.isspace() else "pieces"
        counts[how] += 1
        missing += [] if how == "pieces" else [one]
    return BlockCoverage(
        len(characters),
        counts["pieces"],
        counts["in_bytes"],
        counts["unknown"],
        counts["dropped"],
        "".join(missing[:_MOST_MISSING]),
    )


def _encode(tokenizer: Tokenizer, texts: Sequence[str]) -> list[Ids]:
    joined = joined_texts([text.encode() for text in texts])
    return tokenizer.encode_texts(joined, dtype=_INT32).parts()
