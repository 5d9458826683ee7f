"""Pictures of the page, as SVG.

Losses by step, how alike duplicates are, and when steps were at work; of what texts are made of, a small
histogram of each measure; of a mix, shares, and windows of the order of training.

Colours are those of the page, so that they fit its light and its dark form.
"""

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import NamedTuple

from markupsafe import Markup

from pipeline.report.plot import Axis, Plot, text
from pipeline.report.report import StepCost
from pipeline.report.similarity import BINS, Similarity
from pipeline.report.texts import Lengths, Measure, TextSample
from pipeline.system.printable import printable
from stages.mixing.audited import AuditedSource, AuditedWindows, MixAudit
from stages.mixing.windows import SIGMAS

_LINE, _LABEL, _ROOM = 26, 190, 120
"""Of the picture of steps: height of a line, width of the names at its left and of what stands right."""
_WIDTH = 900
_LEAST = 0.0005
"""Share that is said as 0.1%."""
_POINTS = 50
"""Of a curve that is computed."""

LossCurve = list[tuple[int, float | None]]
"""Steps and their losses; None where a loss is not finite."""


def loss_curves(curves: Mapping[str, LossCurve], level: float, said: str) -> Markup:
    """Return the curves of losses by step, and a level that they are compared with.

    Args:
        curves: by what they are of; what is not finite is left out.
        level: nats.
        said: of the level.
    """
    lines = {
        name: [(float(step), loss) for step, loss in curve if loss is not None]
        for name, curve in curves.items()
    }
    steps = [step for points in lines.values() for step, _ in points]
    last = max(steps, default=1.0) or 1.0
    losses = [loss for points in lines.values() for _, loss in points]
    plot = Plot("Loss by step", Axis("step", 0.0, last), Axis.around("loss, nats", [*losses, level]))
    lines[said] = [(0.0, level), (last, level)]
    drawn = [plot.line(number, points) for number, points in enumerate(lines.values()) if points]
    return Markup(plot.svg([*plot.frame(), *drawn, *plot.legend(list(lines))]))  # noqa: S704  # its texts are escaped


def similarity_bars(found: Similarity) -> Markup:
    """Return how alike removed documents were to the kept ones, and the chance of being compared."""
    most = max(found.counts) or 1
    plot = Plot(
        "Removed documents by similarity",
        Axis("Jaccard similarity to the kept document", 0.0, 1.0),
        Axis("documents", 0.0, most * 1.05),
    )
    parts = plot.frame()
    for number, count in enumerate(found.counts):
        low, high = number / BINS, (number + 1) / BINS
        parts.append(
            plot.band(0, [(low, 0.0), (high, 0.0)], [(low, float(count)), (high, float(count))])
        )
    names = ["removed documents"]
    bands, rows, threshold = found.bands, found.rows, found.threshold
    if bands is not None and rows is not None and threshold is not None:
        chances = [(s / _POINTS, 1 - (1 - (s / _POINTS) ** rows) ** bands) for s in range(_POINTS + 1)]
        parts.append(plot.line(1, [(s, chance * most) for s, chance in chances]))
        parts.append(plot.line(2, [(threshold, 0.0), (threshold, most * 1.05)]))
        names += ["chance of comparison", "threshold"]
        for point in found.measured:
            at = point.similarity, point.compared * most
            label = f"{point.pairs} pairs: {point.compared:.0%} compared"
            parts += plot.mark(1, at, (0.0, 0.0), label)
    return Markup(plot.svg([*parts, *plot.legend(names)]))  # noqa: S704  # its texts are escaped


