"""The picture of a sweep: total tokens against parity, a line a size, a mark an alpha, as SVG."""

import math
from collections.abc import Callable, Sequence
from html import escape

from pipeline.system.printable import printable
from pipeline.tools.tokenizer.sweep_tables import SweepContent, SweptTokenizer

_WIDTH, _HEIGHT = 900, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 40, 76, 56
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
"""Told apart by most colour-blind people: Okabe and Ito 2008."""
_FONT = 'font-family="sans-serif" font-size="13"'
_TICKS = 6
"""On an axis, about."""
_MARGIN = 0.08
"""Of an axis, left free at both ends."""
Scale = Callable[[float], float]


def draw_sweep(found: SweepContent) -> str:
    """Return the picture; settings that are not on the frontier have hollow marks."""
    points = found["tokenizers"]
    x, x_ticks = _scale([one["tokens"] for one in points], _LEFT, _WIDTH - _RIGHT)
    y, y_ticks = _scale([one["parity"] for one in points], _HEIGHT - _BOTTOM, _TOP)
    size = f'width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    reference = found["reference"]
    sizes = sorted({one["vocab_size"] for one in points})
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_FONT}>',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        _text(10, 22, f"{found['model']}: tokens in all languages, and parity", 'font-weight="bold"'),
        *_legend(sizes),
    ]
    for tick in x_ticks:
        parts.append(f'<path d="M{x(tick):.1f},{_TOP}V{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        parts.append(_text(x(tick), _HEIGHT - _BOTTOM + 20, f"{tick:,.0f}", 'text-anchor="middle"'))
    for tick in y_ticks:
        parts.append(f'<path d="M{_LEFT},{y(tick):.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 8, y(tick) + 4, f"{tick:.4g}", 'text-anchor="end"'))
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    axis = "tokens of the parallel text in all languages (fewer is better)"
    parts.append(_text(middle, _HEIGHT - 12, axis, 'text-anchor="middle"'))
    axis = f"mean tokens of a language against {reference} (lower is fairer)"
    parts.append(_text(_LEFT, _TOP - 10, axis))
    for number, vocab_size in enumerate(sizes):
        own = [one for one in points if one["vocab_size"] == vocab_size]
        parts += _line(own, _COLORS[number % len(_COLORS)], x, y)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _line(points: Sequence[SweptTokenizer], color: str, x: Scale, y: Scale) -> list[str]:
    """Return a line through the settings of one size in order of alpha, and a labelled mark for each."""
    ordered = sorted(points, key=lambda one: one["alpha"])
    places = [(x(one["tokens"]), y(one["parity"])) for one in ordered]
    path = "M" + "L".join(f"{left:.1f},{top:.1f}" for left, top in places)
    parts = [f'<path d="{path}" fill="none" stroke="{color}" stroke-opacity="0.6"/>']
    for number, (one, (left, top)) in enumerate(zip(ordered, places, strict=True)):
        fill = color if one["dominated_by"] is None else "white"
        told = (
            f"{one['vocab_size']:,}, alpha {one['alpha']:g}: {one['tokens']:,} tokens, parity"
            f" {one['parity']:.2f}"
        )
        parts.append(
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="5" fill="{fill}" stroke="{color}">'
            f"<title>{told}</title></circle>"
        )
        aside = (left - 9, top + 14) if number % 2 == 0 else (left + 9, top - 7)  # neighbours are near
        parts.append(_text(*aside, f"{one['alpha']:g}", 'text-anchor="end"' if number % 2 == 0 else ""))
    return parts


def _legend(sizes: Sequence[int]) -> list[str]:
    parts, left = [], 18.0
    for number, vocab_size in enumerate(sizes):
        color = _COLORS[number % len(_COLORS)]
        parts.append(f'<circle cx="{left:.1f}" cy="44" r="5" fill="{color}"/>')
        said = f"{vocab_size:,} pieces"
        parts.append(_text(left + 12, 48, said))
        left += 34 + 8 * len(said)
    told = "labels: alpha; hollow marks: not on the frontier"
    return [*parts, _text(left, 48, told)]


def _scale(values: Sequence[float], start: float, end: float) -> tuple[Scale, list[float]]:
    """Return what places a value between two ends of the picture, and round values to mark there."""
    low, high = min(values), max(values)
    room = (high - low) * _MARGIN or abs(high) * _MARGIN or 1.0
    low, high = low - room, high + room
    step = _round_up((high - low) / _TICKS)
    first = math.ceil(low / step)
    ticks = [number * step for number in range(first, math.floor(high / step) + 1)]
    return lambda value: start + (value - low) / (high - low) * (end - start), ticks


def _round_up(step: float) -> float:
    """Return the next of 1, 2 and 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(power * times for times in (1, 2, 5, 10) if power * times >= step * 0.999)


def _text(x: float, y: float, said: str, how: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{how and f" {how}"}>{escape(printable(said))}</text>'
