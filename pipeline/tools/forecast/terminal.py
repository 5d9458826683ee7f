"""What `plan --sample` prints: what is expected of a run."""

from collections.abc import Iterator

from pipeline.engine.memory import MIB
from pipeline.report.fairness import first_languages
from pipeline.report.plain import PlainConsole, PlainTable, bar, print_json
from pipeline.report.terminal import MAX_LANGUAGES
from pipeline.tools.forecast.content import DuplicatesForecast, Forecast, RemovalForecast
from stages.errors import ConfigError

_VAGUE = 0.2
"""Width of an interval from which no single figure is told."""
_NOTABLE = 0.05
"""Removed share of a source that is told."""
_MOST_SOURCES = 10


def print_forecast(found: Forecast, *, as_json: bool) -> None:
    """Print what is expected of a run."""
    if as_json:
        print_json(found)
        return
    console = PlainConsole()
    console.line()
    console.line(
        f"Forecast from {found['records']:,} records, {found['share']:.2%} of the bytes of the inputs:"
    )
    table = PlainTable("documents", "about", "").right()
    for what, count in _documents(found):
        table.add(what, f"{count:,}", bar(count, found["read"]))
    console.show(table)
    for line in [] if found["duplicates"] is None else duplicates_lines(found["duplicates"]):
        console.line(line)
    for line in (*_cuts_lines(found), *_contamination_lines(found), *_total_lines(found)):
        console.line(line)
    console.line()
    table = PlainTable("language", "documents", "bytes", "tokens", "")
    shown, others = first_languages(found["languages"], MAX_LANGUAGES)
    for row in [*shown, *([] if others is None else [others])]:
        cells = (f"{row[key]:,}" for key in ("documents", "bytes", "tokens"))
        table.add(row["language"], *cells, bar(row["tokens"], found["tokens"]))
    console.show(table.right())
    console.line()
    table = PlainTable("step", "CPU seconds", "")
    for step in found["steps"]:
        seconds = step["cpu_seconds"]
        table.add(step["step"], f"{seconds:,.0f}", bar(seconds, found["cpu_seconds"]))
    table.add("all", f"{found['cpu_seconds']:,.0f}", "")
    console.show(table.right())
    console.line()
    needed = sum(found["disk"].values())
    table = PlainTable("on disk", "MB", "")
    for name, size in found["disk"].items():
        table.add(name, f"{size / 1e6:,.0f}", bar(size, needed))
    table.add("all", f"{needed / 1e6:,.0f}", "")
    console.show(table.right())
    console.line(f"free at {found['place']}: {found['disk_free'] / 1e6:,.0f} MB")
    console.line()
    held = (f"{row['bytes'] / MIB:,.0f} MiB with {row['workers']}" for row in found["memory"])
    console.line(f"memory at the peak, by workers: about {', '.join(held)}")
    room = found["most_workers"]
    console.line(f"resources.memory has room for {room:,} worker{'s' * (room != 1)} in every step")
    for note in found["notes"]:
        console.line(f"note: {note}")


def require_room(found: Forecast) -> None:
    """Refuse a run that the disk will not hold.

    Raises:
        ConfigError: less is free than the run is expected to need.
    """
    needed = sum(found["disk"].values())
    if needed > found["disk_free"]:
        raise ConfigError(
            f"{found['place']}: has {found['disk_free'] / 1e6:,.0f} MB free, and the run is expected to"
            f" need {needed / 1e6:,.0f} MB; free some, or name an --output on another disk"
        )


def _documents(found: Forecast) -> Iterator[tuple[str, int]]:
    """Yield what becomes of documents, and of how many."""
    yield "read", found["read"]
    for reason, count in found["dropped"].items():
        yield f"  dropped: {reason}", count
    for reason, count in found["removed"].items():
        yield f"  removed: {reason}", count
    yield "kept", found["kept"]


def _cuts_lines(found: Forecast) -> Iterator[str]:
    cuts = found["cuts"]
    if cuts is None:
        return
    by = ", ".join(f"{what} {size / 1e3:,.0f} kB" for what, size in cuts["bytes"].items())
    least = "" if found["share"] == 1 else " at least: what repeats outside of the sample comes on top"
    yield (
        f"cuts: {cuts['share']:.1%} of the text ({by}), in {cuts['documents']:,} documents"
        f"{',' * bool(least)}{least}"
    )


def _total_lines(found: Forecast) -> Iterator[str]:
    for name, one in found["totals"].items():
        yield (
            f"dataset {name}: mix.total_tokens asks for {one['asked']:,}; its documents are expected to"
            f" have about {one['held']:,}"
        )


def _contamination_lines(found: Forecast) -> Iterator[str]:
    content = found["contamination"]
    if content is None:
        return
    for name, count in content["documents"].items():
        yield (
            f"evaluation set {name}: {content['items'][name]:,} of its items are found, in {count:,} of"
            f" {content['sampled']:,} sampled documents"
        )
    if content["documents"] and found["share"] < 1:
        yield (
            "  more items are found in all documents; but a phrase that is common there may be rare in"
            " the sample, and then is taken for an item"
        )


def duplicates_lines(content: DuplicatesForecast) -> Iterator[str]:
    """Yield what people are told of a forecast of duplicates, a line for each thing."""
    yield f"duplicates: {_said(content['all'], content['sampled'])}"
    notable = sorted(content["sources"].items(), key=lambda item: -item[1]["removed"])
    for name, found in notable[:_MOST_SOURCES] if len(notable) > 1 else ():
        if found["likely"] >= _NOTABLE or found["low"] > 0:
            sampled = round(found["documents"] * content["sample_share"])
            yield f"  within source {name}: {_said(found, sampled)}"
    if content["largest_cluster"] is not None:
        yield f"  the largest cluster has about {content['largest_cluster']:,} documents"
    yield from (f"  {line}" for line in content["limits"])
    if not content["by_chance"]:
        yield (
            "  the inputs are too large to draw from all of them, so the sample is of fewer files or of"
            " records that stand apart: duplicates that stand side by side are seen too seldom, and"
            " those of one file too often; the truth may lie outside of these figures"
        )
    yield from (f"  not forecast: {line}" for line in content["untold"])


def is_vague(found: RemovalForecast) -> bool:
    """Say whether a forecast allows no single figure."""
    return found["high"] - found["low"] > _VAGUE


def _said(found: RemovalForecast, sampled: int) -> str:
    between = f"between {found['low']:.1%} and {found['high']:.1%}"
    if found["low"] == found["high"]:
        return f"{found['removed']:,} of {found['documents']:,} documents would be removed"
    if is_vague(found):
        return (
            f"{between} of the documents would be removed: {sampled:,} sampled documents allow no"
            " closer figure; use a larger --sample"
        )
    return (
        f"about {found['removed']:,} of {found['documents']:,} documents would be removed,"
        f" {found['likely']:.1%} ({between}, from {sampled:,} sampled documents)"
    )