def length_bars(found: Lengths) -> Markup:
    """Return the shares of documents and of tokens by the length of the document, in powers of two."""
    bins = found.bins
    documents = sum(one.documents for one in bins) or 1
    tokens = sum(one.tokens for one in bins) or 1
    height = _LINE * len(bins) + 34
    half = (_WIDTH - _LABEL - 2 * _ROOM) / 2
    middle = _LABEL + half + _ROOM
    shares = [(one.documents / documents, one.tokens / tokens) for one in bins]
    across = half / max((share for pair in shares for share in pair), default=1.0)
    name = "Shares of documents and tokens by length"
    parts = [
        f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}">',
        text(_LABEL - 10, 16, "tokens of a document", 'text-anchor="end" class="dim"'),
        text(_LABEL, 16, "share of the documents", 'class="dim"'),
        text(middle, 16, "share of the tokens", 'class="dim"'),
    ]
    for number, (one, pair) in enumerate(zip(bins, shares, strict=True)):
        top = 22 + _LINE * number
        least, most = one.least, one.most
        said = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        parts.append(text(_LABEL - 10, top + 17, said, 'text-anchor="end"'))
        for left, share in zip((_LABEL, middle), pair, strict=True):
            width = max(across * share, 1.0)
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 4}" width="{width:.1f}" height="16" fill="var(--bar)"/>'
            )
            parts.append(text(left + width + 8, top + 17, _percent(share), 'class="dim"'))
    return Markup("\n".join([*parts, "</svg>"]))  # noqa: S704  # its texts are escaped


def _percent(share: float) -> str:
    """Return a share as it is said: what is there is never 0.0%."""
    return "under 0.1%" if 0 < share < _LEAST else f"{share:.1%}"


def step_times(steps: Sequence[StepCost]) -> Markup:
    """Return when each step was at work, in seconds that the run was at work."""
    last = max((step.ended for step in steps), default=1.0) or 1.0
    height = _LINE * len(steps) + 30
    across = (_WIDTH - _LABEL - _ROOM) / last
    name = "When steps were at work"
    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}">']
    for number, step in enumerate(steps):
        top = _LINE * number
        left = _LABEL + across * step.began
        width = max(across * (step.ended - step.began), 1.5)
        parts.append(text(_LABEL - 10, top + 18, step.step, 'text-anchor="end"'))
        parts.append(
            f'<rect x="{left:.1f}" y="{top + 5}" width="{width:.1f}" height="16" fill="var(--bar)"/>'
        )
        spent = f"{step.cpu_seconds:,.1f} CPU s"
        parts.append(text(left + width + 8, top + 18, spent, 'class="dim"'))
    parts.append(text(_LABEL, height - 8, "0 s", 'class="dim"'))
    parts.append(text(_WIDTH - _ROOM, height - 8, f"{last:,.0f} s", 'class="dim" text-anchor="end"'))
    return Markup("\n".join([*parts, "</svg>"]))  # noqa: S704  # its texts are escaped


_SAID = {
    "characters": "Length in characters",
    "word_characters": "Characters of a word",
    "line_characters": "Characters of a line",
    "letters": "Letters",
    "capitals": "Capitals, of the letters",
    "digits": "Digits",
    "spaces": "White space",
    "marks": "Punctuation and symbols",
    "repeated_lines": "In repeated lines",
    "different_words": "Different words, of all words",
}
_WHOLE = ("characters", "word_characters", "line_characters")
"""Measures that are no shares."""
_SMALL = 0.01
"""Shares below it are said with two digits."""
_MEASURE_WIDTH, _BARS, _UNDER = 330, 60, 20
"""Of a picture: its width, the height of its highest bar, and the room under it."""


class TextPanel(NamedTuple):
    """What the page shows of one measure."""

    title: str
    middle: str
    """Where the middle half of the texts lies."""
    picture: Markup


def text_panels(found: TextSample) -> list[TextPanel]:
    """Return a histogram of each measure, with where its middle half lies."""
    return [
        TextPanel(_SAID[name], _middle(name, one), _picture(name, one))
        for name, one in found.measures.items()
    ]


def _middle(name: str, found: Measure) -> str:
    low, middle, high = (_said(name, found.points[one]) for one in ("p25", "median", "p75"))
    if low == high:
        return f"half or more of the texts: {middle}"
    return f"{low} to {high}, median {middle}"


