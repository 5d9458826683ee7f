"""The report as one page: no script, no file beside it, readable in twenty years."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import PurePath
from typing import Any, TypedDict

import jinja2
from markupsafe import Markup

from pipeline.report.content import CurveContent, RunReport
from pipeline.report.fairness import TextTable, mix_table, parity_picture, parity_table, tokenizer_table
from pipeline.report.mix_content import MixContent
from pipeline.report.mix_picture import MOST_DRAWN, draw_shares, draw_windows
from pipeline.report.mixes import mixed_languages_table, shares_table, stages_table, windows_table
from pipeline.report.suspicions import suspected_leak
from pipeline.report.verdicts import UNPROVEN_SAID
from pipeline.system.printable import printable

MAX_LANGUAGES = 100
"""Rows of languages on the page; all are in report.json."""
MAX_PACKED = 20
"""Sources and languages of each split in the table of padding and cuts; all are in report.json."""
MAX_FINDINGS = 200
"""Findings of a dataset on the page; all are in verdict.json."""
_WIDTH, _HEIGHT, _MARGIN = 640, 220, 36
_AIR = 0.05
"""Room above and below the curves, as a share of their height."""
_TICKS = 8
"""Most lines across a drawing."""


def render_page(report: RunReport) -> str:
    """Return the HTML of a run's report."""
    fairness = report.get("fairness")
    return page_template("report.html.j2").render(
        report=report,
        generation=_generation(report["output"]),
        chart=loss_chart,
        suspected_leak=suspected_leak,
        unproven_said=UNPROVEN_SAID,
        mix=mix_table(report, MAX_LANGUAGES) if report["languages"] else None,
        fairness=fairness,
        parity=fairness and parity_table(fairness, MAX_LANGUAGES),
        tokenizers=fairness and tokenizer_table(fairness),
        picture=Markup(parity_picture(fairness) if fairness else ""),  # noqa: S704  # its texts are escaped
        mixes=[_mix_section(name, one) for name, one in report.get("mix", {}).items()],
        most_drawn=MOST_DRAWN,
        most_findings=MAX_FINDINGS,
        most_packed=MAX_PACKED,
    )


class MixSection(TypedDict):
    """What the page shows of the mix of a dataset."""

    name: str
    mix: MixContent
    shares: TextTable
    languages: TextTable
    windows: TextTable | None
    stages: TextTable | None
    bars: Markup
    panels: Markup


def _mix_section(name: str, mix: MixContent) -> MixSection:
    return {
        "name": name,
        "mix": mix,
        "shares": shares_table(mix),
        "languages": mixed_languages_table(mix, MAX_LANGUAGES),
        "windows": windows_table(mix),
        "stages": stages_table(mix),
        "bars": Markup(draw_shares(mix)),  # noqa: S704  # its texts are escaped
        "panels": Markup(draw_windows(mix)),  # noqa: S704  # likewise
    }


def _generation(output: str) -> int | None:
    """Return the number of a generation of another run, by its folder; None for a run of its own."""
    place = PurePath(output)
    return int(place.name) if place.parent.name == "generations" and place.name.isdecimal() else None


@cache
def page_template(name: str) -> jinja2.Template:
    """Return a template of pages; other people's texts are escaped, control characters written out.

    It is compiled once in a process: that takes as long as a small step of a small run.
    """
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )
    return environment.from_string(files("pipeline.report").joinpath(name).read_text(encoding="utf-8"))


def _finalized(value: Any) -> Any:
    """Return what stands for a value on a page; what the page itself made is markup already."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return printable(value)
    return value


class Chart(TypedDict):
    """A drawing of curves: where everything stands, in pixels."""

    width: int
    height: int
    left: int
    right: int
    bottom: float
    lines: dict[str, str]
    """Of each curve its points."""
    level: float
    ticks: list[tuple[float, str]]
    """Heights of lines, and the losses that they stand for."""
    steps: int


def loss_chart(curves: Mapping[str, CurveContent], level: float) -> Chart:
    """Return the drawing of loss curves: points in a box of 640 by 220, axes and a level."""
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
