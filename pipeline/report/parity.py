"""The picture of tokenizers side by side: parity by language, a mark a tokenizer, as SVG.

The scale is logarithmic: twice the tokens are as far from 1 as half of them.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from pipeline.system.printable import printable
from stages.tokenizer.parity import Rates

_LEFT, _RIGHT, _LINE = 90, 40, 20
_WIDTH = 900
_TOP, _BOTTOM, _LEGEND = 44, 34, 22
_TICKS = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
"""Told apart by most colour-blind people: Okabe and Ito 2008."""
_SHAPES = (
    "M-5,0a5,5 0 1,0 10,0a5,5 0 1,0 -10,0z",
    "M-4.5,-4.5h9v9h-9z",
    "M0,-6L6,0L0,6L-6,0z",
    "M0,-5.5L5.5,4.5L-5.5,4.5z",
    "M0,5.5L5.5,-4.5L-5.5,-4.5z",
)
_FONT = 'font-family="sans-serif" font-size="13"'


def draw_parity(
    reference: str, names: Sequence[str], languages: Mapping[str, Mapping[str, Rates]]
) -> str:
    """Return the picture; the languages that pay most stand at the bottom.

    Args:
        reference: the language whose parity is 1.
        names: of the tokenizers.
        languages: rates by language and tokenizer.
    """
    ordered = sorted(languages, key=lambda name: (_mean(languages[name]), name))
    legend, top = _legend(names)
    top += _TOP
    low, high = _bounds(languages)
    bottom = top + _LINE * len(ordered)
    height = bottom + _BOTTOM
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    title = f"Tokens against those of {reference} for the same text (parity)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="10" y="22" font-weight="bold">{_said(title)}</text>',
        *legend,
    ]
    for tick in (tick for tick in _TICKS if low <= tick <= high):
        x = _x(tick, low, high)
        stroke = "#555" if tick == 1 else "#ddd"
        parts.append(f'<path d="M{x:.1f},{top}V{bottom}" stroke="{stroke}"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{tick:g}</text>')
    for line, language in enumerate(ordered):
        y = top + _LINE * line + _LINE // 2
        parts += _row(languages[language], names, language, y=y, bounds=(low, high))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(
    rates: Mapping[str, Rates],
    names: Sequence[str],
    language: str,
    *,
    y: int,
    bounds: tuple[float, float],
) -> list[str]:
    """Return the name of a language, a line from its least to its greatest parity, and the marks."""
    places = {name: _x(rates[name]["parity"], *bounds) for name in names}
    parts = [
        f'<text x="{_LEFT - 22}" y="{y + 4}" text-anchor="end">{_said(language[:10])}</text>',
        f'<path d="M{min(places.values()):.1f},{y}H{max(places.values()):.1f}" stroke="#bbb"/>',
    ]
    for number, name in enumerate(names):
        label = f"{name}, {language}: {rates[name]['parity']:.2f}"
        parts.append(_mark(number, places[name], y, label))
    return parts


def _legend(names: Sequence[str]) -> tuple[list[str], int]:
    """Return the marks with their names, and the height that they take."""
    parts: list[str] = []
    x, y = 18, 44
    for number, name in enumerate(names):
        width = 34 + 8 * len(name)
        if x + width > _WIDTH and x > 18:  # noqa: PLR2004  # the first of a line stands there
            x, y = 18, y + _LEGEND
        parts.append(_mark(number, x, y, name))
        parts.append(f'<text x="{x + 12}" y="{y + 4}">{_said(name)}</text>')
        x += width
    return parts, y + _LEGEND - _TOP


def _mark(number: int, x: float, y: int, label: str) -> str:
    shape, color = _SHAPES[number % len(_SHAPES)], _COLORS[number % len(_COLORS)]
    return (
        f'<path transform="translate({x:.1f},{y})" d="{shape}" fill="{color}" fill-opacity="0.85">'
        f"<title>{_said(label)}</title></path>"
    )


def _bounds(languages: Mapping[str, Mapping[str, Rates]]) -> tuple[float, float]:
    """Return the ends of the scale, at ticks."""
    found = [rates["parity"] for own in languages.values() for rates in own.values()]
    least, most = max(min(found), _TICKS[0]), max(found)
    low = max((tick for tick in _TICKS if tick <= min(least, 1.0)), default=_TICKS[0])
    high = next((tick for tick in _TICKS if tick >= max(most, 1.5)), most)
    return low, high


def _x(parity: float, low: float, high: float) -> float:
    """Return where a parity stands; of no tokens, at the left end."""
    share = math.log(max(parity, low) / low) / math.log(high / low)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _mean(rates: Mapping[str, Rates]) -> float:
    return sum(one["parity"] for one in rates.values()) / len(rates)


def _said(text: str) -> str:
    return escape(printable(text))
