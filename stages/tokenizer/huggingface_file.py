r"""tokenizer.json files, as Hugging Face's tokenizers writes them: their ids, and their encoding.

The library matches special tokens wherever a text writes them out, and so does a model that finds them
in its vocabulary. So a file is disarmed before it is loaded: the pieces of special ids get names that no
cleaned text holds, since each begins with U+0000, and merges of them go; no id changes.

    vocab   {"<mask>": 4, ...}         ->  {"\u00004": 4, ...}
    text    "a <mask> b"               ->  a _ < mask > _ b

What would lose text or bring chance in goes too: truncation, padding, dropout, what is put around texts.

What an id spells is read off the file, by the way in which its pieces are written:

    byte-level   characters that stand for one byte each      (GPT-2)
    metaspace    U+2581 for a space, <0x0A> for bytes          (Llama, T5)
    words        a space before each, none where ## continues  (BERT)
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice

import numpy as np
import tokenizers
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.tokenizer.roles import Described
from stages.tokenizer.sampling import SPACE_SYMBOL

_STRETCH = 1 << 18
"""Characters after which a text is cut; uncut, one of 16 MiB took 2.7 GiB."""
_WINDOW = 1 << 12
"""Characters on either side of a cut that must have the same ids with and without it."""
_TRIES = 64
"""Places that are tried for a cut."""
_BORDER = re.compile(r"\b")
_OF_WORDS = ("WordPiece", "WordLevel")
"""Models that give the unknown token for a word, whatever its characters are."""
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_UNSHOWN = [*range(33), *range(127, 161), 173]
"""Bytes that byte-level pieces write as characters from U+0100 on; the others stand for themselves."""
_BYTE_OF = {chr(byte): byte for byte in range(256) if byte not in _UNSHOWN} | {
    chr(256 + number): byte for number, byte in enumerate(_UNSHOWN)
}


class Writing(StrEnum):
    """How pieces are written."""

    BYTE_LEVEL = "byte-level"
    METASPACE = "metaspace"
    WORDS = "words"


@dataclass(frozen=True)
class _Content:
    """What is read off a file."""

    kind: str
    """Of the model."""
    vocab: dict[str, int]
    """Of the model: without what was added to it."""
    added: dict[str, int]
    special: frozenset[int]
    """Of the added ones those that the file calls special."""
    unk: int | None
    writing: Writing
    continues: str
    """What begins a piece of `words` that no space stands before."""
    byte_pieces: bool
    """Whether <0x0A> is a byte."""

    @property
    def size(self) -> int:
        """Every id is below it."""
        return max([*self.vocab.values(), *self.added.values()], default=-1) + 1

    @property
    def has_bytes(self) -> bool:
        """Whether every byte has a piece, so that every text can be written; words are taken whole."""
        if self.kind in _OF_WORDS:
            return False
        if self.writing is Writing.BYTE_LEVEL:
            return all(character in self.vocab for character in _BYTE_OF)
        return self.byte_pieces and all(f"<0x{byte:02X}>" in self.vocab for byte in range(256))


def describe_huggingface(data: bytes, *, name: str) -> Described:
    """Say what a tokenizer.json says of its ids.

    Raises:
        FormatError: it is none, or of a kind that is not read.
    """
    content = _read(data, name=name)
    unk = {} if content.unk is None else {"unk": content.unk}
    controls = content.special | set(unk.values())
    marks = {
        piece: number
        for piece, number in (content.vocab | content.added).items()
        if piece in content.added or number in controls
    }
    return Described(content.size, content.vocab | content.added, marks, frozenset(controls), unk)


class HuggingFaceFile:
    """A tokenizer.json.

    Args:
        library: made from it, disarmed.
        content: what is read off it.
        special: ids that no text gives.
        plain: the same pieces without a normaliser or anything put before a text; None if they cannot
            write every text.
    """

    def __init__(
        self,
        library: tokenizers.Tokenizer,
        content: _Content,
        special: Collection[int],
        *,
        plain: "HuggingFaceFile | None" = None,
    ) -> None:
        self._library = library
        self._content = content
        self._special = special
        self._plain = plain
        self.size = content.size
        self.unk = content.unk
        self.writes_all = plain is not None

    @classmethod
    def open(cls, data: bytes, special: Collection[int], *, name: str) -> "HuggingFaceFile":
        """Give a file of which some ids are special.

        Raises:
            FormatError: it is no tokenizer.json, or of a kind that is not read.
        """
        content = _read(data, name=name)
        names = {p: f"\0{n}" for p, n in (content.vocab | content.added).items() if n in special}
        if content.writing is Writing.BYTE_LEVEL and content.has_bytes:
            lost = sorted(_BYTE_OF[piece] for piece in names if piece in _BYTE_OF)
            if lost:
                raise FormatError(f"{name}: byte {lost[0]:#04x} is a special id, and texts need it")
            plain = cls(_load(_disarmed(data, names, plain=True), name=name), content, special)
        else:
            plain = None
        library = _load(_disarmed(data, names), name=name)
        for piece, number in content.added.items():
            given = library.token_to_id(names.get(piece, piece))
            if given != number:
                raise FormatError(
                    f"{name}: says that {piece!r} is id {number:,}, and the library that reads it gives"
                    f" {given}: ids are missing before it; add pieces for them, and save it again"
                )
        return cls(library, content, special, plain=plain)

    def normalise(self, text: str) -> str:
        """Give a text as the normaliser leaves it."""
        normaliser = self._library.normalizer
        shown = text if normaliser is None else str(normaliser.normalize_str(text))
        return shown.replace(SPACE_SYMBOL, " ") if self._content.writing is Writing.METASPACE else shown

    def encode(self, texts: Iterable[str]) -> Iterator[NDArray[np.integer]]:
        """Give the ids of each text."""
        for text in texts:
            parts = [self._ids(stretch) for stretch in self._stretches(text)]
            yield parts[0] if len(parts) == 1 else np.concatenate(parts)

    def verbatim(self) -> "HuggingFaceFile":
        """Give the same pieces without a normaliser or anything put before a text."""
        assert self._plain is not None, "cannot write every text"
        return self._plain

    def piece_bytes(self) -> list[bytes]:
        """Give what each id stands for: (V,); nothing for special ids, and for ids without a piece."""
        found = [b""] * self.size
        for piece, number in self._content.vocab.items():
            found[number] = _spelled(piece, self._content)
        for piece, number in self._content.added.items():
            found[number] = piece.encode()
        for number in self._special:
            found[number] = b""
        return found

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Give each id as people read it: its text, or the piece if it is special."""
        names = {number: piece for piece, number in (self._content.vocab | self._content.added).items()}
        spelled = self.piece_bytes()
        return [spelled[i].decode(errors="replace") or names.get(i, f"<{i}>") for i in ids]

    def _ids(self, text: str) -> NDArray[np.integer]:
        return np.array(self._library.encode(text, add_special_tokens=False).ids, np.int32)

    def _stretches(self, text: str) -> Iterator[str]:
        """Give a text in parts whose ids join to its ids, wherever a place for a cut is found."""
        start = 0
        while len(text) - start > _STRETCH:
            end, behind = self._cut(text, start + _STRETCH)
            yield text[start:end]
            start = behind
        yield text[start:]

    def _cut(self, text: str, place: int) -> tuple[int, int]:
        """Give where a text can be cut from a place on: before and behind the cut.

        A space at the cut is left out where the file puts one before every text.
        """
        borders = (found.start() for found in _BORDER.finditer(text, place, place + _STRETCH))
        for border in islice(borders, _TRIES):
            first = text[max(0, border - _WINDOW) : border]
            for behind in (border, border + 1) if text[border : border + 1] == " " else (border,):
                rest = text[behind : border + _WINDOW]
                whole = self._ids(text[max(0, border - _WINDOW) : border + _WINDOW])
                if np.array_equal(np.concatenate([self._ids(first), self._ids(rest)]), whole):
                    return border, behind
        return place, place


