r"""tokenizer.json files, as Hugging Face's tokenizers writes them: what they say of their ids.

The library matches special tokens wherever a text writes them out, and so does a model that finds them
in its vocabulary. So a file is disarmed before it is loaded: the pieces of special ids get names that no
cleaned text holds, since each begins with U+0000, and merges of them go; no id changes.

    vocab   {"<mask>": 4, ...}         ->  {"\u00004": 4, ...}
    text    "a <mask> b"               ->  a _ < mask > _ b

What would lose text or bring chance in goes too: truncation, padding, dropout, what is put around texts.

What an id spells is read off the file, by the way in which its pieces are written:

    byte-level   characters that stand for one byte each      (GPT-2)
    metaspace    U+2581 for a space, <0x0A> for bytes          (Llama, T5)
    plain        as in texts, <0x0A> for bytes                 (`tokenizer export`)
    words        a space before each, none where ## continues  (BERT)

tokenizer.json files at other places than a whole text: without the spaces that they put around one.

    Prepend                   before each text and behind each special piece
    Metaspace, always         likewise; "first": before a text alone
    ByteLevel, add_prefix_space    as Prepend
    Strip                     takes white space from each side on which no text is

Where words are cut at white space before they get a space each (T5), only the first word of a part that
continues a text has none.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NotRequired, TypedDict

import orjson

from stages.errors import FormatError
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.texts import PrecedingText, TextPlace

SAVE_IT = "save it with the `save` of Hugging Face's tokenizers"
"""The way out for a file that is none."""
_MOST_IDS = 1 << 24
"""Ids are below it: one of 3,000,000,000 would take tables of as many entries."""
_NO_TEXT = "\0"
"""What no cleaned text holds."""
_OF_WORDS = ("WordPiece", "WordLevel")
"""Models that give the unknown token for a word, whatever its characters are."""
_FALLBACK = {f"<0x{byte:02X}>": byte for byte in range(256)}
_UNSHOWN = [*range(33), *range(127, 161), 173]
"""Bytes that byte-level pieces write as characters from U+0100 on; the others stand for themselves."""
BYTE_OF = {chr(byte): byte for byte in range(256) if byte not in _UNSHOWN} | {
    chr(256 + number): byte for number, byte in enumerate(_UNSHOWN)
}


class AddedPiece(TypedDict):
    """What was added to a vocabulary."""

    content: str
    id: int
    special: bool
    single_word: bool
    lstrip: bool
    rstrip: bool
    normalized: bool


class ModelPart(TypedDict):
    """The model of a file of BPE."""

    vocab: dict[str, int]
    merges: list[object]
    ignore_merges: NotRequired[bool]


class ReadFile(TypedDict):
    """A file, as far as it is looked into here."""

    model: ModelPart
    added_tokens: list[AddedPiece] | None
    normalizer: object
    pre_tokenizer: object


class PieceWriting(StrEnum):
    """How pieces are written."""

    BYTE_LEVEL = "byte-level"
    METASPACE = "metaspace"
    PLAIN = "plain"
    WORDS = "words"


@dataclass(frozen=True)
class Content:
    """What is read off a file."""

    kind: str
    """Of the model."""
    vocab: dict[str, int]
    """Of the model: without what was added to it."""
    added: dict[str, int]
    special: frozenset[int]
    """Of the added ones those that the file calls special."""
    unk: int | None
    writing: PieceWriting
    continues: str
    """What begins a piece of `words` that no space stands before."""
    byte_pieces: bool
    """Whether <0x0A> is a byte."""
    into_bytes: bool
    """Whether characters become bytes before the model sees them."""

    @property
    def size(self) -> int:
        """Every id is below it."""
        return max([*self.vocab.values(), *self.added.values()], default=-1) + 1

    @property
    def bytes_of(self) -> Mapping[str, int]:
        """The bytes that texts are written in, by their pieces; words are taken whole."""
        if self.writing is PieceWriting.BYTE_LEVEL:
            alphabet = BYTE_OF if self.into_bytes else {}
        else:
            alphabet = _FALLBACK if self.byte_pieces else {}
        return {} if self.kind in _OF_WORDS else alphabet

    @property
    def has_bytes(self) -> bool:
        """Whether every byte has a piece, so that every text can be written."""
        return bool(self.bytes_of) and self.bytes_of.keys() <= self.vocab.keys()


def read_content(data: bytes, *, name: str) -> Content:
    """Return what is read off a file, refusing what would lose text in silence."""
    try:
        file = orjson.loads(data)
        model, added = file["model"], file["added_tokens"] or []
        kind = kind_of_model(model)
        entries = enumerate(piece for piece, _ in model["vocab"]) if kind == "Unigram" else ()
        vocab = _ids_of({p: n for n, p in entries} if kind == "Unigram" else model["vocab"])
        marks = _ids_of({token["content"]: token["id"] for token in added})
        special = frozenset(token["id"] for token in added if token["special"])
        unk = model.get("unk_id") if kind == "Unigram" else vocab.get(model.get("unk_token"))
        before = types_in(file["pre_tokenizer"])
        types = types_in(file["decoder"]) | before
        into_bytes = "ByteLevel" in before | types_in(file["normalizer"])
        symbols = SPACE_SYMBOL in orjson.dumps([file["decoder"], file["normalizer"]]).decode()
        pairs_of(model["merges"] if kind == "BPE" else ())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{name}: not a tokenizer.json ({type(error).__name__}: {error}); {SAVE_IT}"
        ) from error
    if "ByteLevel" in types:
        writing = PieceWriting.BYTE_LEVEL
    elif kind in _OF_WORDS:
        writing = PieceWriting.WORDS
    elif "Metaspace" in types or symbols:
        writing = PieceWriting.METASPACE
    elif bool(model.get("byte_fallback")) and _joins_pieces_as_they_are(file):
        writing = PieceWriting.PLAIN
    else:
        raise FormatError(
            f"{name}: a {kind} of decoder {', '.join(sorted(types)) or 'none'}: read are byte-level and"
            " Metaspace tokenizers, WordPiece and WordLevel, and what `shardmill tokenizer export` wrote"
        )
    continues = str(model.get("continuing_subword_prefix") or "")
    byte_pieces = bool(model.get("byte_fallback"))
    content = Content(kind, vocab, marks, special, unk, writing, continues, byte_pieces, into_bytes)
    if content.has_bytes:
        content = replace(content, unk=None)  # some name one, which no text is given
    if model.get("end_of_word_suffix") or (continues and writing is not PieceWriting.WORDS):
        raise FormatError(f"{name}: a BPE that marks the ends or the middles of words is not read")
    if unk is None and not content.has_bytes:
        raise FormatError(
            f"{name}: has neither an unknown token nor a piece for each of the 256 bytes with ByteLevel"
            " before them (or byte_fallback), so characters would be lost without a trace; train it with"
            " one of them (unk_token, or ByteLevel and initial_alphabet=ByteLevel.alphabet())"
        )
    return content


def _joins_pieces_as_they_are(file: Mapping[str, object]) -> bool:
    """Say whether pieces are written with spaces, and nothing between them is lost.

    So `stages.tokenizer.sentencepiece_conversion` writes the tokenizers that a run trained.
    """
    before = file["pre_tokenizer"]
    whole = before is None or (
        isinstance(before, dict)
        and before.get("type") == "Split"
        and before.get("behavior") == "Isolated"
    )
    return whole and types_in(file["decoder"]) == {"ByteFallback", "Fuse"}


def _ids_of(pieces: Mapping[str, object]) -> dict[str, int]:
    """Return the ids of pieces, which must be some."""
    found = {piece: number for piece, number in pieces.items() if type(number) is int}
    for piece, number in pieces.items():
        if not 0 <= found.get(piece, -1) < _MOST_IDS:
            raise ValueError(
                f"the id of {piece!r} is {number!r}, and must be from 0 to {_MOST_IDS - 1:,}"
            )
    return found


def pairs_of(merges: Iterable[object]) -> list[tuple[str, str]]:
    """Return merges, which are written in one of two ways: "a b", ["a", "b"]."""
    found = []
    for merge in merges:
        match merge.split(" ") if isinstance(merge, str) else merge:
            case [str(one), str(two)]:
                found.append((one, two))
            case _:
                raise ValueError(f"the merge {merge!r} is not of two pieces")
    return found


def kind_of_model(model: Mapping[str, object]) -> str:
    """Return the type of a model, which files of the first years (GPT-2, BERT) leave out."""
    if "type" in model:
        return str(model["type"])
    if isinstance(model["vocab"], list):
        return "Unigram"
    if "merges" in model:
        return "BPE"
    return "WordPiece" if "max_input_chars_per_word" in model else "WordLevel"


def types_in(part: object) -> set[str]:
    """Name the types of a part of the file, and of the parts in it."""
    if isinstance(part, list):
        return {name for item in part for name in types_in(item)}
    if not isinstance(part, dict):
        return set()
    inner = {name for item in part.values() if isinstance(item, list) for name in types_in(item)}
    return inner | ({str(part["type"])} if "type" in part and part["type"] != "Sequence" else set())


def name_in_no_text(number: int) -> str:
    """Return the name that a special id is given."""
    return f"{_NO_TEXT}{number}"


def is_disarmed(piece: str) -> bool:
    """Say whether a piece has a name that no text can write out."""
    return piece.startswith(_NO_TEXT)


def disarmed(data: bytes, names: Mapping[str, str], *, plain: bool = False) -> str:
    """Return a file whose special pieces no text can write out; `plain` takes texts as they are."""
    file = orjson.loads(data)
    file |= {"truncation": None, "padding": None, "post_processor": None}
    for token in file["added_tokens"] or []:
        if token["content"] in names:
            flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            token.update(flags, content=names[token["content"]])
    model = file["model"]
    kind = kind_of_model(model)
    if kind == "Unigram":
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
    else:
        model["vocab"] = {names.get(piece, piece): number for piece, number in model["vocab"].items()}
        unknown = model.get("unk_token")
        model["unk_token"] = names.get(unknown, unknown)
    if kind == "BPE":
        model["dropout"] = None
        model["merges"] = [
            [one, two]
            for one, two in pairs_of(model["merges"])
            if not names.keys() & {one, two, one + two}
        ]
    if plain:
        file["normalizer"] = None
        _put_nothing_before(file["pre_tokenizer"])
    return orjson.dumps(file).decode()


def _put_nothing_before(part: object) -> None:
    """Let the pre-tokenizers of a file put no space before a text."""
    for item in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _put_nothing_before(item)
    if isinstance(part, dict) and "add_prefix_space" in part:
        part["add_prefix_space"] = False


def spelled_by(piece: str, content: Content) -> bytes:
    """Return what a piece of the model stands for."""
    if content.writing is PieceWriting.BYTE_LEVEL and all(character in BYTE_OF for character in piece):
        return bytes(map(BYTE_OF.__getitem__, piece))
    if content.writing in {PieceWriting.METASPACE, PieceWriting.PLAIN}:
        if content.byte_pieces and piece in _FALLBACK:
            return bytes([_FALLBACK[piece]])
        plain = content.writing is PieceWriting.PLAIN
        return (piece if plain else piece.replace(SPACE_SYMBOL, " ")).encode()
    if content.writing is PieceWriting.WORDS:
        inside = bool(content.continues) and piece.startswith(content.continues)
        return (piece.removeprefix(content.continues) if inside else f" {piece}").encode()
    return piece.encode()


_WORDS = "WhitespaceSplit"
_PUT: Mapping[PrecedingText, tuple[str, ...]] = {
    PrecedingText.START: ("first", "always"),
    PrecedingText.SPECIAL: ("always",),
    PrecedingText.TEXT: (),
}
"""With which schemes Metaspace puts a space."""


def placed(file_text: str, place: TextPlace) -> str:
    """Return a file as it encodes a part of a document at a place."""
    file = orjson.loads(file_text)
    before = (file["normalizer"], file["pre_tokenizer"])
    file["normalizer"] = _normalizer(file["normalizer"], place)
    file["pre_tokenizer"] = _pre_tokenizer(file["pre_tokenizer"], place)
    return (
        file_text
        if before == (file["normalizer"], file["pre_tokenizer"])
        else orjson.dumps(file).decode()
    )


def puts_a_space_to_words(file_text: str) -> bool:
    """Say whether a file cuts words at white space and then puts a space before each."""
    types = types_in(orjson.loads(file_text)["pre_tokenizer"])
    return {_WORDS, "Metaspace"} <= types


def _normalizer(part: object, place: TextPlace) -> object:
    if not isinstance(part, Mapping):
        return part
    own = dict(part)
    match part:
        case {"type": "Sequence", "normalizers": list(parts)}:
            own["normalizers"] = [new for one in parts if (new := _normalizer(one, place)) is not None]
        case {"type": "Prepend"} if place.before is PrecedingText.TEXT:
            return None
        case {"type": "Strip", "strip_left": left, "strip_right": right}:
            own["strip_left"] = bool(left) and place.before is not PrecedingText.TEXT
            own["strip_right"] = bool(right) and place.ends
            return own if own["strip_left"] or own["strip_right"] else None
    return own


def _pre_tokenizer(part: object, place: TextPlace) -> object:
    if not isinstance(part, Mapping):
        return part
    own = dict(part)
    match part:
        case {"type": "Sequence", "pretokenizers": list(parts)}:
            own["pretokenizers"] = [_pre_tokenizer(one, place) for one in parts]
        case {"type": "Metaspace"}:
            scheme = part.get("prepend_scheme") or (
                "always" if part.get("add_prefix_space") else "never"
            )
            if scheme != "never" and scheme not in _PUT[place.before]:
                own["prepend_scheme"] = "never"
                own |= {"add_prefix_space": False} if "add_prefix_space" in part else {}
        case {"type": "ByteLevel", "add_prefix_space": True} if place.before is PrecedingText.TEXT:
            own["add_prefix_space"] = False
    return own
