"""Pictures of what texts are made of: a small histogram of each measure."""

from collections.abc import Iterator
from typing import TypedDict

from markupsafe import Markup

from pipeline.report.plot import text
from pipeline.report.texts import MeasureContent, TextsContent

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
_WIDTH, _BARS, _UNDER = 330, 60, 20
"""Of a picture: its width, the height of its highest bar, and the room under it."""


class TextPanel(TypedDict):
    """What the page shows of one measure."""

    title: str
    middle: str
    """Where the middle half of the texts lies."""
    picture: Markup


def text_panels(found: TextsContent) -> list[TextPanel]:
    """Return a histogram of each measure, with where its middle half lies."""
    return [
        {"title": _SAID[name], "middle": _middle(name, one), "picture": _picture(name, one)}
        for name, one in found["measures"].items()
    ]


def _middle(name: str, found: MeasureContent) -> str:
    low, middle, high = (_said(name, found["points"][one]) for one in ("p25", "median", "p75"))
    if low == high:
        return f"half or more of the texts: {middle}"
    return f"{low} to {high}, median {middle}"


def _picture(name: str, found: MeasureContent) -> Markup:
    height = _BARS + _UNDER
    opening = f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{_SAID[name]}, histogram">'
    return Markup("\n".join([opening, *_bars(name, found), "</svg>"]))  # noqa: S704  # its texts are ours


def _bars(name: str, found: MeasureContent) -> Iterator[str]:
    edges, counts = found["edges"], found["counts"]
    width, most, total = _WIDTH / len(counts), max(counts), sum(counts)
    for place, (edge, count) in enumerate(zip(edges, counts, strict=True)):
        tall = max(_BARS * count / most, 1.0) if count else 0.0
        after = f" to {_said(name, edges[place + 1])}" if place + 1 < len(edges) else " or more"
        yield (
            f'<rect x="{width * place:.1f}" y="{_BARS - tall:.1f}" width="{width - 2:.1f}"'
            f' height="{tall:.1f}" fill="var(--bar)">'
            f"<title>{_said(name, edge)}{after}: {count / total:.1%} of the texts</title></rect>"
        )
    yield f'<path d="M0,{_BARS}H{_WIDTH - 2}" stroke="var(--rule)"/>'
    yield text(0, _BARS + 17, _said(name, edges[0]), 'class="dim"')
    last = f"{_said(name, edges[-1])} or more"
    yield text(_WIDTH - 2, _BARS + 17, last, 'class="dim" text-anchor="end"')


def _said(name: str, value: float) -> str:
    """Return a measure as people say it: 1,204, 4.7 or 12.5%."""
    if name not in _WHOLE:
        return f"{100 * value:.2g}%" if value < _SMALL else f"{100 * value:.1f}%"
    return f"{value:.1f}" if name == "word_characters" else f"{value:,.0f}"
