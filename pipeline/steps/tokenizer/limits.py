"""Limits: what stops a run whose tokenizer writes too much of a language as bytes, or warns of it."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.run_file.config import TokenizerLimits, TokenizerSection
from pipeline.steps.tokenizer.training import FAIRNESS, TokenizerRecord
from stages.errors import VerificationError
from stages.tokenizer.fairness import NOTABLE_FALLBACK

_SHOWN = 10
_WAYS = (
    "give these languages more text, set tokenizer.train.vocab_size higher,"
    " tokenizer.train.character_coverage nearer to 1, or tokenizer.train.alpha lower"
)


def require_fallback(record: TokenizerRecord, limits: TokenizerLimits, root: Path) -> None:
    """Stop a run of whose languages one is written too much in bytes.

    Raises:
        VerificationError: names the languages and their shares, where to look, and the ways on.
    """
    most = limits.max_byte_fallback
    over = {} if most is None else _over(record, most)
    if over:
        raise VerificationError(
            f"tokenizer.limits.max_byte_fallback = {most:g}: of the tokens of held-out text, bytes are"
            f" {_listed(over)}. No text is encoded yet. All languages: {root / FAIRNESS}. To go on with"
            f" this tokenizer, raise the limit and run again: nothing is redone. For a better one,"
            f" {_WAYS}, and run again with --replace"
        )


def fallback_warnings(record: TokenizerRecord, section: TokenizerSection) -> Iterator[str]:
    """Yield a line on the languages that are written too much in bytes, and on a lowered coverage."""
    over = _over(record, NOTABLE_FALLBACK)
    if over and section.limits.max_byte_fallback is None:
        yield (
            f"tokenizer: of the tokens of held-out text, bytes are {_listed(over)}; {_WAYS};"
            " tokenizer.limits.max_byte_fallback stops a run at such a share"
        )
    wanted, reached = section.train.character_coverage, record.character_coverage
    if reached is not None and reached < wanted:
        yield (
            f"tokenizer.train.character_coverage = {wanted:g} was lowered to {reached:.4g} for all"
            f" languages: the characters would take more than half of {record.vocab_size:,} pieces; set"
            " tokenizer.train.vocab_size higher"
        )


def _over(record: TokenizerRecord, most: float) -> dict[str, float]:
    found = sorted(record.byte_fallback.items(), key=lambda item: (-item[1], item[0]))
    return {name: share for name, share in found if share > most}


def _listed(shares: Mapping[str, float]) -> str:
    shown = [f"{name} {share:.1%}" for name, share in list(shares.items())[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(shares) - _SHOWN} more" if len(shares) > _SHOWN else "")
