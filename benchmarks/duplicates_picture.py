"""The picture of `duplicates.py`: for each corpus, bars of recall, precision and CPU seconds, as SVG."""

from collections.abc import Mapping, Sequence
from html import escape

Bar = tuple[str, tuple[float, float, float]]
"""Program; recall, precision, CPU seconds."""
_NAME, _BAR, _GAP = 110, 170, 80
_LINE, _HEAD = 22, 58
_COLORS = ("#2b6cb0", "#a0aec0")
"""Of this program, and of others."""
_TITLES = ("recall: more is better", "precision: more is better", "CPU seconds: fewer is better")
_FONT = 'font-family="sans-serif" font-size="13"'
_WIDTH = _NAME + 3 * (_BAR + _GAP)


def draw(corpora: Mapping[str, Sequence[Bar]]) -> str:
    """Return the picture; bars of one column have one scale in a corpus."""
    height = sum(_HEAD + _LINE * len(bars) for bars in corpora.values()) + 12
    size = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_FONT}>',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    top = 0
    for name, bars in corpora.items():
        parts += _corpus(name, bars, top)
        top += _HEAD + _LINE * len(bars)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _corpus(name: str, bars: Sequence[Bar], top: int) -> list[str]:
    """Return the bars of one corpus, from a height on."""
    parts = [_text(8, top + 24, name, "bold")]
    most = max((values[2] for _, values in bars), default=1.0)
    for column, title in enumerate(_TITLES):
        left = _NAME + column * (_BAR + _GAP)
        parts.append(_text(left, top + 48, title, "normal"))
        for line, (_, values) in enumerate(bars):
            value = values[column]
            share = value / most if column == 2 else value  # noqa: PLR2004  # the third column
            said = f"{value:.1f}" if column == 2 else f"{value:.4f}"  # noqa: PLR2004
            y = top + _HEAD + line * _LINE
            color = _COLORS[line > 0]
            width = max(1.0, share * _BAR)
            parts.append(f'<rect x="{left}" y="{y}" width="{width:.1f}" height="15" fill="{color}"/>')
            parts.append(_text(left + width + 5, y + 12, said, "normal"))
    parts += [
        _text(8, top + _HEAD + line * _LINE + 12, bar[0], "normal") for line, bar in enumerate(bars)
    ]
    return parts


def _text(x: float, y: int, said: str, weight: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" font-weight="{weight}">{escape(said)}</text>'
