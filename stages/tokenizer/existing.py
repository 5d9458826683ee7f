"""Tokenizers that were trained elsewhere: a SentencePiece model, or a tokenizer.json.

Their ids are those that their library gives, but that no text gives a special one. What they cannot
give back, such as unknown characters, upper case, white space, is gone for good. So a text of theirs is
held to its ids in one of two ways: the ids spell the text as the normaliser leaves it, or encoding the
text again gives them.

    " Hello  world"   normalise -> "Hello world"
                      ids       -> _Hello _world   spell -> " Hello world" -> "Hello world"

A space that the file puts before every text, or behind it, and what spells it, is left out of both.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError, is_of_the_system
from stages.pieces import Pieces
from stages.tokenizer.encode import Tokenizer
from stages.tokenizer.framing import BEGIN, are_own
from stages.tokenizer.huggingface_file import HuggingFaceFile, describe_huggingface
from stages.tokenizer.normalization import changed_samples
from stages.tokenizer.roles import Described
from stages.tokenizer.sentencepiece_file import SentencePieceFile, describe_sentencepiece
from stages.tokenizer.sentences import starts_of_spelled
from stages.tokenizer.special import num_reserved
from stages.tokenizer.texts import Encoded, JoinedTexts, TextPlace, batches_of, joined_texts

_INT32 = np.dtype(np.int32)


SPACE = " "


class TokenizerKind(StrEnum):
    """What a tokenizer's file is; its value is the file's name in a run."""

    SENTENCEPIECE = "tokenizer.model"
    HUGGING_FACE = "tokenizer.json"


class OpenTokenizer(Protocol):
    """A tokenizer as its file has it."""

    size: int
    unk: int | None
    writes_all: bool
    """Whether every text can be written, and its parts join to it."""

    def normalise(self, text: str) -> str:
        """Return a text as the normaliser leaves it."""
        ...

    @property
    def compiled(self) -> bool:
        """Whether texts are encoded in compiled code."""
        ...

    def encode_texts(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> Encoded:
        """Return the ids of texts, of `dtype`."""
        ...

    def encode_by_library(self, texts: Iterable[str]) -> Iterator[NDArray[np.integer]]:
        """Return the same from the file's own library alone."""
        ...

    def at(self, place: TextPlace) -> "OpenTokenizer":
        """Return the file as it encodes a part of a document at a place."""
        ...

    @property
    def inline(self) -> frozenset[int]:
        """Special ids whose pieces are text to the library: it puts no space behind them."""
        ...

    @property
    def by_words(self) -> bool:
        """Whether white space only parts words, and each gets a space."""
        ...

    def cuts_out(self) -> tuple[str, ...]:
        """Return the pieces of texts behind which these begin as behind special ones."""
        ...

    def verbatim(self) -> "OpenTokenizer":
        """Return the same pieces without a normaliser, if every text can be written."""
        ...

    def piece_bytes(self) -> list[bytes]:
        """Return what each id stands for; nothing for special ids."""
        ...

    def byte_ids(self) -> NDArray[np.bool_]:
        """Say of every id whether it stands for a single byte because no piece fits."""
        ...

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as people read it."""
        ...


class ExistingTokenizer:
    """A tokenizer that was trained elsewhere, with its special ids.

    Args:
        file: as it was loaded with them.
        special_ids: by role.
        guarded: whether ids are asserted to be without special ones; a proof looks for these instead.
    """

    exact = False
    """Whether the ids of every text spell it, as normalised."""

    def __init__(
        self, file: OpenTokenizer, special_ids: Mapping[str, int], *, guarded: bool = True
    ) -> None:
        self._file = file
        self.special_ids = dict(special_ids)
        self.vocab_size = file.size
        self.eos, self.pad = special_ids["eos"], special_ids["pad"]
        self.begin = special_ids.get(BEGIN)
        self.unk = file.unk
        self.writes_all = file.writes_all
        self.cuts_out, self.by_words, self.inline = file.cuts_out(), file.by_words, file.inline
        self._placed: dict[TextPlace, ExistingTokenizer] = {}
        self._special = np.zeros(file.size, np.bool_)
        self._special[[n for n in special_ids.values() if n != file.unk]] = guarded

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

    def encode_texts(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> Encoded:
        """Return the same of texts that lie end to end."""
        encoded = self._file.encode_texts(texts, dtype=dtype)
        self._checked(encoded.ids)
        return encoded

    @property
    def compiled(self) -> bool:
        """Whether texts are encoded in compiled code."""
        return self._file.compiled

    def encode_by_library(self, texts: Iterable[str]) -> list[NDArray[np.integer]]:
        """Return the ids of each text from the library of the file alone."""
        return [self._checked(ids) for ids in self._file.encode_by_library(texts)]

    def normalise(self, text: str) -> str:
        """Return a text as the normaliser leaves it, without a space that is put to every text."""
        return self._bare(self._file.normalise(text))

    @cached_property
    def normalises(self) -> bool:
        """Say whether the normaliser changes anything."""
        return bool(self.changes())

    def changes(self) -> tuple[str, ...]:
        """Name what the normaliser changes among samples."""
        return changed_samples(self.normalise)

    def decode(self, ids: Sequence[NDArray[np.integer]]) -> list[str]:
        """Return what ids spell; special ids give nothing, what is no UTF-8 gives U+FFFD."""
        return [self._bare(self._spelling.spell(row).tobytes().decode(errors="replace")) for row in ids]

    def at(self, place: TextPlace) -> "ExistingTokenizer":
        """Return the same for a part of a document at a place."""
        if place not in self._placed:
            file = self._file.at(place)
            own = self if file is self._file else ExistingTokenizer(file, self.special_ids)
            self._placed[place] = own
        return self._placed[place]

    def unguarded(self) -> "ExistingTokenizer":
        """Return the same without the assertion that no text gives a special id."""
        return ExistingTokenizer(self._file, self.special_ids, guarded=False)

    def verbatim(self) -> "ExistingTokenizer":
        """Return the same pieces without a normaliser: for text that has been through it already.

        Only a tokenizer that can write every text has that.
        """
        return ExistingTokenizer(self._file.verbatim(), self.special_ids)

    def piece_bytes(self) -> list[bytes]:
        """Return what each id stands for: (vocab_size,); nothing for special ids."""
        return self._file.piece_bytes()

    def byte_ids(self) -> NDArray[np.bool_]:
        """Say of every id whether it stands for a single byte because no piece fits: (vocab_size,)."""
        return self._file.byte_ids()

    def word_starts(self) -> NDArray[np.bool_]:
        """Say of every id whether it begins a word: (vocab_size,) bool."""
        return starts_of_spelled(self.piece_bytes())

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as people read it."""
        return self._file.pieces(ids)

    def spelled_texts(self, texts: JoinedTexts) -> JoinedTexts:
        """Return what the ids of texts spell if these come back as they are."""
        before = SPACE.encode() * self.begins_with_space
        after = SPACE.encode() * (self._ends_with_space and not self.begins_with_space)
        if not before and not after:
            return texts
        return joined_texts([before + part + after for part in texts.parts()])

    def _checked(self, ids: NDArray[np.integer]) -> NDArray[np.integer]:
        assert not self._special[ids].any(), "a text gave a special id"
        return ids

    def _bare(self, text: str) -> str:
        if self.begins_with_space:
            return text.removeprefix(SPACE)
        return text.removesuffix(SPACE) if self._ends_with_space else text

    @cached_property
    def _spelling(self) -> Pieces:
        return Pieces(self.piece_bytes())

    @cached_property
    def begins_with_space(self) -> bool:
        """Whether a space is put before every text."""
        (ids,) = self._file.encode_by_library(["a"])
        spelled = self._spelling.spell(ids).tobytes()  # nothing, of an unknown word
        return spelled.startswith(SPACE.encode()) or self._file.normalise("a").startswith(SPACE)

    @cached_property
    def _ends_with_space(self) -> bool:
        return self._file.normalise("a").endswith(SPACE)


