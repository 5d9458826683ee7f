"""tokenizer.json files at other places than a whole text: without the spaces that they put around one.

    Prepend                   before each text and behind each special piece
    Metaspace, always         likewise; "first": before a text alone
    ByteLevel, add_prefix_space    as Prepend
    Strip                     takes white space from each side on which no text is

Where words are cut at white space before they get a space each (T5), only the first word of a part that
continues a text has none.
"""

from collections.abc import Mapping

import orjson

from stages.tokenizer.huggingface_content import types_in
from stages.tokenizer.places import Before, TextPlace

_WORDS = "WhitespaceSplit"
_PUT: Mapping[Before, tuple[str, ...]] = {
    Before.START: ("first", "always"),
    Before.SPECIAL: ("always",),
    Before.TEXT: (),
}
"""With which schemes Metaspace puts a space."""


def placed(written: str, place: TextPlace) -> str:
    """Return a file as it encodes a part of a document at a place."""
    file = orjson.loads(written)
    before = (file["normalizer"], file["pre_tokenizer"])
    file["normalizer"] = _normalizer(file["normalizer"], place)
    file["pre_tokenizer"] = _pre_tokenizer(file["pre_tokenizer"], place)
    return (
        written if before == (file["normalizer"], file["pre_tokenizer"]) else orjson.dumps(file).decode()
    )


def puts_a_space_to_words(written: str) -> bool:
    """Say whether a file cuts words at white space and then puts a space before each."""
    types = types_in(orjson.loads(written)["pre_tokenizer"])
    return {_WORDS, "Metaspace"} <= types


def _normalizer(part: object, place: TextPlace) -> object:
    if not isinstance(part, Mapping):
        return part
    own = dict(part)
    match part:
        case {"type": "Sequence", "normalizers": list(parts)}:
            own["normalizers"] = [new for one in parts if (new := _normalizer(one, place)) is not None]
        case {"type": "Prepend"} if place.before is Before.TEXT:
            return None
        case {"type": "Strip", "strip_left": left, "strip_right": right}:
            own["strip_left"] = bool(left) and place.before is not Before.TEXT
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
        case {"type": "ByteLevel", "add_prefix_space": True} if place.before is Before.TEXT:
            own["add_prefix_space"] = False
    return own
