"""Duplicates of a forecast: how many documents a run would remove, from a sample, with an interval.

    inputs -> each record with the same chance -> a run until dedup -> groups -> stages.dedup.thinning

The sample of the rest of the forecast will not do. It takes records at even distances, and of a few of
many small files; duplicates that stand near each other would be seen too seldom or too often. So if the
inputs are not too large to be read, another sample is drawn here, from all of them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.inputs.chance_records import chance_records
from pipeline.inputs.files import FoundFile
from pipeline.inputs.place_files import open_place
from pipeline.inputs.sample import sample_line, sample_source
from pipeline.report.content import RunReport
from pipeline.report.duplicates import DuplicatesForecast, RemovalForecast
from pipeline.run_file.config import RunFile, Source
from pipeline.steps.dedup.limits import FEWEST
from stages.columns import Drop
from stages.dedup.thinning import removed_share
from stages.reading.decompress import reading_stream

WALKED = 1 << 29
"""Bytes on disk of inputs that are read as a whole for this: some seconds."""
MAX_FILES = 20_000
"""Files that are opened for this."""
_TELLING = 0.5
"""Width of an interval from which it does not say that a limit may be passed."""
_ENOUGH_SEEN = 5
"""Documents of the largest cluster in the sample, from which its size is told."""


def draws_anew(files: Sequence[FoundFile]) -> bool:
    """Say whether the inputs are small enough to draw a sample of records from all of them."""
    sizes = [file.status.size or 0 for file in files]
    return len(sizes) <= MAX_FILES and sum(sizes) <= WALKED


def draw_by_chance(
    run: RunFile, files: Sequence[FoundFile], folder: Path, *, share: float
) -> tuple[Source, ...]:
    """Write each record of the inputs with the same chance, and return the sources of these samples.

    Raises:
        ShardmillError: an input cannot be read.
    """
    limit = int(run.ingest.max_document_bytes)
    drawn = []
    for source in run.sources:
        place, count = folder / f"{source.name}.jsonl", 0
        with place.open("wb") as target:
            for file in sorted((f for f in files if f.source == source.name), key=lambda f: f.path):
                key = f"sources.{file.source}"
                with reading_stream(str(file.place)), open_place(file.place, key=key) as opened:
                    for record in chance_records(file, opened, limit, share=share):
                        if not isinstance(record, Drop):
                            target.write(sample_line(record, file))
                            count += 1
        if count:
            drawn.append(sample_source(source, place))
    return tuple(drawn)


@dataclass(frozen=True)
class SampledGroups:
    """The duplicates of a sample: how many groups there are by how many of their documents it has."""

    overall: Mapping[int, int]
    sources: Mapping[str, Mapping[int, int]]
    """Those of each source alone."""
    largest: int
    """Documents of the largest cluster."""


def sampled_groups(folder: Path, report: RunReport) -> SampledGroups | None:
    """Return the groups of duplicates that a run over a sample found; None if it looked for none."""
    documents = report["documents"]
    if "removed_by_source" not in documents:
        return None
    names = ["source", "kept_id", "kept_source"]
    table = pq.read_table(folder / "dedup" / "removed.parquet", columns=names)
    overall, by_source = Counter[str](), dict[str, Counter[str]]()
    columns = (table.column(name).to_pylist() for name in names)
    for source, kept, kept_source in zip(*columns, strict=True):
        overall[kept] += 1
        own = by_source.setdefault(source, Counter())
        own[kept] += 1 if own[kept] or source != kept_source else 2
    sizes = {name: one["documents"] for name, one in documents["removed_by_source"].items()}
    clusters = documents.get("clusters", [])
    return SampledGroups(
        overall=_by_size([n + 1 for n in overall.values()], sum(sizes.values())),
        sources={
            name: _by_size(by_source.get(name, Counter()).values(), size) for name, size in sizes.items()
        },
        largest=max((one["documents"] for one in clusters), default=1),
    )


def _by_size(groups: Iterable[int], documents: int) -> dict[int, int]:
    """Return the number of groups by size; documents in no group are groups of 1."""
    sizes = Counter(groups)
    sizes[1] += documents - sum(size * count for size, count in sizes.items())
    return {size: count for size, count in sorted(sizes.items()) if count}


def duplicates_forecast(
    groups: SampledGroups, run: RunFile, *, share: float, by_chance: bool
) -> DuplicatesForecast:
    """Return what deduplication is expected to remove, and how the limits stand against it.

    Args:
        groups: of a sample.
        run: whose limits are compared.
        share: of the documents that are in the sample.
        by_chance: whether each record was drawn with the same chance.
    """
    content: DuplicatesForecast = {
        "sampled": sum(size * count for size, count in groups.overall.items()),
        "sample_share": share,
        "by_chance": by_chance,
        "all": _forecast(groups.overall, share),
        "sources": {name: _forecast(own, share) for name, own in groups.sources.items()},
        "largest_cluster": round(groups.largest / share) if groups.largest >= _ENOUGH_SEEN else None,
        "limits": [],
    }
    content["limits"] = list(_limits(content, run))
    return content


def _forecast(groups: Mapping[int, int], share: float) -> RemovalForecast:
    documents = sum(size * count for size, count in groups.items()) / share
    found = removed_share(groups, share=share)
    return {
        "documents": round(documents),
        "removed": round(found.likely * documents),
        "likely": round(found.likely, 4),
        "low": round(found.low, 4),
        "high": round(found.high, 4),
    }


def _limits(content: DuplicatesForecast, run: RunFile) -> Iterator[str]:
    """Say which limits the run would pass, or may pass."""
    held: list[tuple[str, float | None, RemovalForecast | None]] = [
        ("dedup.max_removed_fraction", run.dedup.max_removed_fraction, content["all"])
    ]
    for source in run.sources:
        own = content["sources"].get(source.name)
        held.append((f"sources.{source.name}.max_removed_fraction", source.max_removed_fraction, own))
    for key, limit, found in held:
        if limit is None or found is None or found["high"] * found["documents"] < FEWEST:
            continue
        between = f"between {found['low']:.1%} and {found['high']:.1%} of the documents"
        if found["low"] > limit:
            yield f"the run would stop at {key} = {limit:g}: {between} go"
        elif found["likely"] > limit:
            yield f"the run would probably stop at {key} = {limit:g}: {between} go"
        elif found["high"] > limit and found["high"] - found["low"] <= _TELLING:
            yield f"the run may stop at {key} = {limit:g}: {between} go"
    most, largest = run.dedup.max_cluster_size, content["largest_cluster"]
    if most is not None and largest is not None and largest > most:
        yield (
            f"the run would probably stop at dedup.max_cluster_size = {most:,}: the largest cluster has"
            f" about {largest:,} documents"
        )
