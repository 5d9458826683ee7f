"""The pictures of a mix, as SVG for the page of a report: shares, and windows of the order of training.

Colours are those of the page, so that they fit its light and its dark form.
"""

from collections.abc import Sequence
from html import escape

from pipeline.report.mix_content import MixContent, MixedSourceContent, WindowedSourceContent
from pipeline.system.printable import printable
from stages.mixing.windows import SIGMAS

MOST_DRAWN = 12
"""Sources in a picture: those with the largest shares."""
_WIDTH, _LEFT, _RIGHT = 900, 170, 90
_BAR, _LINE = 14, 44
_PANEL, _GAP = 74, 22
_LETTERS = 22
_LEAST_HALF = 0.0005
"""Half the height of a panel, at least: 0.05 points."""


def draw_shares(mix: MixContent) -> str:
    """Return two bars for each source: what was promised, and what the rows hold."""
    sources = _largest(mix)
    total = max(mix["planned_tokens"], 1)
    most = max((max(_promised(one, total), one["share"]) for one in sources), default=0) or 1.0
    top, height = 34, 34 + _LINE * len(sources) + 8
    parts = [
        _open(height, "Share of each source, promised and packed"),
        _legend("promised", "var(--rule)", 0),
        _legend("in rows", "var(--line)", 100),
    ]
    for number, one in enumerate(sources):
        y = top + _LINE * number
        parts.append(_name(_LEFT - 10, y + 19, one["source"]))
        for place, (share, color) in enumerate(
            ((_promised(one, total), "var(--rule)"), (one["share"], "var(--line)"))
        ):
            width = (_WIDTH - _LEFT - _RIGHT) * share / most
            bar = y + place * (_BAR + 2)
            parts.append(
                f'<path d="M{_LEFT},{bar}h{width:.1f}v{_BAR}h-{width:.1f}z" fill="{color}"'
                f' stroke="var(--dim)" stroke-width="0.5"/>'
            )
            parts.append(_text(_LEFT + width + 6, bar + _BAR - 2, f"{share:.2%}"))
    return "\n".join([*parts, "</svg>"])


def draw_windows(mix: MixContent) -> str:
    """Return a panel for each source: its share in each window, and how far chance takes it."""
    windows = mix["windows"]
    if windows is None or not windows["sources"]:
        return ""
    largest = {one["source"] for one in _largest(mix)}
    sources = [one for one in windows["sources"] if one["source"] in largest]
    exact = windows["interleave"] == "exact"
    line = "bound of the gate" if exact else f"{SIGMAS:g} sigma of a random order"
    top, height = 34, 34 + (_PANEL + _GAP) * len(sources) + 14
    parts = [
        _open(height, f"Share of each source in windows of {windows['size']:,} rows"),
        _legend("a window", "var(--line)", 0),
        _legend(line, "var(--rule)", 110),
    ]
    ends = windows["starts"][0], windows["starts"][-1] + windows["size"]
    for number, one in enumerate(sources):
        reach = one["bound"] if exact else SIGMAS * one["sigma"]
        parts += _panel(one, windows["starts"], ends, y=top + (_PANEL + _GAP) * number, reach=reach)
    parts.append(_text(_LEFT, height - 8, f"row {ends[0]:,}"))
    parts.append(_text(_WIDTH - _RIGHT, height - 8, f"row {ends[1]:,} of epoch 0", "end"))
    return "\n".join([*parts, "</svg>"])


def _panel(
    one: WindowedSourceContent, starts: Sequence[int], ends: tuple[int, int], *, y: int, reach: float
) -> list[str]:
    """Return the panel of one source; windows beyond its edge stand on it."""
    half = max(1.25 * reach, *(abs(share - one["share"]) for share in one["shares"]), _LEAST_HALF) * 1.05
    middle = y + _PANEL / 2

    def height(off: float) -> float:
        return middle - _PANEL / 2 * off / half

    right, band = _WIDTH - _RIGHT, 'fill="var(--rule)" fill-opacity="0.5"'
    parts = [
        _name(_LEFT - 10, middle + 4, one["source"]),
        f'<path d="M{_LEFT},{height(reach):.1f}H{right}V{height(-reach):.1f}H{_LEFT}z" {band}/>',
        f'<path d="M{_LEFT},{middle}H{right}" stroke="var(--dim)" stroke-dasharray="4 4"/>',
        f'<path d="M{_LEFT},{y}H{right}M{_LEFT},{y + _PANEL}H{right}" stroke="var(--rule)"/>',
        _text(right + 6, middle + 4, f"{one['share']:.2%}"),
        _text(right + 6, y + 10, f"+{half * 100:.2f}"),
        _text(right + 6, y + _PANEL, f"-{half * 100:.2f}"),
    ]
    for start, share in zip(starts, one["shares"], strict=True):
        place = (start - ends[0]) / (starts[-1] - ends[0]) if len(starts) > 1 else 0.5
        x = _LEFT + 4 + (right - _LEFT - 8) * place
        off = share - one["share"]
        color = "var(--bad)" if abs(off) > one["bound"] else "var(--line)"
        parts.append(
            f'<circle cx="{x:.1f}" cy="{height(off):.1f}" r="2.6" fill="{color}">'
            f"<title>{_said(one['source'])}, rows from {start:,}: {share:.3%}</title></circle>"
        )
    return parts


def _largest(mix: MixContent) -> list[MixedSourceContent]:
    """Return the sources that are drawn, in the order of the run file."""
    ranked = sorted(mix["sources"], key=lambda one: -one["share"])[:MOST_DRAWN]
    names = {one["source"] for one in ranked}
    return [one for one in mix["sources"] if one["source"] in names]


def _promised(source: MixedSourceContent, total: int) -> float:
    """Return the share that was asked for, or what the plan gives to a source with epochs."""
    asked = source["share_asked"]
    return source["planned_tokens"] / total if asked is None else asked


def _open(height: int, told: str) -> str:
    size = f'viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{_said(told)}">'


def _legend(told: str, color: str, shift: int) -> str:
    x = _LEFT + shift
    return (
        f'<path d="M{x},8h10v10h-10z" fill="{color}" stroke="var(--dim)" stroke-width="0.5"/>'
        f"{_text(x + 16, 17, told)}"
    )


def _text(x: float, y: float, told: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_said(told)}</text>'


def _name(x: float, y: float, source: str) -> str:
    """Return the name of a source to the left of what is drawn of it, as far as there is room."""
    short = source if len(source) <= _LETTERS else f"{source[: _LETTERS - 3]}..."
    return _text(x, y, short, "end")


def _said(text: str) -> str:
    return escape(printable(text))
