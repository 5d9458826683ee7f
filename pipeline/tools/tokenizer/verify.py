"""Tokenizer verify: what a tokenizer's file does to texts, proved by encoding and decoding them.

MODEL    opened as a run opens it
texts    stress texts, strings drawn by a fixed seed, and those of the user, cleaned as a run cleans them
proof    round trips, the library's ids, special ids, order; characters without a piece

What `tokenizer verify` prints: round trips by group of texts, checks, and coverage by block.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from pipeline.planning.existing import read_tokenizer_file
from pipeline.report.plain import PlainConsole, PlainTable, print_json
from pipeline.system.regular_files import read_regular
from pipeline.tools.export.quick import special_pieces
from stages.cleaning.text import clean_text
from stages.errors import ConfigError, DataError, VerificationError
from stages.tokenizer.existing import describe, tokenizer_in
from stages.tokenizer.post_processor import framing_offer
from stages.tokenizer.proof import BlockCoverage, ProofResult, RoundTrip, coverage, prove, untouched
from stages.tokenizer.ranks.encodings import ENCODINGS, TiktokenConfig
from stages.tokenizer.roles import SpecialPieces, find_roles, require_roles
from stages.tokenizer.stress import stress_texts

_WRITES_ALL = "can write every text: each must come back as it is, or as the normaliser leaves it"
_WRITES_SOME = "need not write every text: a text may also come back as another one of the same ids"
_MANY = ("sentinel", "reserved")
_MOST = 60
"""Characters of a text that are shown."""


@dataclass(frozen=True)
class TokenizerProof:
    """What `tokenizer verify` finds."""

    model: Path
    size: int
    special: Mapping[str, int]
    """By role."""
    compiled: bool
    writes_all: bool
    proof: ProofResult
    coverage: Mapping[str, BlockCoverage]
    kept_from_text: int
    """Special pieces that texts wrote out."""
    framing: str | None = None
    """What its models expect around texts."""


def content_of(found: TokenizerProof) -> dict[str, Any]:
    """Return a proof as JSON has it."""
    return {
        "model": str(found.model),
        "size": found.size,
        "special_ids": dict(found.special),
        "compiled": found.compiled,
        "writes_every_text": found.writes_all,
        "framing": found.framing,
        "round_trips": {name: dict(counts) for name, counts in found.proof.round_trips.items()},
        "checks": {name: asdict(check) for name, check in found.proof.checks.items()},
        "coverage": {name: asdict(block) for name, block in found.coverage.items()},
        "passed": not found.proof.failed,
    }


def _roles(special: Mapping[str, int]) -> str:
    """Return the roles with their ids: without rows of ids, and without an EOS that pads."""
    few = {role: number for role, number in special.items() if not role.startswith(_MANY)}
    if few.get("pad") == few["eos"]:
        del few["pad"]
    return ", ".join(f"{role} {few[role]:,}" for role in sorted(few, key=lambda one: (few[one], one)))


def print_proof(found: TokenizerProof, *, as_json: bool) -> None:
    """Print what a tokenizer was found to do."""
    if as_json:
        print_json(content_of(found))
        return
    console = PlainConsole()
    console.line(f"{found.model}: {found.size:,} ids, {found.kept_from_text:,} of them special")
    console.line(f"special ids: {_roles(found.special)}; others: --special ROLE=PIECE")
    console.line(f"encodes by {'compiled code' if found.compiled else 'its library'}")
    console.line(_WRITES_ALL if found.writes_all else _WRITES_SOME)
    if found.framing is not None:
        console.line(found.framing)
    console.line()
    _print_round_trips(console, found.proof)
    console.line()
    table = PlainTable("check", "texts", "left out", "failed").right()
    for name, check in found.proof.checks.items():
        table.add(name, f"{check.texts:,}", f"{check.left_out:,}", f"{check.failed:,}")
    console.show(table)
    for name, check in found.proof.checks.items():
        for text in check.first:
            console.line(f"  {name}: not so of {_shown(text)}")
    console.line()
    _print_coverage(console, found)
    console.line()
    console.line(f"tokenizer verify: {'FAIL' if found.proof.failed else 'PASS'}")


def require_proof(found: TokenizerProof) -> None:
    """Refuse a tokenizer of which a check failed.

    Raises:
        VerificationError: says which.
    """
    failed = [f"{name!r} of {count:,} texts" for name, count in found.proof.failed.items()]
    if failed:
        raise VerificationError(f"{found.model}: tokenizer verify: FAIL: not so: {', '.join(failed)}")


def _print_round_trips(console: PlainConsole, proof: ProofResult) -> None:
    table = PlainTable("come back as", *(way.value for way in RoundTrip)).right()
    for group, counts in proof.round_trips.items():
        table.add(group, *(f"{counts[way.value]:,}" for way in RoundTrip))
    console.show(table)


def _print_coverage(console: PlainConsole, found: TokenizerProof) -> None:
    table = PlainTable(
        "characters", "assigned", "with a piece", "in bytes", "unknown", "dropped"
    ).right()
    for name, block in found.coverage.items():
        counts = (block.pieces, block.in_bytes, block.unknown, block.dropped)
        table.add(
            name, f"{block.characters:,}", *(f"{n / block.characters:.1%}" if n else "-" for n in counts)
        )
    console.show(table)


def _shown(text: str) -> str:
    return f"{text[:_MOST]!r}{'...' * (len(text) > _MOST)} ({len(text):,} characters)"


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
    description = describe(data, kind, name=key)
    found = find_roles(description, special_roles(special), name=model.name)
    require_roles(found, ["eos"], who="tokenizer verify", name=model.name)
    ids = {"pad": found.ids["eos"], **found.ids}
    tokenizer = tokenizer_in(path, data, kind, ids, name=key).unguarded()
    kept = set(ids.values()) - {tokenizer.unk}
    pieces = [piece for piece, number in description.pieces.items() if number in kept]
    every = stress_texts(pieces)
    if texts:
        every[GIVEN] = [clean_text(text) for path in texts for text in texts_of(path)]
    proof = prove(tokenizer, every, library=untouched(data, kind))
    return TokenizerProof(
        model=model,
        size=description.size,
        special=ids,
        compiled=tokenizer.compiled,
        writes_all=tokenizer.writes_all,
        proof=proof,
        coverage=coverage(tokenizer),
        kept_from_text=len(pieces),
        framing=framing_offer(description, found),
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
