"""The audit of a mix: what was asked, what was planned, and what the rows hold.

    asked     [[sources]] share = 0.15, or epochs
    planned   the classes of the mix: documents and tokens, exactly
    packed    counted from the rows and their list of documents, without the plan

    copies      packed documents, and tokens with those that packing cuts off, are the planned ones
    share       of the packed tokens, each source has the share that was asked for; in a later generation
                the share that was planned
    epochs      a source with epochs has the tokens that these ask for, as far as whole documents can
    total       the rows have `total_tokens`, likewise
    windows     each stretch of the order of training has every source as the whole has it

Findings name what is broken; the numbers are there whether anything is or not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from stages.findings import Finding
from stages.mixing.amounts import amount_gates, other_epochs, other_total
from stages.mixing.audited import (
    AuditedLanguage,
    AuditedSource,
    AuditedWindows,
    MixAudit,
    MixGate,
    PackedClass,
    WindowsAudit,
)
from stages.mixing.classes import NO_WEIGHT, MixClass
from stages.mixing.config import DatasetMix
from stages.mixing.later_generations import LaterShare, left_out_of
from stages.mixing.pools import DrawnSource
from stages.mixing.refusals import total_bound
from stages.mixing.windows import (
    SIGMAS,
    RowSums,
    largest_sum,
    sigma_of,
    window_size,
    window_starts,
)

INTERLEAVED_ROWS = 5
"""Rows that a source has too many or too few in a stretch of interleaved ones, at the most: half a point
of a thousand rows, if they are equally full."""
_LISTED = 3
"""Classes or sources that a message names."""
_ROUNDING = 1e-12
"""What a share may be off by because it is no fraction."""
_AT_MOST = 0.99
"""Part of `max_epochs` from which on a class has reached it: intervals end where bins do."""


@dataclass(frozen=True, eq=False)
class CountedMix:
    """What is known of the mix of a dataset."""

    mix: DatasetMix
    shares: Mapping[str, float]
    """Asked for."""
    classes: Sequence[MixClass]
    """Planned."""
    packed: Sequence[PackedClass]
    """Counted, over all shards of the training split."""
    rows: RowSums
    windows: Mapping[str, Sequence[int]]
    """Tokens of each window by source; empty if none was counted."""
    unweighted: int = 0
    """Training documents without a number where their weight should be."""
    asked: Sequence[DrawnSource] | None = ()
    """What the token store and the epochs ask of each source that has epochs; None if an earlier version
    planned the mix, which was not held to it."""
    largest: int | None = None
    """Tokens of the largest training document; None if that is not known."""
    later: Sequence[LaterShare] = ()
    """Planned: the shares of a later generation."""


def add_classes(parts: Iterable[Sequence[PackedClass]]) -> tuple[PackedClass, ...]:
    """Return the classes of all parts, those of one source and language added up, in their order."""
    found: dict[tuple[str, str], PackedClass] = {}
    for own in (one for part in parts for one in part):
        key = own.source, own.language
        known = found.get(key)
        found[key] = own if known is None else _sum(known, own)
    return tuple(found[key] for key in sorted(found))


def _sum(one: PackedClass, other: PackedClass) -> PackedClass:
    return PackedClass(
        source=one.source,
        language=one.language,
        documents=one.documents + other.documents,
        tokens=one.tokens + other.tokens,
        tokens_cut=one.tokens_cut + other.tokens_cut,
        longest=max(one.longest, other.longest),
    )


def audit_mix(counted: CountedMix) -> tuple[MixAudit, list[Finding]]:
    """Return all numbers of the mix of a dataset, and what is wrong with it."""
    mix, packed = counted.mix, counted.packed
    sources = _sources(counted)
    total = sum(one.tokens for one in packed)
    windows = _windows(counted)
    copies = list(_other_copies(counted))
    found = [*copies, *_other_shares(sources, _tolerance(counted, sources)), *other_epochs(sources)]
    if windows is not None:
        found += _other_windows(windows)
    largest = max((one.longest for one in packed), default=0)
    if counted.largest is not None:
        largest = counted.largest
    bound = None if mix.total_tokens is None else total_bound(mix.total_tokens, largest)
    is_total_bound = counted.asked is not None
    if is_total_bound and mix.total_tokens is not None and bound is not None:
        found += other_total(mix.total_tokens, sources, bound)
    audit = MixAudit(
        tolerance=mix.tolerance,
        total_asked=mix.total_tokens,
        total_bound=bound,
        total_held=is_total_bound,
        language_alpha=mix.language_alpha,
        planned_documents=sum(one.documents for one in counted.classes),
        planned_tokens=sum(one.tokens for one in counted.classes),
        documents=sum(one.documents for one in packed),
        tokens=total,
        tokens_cut=sum(one.tokens_cut for one in packed),
        sources=sources,
        languages=_languages(counted),
        capped=tuple(_capped(counted)),
        without_weight=sum(one.available_documents for one in counted.classes if one.level == NO_WEIGHT),
        unweighted=counted.unweighted,
        after=mix.after,
        windows=windows,
        gates=(),
    )
    return audit.model_copy(update={"gates": tuple(_gates(counted, audit))}), found


def _sources(counted: CountedMix) -> tuple[AuditedSource, ...]:
    total = max(sum(one.tokens for one in counted.packed), 1)
    drawn = {one.source: one for one in counted.asked or ()}
    later = {one.source: one for one in counted.later}
    found = []
    for name, asked in counted.mix.sources.items():
        planned = [one for one in counted.classes if one.source == name]
        packed = [one for one in counted.packed if one.source == name]
        tokens, cut = (sum(getattr(one, key) for one in packed) for key in ("tokens", "tokens_cut"))
        available = sum(one.available_tokens for one in planned)
        share = later[name].share_asked if name in later else counted.shares.get(name)
        found.append(
            AuditedSource(
                source=name,
                share_asked=share,
                epochs_asked=None if share is not None else asked.whole_epochs,
                max_epochs=asked.most_epochs,
                available_documents=sum(one.available_documents for one in planned),
                available_tokens=available,
                planned_documents=sum(one.documents for one in planned),
                planned_tokens=sum(one.tokens for one in planned),
                documents=sum(one.documents for one in packed),
                tokens=tokens,
                tokens_cut=cut,
                share=tokens / total,
                epochs=(tokens + cut) / max(available, 1),
                longest=max((one.longest for one in packed), default=0),
                tokens_asked=drawn[name].tokens if name in drawn else None,
                tokens_bound=drawn[name].bound if name in drawn else 0.0,
                share_planned=later[name].share if name in later and share is not None else None,
                share_all=later[name].share_all if name in later else None,
                left_out=sum(left_out_of(one) for one in planned),
            )
        )
    return tuple(found)


def _languages(counted: CountedMix) -> tuple[AuditedLanguage, ...]:
    """Return all languages, most available tokens first."""
    available: dict[str, int] = {}
    for one in counted.classes:
        available[one.language] = available.get(one.language, 0) + one.available_tokens
    documents, tokens = dict.fromkeys(available, 0), dict.fromkeys(available, 0)
    for own in counted.packed:
        documents[own.language] = documents.get(own.language, 0) + own.documents
        tokens[own.language] = tokens.get(own.language, 0) + own.tokens
    before, after = max(sum(available.values()), 1), max(sum(tokens.values()), 1)
    return tuple(
        AuditedLanguage(
            language=name,
            available_tokens=available.get(name, 0),
            share_available=available.get(name, 0) / before,
            documents=documents[name],
            tokens=tokens[name],
            share=tokens[name] / after,
        )
        for name in sorted(tokens, key=lambda name: (-available.get(name, 0), name))
    )


def _capped(counted: CountedMix) -> Iterator[str]:
    """Yield the classes that the mix would take more often, if it could.

    `epochs` of a source may be its `max_epochs`; that caps nothing.
    """
    names: dict[str, None] = {}
    for one in counted.classes:
        own = counted.mix.sources[one.source]
        asked = own.epochs if own.share is None else None
        if (
            one.available_tokens
            and one.epochs >= _AT_MOST * own.most_epochs
            and own.most_epochs != asked
        ):
            names[f"{one.source}/{one.language}"] = None
    yield from names


def _other_copies(counted: CountedMix) -> Iterator[Finding]:
    """Documents and tokens of each source and language are those of the plan, to the last one."""
    wrong = []
    for (source, language), (planned, packed) in _both(counted).items():
        if planned != packed:
            wrong.append(
                f"source {source!r}, language {language!r}: {packed[0]:,} copies of documents with"
                f" {packed[1]:,} tokens lie in the shards, but the mix takes {planned[0]:,} with"
                f" {planned[1]:,}"
            )
    if wrong:
        more = f"; and {len(wrong) - _LISTED:,} more" if len(wrong) > _LISTED else ""
        yield Finding(
            "mix_copies",
            f"{'; '.join(wrong[:_LISTED])}{more}; the shards are not what was planned, so make the"
            " dataset again with --replace; if they differ again, report it as a bug",
        )


def _both(counted: CountedMix) -> dict[tuple[str, str], tuple[tuple[int, int], tuple[int, int]]]:
    """Return planned and packed documents and tokens by source and language; cut tokens are packed."""
    planned: dict[tuple[str, str], tuple[int, int]] = {}
    for one in counted.classes:
        documents, tokens = planned.get((one.source, one.language), (0, 0))
        planned[one.source, one.language] = documents + one.documents, tokens + one.tokens
    packed = {
        (own.source, own.language): (own.documents, own.tokens + own.tokens_cut)
        for own in counted.packed
    }
    names = sorted(planned.keys() | packed.keys())
    return {name: (planned.get(name, (0, 0)), packed.get(name, (0, 0))) for name in names}


def _tolerance(counted: CountedMix, sources: Sequence[AuditedSource]) -> float:
    """Return by how much a share may be off.

    A mix that leaves out sources without documents has what whole documents allow (`missing`): then the
    rows may also be off by as much as the plan is. A later generation is compared with its plan.
    """
    mix = counted.mix
    if mix.missing == "refuse" or counted.later:
        return mix.tolerance
    total = max(sum(one.planned_tokens for one in sources), 1)
    asked = ((one.share_asked, one.planned_tokens / total) for one in sources)
    return mix.tolerance + max(
        (abs(share - planned) for share, planned in asked if share is not None), default=0.0
    )


def _other_shares(sources: Sequence[AuditedSource], tolerance: float) -> Iterator[Finding]:
    """Sources with a share have it, but for the tolerance."""
    for one in sources:
        off = one.difference
        if off is None or abs(off) <= tolerance + _ROUNDING:
            continue
        way = "the rows hold other documents than were planned; make the dataset again with --replace"
        if one.planned_tokens == one.tokens + one.tokens_cut:
            way = (
                f"packing left {one.tokens_cut:,} of its {one.planned_tokens:,} tokens in no row: choose"
                f" a packing.strategy that cuts less, or set mix.tolerance to {_ceiling(abs(off)):g} or"
                " more"
            )
        wanted = f"share = {one.share_asked:g} is asked for"
        if one.share_planned is not None:
            wanted = f"{one.share_planned:.4%} of this generation is planned"
        yield Finding(
            "mix_share",
            f"source {one.source!r}: {wanted}, but it has {one.share:.4%} of the packed tokens:"
            f" {abs(off) * 100:.3f} points off, at most"
            f" {tolerance * 100:.3f} pass (mix.tolerance = {tolerance:g}); {way}",
        )


def _ceiling(value: float) -> float:
    """Return a share rounded up to 3 digits behind the point."""
    return (int(value * 1000) + 1) / 1000


def _windows(counted: CountedMix) -> WindowsAudit | None:
    """Return what windows hold of each source; None if there are none."""
    rows = counted.rows
    starts, size = window_starts(rows.rows), window_size(rows.rows)
    if not counted.windows or not rows.tokens:
        return None
    totals = [sum(column) for column in zip(*counted.windows.values(), strict=True)]
    found = []
    for name in dict.fromkeys([*counted.mix.sources, *counted.windows]):
        if name not in counted.windows:
            continue
        share, sigma = rows.sources[name].tokens / rows.tokens, sigma_of(rows, name, size)
        own = [
            tokens / total if total else share
            for tokens, total in zip(counted.windows[name], totals, strict=True)
        ]
        off = [abs(one - share) for one in own]
        interleaved = INTERLEAVED_ROWS * rows.longest
        bounds = [max(counted.mix.tolerance, interleaved / max(total, 1)) for total in totals]
        if counted.mix.interleave == "shuffle":
            most = largest_sum(rows, name, size=size, windows=len(starts))
            bounds = [most / max(total, 1) for total in totals]
        worst = max(range(len(off)), key=lambda place: off[place] / bounds[place] if off[place] else 0)
        found.append(
            AuditedWindows(
                source=name,
                share=share,
                sigma=sigma,
                deviation=off[worst],
                bound=bounds[worst],
                start=starts[worst],
                beyond_sigmas=sum(one > SIGMAS * sigma for one in off) if sigma else 0,
                shares=tuple(round(one, 6) for one in own),
                passed=off[worst] <= bounds[worst],
            )
        )
    return WindowsAudit(
        interleave=counted.mix.interleave,
        size=size,
        looked_at=len(starts),
        of=max(rows.rows // max(size, 1), 1),
        starts=tuple(starts),
        sources=tuple(found),
    )


def _other_windows(windows: WindowsAudit) -> Iterator[Finding]:
    """Every window has its share of every source, as far as chance or the tolerance lets it differ."""
    for one in windows.sources:
        if one.passed:
            continue
        if windows.interleave == "exact":
            why = 'interleave = "exact" deals every window to mix.tolerance'
            way = "raise mix.tolerance if windows may differ more"
        else:
            why = "chance gives more once in 10 ** 9 datasets"
            way = "the order of the rows is not a random one; this is a bug, please report it"
        yield Finding(
            "mix_windows",
            f"source {one.source!r}: of rows {one.start:,} to {one.start + windows.size - 1:,} of epoch"
            f" 0, it is {one.deviation * 100:.3f} points off its share of {one.share:.4%}; at most"
            f" {one.bound * 100:.3f} pass ({why}); {way}",
        )


def _gates(counted: CountedMix, audit: MixAudit) -> Iterator[MixGate]:
    """Yield what passed or failed, each with its bound; shares in points."""
    sources, windows = audit.sources, audit.windows
    bound = _tolerance(counted, sources)
    other = sum(planned != packed for planned, packed in _both(counted).values())
    yield MixGate(name="classes that differ from the plan", value=other, bound=0, passed=not other)
    off = [abs(one.difference) for one in sources if one.difference is not None]
    if off:
        most = max(off)
        yield MixGate(
            name=f"points off the {'planned' if counted.later else 'asked'} share",
            value=most * 100,
            bound=bound * 100,
            passed=most <= bound + _ROUNDING,
        )
    yield from amount_gates(audit)
    for own in () if windows is None else windows.sources:
        yield MixGate(
            name=f"points off in a window: {own.source}",
            value=own.deviation * 100,
            bound=own.bound * 100,
            passed=own.passed,
        )
