"""The amounts of a mix: whether the rows hold the epochs and the total that were asked for."""

from collections.abc import Iterator, Sequence

from stages.findings import Finding
from stages.mixing.audited import AuditedSource, MixAudit, MixGate
from stages.mixing.refusals import TOTAL_TOLERANCE

_HALF = 0.5
"""Tokens: what is asked for may be a fraction."""


def other_epochs(sources: Sequence[AuditedSource]) -> Iterator[Finding]:
    """Sources with epochs have the tokens that these ask for, but for the draw of whole documents."""
    for one in sources:
        off = one.tokens_off
        if off is None or abs(off) <= one.tokens_bound + _HALF:
            continue
        yield Finding(
            "mix_epochs",
            f"source {one.source!r}: epochs = {one.epochs_asked:g} ask for {one.tokens_asked:,.0f}"
            f" tokens, but its documents have {one.tokens + one.tokens_cut:,}: {abs(off):,.0f} off, and"
            f" the draw of whole documents explains {one.tokens_bound:,.0f} (4 standard deviations);"
            " make the dataset again with --replace; if it differs again, report it as a bug",
        )


def other_total(total: int, sources: Sequence[AuditedSource], bound: float) -> Iterator[Finding]:
    """The rows have the tokens that were asked for, but for a document and half a percent."""
    tokens, cut = (sum(getattr(one, key) for one in sources) for key in ("tokens", "tokens_cut"))
    if abs(tokens - total) > bound + _HALF:
        way = "make the dataset again with --replace"
        if abs(tokens + cut - total) <= bound + _HALF:
            way = f"packing left {cut:,} tokens in no row: choose a packing.strategy that cuts less"
        yield Finding(
            "mix_total",
            f"mix.total_tokens = {total:,} is asked for, but the rows hold {tokens:,}:"
            f" {abs(tokens - total):,} off, and at most {bound:,.0f} pass (the largest document, and"
            f" {TOTAL_TOLERANCE:.1%}); {way}",
        )


def amount_gates(audit: MixAudit) -> Iterator[MixGate]:
    """Yield how far the rows are off the epochs of each source and off the total, with the bounds."""
    for one in audit.sources:
        if one.tokens_off is not None:
            yield MixGate(
                name=f"tokens off the asked epochs: {one.source}",
                value=abs(one.tokens_off),
                bound=one.tokens_bound,
                passed=abs(one.tokens_off) <= one.tokens_bound + _HALF,
            )
    if audit.total_held and audit.total_asked is not None and audit.total_bound is not None:
        missed = abs(audit.tokens - audit.total_asked)
        yield MixGate(
            name="tokens off mix.total_tokens",
            value=missed,
            bound=audit.total_bound,
            passed=missed <= audit.total_bound + _HALF,
        )


def missed_total(audit: MixAudit, dataset: str) -> Iterator[str]:
    """Yield a warning if rows of an earlier version miss `total_tokens`; today that is a finding."""
    if audit.total_held or audit.total_asked is None or audit.total_bound is None:
        return
    off = abs(audit.tokens - audit.total_asked)
    if off > audit.total_bound:
        yield (
            f"dataset {dataset!r}: mix.total_tokens = {audit.total_asked:,}, but the rows hold"
            f" {audit.tokens:,}. At most {audit.total_bound:,.0f} pass in new runs. The rows stay valid"
        )
