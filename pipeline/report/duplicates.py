"""Duplicates: what people are told of the documents that a run is expected to remove."""

from collections.abc import Iterator

from pipeline.report.content import DuplicatesForecast, RemovalForecast

_VAGUE = 0.2
"""Width of an interval from which no single figure is told."""
_NOTABLE = 0.05
"""Removed share of a source that is told."""
_MOST_SOURCES = 10


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


def is_vague(found: RemovalForecast) -> bool:
    """Say whether a forecast allows no single figure."""
    return found["high"] - found["low"] > _VAGUE


def _said(found: RemovalForecast, sampled: int) -> str:
    between = f"between {found['low']:.1%} and {found['high']:.1%}"
    if found["low"] == found["high"]:
        return f"{found['removed']:,} of {found['documents']:,} documents would be removed"
    if is_vague(found):
        return (
            f"{between} of the documents would be removed: {sampled:,} sampled documents say no more;"
            " a larger --sample does"
        )
    return (
        f"about {found['removed']:,} of {found['documents']:,} documents would be removed,"
        f" {found['likely']:.1%} ({between}, from {sampled:,} sampled documents)"
    )