def _read(data: bytes, *, name: str) -> _Content:
    """Give what is read off a file, refusing what would lose text in silence."""
    try:
        file = json.loads(data)
        model, added = file["model"], file["added_tokens"] or []
        kind = _kind(model)
        entries = enumerate(piece for piece, _ in model["vocab"]) if kind == "Unigram" else ()
        vocab = {p: n for n, p in entries} if kind == "Unigram" else dict(model["vocab"])
        marks = {token["content"]: int(token["id"]) for token in added}
        special = frozenset(int(token["id"]) for token in added if token["special"])
        unk = model.get("unk_id") if kind == "Unigram" else vocab.get(model.get("unk_token"))
        types = _types(file["decoder"]) | _types(file["pre_tokenizer"])
        symbols = SPACE_SYMBOL in json.dumps([file["decoder"], file["normalizer"]], ensure_ascii=False)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{name}: not a tokenizer.json ({type(error).__name__}: {error}); save it with the"
            " `save` of Hugging Face's tokenizers"
        ) from error
    if "ByteLevel" in types:
        writing = Writing.BYTE_LEVEL
    elif kind in _OF_WORDS:
        writing = Writing.WORDS
    elif "Metaspace" in types or symbols:
        writing = Writing.METASPACE
    else:
        raise FormatError(
            f"{name}: a {kind} of decoder {', '.join(sorted(types)) or 'none'}: read are byte-level and"
            " Metaspace tokenizers, WordPiece and WordLevel"
        )
    continues = str(model.get("continuing_subword_prefix") or "")
    byte_pieces = bool(model.get("byte_fallback"))
    content = _Content(kind, vocab, marks, special, unk, writing, continues, byte_pieces)
    if content.has_bytes:
        content = replace(content, unk=None)  # some name one, which no text is given
    if model.get("end_of_word_suffix") or (continues and writing is not Writing.WORDS):
        raise FormatError(f"{name}: a BPE that marks the ends or the middles of words is not read")
    if unk is None and not content.has_bytes:
        raise FormatError(
            f"{name}: has neither an unknown token nor a piece for each of the 256 bytes, so characters"
            " would be lost without a trace; train it with one of them (unk_token, or"
            " initial_alphabet=ByteLevel.alphabet())"
        )
    return content


