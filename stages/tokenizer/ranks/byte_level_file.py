"""The tokenizer.json that gives the ids of ranked pieces.

The merges that a file of ranks stands for.

tiktoken joins two neighbours whenever their bytes together are a piece: those of the lowest rank first,
the leftmost of equal ones. A `tokenizer.json` lists pairs instead. Each piece needs only one pair:

    ranks    a 0, b 1, c 2, bc 3, abc 4      abc   ->   a b c   ->   a bc   ->   the pair (a, bc)

While all joins happen inside the bytes of a piece, the text around them changes nothing. So before a
text joins two neighbours to `abc`, these bytes are in the state that `abc` alone comes to just before
its last join. No other pair of neighbours ever gives it, whatever the order of the ranks is.

Some pieces are never joined: the ranks stop at three parts or more (588 of Llama 3's 128,000). They are
found only as whole words, for which the files have `ignore_merges`.

Source: tiktoken, `src/lib.rs`, `_byte_pair_merge` and `Encoding.encode_ordinary`.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import orjson

from stages.errors import FormatError
from stages.tokenizer.huggingface_content import BYTE_OF


def merges_of_ranks(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Return the pair that each piece is joined from, in the order of the ranks.

    Args:
        ranks: of the pieces; all 256 bytes are among them.
    """
    pairs = (_last_pair(piece, ranks) for piece in _by_rank(ranks) if len(piece) > 1)
    return [pair for pair in pairs if pair is not None]


def _by_rank(ranks: Mapping[bytes, int]) -> Iterable[bytes]:
    return sorted(ranks, key=ranks.__getitem__)


def _last_pair(piece: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """Join the bytes of a piece until two parts are left; return these, or None if more stay."""
    parts = [piece[place : place + 1] for place in range(len(piece))]
    last = 2
    while len(parts) > last:
        best, at = None, 0
        for place in range(len(parts) - 1):
            rank = ranks.get(parts[place] + parts[place + 1])
            if rank is not None and (best is None or rank < best):
                best, at = rank, place
        if best is None:
            return None
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0], parts[1]


_BYTES = 256
_MOST_IDS = 1 << 24
_CHARACTERS = str.maketrans({chr(byte): character for character, byte in BYTE_OF.items()})
"""What stands for each byte in a piece."""
_READ_OTHERWISE = {
    r"\{\d*,?\d*\}\+": "a count such as {1,3}+, which is possessive there: remove the +",
    r"\(\?[a-zA-Z]*[msxU-][a-zA-Z-]*[:)]": "flags other than (?i:...): remove them",
    r"(?<!\\)\^": r"^ outside of [...], which would match after each line break: write \A",
    r"(?<!\\)\$": r"$, which would match before each line break: write (?![\s\S])",
}
"""What Oniguruma, the library of tokenizer.json, reads otherwise than tiktoken's."""


@dataclass(frozen=True)
class RankedPieces:
    """Byte-level BPE as its ranks, its expression and its special tokens."""

    ranks: Mapping[bytes, int]
    """Ids of the pieces."""
    pattern: str
    """Cuts texts into words."""
    special_tokens: Mapping[str, int]
    begin: str | None = None
    """The special token that its models expect before each text."""
    normalization: str | None = None


def byte_level_file(found: RankedPieces, *, name: str) -> bytes:
    """Return the tokenizer.json of ranked pieces.

    Args:
        found: the pieces.
        name: of their file, for messages.

    Raises:
        FormatError: a byte has no piece, two pieces have one id, or the expression means something else
            to the library of a tokenizer.json.
    """
    _refuse(found, name=name)
    pieces = {_in_byte_alphabet(piece): number for piece, number in found.ranks.items()}
    twice = sorted(pieces.keys() & found.special_tokens.keys())
    if twice:
        raise FormatError(f"{name}: the special token {twice[0]!r} is a piece of texts too; rename it")
    merges = [
        [_in_byte_alphabet(one), _in_byte_alphabet(two)] for one, two in merges_of_ranks(found.ranks)
    ]
    special = sorted(found.special_tokens.items(), key=lambda item: item[1])
    split = {"type": "Split", "pattern": {"Regex": found.pattern}, "behavior": "Isolated"}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    file = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added(content, number) for content, number in special],
        "normalizer": found.normalization and {"type": found.normalization},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split | {"invert": False}, level]},
        "post_processor": _begun(found),
        "decoder": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": True,
            "use_regex": True,
        },
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": True,
            # special tokens too: the library numbers those that are added by how many pieces there are
            "vocab": dict(sorted([*pieces.items(), *special], key=lambda item: item[1])),
            "merges": merges,
        },
    }
    return orjson.dumps(file)


def _refuse(found: RankedPieces, *, name: str) -> None:
    missing = [byte for byte in range(_BYTES) if bytes([byte]) not in found.ranks]
    if missing:
        raise FormatError(
            f"{name}: no rank for the byte {missing[0]:#04x}, and texts need all 256; download it again"
        )
    by_id: dict[int, object] = {}
    pieces: list[tuple[object, int]] = [*found.ranks.items(), *found.special_tokens.items()]
    for piece, number in pieces:
        if not 0 <= number < _MOST_IDS or by_id.setdefault(number, piece) != piece:
            other = f" and is that of {by_id[number]!r}" if number in by_id else ""
            raise FormatError(
                f"{name}: the id of {piece!r} is {number:,}{other}; each piece needs its own, from 0 to"
                f" {_MOST_IDS - 1:,}"
            )
    for expression, said in _READ_OTHERWISE.items():
        if re.search(expression, re.sub(r"\[(?:\\.|[^\]\\])*\]", "[]", found.pattern)):
            raise FormatError(f"{name}: its expression {found.pattern!r} has {said}")


def _in_byte_alphabet(piece: bytes) -> str:
    return piece.decode("latin-1").translate(_CHARACTERS)


def _added(content: str, number: int) -> dict[str, object]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": content, **flags, "special": True}


def _begun(found: RankedPieces) -> dict[str, object] | None:
    """Return the post-processor that puts the piece that begins texts before them."""
    if found.begin is None:
        return None
    number = found.special_tokens[found.begin]
    begin: list[dict[str, object]] = [{"SpecialToken": {"id": found.begin, "type_id": 0}}]
    text = {name: {"Sequence": {"id": name, "type_id": kind}} for kind, name in enumerate("AB")}
    return {
        "type": "TemplateProcessing",
        "single": [*begin, text["A"]],
        "pair": [*begin, text["A"], {"SpecialToken": {"id": found.begin, "type_id": 1}}, text["B"]],
        "special_tokens": {found.begin: {"id": found.begin, "ids": [number], "tokens": [found.begin]}},
    }
