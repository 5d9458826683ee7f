"""What `tokenizer verify` prints: round trips by group of texts, checks, and coverage by block."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipeline.report.plain import PlainConsole, PlainTable, print_json
from stages.errors import VerificationError
from stages.tokenizer.proof import BlockCoverage, ProofResult, RoundTrip

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