def _picture(name: str, found: Measure) -> Markup:
    height = _BARS + _UNDER
    opening = (
        f'<svg viewBox="0 0 {_MEASURE_WIDTH} {height}" role="img" aria-label="{_SAID[name]}, histogram">'
    )
    return Markup("\n".join([opening, *_bars(name, found), "</svg>"]))  # noqa: S704  # its texts are ours


def _bars(name: str, found: Measure) -> Iterator[str]:
    edges, counts = found.edges, found.counts
    width, most, total = _MEASURE_WIDTH / len(counts), max(counts), sum(counts)
    for place, (edge, count) in enumerate(zip(edges, counts, strict=True)):
        tall = max(_BARS * count / most, 1.0) if count else 0.0
        after = f" to {_said(name, edges[place + 1])}" if place + 1 < len(edges) else " or more"
        yield (
            f'<rect x="{width * place:.1f}" y="{_BARS - tall:.1f}" width="{width - 2:.1f}"'
            f' height="{tall:.1f}" fill="var(--bar)">'
            f"<title>{_said(name, edge)}{after}: {count / total:.1%} of the texts</title></rect>"
        )
    yield f'<path d="M0,{_BARS}H{_MEASURE_WIDTH - 2}" stroke="var(--rule)"/>'
    yield text(0, _BARS + 17, _said(name, edges[0]), 'class="dim"')
    last = f"{_said(name, edges[-1])} or more"
    yield text(_MEASURE_WIDTH - 2, _BARS + 17, last, 'class="dim" text-anchor="end"')


def _said(name: str, value: float) -> str:
    """Return a measure as people say it: 1,204, 4.7 or 12.5%."""
    if name not in _WHOLE:
        return f"{100 * value:.2g}%" if value < _SMALL else f"{100 * value:.1f}%"
    return f"{value:.1f}" if name == "word_characters" else f"{value:,.0f}"


MOST_DRAWN = 12
"""Sources in a picture: those with the largest shares."""
_MIX_WIDTH, _LEFT, _RIGHT = 900, 170, 90
_BAR, _MIX_LINE = 14, 44
_PANEL, _GAP = 74, 22
_LETTERS = 22
_LEAST_HALF = 0.0005
"""Half the height of a panel, at least: 0.05 points."""


def draw_shares(mix: MixAudit) -> str:
    """Return two bars for each source: what was promised, and what the rows hold."""
    sources = _largest(mix)
    total = max(mix.planned_tokens, 1)
    most = max((max(_promised(one, total), one.share) for one in sources), default=0) or 1.0
    top, height = 34, 34 + _MIX_LINE * len(sources) + 8
    parts = [
        _open(height, "Share of each source, promised and packed"),
        _legend("promised", "var(--rule)", 0),
        _legend("in rows", "var(--line)", 100),
    ]
    for number, one in enumerate(sources):
        y = top + _MIX_LINE * number
        parts.append(_name(_LEFT - 10, y + 19, one.source))
        for place, (share, color) in enumerate(
            ((_promised(one, total), "var(--rule)"), (one.share, "var(--line)"))
        ):
            width = (_MIX_WIDTH - _LEFT - _RIGHT) * share / most
            bar = y + place * (_BAR + 2)
            parts.append(
                f'<path d="M{_LEFT},{bar}h{width:.1f}v{_BAR}h-{width:.1f}z" fill="{color}"'
                f' stroke="var(--dim)" stroke-width="0.5"/>'
            )
            parts.append(_text(_LEFT + width + 6, bar + _BAR - 2, f"{share:.2%}"))
    return "\n".join([*parts, "</svg>"])


