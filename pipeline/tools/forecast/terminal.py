"""What `plan --sample` prints: what is expected of a run.

What `plan --sample` returns: what is expected of a run, scaled from a sample.
"""

from collections.abc import Iterator
from typing import Any, TypedDict

from pipeline.engine.memory import MIB
from pipeline.report.fairness import first_languages
from pipeline.report.plain import PlainConsole, PlainTable, bar, print_json
from pipeline.report.report import LanguageRow
from pipeline.report.terminal import MAX_LANGUAGES
from stages.errors import ConfigError


class RemovalForecast(TypedDict):
    """How many documents deduplication is expected to remove."""

    documents: int
    """That it decides about."""
    removed: int
    likely: float
    """The removed share."""
    low: float
    high: float
    """With `low`, the ends of an interval of 95% of the removed share."""


class DuplicatesForecast(TypedDict):
    """What a sample says of all duplicates."""

    sampled: int
    """Documents."""
    sample_share: float
    by_chance: bool
    """Whether each record of the inputs had the same chance; if not, the truth may lie outside of the
    interval."""
    all: RemovalForecast
    sources: dict[str, RemovalForecast]
    """Of duplicates within each source; those of other sources come on top."""
    largest_cluster: int | None
    """Documents, about; None if the sample has too few of them to tell."""
    limits: list[str]
    """Limits at which the run would or may stop; of those that the run file sets, also the others."""
    untold: list[str]
    """What of the rule a sample cannot show."""


class CutsForecast(TypedDict):
    """What would be cut from documents, of text that repeats within the sample: at least so much."""

    bytes: dict[str, int]
    """By what was repeated."""
    share: float
    """Of the bytes of the documents that are kept."""
    documents: int
    """That lose some."""


class ContaminationForecast(TypedDict):
    """What stands of evaluation sets in the documents of the sample."""

    documents: dict[str, int]
    """By set: documents of the sample that hold an item, dropped or reported."""
    sampled: int
    """Documents of the sample that were searched."""
    items: dict[str, int]
    """By set: items that were found, at least so many."""


class TotalForecast(TypedDict):
    """The training tokens of a dataset whose mix has `total_tokens`."""

    asked: int
    held: int
    """By the documents that the mix is expected to take."""


class StepForecast(TypedDict):
    """What is expected of one step."""

    step: str
    cpu_seconds: float


class MemoryForecast(TypedDict):
    """What all processes of a run are expected to hold at its peak."""

    workers: int
    bytes: int


class Forecast(TypedDict):
    """What is expected of a run, scaled from a sample."""

    share: float
    """Of the bytes of the inputs, which the sample stands for; more may have been read."""
    records: int
    """Of the sample."""
    read: int
    dropped: dict[str, int]
    """By reason; `unreadable` are records that give no document."""
    removed: dict[str, int]
    kept: int
    duplicates: DuplicatesForecast | None
    """None without deduplication."""
    cuts: CutsForecast | None
    """None if nothing is cut from documents."""
    contamination: ContaminationForecast | None
    """None without evaluation sets."""
    tokens: int
    totals: dict[str, TotalForecast]
    """By dataset; of those that ask for a number of tokens."""
    languages: list[dict[str, Any]]
    """Each the JSON of a `Language` of a report."""
    steps: list[StepForecast]
    cpu_seconds: float
    disk: dict[str, int]
    """Bytes by folder of the run."""
    place: str
    """The folder of the run, or the nearest one above it that is there; or its URL."""
    disk_free: int | None
    """Bytes that are free there, and those that the run holds already; None of a store."""
    memory: list[MemoryForecast]
    """By workers, up to a few."""
    most_workers: int
    """For which every step has room in `resources.memory`, as steps reserve it."""
    notes: list[str]


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
    rows = [LanguageRow.model_validate(row) for row in found["languages"]]
    shown, others = first_languages(rows, MAX_LANGUAGES)
    for row in [*shown, *([] if others is None else [others])]:
        cells = (f"{count:,}" for count in (row.documents, row.bytes, row.tokens))
        table.add(row.language, *cells, bar(row.tokens, found["tokens"]))
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
    if found["disk_free"] is not None:
        console.line(f"free at {found['place']}: {found['disk_free'] / 1e6:,.0f} MB")
    console.line()
    amounts = (f"{row['bytes'] / MIB:,.0f} MiB with {row['workers']}" for row in found["memory"])
    console.line(f"memory at the peak, by workers: about {', '.join(amounts)}")
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
    if found["disk_free"] is not None and needed > found["disk_free"]:
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
