"""New ids: what an extended tokenizer has that the old one lacks, and how the old one writes it.

old   a 1  b 2  c 3                old ids   1 2 3      every one must keep its piece
new   a 1  b 2  c 3  abc 4  <x> 5  new ids   4 5
                                   written   4 -> 1 2 3; 5, which no text gives, -> nothing
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError
from stages.pieces import is_text
from stages.tokenizer.codec import Codec
from stages.tokenizer.existing import TokenizerKind, describe, open_file
from stages.tokenizer.roles import SpecialPieces, find_roles
from stages.tokenizer.texts import joined_texts

_INT32 = np.dtype(np.int32)
_SPACE = b" "


class ModelFile(NamedTuple):
    """A tokenizer's file."""

    data: bytes
    kind: TokenizerKind
    name: str
    """For messages."""


@dataclass(frozen=True)
class NewIds:
    """The ids of two tokenizers, of which one extends the other."""

    old_size: int
    """Every old id is below it."""
    size: int
    """Every id is below it."""
    old: NDArray[np.int64]
    """(R,) ids of the old one, ascending."""
    new: NDArray[np.int64]
    """(K,) ids that only the new one has, ascending."""
    old_ids: Sequence[NDArray[np.integer]]
    """Of each new id the old ids that write its text; none if no text gives it."""


def find_new_ids(old: ModelFile, new: ModelFile) -> NewIds:
    """Return the ids of two tokenizers.

    Raises:
        ConfigError: an old id has another piece in the new one, is gone, or is now special.
        FormatError: a file is no tokenizer.
    """
    before, after = (describe(one.data, one.kind, name=one.name) for one in (old, new))
    known, all_ = ({number: piece for piece, number in one.pieces.items()} for one in (before, after))
    _require_kept(known, all_, old=old.name, new=new.name)
    if old.kind is new.kind:  # the kinds do not call the same pieces special
        changed = sorted(number for number in before.controls ^ after.controls if number in known)
        if changed:
            number = changed[0]
            one, other = (old, new) if number in before.controls else (new, old)
            raise ConfigError(
                f"{one.name}: keeps id {number:,} ({known[number]!r}) from text, and {other.name} does"
                " not; extend the old tokenizer and change nothing else"
            )
    added = sorted(all_.keys() - known.keys())
    own = open_model(new).piece_bytes()
    return NewIds(
        before.size,
        after.size,
        np.array(sorted(known), np.int64),
        np.array(added, np.int64),
        OldWriter(open_model(old)).write([b"" if n in after.controls else own[n] for n in added]),
    )


def _require_kept(known: Mapping[int, str], found: Mapping[int, str], *, old: str, new: str) -> None:
    for number in sorted(known):
        if found.get(number) != known[number]:
            now = repr(found[number]) if number in found else "gone"
            raise ConfigError(
                f"{new}: id {number:,} is {now}, and {known[number]!r} in {old}: every old id must keep"
                " its piece; make the new one with `shardmill tokenizer extend`"
            )


def open_model(file: ModelFile) -> Codec:
    """Return the codec of a file, of which no text gives a special id."""
    return open_file(file.data, file.kind, set(roles_of(file).values()), name=file.name)


def ids_of(file: ModelFile) -> NDArray[np.int64]:
    """Return the ids of a file, ascending."""
    pieces = describe(file.data, file.kind, name=file.name).pieces
    return np.unique(np.fromiter(pieces.values(), np.int64, len(pieces)))


def roles_of(file: ModelFile) -> Mapping[str, int]:
    """Return the special ids of a file by role, as far as they are found by themselves."""
    description = describe(file.data, file.kind, name=file.name)
    return find_roles(description, SpecialPieces(), name=file.name).ids


class OldWriter:
    """Writes the texts of new pieces in old ids.

    Args:
        codec: of the old tokenizer.
    """

    def __init__(self, codec: Codec) -> None:
        self._codec = codec.verbatim() if codec.writes_all else codec
        self._pieces = codec.piece_bytes()
        self._ids = {piece: number for number, piece in enumerate(self._pieces) if piece}
        self._longest = max(map(len, self._ids), default=0)
        ids = self._encode([b"a"])[0].tolist()
        spelled = b"".join(self._pieces[number] for number in ids)
        self._puts_space = spelled.startswith(_SPACE)

    def write(self, pieces: Sequence[bytes]) -> list[NDArray[np.integer]]:
        """Return the old ids of each text, none of them unknown; none at all of an empty one.

        A text that begins or ends within a character is put together from the longest old pieces.
        """
        whole = [number for number, piece in enumerate(pieces) if piece and is_text(piece)]
        encoded = self._encode([self._bare(pieces[number]) for number in whole])
        found = {
            number: ids if self._codec.unk is None else ids[ids != self._codec.unk]
            for number, ids in zip(whole, encoded, strict=True)
        }
        return [
            self._without_space(found[number], piece) if number in found else self._longest_of(piece)
            for number, piece in enumerate(pieces)
        ]

    def _encode(self, texts: Sequence[bytes]) -> list[NDArray[np.integer]]:
        return self._codec.encode_texts(joined_texts(texts), dtype=_INT32).parts()

    def _bare(self, piece: bytes) -> bytes:
        """Return a text without the space that is put before it anyway."""
        return piece.removeprefix(_SPACE) if self._puts_space else piece

    def _without_space(self, ids: NDArray[np.integer], piece: bytes) -> NDArray[np.integer]:
        """Return ids without that of a space alone that is not the text's."""
        begins = self._puts_space and len(ids) > 1 and self._pieces[ids[0]] == _SPACE
        return ids[1:] if begins and not piece.startswith(_SPACE) else ids

    def _longest_of(self, piece: bytes) -> NDArray[np.integer]:
        ids, place = [], 0
        while place < len(piece):
            sizes = range(min(self._longest, len(piece) - place), 0, -1)
            size = next((n for n in sizes if piece[place : place + n] in self._ids), 0)
            ids += [self._ids[piece[place : place + size]]] if size else []
            place += size or 1
        return np.array(ids, np.int32)