RunTokenizer = Tokenizer | ExistingTokenizer
"""The tokenizer of a run: trained by it, or taken."""


def describe(data: bytes, kind: TokenizerKind, *, name: str) -> Described:
    """Say what a tokenizer's file says of its ids.

    Raises:
        FormatError: the file is not of its kind.
    """
    if kind is TokenizerKind.SENTENCEPIECE:
        return describe_sentencepiece(data, name=name)
    return describe_huggingface(data, name=name)


def open_file(data: bytes, kind: TokenizerKind, special: Collection[int], *, name: str) -> OpenTokenizer:
    """Return a tokenizer from its file's content, of which some ids are given by no text.

    Raises:
        FormatError: the file is not of its kind.
    """
    if kind is TokenizerKind.SENTENCEPIECE:
        return SentencePieceFile.open(data, special, name=name)
    return HuggingFaceFile.open(data, special, name=name)


def existing_tokenizer(
    data: bytes, kind: TokenizerKind, special: Mapping[str, int], *, name: str
) -> ExistingTokenizer:
    """Return a tokenizer from its file's content.

    Raises:
        FormatError: the file is not of its kind.
    """
    return ExistingTokenizer(open_file(data, kind, set(special.values()), name=name), special)


def is_trained(data: bytes, special: Mapping[str, int]) -> bool:
    """Say whether a SentencePiece model with these special ids is one that a run trained.

    What its file finds in texts, and the templates of a run keep from them, makes it a taken one.
    """
    if not are_own(special):
        return False
    further = [number for number in special.values() if number >= num_reserved()]
    return not further or {*further} <= describe_sentencepiece(data, name="").controls


def open_tokenizer(path: Path, special: Mapping[str, int]) -> RunTokenizer:
    """Return the tokenizer of a run from its file and its special ids.

    A model whose ids are those of a run is one: it is known to give every text back.

    Raises:
        FormatError: the file is gone, or not of its kind.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        if is_of_the_system(error):
            raise
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from error
    if path.name == TokenizerKind.SENTENCEPIECE and is_trained(data, special):
        return Tokenizer.load(path, special)
    return existing_tokenizer(data, TokenizerKind(path.name), special, name=str(path))