def draw_windows(mix: MixAudit) -> str:
    """Return a panel for each source: its share in each window, and how far chance takes it."""
    windows = mix.windows
    if windows is None or not windows.sources:
        return ""
    largest = {one.source for one in _largest(mix)}
    sources = [one for one in windows.sources if one.source in largest]
    exact = windows.interleave == "exact"
    line = "bound of the gate" if exact else f"{SIGMAS:g} sigma of a random order"
    top, height = 34, 34 + (_PANEL + _GAP) * len(sources) + 14
    parts = [
        _open(height, f"Share of each source in windows of {windows.size:,} rows"),
        _legend("a window", "var(--line)", 0),
        _legend(line, "var(--rule)", 110),
    ]
    ends = windows.starts[0], windows.starts[-1] + windows.size
    for number, one in enumerate(sources):
        reach = one.bound if exact else SIGMAS * one.sigma
        parts += _panel(one, windows.starts, ends, y=top + (_PANEL + _GAP) * number, reach=reach)
    parts.append(_text(_LEFT, height - 8, f"row {ends[0]:,}"))
    parts.append(_text(_MIX_WIDTH - _RIGHT, height - 8, f"row {ends[1]:,} of epoch 0", "end"))
    return "\n".join([*parts, "</svg>"])


def _panel(
    one: AuditedWindows, starts: Sequence[int], ends: tuple[int, int], *, y: int, reach: float
) -> list[str]:
    """Return the panel of one source; windows beyond its edge stand on it."""
    half = max(1.25 * reach, *(abs(share - one.share) for share in one.shares), _LEAST_HALF) * 1.05
    middle = y + _PANEL / 2

    def height(off: float) -> float:
        return middle - _PANEL / 2 * off / half

    right, band = _MIX_WIDTH - _RIGHT, 'fill="var(--rule)" fill-opacity="0.5"'
    parts = [
        _name(_LEFT - 10, middle + 4, one.source),
        f'<path d="M{_LEFT},{height(reach):.1f}H{right}V{height(-reach):.1f}H{_LEFT}z" {band}/>',
        f'<path d="M{_LEFT},{middle}H{right}" stroke="var(--dim)" stroke-dasharray="4 4"/>',
        f'<path d="M{_LEFT},{y}H{right}M{_LEFT},{y + _PANEL}H{right}" stroke="var(--rule)"/>',
        _text(right + 6, middle + 4, f"{one.share:.2%}"),
        _text(right + 6, y + 10, f"+{half * 100:.2f}"),
        _text(right + 6, y + _PANEL, f"-{half * 100:.2f}"),
    ]
    for start, share in zip(starts, one.shares, strict=True):
        place = (start - ends[0]) / (starts[-1] - ends[0]) if len(starts) > 1 else 0.5
        x = _LEFT + 4 + (right - _LEFT - 8) * place
        off = share - one.share
        color = "var(--bad)" if abs(off) > one.bound else "var(--line)"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{height(off):.1f}" r="2.6" fill="{color}">'
            f"<title>{_plain(one.source)}, rows from {start:,}: {share:.3%}</title></circle>"
        )
    return parts


def _largest(mix: MixAudit) -> list[AuditedSource]:
    """Return the sources that are drawn, in the order of the run file."""
    ranked = sorted(mix.sources, key=lambda one: -one.share)[:MOST_DRAWN]
    names = {one.source for one in ranked}
    return [one for one in mix.sources if one.source in names]


def _promised(source: AuditedSource, total: int) -> float:
    """Return the share that was asked for, or what the plan gives to a source with epochs."""
    asked = source.share_asked
    return source.planned_tokens / total if asked is None else asked


def _open(height: int, label: str) -> str:
    size = f'viewBox="0 0 {_MIX_WIDTH} {height}" width="{_MIX_WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{_plain(label)}">'


def _legend(label: str, color: str, shift: int) -> str:
    x = _LEFT + shift
    return (
        f'<path d="M{x},8h10v10h-10z" fill="{color}" stroke="var(--dim)" stroke-width="0.5"/>'
        f"{_text(x + 16, 17, label)}"
    )


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_plain(text)}</text>'


def _name(x: float, y: float, source: str) -> str:
    """Return the name of a source to the left of what is drawn of it, as far as there is room."""
    short = source if len(source) <= _LETTERS else f"{source[: _LETTERS - 3]}..."
    return _text(x, y, short, "end")


def _plain(text: str) -> str:
    return escape(printable(text))
