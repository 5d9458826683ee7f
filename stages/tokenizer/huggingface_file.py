"""tokenizer.json files, as Hugging Face's tokenizers writes them: their encoding.

What they say, and how they are disarmed so that no text gives a special id: `huggingface_content`.
"""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from itertools import chain, islice

import numpy as np
import orjson
import tokenizers
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.tokenizer.codec import Codec, EncodeTexts
from stages.tokenizer.huggingface_compiled import compiled_file
from stages.tokenizer.huggingface_content import (
    SAVE_IT,
    Content,
    PieceWriting,
    disarmed,
    name_in_no_text,
    placed,
    puts_a_space_to_words,
    read_content,
    spelled_by,
)
from stages.tokenizer.post_processor import frame_of
from stages.tokenizer.roles import TokenizerDescription
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.texts import JoinedTexts, PrecedingText, TextIds, TextPlace, joined_ids

_STRETCH = 1 << 18
"""Characters after which a text is cut; uncut, one of 16 MiB took 2.7 GiB."""
_WINDOW = 1 << 12
"""Characters before a cut whose ids must be the same whether as many stand behind it or none."""
_TRIES = 64
"""Places that are tried for a cut: so many borders of words, then so many of characters."""
_SAMPLES = (" a  b\n\n\tc ", "d\u00e9 \u4e2d, 12.", " ", "\n", "".join(map(chr, range(32, 127))))
"""What ids must spell if parts of texts are to join."""
_SHOWN = 60
"""Characters of a text that a message shows."""
_PANIC = "PanicException"
"""What the library raises where it gives up: no Exception, and of no name to import."""
_BORDER = re.compile(r"\b")
_WORD = re.compile(r"\S+")


def describe_huggingface(data: bytes, *, name: str) -> TokenizerDescription:
    """Say what a tokenizer.json says of its ids.

    Raises:
        FormatError: it is none, or of a kind that is not read.
    """
    content = read_content(data, name=name)
    unk = {} if content.unk is None else {"unk": content.unk}
    controls = content.special | set(unk.values())
    marks = {
        piece: number
        for piece, number in (content.vocab | content.added).items()
        if piece in content.added or number in controls
    }
    pieces, frame = content.vocab | content.added, partial(frame_of, data, name=name)
    return TokenizerDescription(content.size, pieces, marks, frozenset(controls), unk, frame)


