"""Tokenizer verify: what a tokenizer's file does to texts, proved by encoding and decoding them.

MODEL    opened as a run opens it
texts    stress texts, strings drawn by a fixed seed, and those of the user, cleaned as a run cleans them
proof    round trips, the library's ids, special ids, order; characters without a piece
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import orjson
from pydantic import ValidationError

from pipeline.planning.tokenizer_files import read_tokenizer_file
from pipeline.system.regular_files import read_regular
from pipeline.tools.export.quick import special_pieces
from pipeline.tools.tokenizer.verify_tables import TokenizerProof
from stages.cleaning.text import clean_text
from stages.errors import ConfigError, DataError
from stages.tokenizer.encode import Tokenizer
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer, is_trained
from stages.tokenizer.family import framing_offer
from stages.tokenizer.proof import ProofResult, coverage, prove
from stages.tokenizer.ranks.encodings import ENCODINGS, TiktokenConfig
from stages.tokenizer.roles import SpecialPieces, find_roles, require_roles
from stages.tokenizer.stress import stress_texts
from stages.tokenizer.untouched import untouched

GIVEN = "given texts"
"""The group of the user's texts."""


def verify_tokenizer(
    model: Path,
    *,
    special: Sequence[str] = (),
    texts: Sequence[Path] = (),
    encoding: str | None = None,
) -> TokenizerProof:
    """Hold a tokenizer's file to what a run needs of it.

    Args:
        model: a tokenizer's file, or a folder that holds one.
        special: special ids as ROLE=PIECE or ROLE=ID.
        texts: further files of texts.
        encoding: what ranks of tiktoken are of, if they are not known.

    Raises:
        ConfigError: there is no such file, or no such piece.
        DataError: a file is not what it must be.
    """
    key = str(model)
    path, (kind, data, _) = read_tokenizer_file(
        model, key, base=Path.cwd(), tiktoken=_tiktoken(encoding)
    )
    described = describe(data, kind, name=key)
    found = find_roles(described, special_roles(special), name=model.name)
    require_roles(found, ["eos"], who="tokenizer verify", name=model.name)
    ids = {"pad": found.ids["eos"], **found.ids}
    tokenizer = (
        Tokenizer.load(path, ids)
        if kind is TokenizerKind.SENTENCEPIECE and is_trained(data, ids)
        else existing_tokenizer(data, kind, ids, name=key).unguarded()
    )
    kept = set(ids.values()) - {tokenizer.unk}
    pieces = [piece for piece, number in described.pieces.items() if number in kept]
    every = stress_texts(pieces)
    if texts:
        every[GIVEN] = [clean_text(text) for path in texts for text in texts_of(path)]
    proof = prove(tokenizer, every, library=untouched(data, kind))
    return TokenizerProof(
        model=model,
        size=described.size,
        special=ids,
        compiled=tokenizer.compiled,
        writes_all=tokenizer.writes_all,
        proof=proof,
        coverage=coverage(tokenizer),
        kept_from_text=len(pieces),
        framing=framing_offer(described, found),
    )


def _tiktoken(encoding: str | None) -> TiktokenConfig:
    try:
        return TiktokenConfig.model_validate({"encoding": encoding})
    except ValidationError as error:
        raise ConfigError(
            f"--encoding {encoding}: no such name; known are {', '.join(ENCODINGS)}"
        ) from error


def special_roles(given: Sequence[str]) -> SpecialPieces:
    """Read special ids: "eos=</s>" names the piece of a role.

    Raises:
        ConfigError: there is no such role.
    """
    named = special_pieces(given)
    try:
        return SpecialPieces.model_validate(named)
    except ValidationError as error:
        role = str(error.errors()[0]["loc"][0])
        known = ", ".join(SpecialPieces.model_fields)
        raise ConfigError(
            f"--special {role}={named[role]}: no such role or value; roles: {known}"
        ) from error


def texts_of(path: Path) -> Iterator[str]:
    """Yield the texts of a file: the field "text" of each line of *.jsonl, or else the whole file."""
    try:
        data = read_regular(path, partial(_require_file, path))
    except FileNotFoundError as error:
        raise ConfigError(f"--text {path}: no such file") from error
    try:
        if path.suffix != ".jsonl":
            yield data.decode()
            return
        for number, line in enumerate(data.splitlines(), 1):
            if line.strip():
                yield _text_of(line, f"{path}, line {number:,}")
    except UnicodeDecodeError as error:
        raise DataError(
            f"--text {path}: no UTF-8 at byte {error.start:,}; convert it to UTF-8"
        ) from error


def _text_of(line: bytes, where: str) -> str:
    try:
        record = orjson.loads(line)
    except ValueError as error:
        raise DataError(f"--text {where}: no JSON: {error}") from error
    text = record.get("text") if isinstance(record, dict) else None
    if not isinstance(text, str):
        raise DataError(f"--text {where}: has no text in a field 'text'; JSON lines must have one each")
    return text


def _require_file(path: Path, kind: str | None) -> None:
    if kind is not None:
        raise ConfigError(f"--text {path}: is {kind}, not a file; name a regular file")


def total(proof: ProofResult) -> Counter[str]:
    """Return how many texts come back in which way, of all groups."""
    return sum(proof.round_trips.values(), Counter())
