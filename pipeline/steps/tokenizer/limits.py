"""Limits: what stops a run whose tokenizer costs a language too much, or warns of it.

Two measures count, of the languages of the corpus alone: the share of bytes among the tokens, and
parity, the tokens for the same text against those of a reference language.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.run_file.config import TokenizerLimits, TokenizerSection
from pipeline.steps.tokenizer.parallel import PARITY, ParallelRecord
from pipeline.steps.tokenizer.training import FAIRNESS, TokenizerRecord
from stages.errors import VerificationError
from stages.tokenizer.fairness import NOTABLE_FALLBACK
from stages.tokenizer.parity import NOTABLE_PARITY, measured_as
from stages.tokenizer.train_config import TrainConfig

_SHOWN = 10
_MORE_CHARACTERS = (
    "give these languages more text, set tokenizer.train.vocab_size higher,"
    " tokenizer.train.character_coverage nearer to 1, or tokenizer.train.alpha lower"
)
_MORE_SHARE = (
    "give these languages more text, set tokenizer.train.alpha lower, or tokenizer.train.vocab_size"
    " higher"
)
_ANOTHER = "set tokenizer.path to another tokenizer, or let the run train one"


@dataclass(frozen=True)
class LanguageCosts:
    """What the tokenizer costs the languages of a corpus."""

    train: TrainConfig | None
    """How the run trained it; None of an existing one."""
    text: str
    """What byte fallback was measured on: "held-out", "parallel" or "encoded" text."""
    byte_fallback: Mapping[str, float]
    """By language of the corpus."""
    parity: Mapping[str, float]
    """Likewise, of those that the parallel text has."""
    reference: str

    @property
    def fallback_file(self) -> str:
        """Where byte fallback is told of all languages."""
        return PARITY if self.train is None else FAIRNESS

    def way_out(self, *, of_bytes: bool) -> str:
        """What gives a better tokenizer: with fewer bytes, or with more equal languages."""
        if self.train is None:
            return _ANOTHER
        return _MORE_CHARACTERS if of_bytes and not self.train.is_byte_level else _MORE_SHARE


def costs_of(
    record: TokenizerRecord,
    measured: ParallelRecord,
    languages: Collection[str],
    *,
    train: TrainConfig | None,
) -> LanguageCosts:
    """Return what the tokenizer costs the languages of a corpus.

    Args:
        record: of the tokenizer.
        measured: on parallel text.
        languages: of the corpus.
        train: how the run trained it: then byte fallback is that of text that was held out.
    """
    names = measured_as(languages, measured.parity.keys())
    fallback = {own: measured.byte_fallback[name] for own, name in names.items()}
    return LanguageCosts(
        train=train,
        text="parallel" if train is None else "held-out",
        byte_fallback=fallback if train is None else record.byte_fallback,
        parity={own: measured.parity[name] for own, name in names.items()},
        reference=measured.reference,
    )


def require_limits(costs: LanguageCosts, limits: TokenizerLimits, root: Path) -> None:
    """Stop a run of whose languages one costs too much.

    Raises:
        VerificationError: names the languages and what they cost, where to look, and the ways on.
    """
    faults = []
    most = limits.max_byte_fallback
    over = {} if most is None else _over(costs.byte_fallback, most)
    if over:
        faults.append(
            f"tokenizer.limits.max_byte_fallback = {most:g}: share of byte tokens in {costs.text} text:"
            f" {_listed(over, '.1%')} (all languages: {root / costs.fallback_file})"
        )
    most_parity = limits.max_parity
    unequal = {} if most_parity is None else _over(costs.parity, most_parity)
    if unequal:
        faults.append(
            f"tokenizer.limits.max_parity = {most_parity:g}: {_unequal(unequal, costs)} (all languages:"
            f" {root / PARITY})"
        )
    if not faults:
        return
    limit = "limit" if len(faults) == 1 else "limits"
    better = costs.way_out(of_bytes=bool(over))
    raise VerificationError(
        f"{'; '.join(faults)}. No text is encoded yet. To go on with this tokenizer, raise the {limit}"
        f" and run again: nothing is redone. For a better one, {better}, and run again with --replace"
    )


def cost_warnings(costs: LanguageCosts, limits: TokenizerLimits) -> Iterator[str]:
    """Yield a line on the languages that are written too much in bytes, and on those that pay most.

    What has a limit has no warning.
    """
    over = _over(costs.byte_fallback, NOTABLE_FALLBACK)
    if over and limits.max_byte_fallback is None:
        stops = "; tokenizer.limits.max_byte_fallback stops a run at such a share"
        yield (
            f"tokenizer: many byte tokens in {costs.text} text: {_listed(over, '.1%')};"
            f" {costs.way_out(of_bytes=True)}{stops if costs.text == 'held-out' else ''}"
        )
    unequal = _over(costs.parity, NOTABLE_PARITY)
    if unequal and limits.max_parity is None:
        yield (
            f"tokenizer: {_unequal(unequal, costs)}; {costs.way_out(of_bytes=False)};"
            " tokenizer.limits.max_parity stops a run at such a number"
        )


def coverage_warnings(record: TokenizerRecord, section: TokenizerSection) -> Iterator[str]:
    """Yield a line on a coverage of characters that was lowered, and on text that teaches nothing."""
    wanted, reached = section.train.character_coverage, record.character_coverage
    if reached is not None and reached < wanted:
        yield (
            f"tokenizer.train.character_coverage = {wanted:g} was lowered to {reached:.4g} for all"
            f" languages: the characters would take more than half of {record.vocab_size:,} pieces; set"
            " tokenizer.train.vocab_size higher"
        )
    if record.skipped_pieces:
        yield (
            f"tokenizer: {record.skipped_pieces:,} pieces of the sample have nothing to learn from, only"
            " U+2581, U+2585, line feeds or symbols of the run"
        )


def _over(measured: Mapping[str, float], most: float) -> dict[str, float]:
    found = sorted(measured.items(), key=lambda item: (-item[1], item[0]))
    return {name: value for name, value in found if value > most}


def _unequal(parity: Mapping[str, float], costs: LanguageCosts) -> str:
    listed = _listed(parity, ".2f")
    return f"tokens for the same text, divided by those of {costs.reference}: {listed}"


def _listed(values: Mapping[str, float], form: str) -> str:
    shown = [f"{name} {value:{form}}" for name, value in list(values.items())[:_SHOWN]]
    return ", ".join(shown) + (f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else "")
