"""The report as one page: no script, no file beside it, readable in twenty years."""

from importlib.resources import files
from typing import Any

import jinja2

_WIDTH, _HEIGHT, _MARGIN = 640, 220, 36
_AIR = 0.05
"""Room above and below the curves, as a share of their height."""
_TICKS = 8
"""Most lines across a drawing."""


def render_page(report: dict[str, Any]) -> str:
    """Give the HTML of a run's report."""
    source = files("pipeline.report").joinpath("report.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source).render(report=report, chart=loss_chart)


def loss_chart(curves: dict[str, Any], level: float) -> dict[str, Any]:
    """Give the drawing of loss curves: points in a box of 640 by 220, axes and a level."""
    losses: list[float] = [loss for curve in curves.values() for _, loss in curve if loss is not None]
    low, high = min([*losses, level]), max([*losses, level])
    low, high = low - _AIR * (high - low + 0.1), high + _AIR * (high - low + 0.1)
    last: int = max(step for curve in curves.values() for step, _ in curve) or 1

    def x(step: float) -> float:
        return round(_MARGIN + (_WIDTH - 2 * _MARGIN) * step / last, 1)

    def y(loss: float) -> float:
        return round(_MARGIN / 2 + (_HEIGHT - 1.5 * _MARGIN) * (high - loss) / (high - low), 1)

    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _MARGIN,
        "right": _WIDTH - _MARGIN,
        "bottom": round(_HEIGHT - _MARGIN, 1),
        "lines": {
            name: " ".join(f"{x(step)},{y(loss)}" for step, loss in curve if loss is not None)
            for name, curve in curves.items()
        },
        "level": y(level),
        "ticks": [
            (y(value), f"{value:.2g}" if value < 1 else f"{value:.1f}") for value in _ticks(low, high)
        ],
        "steps": last,
    }


def _ticks(low: float, high: float) -> list[float]:
    step = next(step for step in (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 1e9) if high - low < _TICKS * step)
    first = int(low / step) + 1
    return [n * step for n in range(first, int(high / step) + 1)]
