"""Plots as SVG: a frame with round numbers on both axes, in which lines, bands and marks are drawn.

    Plot -> frame() + lines, bands, marks + legend() -> svg()

No script. The colours follow the reader's scheme, light or dark, in a file as well as in a page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from pipeline.system.printable import printable

WIDTH, HEIGHT = 900, 440
_LEFT, _TOP, _BOTTOM = 76, 56, 56
_LEGEND = 220
"""Width of the legend, at the right."""
_LIGHT = ("#0072b2", "#d55e00", "#007a57", "#a8478a", "#9a6a00", "#2b7fb0", "#444444", "#8a3b12")
_DARK = ("#56b4e9", "#ff9a4d", "#3fd0a4", "#f0a6d0", "#f0c04d", "#9fd3f5", "#c8ccd2", "#e8a27c")
"""Okabe and Ito 2008, made darker or lighter until they stand out from the ground."""
_DASHES = ("", "7 4", "2 3", "9 3 2 3")
_TICKS = 6
"""On an axis, about."""
_MARGIN = 0.06
"""Of an axis, left free at both ends."""
_CHARACTERS = 26
"""Most characters of a name in the legend."""
Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """An axis: what it shows, and from where to where."""

    label: str
    low: float
    high: float

    @classmethod
    def around(cls, label: str, values: Sequence[float]) -> "Axis":
        """Return an axis that has room for some values."""
        low, high = min(values), max(values)
        room = (high - low) * _MARGIN or abs(high) * _MARGIN or 1.0
        return cls(label, low - room, high + room)

    def ticks(self) -> list[float]:
        """Return round values to mark."""
        raw = (self.high - self.low) / _TICKS
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(power * times for times in (1, 2, 5, 10) if power * times >= raw * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


@dataclass(frozen=True)
class Plot:
    """A frame to draw in."""

    title: str
    x: Axis
    y: Axis

    def at(self, point: Point) -> Point:
        """Return where a point is drawn."""
        across = (point[0] - self.x.low) / (self.x.high - self.x.low)
        up = (point[1] - self.y.low) / (self.y.high - self.y.low)
        right, bottom = WIDTH - _LEGEND, HEIGHT - _BOTTOM
        return _LEFT + across * (right - _LEFT), bottom - up * (bottom - _TOP)

    def frame(self) -> list[str]:
        """Return the ground, the grid and what the axes say."""
        right, bottom = WIDTH - _LEGEND, HEIGHT - _BOTTOM
        parts = [
            f'<rect class="ground" width="{WIDTH}" height="{HEIGHT}"/>',
            text(10, 22, self.title, 'font-weight="bold"'),
        ]
        for tick in self.x.ticks():
            left, _ = self.at((tick, self.y.low))
            parts.append(f'<path class="grid" d="M{left:.1f},{_TOP}V{bottom}"/>')
            parts.append(text(left, bottom + 20, _number(tick), 'text-anchor="middle"'))
        for tick in self.y.ticks():
            _, top = self.at((self.x.low, tick))
            parts.append(f'<path class="grid" d="M{_LEFT},{top:.1f}H{right}"/>')
            parts.append(text(_LEFT - 8, top + 4, _number(tick), 'text-anchor="end"'))
        parts.append(text((_LEFT + right) / 2, HEIGHT - 12, self.x.label, 'text-anchor="middle"'))
        parts.append(text(10, _TOP - 12, self.y.label))
        return parts

    def line(self, number: int, points: Sequence[Point]) -> str:
        """Return a line through points, in the colour and the dashes of a number."""
        path = "M" + "L".join(f"{left:.1f},{top:.1f}" for left, top in map(self.at, points))
        return f'<path class="line c{number % len(_LIGHT)}" d="{path}"{_dashes(number)}/>'

    def band(self, number: int, lower: Sequence[Point], upper: Sequence[Point]) -> str:
        """Return the area between two lines."""
        around = [*map(self.at, lower), *map(self.at, reversed(upper))]
        path = "M" + "L".join(f"{left:.1f},{top:.1f}" for left, top in around)
        return f'<path class="band c{number % len(_LIGHT)}" d="{path}Z"/>'

    def mark(self, number: int, point: Point, spread: Point, label: str) -> list[str]:
        """Return a mark with its spread to all four sides."""
        colour = f"c{number % len(_LIGHT)}"
        (left, top), (across, up) = self.at(point), spread
        (west, _), (east, _) = self.at((point[0] - across, 0)), self.at((point[0] + across, 0))
        (_, south), (_, north) = self.at((0, point[1] - up)), self.at((0, point[1] + up))
        bars = f"M{west:.1f},{top:.1f}H{east:.1f}M{left:.1f},{south:.1f}V{north:.1f}"
        return [
            f'<path class="line {colour}" d="{bars}"/>',
            (
                f'<circle class="mark {colour}" cx="{left:.1f}" cy="{top:.1f}" r="5">'
                f"<title>{escape(printable(label))}</title></circle>"
            ),
        ]

    def legend(self, names: Sequence[str], *, marks: bool = False) -> list[str]:
        """Return the names, each beside its line or its mark."""
        parts, left = [], WIDTH - _LEGEND + 16
        for number, name in enumerate(names):
            top, colour = _TOP + 10 + 22 * number, f"c{number % len(_LIGHT)}"
            parts.append(
                f'<circle class="mark {colour}" cx="{left + 12}" cy="{top}" r="5"/>'
                if marks
                else f'<path class="line {colour}" d="M{left},{top}h26"{_dashes(number)}/>'
            )
            short = name if len(name) <= _CHARACTERS else name[: _CHARACTERS - 1] + "…"
            parts.append(text(left + 32, top + 4, short))
        return parts

    def svg(self, parts: Sequence[str]) -> str:
        """Return the picture."""
        name = escape(printable(self.title))
        size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
        opening = f'<svg xmlns="http://www.w3.org/2000/svg" class="plot" {size} role="img"'
        return "\n".join([f'{opening} aria-label="{name}">', _style(), *parts, "</svg>"]) + "\n"


def text(x: float, y: float, said: str, how: str = "") -> str:
    """Return a text at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}"{how and f" {how}"}>{escape(printable(said))}</text>'


def _dashes(number: int) -> str:
    pattern = _DASHES[number // len(_LIGHT) % len(_DASHES)]
    return f' stroke-dasharray="{pattern}"' if pattern else ""


def _number(value: float) -> str:
    """Return a number as an axis says it: 1.25, 20,000."""
    rounded = round(value, 6) + 0.0
    return f"{rounded:,.0f}" if rounded == int(rounded) else f"{rounded:,.6g}"


def _style() -> str:
    """Return the style of a picture, for light and dark schemes."""
    return (
        "<style>.plot{font:13px sans-serif;max-width:100%;height:auto}"
        ".plot .line{fill:none;stroke-width:2}.plot .band{stroke:none;fill-opacity:.16}"
        + _colours("#1a1d21", "#ffffff", "#d9dce1", _LIGHT)
        + "@media(prefers-color-scheme:dark){"
        + _colours("#e6e8eb", "#15171a", "#363a40", _DARK)
        + "}</style>"
    )


def _colours(ink: str, ground: str, grid: str, colours: Sequence[str]) -> str:
    own = "".join(
        f".plot .line.c{n}{{stroke:{one}}}.plot .band.c{n},.plot .mark.c{n}{{fill:{one}}}"
        for n, one in enumerate(colours)
    )
    return f".plot text{{fill:{ink}}}.plot .ground{{fill:{ground}}}.plot .grid{{stroke:{grid}}}{own}"