class HuggingFaceFile(Codec):
    """A tokenizer.json.

    Args:
        library: made from it, disarmed.
        content: what is read off it.
        special: ids that no text gives.
        name: for messages.
        file_text: the file, as the library has it.
        plain: the same pieces without a normaliser or anything put before a text; None if they cannot
            write every text.
    """

    def __init__(
        self,
        library: tokenizers.Tokenizer,
        content: Content,
        special: Collection[int],
        *,
        name: str,
        file_text: str,
        plain: "HuggingFaceFile | None" = None,
    ) -> None:
        self._places: dict[TextPlace, HuggingFaceFile] = {}
        self._library = library
        self._file_text = file_text
        self._name = name
        self._content = content
        self._special = special
        self._plain = plain
        self.size = content.size
        self.unk = content.unk
        self.writes_all = plain is not None

    @classmethod
    def open(cls, data: bytes, special: Collection[int], *, name: str) -> "HuggingFaceFile":
        """Return a file of which some ids are special.

        Raises:
            FormatError: it is no tokenizer.json, or of a kind that is not read.
        """
        content = read_content(data, name=name)
        names = {
            p: name_in_no_text(n) for p, n in (content.vocab | content.added).items() if n in special
        }
        lost = sorted(content.bytes_of[piece] for piece in names if piece in content.bytes_of)
        if content.has_bytes and lost:
            raise FormatError(f"{name}: byte {lost[0]:#04x} is a special id, and texts need it")
        file_text = disarmed(data, names)
        library = _load(file_text, name=name)
        plain = None
        if content.writing is PieceWriting.BYTE_LEVEL and content.has_bytes:
            bare = disarmed(data, names, plain=True)
            own = library if bare == file_text else _load(bare, name=name)
            plainly = cls(own, content, special, name=name, file_text=bare)
            samples = chain(_SAMPLES, (f" a {piece} b" for piece in content.added))
            plain = plainly if plainly._spells(samples) else None
        for piece, number in content.added.items():
            given = library.token_to_id(names.get(piece, piece))
            if given != number:
                raise FormatError(
                    f"{name}: says that {piece!r} is id {number:,}, and the library that reads it gives"
                    f" {given}: ids are missing before it; add pieces for them, and save it again"
                )
        return cls(library, content, special, name=name, file_text=file_text, plain=plain)

    def at(self, place: TextPlace) -> "HuggingFaceFile":
        """Return the file as it encodes a part of a document at a place."""
        if place not in self._places:
            file_text = placed(self._file_text, place)
            self._places[place] = (
                self if file_text == self._file_text else self._placed(file_text, place)
            )
        return self._places[place]

    def _placed(self, file_text: str, place: TextPlace) -> "HuggingFaceFile":
        library, name, plain = _load(file_text, name=self._name), self._name, self._plain
        content, special = self._content, self._special
        found = HuggingFaceFile(library, content, special, name=name, file_text=file_text, plain=plain)
        if place.before is not PrecedingText.TEXT:
            return found
        if self.by_words:
            library, file_text = self._library, self._file_text
        continued = _ContinuedFile(
            library, content, special, name=name, file_text=file_text, plain=plain
        )
        return continued.behind(self, place, begun=found if self.by_words else None)

    @property
    def by_words(self) -> bool:
        """Whether white space only parts words, and each gets a space."""
        return puts_a_space_to_words(self._file_text)

    def cuts_out(self) -> tuple[str, ...]:
        """Return the pieces that the library finds in texts before it cuts words."""
        return tuple(
            piece
            for piece, number in self._content.added.items()
            if number not in self._special and piece
        )

    def normalise(self, text: str) -> str:
        """Return a text as the normaliser leaves it."""
        normaliser = self._library.normalizer
        with self._naming(text):
            shown = text if normaliser is None else str(normaliser.normalize_str(text))
        return (
            shown.replace(SPACE_SYMBOL, " ")
            if self._content.writing is PieceWriting.METASPACE
            else shown
        )

    @cached_property
    def compiled(self) -> EncodeTexts | None:
        """What encodes texts in compiled code, if it gives the library's ids."""
        return compiled_file(orjson.loads(self._file_text), self._library, self._by_library)

    def encode_by_library(self, texts: Iterable[str]) -> list[NDArray[np.integer]]:
        """Return the ids of each text from the library alone."""
        return [*map(self._by_library, texts)]

    def verbatim(self) -> "HuggingFaceFile":
        """Return the same pieces without a normaliser or anything put before a text."""
        assert self._plain is not None, "cannot write every text"
        return self._plain

    def piece_bytes(self) -> list[bytes]:
        """Return what each id stands for: (V,); nothing for special ids, and for ids without a piece."""
        found = [b""] * self.size
        for piece, number in self._content.vocab.items():
            found[number] = spelled_by(piece, self._content)
        for piece, number in self._content.added.items():
            if not self._is_only_spaces(piece, number):
                found[number] = piece.encode()
        for number in self._special:
            found[number] = b""
        return found

    def byte_ids(self) -> NDArray[np.bool_]:
        """Say of every id whether it is a byte such as <0x0A>: (V,); byte-level pieces are none."""
        found = np.zeros(self.size, np.bool_)
        if self._content.writing in {PieceWriting.METASPACE, PieceWriting.PLAIN}:
            vocab = self._content.vocab
            found[[vocab[piece] for piece in self._content.bytes_of if piece in vocab]] = True
        return found

    def _is_only_spaces(self, piece: str, number: int) -> bool:
        """Say whether an added token is a piece that spaces give, as Gemma's for indentation are.

        The library matches it in a text where that has the symbols of the spaces themselves, and decodes
        it to spaces all the same.
        """
        known = self._content.vocab.get(piece) == number and SPACE_SYMBOL in piece
        return known and self._content.writing is PieceWriting.METASPACE

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Return each id as people read it: its text, or the piece if it is special."""
        names = {number: piece for piece, number in (self._content.vocab | self._content.added).items()}
        spelled = self.piece_bytes()
        return [spelled[i].decode(errors="replace") or names.get(i, f"<{i}>") for i in ids]

    def _spells(self, texts: Iterable[str]) -> bool:
        """Say whether the ids of each text spell it."""
        spelled = self.piece_bytes()
        return all(b"".join(spelled[n] for n in self._ids(text)) == text.encode() for text in texts)

    def _ids(self, text: str) -> NDArray[np.integer]:
        with self._naming(text):
            return np.array(self._library.encode(text, add_special_tokens=False).ids, np.int32)

    def _by_library(self, text: str) -> NDArray[np.integer]:
        parts = list(self._parts(text))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _naming(self, text: str) -> AbstractContextManager[None]:
        return _refused(
            f"{self._name}: its normaliser, pre-tokenizer or model gives up on the text"
            f" {text[:_SHOWN]!r}{'...' * (len(text) > _SHOWN)}",
            "mend that part of the file, or leave such texts out",
        )

    def _parts(self, text: str) -> Iterator[NDArray[np.integer]]:
        """Yield the ids of a text, of one stretch after the other.

        Each but the first is encoded behind the window before it, whose ids are then left out:

            text     ... window | stretch ...
            ids      ... 5 8 2  | 7 3 9 ...
        """
        start = begin = known = 0
        while len(text) - start > _STRETCH:
            end, window, size = self._cut(text, start + _STRETCH)
            yield self._ids(text[begin:end])[known:]
            start, begin, known = end, window, size
        yield self._ids(text[begin:])[known:]

    def _cut(self, text: str, place: int) -> tuple[int, int, int]:
        """Return a place for a cut, the beginning of the window before it, and how many ids that has.

        They are the first ids of the window and what follows it too.
        """
        borders = (found.start() for found in _BORDER.finditer(text, place, place + _STRETCH))
        for border in chain(islice(borders, _TRIES), range(place, place + _TRIES)):
            begin = max(0, border - _WINDOW)
            first = self._ids(text[begin:border])
            whole = self._ids(text[begin : border + _WINDOW])
            if len(first) and np.array_equal(first, whole[: len(first)]):
                return border, begin, len(first)
        return place, place, 0


class _ContinuedFile(HuggingFaceFile):
    """The file for texts that text is before: up to the first piece that the library cuts out.

    Where words get a space each, the file itself encodes all but the first of them.
    """

    def behind(
        self, base: HuggingFaceFile, place: TextPlace, *, begun: HuggingFaceFile | None
    ) -> "_ContinuedFile":
        """Set the file at the beginning of documents, and what encodes a first word; return this."""
        self._base, self._place, self._begun = base, place, begun
        pieces = sorted(self.cuts_out(), key=lambda piece: (-len(piece), piece))
        self._cut_out = re.compile("|".join(map(re.escape, pieces))) if pieces else None
        return self

    def encode_texts(self, texts: JoinedTexts, *, dtype: np.dtype[np.generic]) -> TextIds:
        """Return the ids of texts, of `dtype`."""
        cut_out = self._cut_out and re.search(self._cut_out.pattern.encode(), texts.data.tobytes())
        if cut_out:
            return joined_ids(self.encode_by_library(texts.strings()), dtype)
        return super().encode_texts(texts, dtype=dtype)

    @cached_property
    def compiled(self) -> EncodeTexts | None:
        """What encodes texts in compiled code, where no word gets a space."""
        return super().compiled if self._begun is None else None

    def encode_by_library(self, texts: Iterable[str]) -> list[NDArray[np.integer]]:
        """Return the ids of each text from the library alone."""
        return [*map(self._pieced, texts)]

    def _pieced(self, text: str) -> NDArray[np.integer]:
        """Return the ids of a text, in which pieces may be cut out."""
        cut = None if self._cut_out is None else self._cut_out.search(text)
        if cut is None:
            return self._by_words(text)
        ended = self._base.at(TextPlace(PrecedingText.TEXT, ends=True))
        behind = self._base.at(TextPlace(PrecedingText.SPECIAL, self._place.ends))
        head = ended.encode_by_library([text[: cut.start()]] if cut.start() else [])
        return np.concatenate([*head, *behind.encode_by_library([text[cut.start() :]])])

    def _by_words(self, text: str) -> NDArray[np.integer]:
        """Return the ids of a text in which no piece is cut out."""
        if self._begun is None:
            return self._by_library(text)
        word = _WORD.match(text)
        first = "" if word is None else word.group()
        rest = text.removeprefix(first)
        begun = self._begun.encode_by_library([first] if first else [])
        return np.concatenate([*begun, *([self._by_library(rest)] if rest or not first else [])])


def _load(content: str, *, name: str) -> tokenizers.Tokenizer:
    with _refused(f"{name}: not a tokenizer.json", SAVE_IT):
        return tokenizers.Tokenizer.from_str(content)


@contextmanager
def _refused(said: str, way_out: str) -> Iterator[None]:
    """Say in one line what the library raises: a bare Exception, or a panic."""
    try:
        yield
    except BaseException as error:
        if type(error) is not Exception and type(error).__name__ != _PANIC:
            raise
        raise FormatError(f"{said}: {error}; {way_out}") from error
