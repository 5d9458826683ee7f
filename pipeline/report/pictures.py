"""Pictures of the page: losses by step, how alike duplicates are, and when steps were at work."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from pipeline.report.content import CurveContent, StepContent
from pipeline.report.lengths import LengthsContent
from pipeline.report.plot import Axis, Plot, text
from pipeline.report.similarity import BINS, SimilarityContent

_LINE, _LABEL, _ROOM = 26, 190, 120
"""Of the picture of steps: height of a line, width of the names at its left and of what stands right."""
_WIDTH = 900
_LEAST = 0.0005
"""Share that is said as 0.1%."""
_POINTS = 50
"""Of a curve that is computed."""


def loss_curves(curves: Mapping[str, CurveContent], level: float, said: str) -> Markup:
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


def similarity_bars(found: SimilarityContent) -> Markup:
    """Return how alike removed documents were to the kept ones, and the chance of being compared."""
    most = max(found["counts"]) or 1
    plot = Plot(
        "Removed documents by similarity",
        Axis("Jaccard similarity to the kept document", 0.0, 1.0),
        Axis("documents", 0.0, most * 1.05),
    )
    parts = plot.frame()
    for number, count in enumerate(found["counts"]):
        low, high = number / BINS, (number + 1) / BINS
        parts.append(
            plot.band(0, [(low, 0.0), (high, 0.0)], [(low, float(count)), (high, float(count))])
        )
    names = ["removed documents"]
    bands, rows, threshold = found["bands"], found["rows"], found["threshold"]
    if bands is not None and rows is not None and threshold is not None:
        chances = [(s / _POINTS, 1 - (1 - (s / _POINTS) ** rows) ** bands) for s in range(_POINTS + 1)]
        parts.append(plot.line(1, [(s, chance * most) for s, chance in chances]))
        parts.append(plot.line(2, [(threshold, 0.0), (threshold, most * 1.05)]))
        names += ["chance of comparison", "threshold"]
        for point in found["measured"]:
            at = point["similarity"], point["compared"] * most
            told = f"{point['pairs']} pairs: {point['compared']:.0%} compared"
            parts += plot.mark(1, at, (0.0, 0.0), told)
    return Markup(plot.svg([*parts, *plot.legend(names)]))  # noqa: S704  # its texts are escaped


def length_bars(found: LengthsContent) -> Markup:
    """Return the shares of documents and of tokens by the length of the document, in powers of two."""
    bins = found["bins"]
    documents = sum(one["documents"] for one in bins) or 1
    tokens = sum(one["tokens"] for one in bins) or 1
    height = _LINE * len(bins) + 34
    half = (_WIDTH - _LABEL - 2 * _ROOM) / 2
    middle = _LABEL + half + _ROOM
    shares = [(one["documents"] / documents, one["tokens"] / tokens) for one in bins]
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
        least, most = one["least"], one["most"]
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


def step_times(steps: Sequence[StepContent]) -> Markup:
    """Return when each step was at work, in seconds that the run was at work."""
    last = max((step["ended"] for step in steps), default=1.0) or 1.0
    height = _LINE * len(steps) + 30
    across = (_WIDTH - _LABEL - _ROOM) / last
    name = "When steps were at work"
    parts = [f'<svg class="chart" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{name}">']
    for number, step in enumerate(steps):
        top = _LINE * number
        left = _LABEL + across * step["began"]
        width = max(across * (step["ended"] - step["began"]), 1.5)
        parts.append(text(_LABEL - 10, top + 18, step["step"], 'text-anchor="end"'))
        parts.append(
            f'<rect x="{left:.1f}" y="{top + 5}" width="{width:.1f}" height="16" fill="var(--bar)"/>'
        )
        spent = f"{step['cpu_seconds']:,.1f} CPU s"
        parts.append(text(left + width + 8, top + 18, spent, 'class="dim"'))
    parts.append(text(_LABEL, height - 8, "0 s", 'class="dim"'))
    parts.append(text(_WIDTH - _ROOM, height - 8, f"{last:,.0f} s", 'class="dim" text-anchor="end"'))
    return Markup("\n".join([*parts, "</svg>"]))  # noqa: S704  # its texts are escaped
