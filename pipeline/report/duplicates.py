"""Duplicates: what reports hold of them, and what people are told of a forecast."""

from collections.abc import Iterator
from typing import TypedDict

_VAGUE = 0.2
"""Width of an interval from which no single figure is told."""
_NOTABLE = 0.05
"""Removed share of a source that is told."""
_MOST_SOURCES = 10


class ClusterDocumentContent(TypedDict):
    """A document of a cluster of duplicates."""

    id: str
    place: str
    kept: bool
    kept_id: str | None
    similarity: float | None
    method: str | None
    excerpt: str


class ClusterContent(TypedDict):
    """A cluster of duplicates, with a few of its documents."""

    id: str
    documents: int
    kept: int
    removed: dict[str, int]
    """By method."""
    shown: list[ClusterDocumentContent]


class SourceRemovalsContent(TypedDict):
    """What deduplication removed of a source."""

    documents: int
    removed: int


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
