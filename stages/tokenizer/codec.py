"""Codecs and the tokenizer: how a file turns texts into ids, and that with its special ids.

    Codec        what the format of a file does: a SentencePiece model, or a tokenizer.json
    Tokenizer    a codec with special ids, and the same for files of all formats

Ids of a text are those that the file's library gives, but that no text gives a special one. What a
codec cannot give back, such as unknown characters, upper case, white space, is gone for good. So a text
is held to its ids in one of two ways: the ids spell the text as the normaliser leaves it, or encoding
the text again gives them.

    " Hello  world"   normalise -> "Hello world"
                      ids       -> _Hello _world   spell -> " Hello world" -> "Hello world"

A space that the file puts before every text, or behind it, and what spells it, is left out of both.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stages.pieces import Pieces
from stages.tokenizer.framing import BEGIN
from stages.tokenizer.normalization import changed_samples
from stages.tokenizer.sentences import starts_of_spelled
from stages.tokenizer.texts import JoinedTexts, TextIds, TextPlace, batches_of, joined_ids, joined_texts

SPACE = " "
_INT32 = np.dtype(np.int32)
EncodeTexts = Callable[[JoinedTexts, np.dtype[np.generic]], TextIds]
"""Gives the ids of texts, of a dtype."""


class Codec(ABC):
    """How a tokenizer's file turns texts into ids. A format overrides what is particular to it."""

    size: int
    """Every id is below it."""
    unk: int | None
    """The id that texts may give for unknown characters; None if every text can be written."""
    writes_all: bool
    """Whether every text can be written, and its parts join to it."""
    exact = False
    """Whether the ids of every text spell it, as normalised."""
    inline: frozenset[int] = frozenset()
    """Special ids whose pieces are text to the library: it puts no space behind them."""

    @property
    def by_words(self) -> bool:
        """Whether white space only parts words, and each gets a space."""
        return False

    def cuts_out(self) -> tuple[str, ...]:
        """Return the pieces of texts behind which these begin as behind special ones."""
        return ()

    def at(self, _: TextPlace) -> "Codec":
        """Return the codec for a part of a document at a place."""
        return self

    @abstractmethod
    def verbatim(self) -> "Codec":
        """Return the same pieces without a normaliser, if every text can be written."""

    @abstractmethod
    def normalise(self, text: str) -> str:
        """Return a text as the normaliser leaves it."""

    def normalise_texts(self, texts: JoinedTexts) -> JoinedTexts:
        """Return texts as the normaliser leaves them."""
        return joined_texts([self.normalise(text).encode() for text in texts.strings()])

    @property
    @abstractmethod
    def compiled(self) -> EncodeTexts | None:
        """What encodes texts in compiled code, to the ids of the library; None if nothing does."""

    @abstractmethod
    def encode_by_library(self, texts: Iterable[str]) -> list[NDArray[np.integer]]:
        """Return the ids of each text from the file's own library alone."""

    def encode_texts(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> TextIds:
        """Return the ids of texts, of `dtype`."""
        if self.compiled is None:
            return joined_ids(self.encode_by_library(texts.strings()), dtype)
        return self.compiled(texts, dtype)

    @abstractmethod
    def piece_bytes(self) -> list[bytes]:
        """Return what each id stands for: (V,); nothing for special ids, and for ids without a piece."""

    @abstractmethod
    def byte_ids(self) -> NDArray[np.bool_]:
        """Say of every id whether it stands for a single byte because no piece fits: (V,)."""

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as people read it."""

    @cached_property
    def spelling(self) -> Pieces:
        """What each id stands for."""
        return Pieces(self.piece_bytes())

    def decode(self, ids: Sequence[NDArray[np.integer]]) -> list[str]:
        """Return what ids spell; special ids give nothing, what is no UTF-8 gives U+FFFD."""
        return [self.spelling.spell(row).tobytes().decode(errors="replace") for row in ids]

    def word_starts(self) -> NDArray[np.bool_]:
        """Say of every id whether it begins a word: (V,) bool."""
        return starts_of_spelled(self.piece_bytes())


class Tokenizer:
    """A tokenizer with its special ids, trained by a run or elsewhere.

    Args:
        codec: of its file, opened with them.
        special_ids: by role.
        guarded: whether ids are asserted to be without special ones; a proof looks for these instead.
    """

    def __init__(self, codec: Codec, special_ids: Mapping[str, int], *, guarded: bool = True) -> None:
        self.codec, self._guarded = codec, guarded
        self.special_ids = dict(special_ids)
        self.vocab_size = codec.size
        self.eos, self.pad = special_ids["eos"], special_ids["pad"]
        self.begin = special_ids.get(BEGIN)
        self.unk, self.writes_all, self.exact = codec.unk, codec.writes_all, codec.exact
        self.cuts_out, self.by_words, self.inline = codec.cuts_out(), codec.by_words, codec.inline
        self._placed: dict[TextPlace, Tokenizer] = {}
        self._special = np.zeros(codec.size, np.bool_)
        if guarded:
            self._special[[n for n in special_ids.values() if n != codec.unk]] = True

    def encode(
        self, texts: Iterable[str], *, dtype: np.dtype[np.generic] = _INT32
    ) -> list[NDArray[np.integer]]:
        """Return the ids of each text, (n,) of `dtype`; of special ids only the unknown one's."""
        found: list[NDArray[np.integer]] = []
        for batch in batches_of(texts):
            found += self.encode_texts(
                joined_texts([text.encode() for text in batch]), dtype=dtype
            ).parts()
        return found

    def encode_texts(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> TextIds:
        """Return the same of texts that lie end to end."""
        encoded = self.codec.encode_texts(texts, dtype=dtype)
        self._checked(encoded.ids)
        return encoded

    @property
    def compiled(self) -> bool:
        """Whether texts are encoded in compiled code."""
        return self.codec.compiled is not None

    def encode_by_library(self, texts: Iterable[str]) -> list[NDArray[np.integer]]:
        """Return the ids of each text from the library of the file alone."""
        return [self._checked(ids) for ids in self.codec.encode_by_library(texts)]

    def normalise(self, text: str) -> str:
        """Return a text as the normaliser leaves it, without a space that is put to every text."""
        return self._bare(self.codec.normalise(text))

    @cached_property
    def normalises(self) -> bool:
        """Say whether the normaliser changes anything."""
        return bool(self.changes())

    def changes(self) -> tuple[str, ...]:
        """Name what the normaliser changes among samples."""
        return changed_samples(self.normalise)

    def decode(self, ids: Sequence[NDArray[np.integer]]) -> list[str]:
        """Return what ids spell; special ids give nothing, what is no UTF-8 gives U+FFFD."""
        return [self._bare(text) for text in self.codec.decode(ids)]

    def at(self, place: TextPlace) -> "Tokenizer":
        """Return the same for a part of a document at a place."""
        if place not in self._placed:
            codec = self.codec.at(place)
            self._placed[place] = self if codec is self.codec else self._with(codec)
        return self._placed[place]

    def unguarded(self) -> "Tokenizer":
        """Return the same without the assertion that no text gives a special id."""
        return Tokenizer(self.codec, self.special_ids, guarded=False)

    def verbatim(self) -> "Tokenizer":
        """Return the same pieces without a normaliser: for text that has been through it already.

        Only a tokenizer that can write every text has that.
        """
        return self._with(self.codec.verbatim())

    def spelled_texts(self, texts: JoinedTexts) -> JoinedTexts:
        """Return what the ids of texts spell if these come back as they are."""
        before = SPACE.encode() * self.begins_with_space
        after = SPACE.encode() * (self._ends_with_space and not self.begins_with_space)
        if not before and not after:
            return texts
        return joined_texts([before + part + after for part in texts.parts()])

    def _with(self, codec: Codec) -> "Tokenizer":
        return Tokenizer(codec, self.special_ids, guarded=self._guarded)

    def _checked(self, ids: NDArray[np.integer]) -> NDArray[np.integer]:
        assert not (self._guarded and self._special[ids].any()), "a text gave a special id"
        return ids

    def _bare(self, text: str) -> str:
        if self.begins_with_space:
            return text.removeprefix(SPACE)
        return text.removesuffix(SPACE) if self._ends_with_space else text

    @cached_property
    def begins_with_space(self) -> bool:
        """Whether a space is put before every text."""
        if self.exact:
            return False
        (ids,) = self.codec.encode_by_library(["a"])
        spelled = self.codec.spelling.spell(ids).tobytes()  # nothing, of an unknown word
        return spelled.startswith(SPACE.encode()) or self.codec.normalise("a").startswith(SPACE)

    @cached_property
    def _ends_with_space(self) -> bool:
        return self.codec.normalise("a").endswith(SPACE)
