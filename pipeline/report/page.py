"""The report as one page: no script, no file beside it, readable in twenty years."""

from importlib.resources import files
from typing import Any

import jinja2

_WIDTH, _HEIGHT, _MARGIN = 640, 220, 36


def render_page(report: dict[str, Any]) -> str:
    """Give the HTML of a run's report."""
    source = files("pipeline.report").joinpath("report.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(source).render(report=report, chart=loss_chart)


def loss_chart(learning: dict[str, Any]) -> dict[str, Any]:
    """Give the drawing of the loss curves: points in a box of 640 by 220, axes and levels."""
    curves = {"labels": learning["curve"], "control": learning["control_curve"]}
    losses: list[float] = [loss for curve in curves.values() for _, loss in curve if loss is not None]
    entropy: float = learning["unigram_entropy"]
    low, high = min([*losses, entropy]) - 0.1, max([*losses, entropy]) + 0.1
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
        "entropy": y(entropy),
        "ticks": [(y(value), f"{value:.1f}") for value in _ticks(low, high)],
        "steps": last,
    }


def _ticks(low: float, high: float) -> list[float]:
    step = 0.5 if high - low < 4 else 1.0  # noqa: PLR2004  # at most eight lines
    first = int(low / step) + 1
    return [n * step for n in range(first, int(high / step) + 1)]
