"""Files of ranks as tiktoken reads them: a piece in base64 and its rank in each line.

IQ== 0
Ig== 1
"""

import base64
import hashlib
import re
from collections.abc import Mapping

from stages.errors import ConfigError, FormatError
from stages.tokenizer.ranks.byte_level_file import RankedPieces
from stages.tokenizer.ranks.encodings import ENCODINGS, EncodingName, TiktokenConfig

_LINE = re.compile(rb"\s*[A-Za-z0-9+/]+={0,2} [0-9]+\s*(?:\n|$)")


def is_ranks(data: bytes) -> bool:
    """Say whether the first line of a file is a piece in base64 and its rank."""
    return _LINE.match(data) is not None


def read_tiktoken(data: bytes, config: TiktokenConfig, *, name: str) -> RankedPieces:
    """Return the pieces of a file of ranks.

    Args:
        data: the file.
        config: what it leaves out.
        name: of the file, for messages.

    Raises:
        ConfigError: its ranks are those of no well-known model, and `config` says nothing of them.
        FormatError: a line is not a piece and its rank.
    """
    ranks = read_ranks(data, name=name)
    if config.pattern is not None:
        return RankedPieces(ranks, config.pattern, config.special_tokens)
    encoding = config.encoding or encoding_of(ranks)
    if encoding is None:
        raise ConfigError(
            f"{name}: tiktoken's ranks of {len(ranks):,} pieces, of no model that is known here. The"
            " file does not say how texts are cut into words: set [tokenizer.tiktoken] encoding (with"
            f" verify: --encoding) to one of {', '.join(ENCODINGS)}, or pattern and special_tokens to"
            " those in the model's code"
        )
    known = ENCODINGS[encoding]
    special = config.special_tokens or known.special_tokens
    begin = known.begin if known.begin in special else None
    return RankedPieces(ranks, known.pattern, special, begin, known.normalization)


def encoding_of(ranks: Mapping[bytes, int]) -> EncodingName | None:
    """Return the well-known encoding that has these ranks; None if there is none."""
    digest = _digest(ranks)
    return next((key for key, known in ENCODINGS.items() if known.sha256 == digest), None)


def read_ranks(data: bytes, *, name: str) -> Mapping[bytes, int]:
    """Return the pieces of a file with their ranks.

    Raises:
        FormatError: a line is not a piece and its rank, or ranks a piece again.
    """
    found: dict[bytes, int] = {}
    for number, line in enumerate(data.splitlines(), 1):
        parts = line.split()
        if not parts:
            continue
        try:
            encoded, numbered = parts
            piece, rank = base64.b64decode(encoded, validate=True), int(numbered)
        except ValueError as error:
            raise FormatError(
                f"{name}: line {number:,} is not a piece in base64 and its rank ({error}); download the"
                " file again"
            ) from error
        if not piece or found.setdefault(piece, rank) != rank:
            raise FormatError(f"{name}: line {number:,} ranks {piece!r} again, or a piece without bytes")
    return found


def _digest(ranks: Mapping[bytes, int]) -> str:
    lines = (
        base64.b64encode(piece) + b" %d\n" % rank
        for piece, rank in sorted(ranks.items(), key=lambda item: item[1])
    )
    return hashlib.sha256(b"".join(lines)).hexdigest()
