"""tekken.json, Mistral's files of ranked pieces.

    config          pattern, default_vocab_size, default_num_special_tokens, version
    vocab           [{"rank": 0, "token_bytes": "AA=="}, ...]
    special_tokens  [{"rank": 0, "token_str": "<unk>"}, ...], absent until v7

Special tokens have the first ids, and a piece the id of its rank behind them. Of the vocabulary, as many
pieces count as `default_vocab_size` leaves: files have more.

Source: mistral-common, `tokens/tokenizers/tekken.py`, `Tekkenizer`.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from typing import TypedDict, cast

import orjson

from stages.errors import FormatError
from stages.tokenizer.ranks.byte_level_file import RankedPieces

_SPECIAL_UNTIL_V7 = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
    *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]"),
    *("[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)
_LAST_WITHOUT = 7
"""The last version whose files may leave special tokens out."""
_FILLER = "<SPECIAL_{}>"
BEGIN = "<s>"
"""What Mistral's models expect before each text."""


class _Piece(TypedDict):
    rank: int
    token_bytes: str


class _Special(TypedDict):
    rank: int
    token_str: str


class _TekkenConfig(TypedDict):
    pattern: str
    default_vocab_size: int
    default_num_special_tokens: int
    version: str


def is_tekken(data: bytes) -> bool:
    """Say whether a JSON object has pieces as a tekken.json has them."""
    return b'"token_bytes"' in data and b'"default_num_special_tokens"' in data


def read_tekken(data: bytes, *, name: str) -> RankedPieces:
    """Return the pieces of a tekken.json.

    Raises:
        FormatError: it is none.
    """
    try:
        file = orjson.loads(data)
        config = cast("_TekkenConfig", file["config"])
        reserved = int(config["default_num_special_tokens"])
        special = _special_tokens(file.get("special_tokens"), reserved, version=config["version"])
        room = int(config["default_vocab_size"]) - reserved
        ranks = _ranks(file["vocab"], reserved, room=room)
        return RankedPieces(ranks, str(config["pattern"]), special, BEGIN if BEGIN in special else None)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(
            f"{name}: not a tekken.json ({type(error).__name__}: {error}); download it again"
        ) from error


def _special_tokens(given: Sequence[_Special] | None, reserved: int, *, version: str) -> dict[str, int]:
    if given is None:
        number = re.match(r"v(\d+)", version)
        if number is None or int(number[1]) > _LAST_WITHOUT:
            raise ValueError(f"no special_tokens, which files of version {version} must have")
        found = {piece: place for place, piece in enumerate(_SPECIAL_UNTIL_V7)}
    else:
        found = {token["token_str"]: token["rank"] for token in given}
        if len(found) < len(given):
            raise ValueError("a special token that is there twice")
    fillers = {_FILLER.format(place): place for place in range(len(found), reserved)}
    whole = found | fillers
    if sorted(whole.values()) != list(range(reserved)):
        raise ValueError(f"special tokens that are not numbered from 0 to {reserved - 1:,}")
    return whole


def _ranks(vocab: Sequence[_Piece], reserved: int, *, room: int) -> Mapping[bytes, int]:
    found = {
        base64.b64decode(piece["token_bytes"], validate=True): piece["rank"] + reserved
        for piece in vocab
        if piece["rank"] < room
    }
    if sorted(found.values()) != list(range(reserved, reserved + room)):
        raise ValueError(f"pieces that are not ranked from 0 to {room - 1:,}")
    return found
