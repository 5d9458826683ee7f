"""The sweep of a tokenizer as people read it: a table of settings, and the lines of the run file.

The picture of a sweep: total tokens against parity, a line a size, a mark an alpha, as SVG.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import TypedDict

from pipeline.report.plain import PlainConsole, PlainTable, print_json, shortened
from pipeline.system.printable import printable, show_bytes
from stages.tokenizer.fairness import NOTABLE_FALLBACK
from stages.tokenizer.parity import Rates

MOST_LANGUAGES = 24
"""Rows of a table by language: those that pay most."""


class SweptTokenizer(TypedDict):
    """What one setting came to."""

    vocab_size: int
    alpha: float
    tokens: int
    """Of the parallel text, in all languages together."""
    parity: float
    """Mean of the languages other than the reference."""
    worst_parity: float
    worst_language: str
    reference_tokens: int
    """Of the parallel text in the reference language."""
    reference_increase: float | None
    """Against alpha 1 at the same size: 0.05 is 5% more tokens. None if alpha 1 was not tried."""
    corpus_tokens: int | None
    """Of the kept texts, estimated from held-out text; None if none was held out."""
    byte_fallback: float | None
    """Share of bytes among the tokens of the language that has most, on held-out text."""
    byte_fallback_language: str | None
    character_coverage: float | None
    """Of each language, the share of text whose characters have pieces; None if pieces are of bytes."""
    sample_bytes: int
    cpu_seconds: float
    memory: int | None
    dominated_by: str | None
    """The setting that is at least as good in everything and better in something."""
    languages: Mapping[str, Rates]
    """Rates on the parallel text."""
    held_out: Mapping[str, Rates]
    """Rates on held-out text."""
    folder: str | None
    """Where the tokenizer was kept."""


class RefusedSetting(TypedDict):
    """A setting that cannot be trained."""

    vocab_size: int
    alpha: float
    why: str


class SweptText(TypedDict):
    """The parallel text."""

    source: str
    unit: str
    sentences: int
    left_out: int
    languages: int


class SweepContent(TypedDict):
    """All that `shardmill tokenizer sweep --json` prints."""

    format_version: int
    model: str
    reference: str
    parallel: SweptText
    corpus_bytes: int
    """Of kept text."""
    measured_share: float
    """Of the kept text: languages of which some was held out."""
    tokenizers: list[SweptTokenizer]
    refused: list[RefusedSetting]
    chosen: str
    """Of those with the run file's vocabulary, the one with the fewest tokens of the parallel text."""
    seconds: float


def name_of(vocab_size: int, alpha: float) -> str:
    """Return the name of a setting: 32000-0.3."""
    return f"{vocab_size}-{alpha:g}"


def print_sweep(found: SweepContent, *, as_json: bool) -> None:
    """Print what settings come to."""
    if as_json:
        print_json(found)
        return
    console, text = PlainConsole(), found["parallel"]
    console.line(
        f"{found['model']}, {show_bytes(found['corpus_bytes'])} of kept text; parallel text:"
        f" {text['source']}, {text['sentences']:,} {text['unit']}s in {text['languages']} languages"
    )
    console.line()
    _print_settings(console, found)
    console.line()
    for line in _said(found):
        console.line(line)
    _print_languages(console, found)
    console.line()
    console.line(f"For {found['chosen']}, the run file has:")
    console.line()
    console.lines(run_file_lines(found))


def run_file_lines(found: SweepContent) -> str:
    """Return the section of the run file that trains the chosen tokenizer."""
    chosen = _chosen(found)
    return (
        "[tokenizer.train]\n"
        f'model = "{found["model"]}"\n'
        f"vocab_size = {chosen['vocab_size']}\n"
        f"alpha = {chosen['alpha']:g}"
    )


def _chosen(found: SweepContent) -> SweptTokenizer:
    return next(
        one for one in found["tokenizers"] if name_of(one["vocab_size"], one["alpha"]) == found["chosen"]
    )