def _kind(model: Mapping[str, object]) -> str:
    """Give the type of a model, which files of the first years (GPT-2, BERT) leave out."""
    if "type" in model:
        return str(model["type"])
    if isinstance(model["vocab"], list):
        return "Unigram"
    if "merges" in model:
        return "BPE"
    return "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"


def _types(part: object) -> set[str]:
    """Name the types of a part of the file, and of the parts in it."""
    if isinstance(part, list):
        return {name for item in part for name in _types(item)}
    if not isinstance(part, dict):
        return set()
    inner = {name for item in part.values() if isinstance(item, list) for name in _types(item)}
    return inner | ({str(part["type"])} if "type" in part and part["type"] != "Sequence" else set())


def _disarmed(data: bytes, names: Mapping[str, str], *, plain: bool = False) -> str:
    """Give a file whose special pieces no text can write out; `plain` takes texts as they are."""
    file = json.loads(data)
    file |= {"truncation": None, "padding": None, "post_processor": None}
    for token in file["added_tokens"] or []:
        if token["content"] in names:
            flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            token.update(flags, content=names[token["content"]])
    model = file["model"]
    kind = _kind(model)
    if kind == "Unigram":
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {names.get(piece, piece): number for piece, number in model["vocab"].items()}
        unknown = model.get("unk_token")
        model["unk_token"] = names.get(unknown, unknown)
    if kind == "BPE":
        model["dropout"] = None
        pairs = (pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"])
        model["merges"] = [[one, two] for one, two in pairs if not names.keys() & {one, two, one + two}]
    if plain:
        file["normalizer"] = None
        _put_nothing_before(file["pre_tokenizer"])
    return json.dumps(file)


def _put_nothing_before(part: object) -> None:
    """Let the pre-tokenizers of a file put no space before a text."""
    for item in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _put_nothing_before(item)
    if isinstance(part, dict) and "add_prefix_space" in part:
        part["add_prefix_space"] = False


def _load(content: str, *, name: str) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer.from_str(content)
    except Exception as error:
        if type(error) is not Exception:  # the library raises nothing narrower
            raise
        raise FormatError(f"{name}: not a tokenizer.json: {error}") from error


def _spelled(piece: str, content: _Content) -> bytes:
    """Give what a piece of the model stands for."""
    if content.writing is Writing.BYTE_LEVEL and all(character in _BYTE_OF for character in piece):
        return bytes(map(_BYTE_OF.__getitem__, piece))
    if content.writing is Writing.METASPACE:
        byte = _BYTE.fullmatch(piece) if content.byte_pieces else None
        return bytes([int(byte[1], 16)]) if byte else piece.replace(SPACE_SYMBOL, " ").encode()
    if content.writing is Writing.WORDS:
        inside = bool(content.continues) and piece.startswith(content.continues)
        return (piece.removeprefix(content.continues) if inside else f" {piece}").encode()
    return piece.encode()
