"""What `plan --sample` prints: what is expected of a run."""

from collections.abc import Iterator

from pipeline.engine.memory import MIB
from pipeline.report.duplicates import duplicates_lines
from pipeline.report.fairness import first_languages
from pipeline.report.forecast_content import Forecast
from pipeline.report.plain import PlainConsole, PlainTable, print_json
from pipeline.report.terminal import MAX_LANGUAGES


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
    table = PlainTable("documents", "about").right()
    table.add("read", f"{found['read']:,}")
    for reason, count in found["dropped"].items():
        table.add(f"  dropped: {reason}", f"{count:,}")
    for reason, count in found["removed"].items():
        table.add(f"  removed: {reason}", f"{count:,}")
    table.add("kept", f"{found['kept']:,}")
    console.show(table)
    for line in [] if found["duplicates"] is None else duplicates_lines(found["duplicates"]):
        console.line(line)
    for line in (*_cuts_lines(found), *_contamination_lines(found)):
        console.line(line)
    console.line()
    table = PlainTable("language", "documents", "bytes", "tokens")
    shown, others = first_languages(found["languages"], MAX_LANGUAGES)
    for row in [*shown, *([] if others is None else [others])]:
        table.add(row["language"], *(f"{row[key]:,}" for key in ("documents", "bytes", "tokens")))
    console.show(table.right())
    console.line()
    table = PlainTable("step", "CPU seconds")
    for step in found["steps"]:
        table.add(step["step"], f"{step['cpu_seconds']:,.0f}")
    table.add("all", f"{found['cpu_seconds']:,.0f}")
    console.show(table.right())
    console.line()
    disk = ", ".join(f"{name} {size / 1e6:,.0f} MB" for name, size in found["disk"].items())
    console.line(f"on disk: {disk}")
    held = (f"{row['bytes'] / MIB:,.0f} MiB with {row['workers']}" for row in found["memory"])
    console.line(f"memory at the peak, by workers: about {', '.join(held)}")
    room = found["most_workers"]
    console.line(f"resources.memory has room for {room:,} worker{'s' * (room != 1)} in every step")
    for note in found["notes"]:
        console.line(f"note: {note}")


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