def _print_settings(console: PlainConsole, found: SweepContent) -> None:
    reference = found["reference"]
    table = PlainTable(
        "size",
        "alpha",
        "tokens",
        "parity",
        "worst parity",
        f"{reference} tokens",
        "to alpha 1",
        "corpus tokens",
        "most bytes",
        "CPU s",
        "memory",
        "",
    ).right()
    for one in found["tokenizers"]:
        table.add(f"{one['vocab_size']:,}", *_cells(one))
    console.show(table)


def _cells(one: SweptTokenizer) -> Iterator[str]:
    yield f"{one['alpha']:g}"
    yield f"{one['tokens']:,}"
    yield f"{one['parity']:.2f}"
    yield f"{one['worst_parity']:.2f} {shortened(one['worst_language'])}"
    yield f"{one['reference_tokens']:,}"
    yield "" if one["reference_increase"] is None else f"{one['reference_increase']:+.1%}"
    yield "" if one["corpus_tokens"] is None else f"{one['corpus_tokens']:,}"
    fallback = one["byte_fallback"]
    yield "" if fallback is None else f"{fallback:.1%} {shortened(one['byte_fallback_language'] or '')}"
    yield f"{one['cpu_seconds']:.1f}"
    yield "" if one["memory"] is None else show_bytes(one["memory"])
    yield "frontier" if one["dominated_by"] is None else f"worse than {one['dominated_by']}"


def _said(found: SweepContent) -> Iterator[str]:
    """Yield what is to be known about the table."""
    reference, points = found["reference"], found["tokenizers"]
    yield (
        f"tokens: of the parallel text in all languages. parity: tokens of a language against those of"
        f" {reference}, the mean of the others. Parity also gets better if {reference} pays more."
    )
    yield (
        f"frontier: no setting of this size or a smaller one has fewer tokens in all, of {reference} or"
        " of the language that pays most, and none of the three higher."
    )
    if points[0]["corpus_tokens"] is None:
        yield "No text was held out: no language has 1 MiB of text, or tokenizer.train.held_out is 0."
    else:
        yield (
            "corpus tokens: estimated from text that was held out of the samples, of languages that are"
            f" {found['measured_share']:.0%} of the kept text."
        )
    if points[0]["reference_increase"] is None:
        yield f"Add alpha 1 to --alphas to see how much {reference} pays for the balance."
    for one in found["refused"]:
        yield f"{name_of(one['vocab_size'], one['alpha'])}: not trained: {one['why']}"
    over = [
        name_of(one["vocab_size"], one["alpha"])
        for one in points
        if (one["byte_fallback"] or 0) > NOTABLE_FALLBACK
    ]
    if over:
        most = f"{NOTABLE_FALLBACK:.0%}"
        yield f"A run would warn of bytes in a language (above {most}): {', '.join(over)}"


def _print_languages(console: PlainConsole, found: SweepContent) -> None:
    """Print the tokens by language, of the languages that pay most."""
    points = found["tokenizers"]
    names = list(points[0]["languages"])
    chosen = _chosen(found)["languages"]
    shown = sorted(names, key=lambda name: (-chosen[name]["tokens"], name))[:MOST_LANGUAGES]
    shown = sorted({*shown, found["reference"]})
    table = PlainTable("language", *(name_of(one["vocab_size"], one["alpha"]) for one in points)).right()
    for name in shown:
        cells = (f"{one['languages'][name]['tokens']:,.0f}" for one in points)
        table.add(shortened(name), *cells)
    console.line()
    rest = len(names) - len(shown)
    more = f"; {rest:,} languages more, which pay less, are in --json" if rest else ""
    console.line(f"Tokens of the parallel text by language{more}")
    console.show(table)


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
        label = (
            f"{one['vocab_size']:,}, alpha {one['alpha']:g}: {one['tokens']:,} tokens, parity"
            f" {one['parity']:.2f}"
        )
        parts.append(
            f'<circle cx="{left:.1f}" cy="{top:.1f}" r="5" fill="{fill}" stroke="{color}">'
            f"<title>{label}</title></circle>"
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
    label = "labels: alpha; hollow marks: not on the frontier"
    return [*parts, _text(left, 48, label)]


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
