"""Duplicates of a forecast: how many documents a run would remove, from a sample, with an interval.

    inputs -> each record with the same chance -> a run until dedup -> groups -> removed share

Three kinds of documents are counted apart. Those that go for a document of an earlier run go whatever
else is in the sample, so their share is that of the sample. Those of sources with `dedup = false` stay.
Only of the others the share is estimated.

The sample of the rest of the forecast will not do. It takes records at even distances, and of a few of
many small files; duplicates that stand near each other would be seen too seldom or too often. So if the
inputs are not too large to be read, another sample is drawn here, from all of them.

Limits of a forecast: at which of them a run would stop, by what a sample says of its duplicates.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

import pyarrow.parquet as pq

from pipeline.inputs.files import FoundFile
from pipeline.inputs.limited import sample_line, sample_source
from pipeline.inputs.place_files import open_place
from pipeline.inputs.spread_records import chance_records
from pipeline.report.report import Report
from pipeline.run_file.config import RunFile
from pipeline.run_file.deduplication import Dedup
from pipeline.run_file.source import Source
from pipeline.steps.dedup.limits import FEWEST
from pipeline.steps.earlier_runs import KEPT_RUN
from pipeline.tools.forecast.terminal import DuplicatesForecast, RemovalForecast
from stages.columns import Drop
from stages.dedup.removed_share import RemovedShare, removed_share
from stages.reading.decompress import reading_stream

ENOUGH_SEEN = 5
"""Documents of the largest cluster in the sample, from which its size is told."""
_TELLING = 0.5
"""Width of an interval from which it does not say that a limit may be passed."""
_UNLIKELY = 0.025


def limit_lines(content: DuplicatesForecast, run: RunFile, *, largest: int) -> Iterator[str]:
    """Say which limits the run would pass or may pass, and of those that were set, which it would not.

    Args:
        content: the forecast, but for this.
        run: whose limits are compared.
        largest: documents of the largest cluster of the sample.
    """
    usual: float = Dedup.model_fields["max_removed_fraction"].default
    limit = run.dedup.max_removed_fraction
    key = "dedup.max_removed_fraction"
    yield from _of_share(key, limit, content["all"], said=limit != usual)
    for source in run.sources:
        own = content["sources"].get(source.name)
        if source.max_removed_fraction is not None and own is not None:
            key = f"sources.{source.name}.max_removed_fraction"
            yield from _of_share(key, source.max_removed_fraction, own, said=True)
    if run.dedup.max_cluster_size is not None:
        yield _of_clusters(run.dedup.max_cluster_size, largest, content["sample_share"])


def _of_share(key: str, limit: float, found: RemovalForecast, *, said: bool) -> Iterator[str]:
    """Say how a limit on a share stands; `said`: also if it is not passed."""
    between = f"between {found['low']:.1%} and {found['high']:.1%} of the documents"
    vague = found["high"] - found["low"] > _TELLING
    if found["high"] <= limit:
        if said:
            yield f"the run would not stop at {key} = {limit:g}: at most {found['high']:.1%} go"
    elif found["high"] * found["documents"] < FEWEST:
        if said:
            few = f"fewer than {FEWEST} documents go, and then it does not hold"
            yield f"the run would not stop at {key} = {limit:g}: {few}"
    elif found["low"] > limit:
        yield f"the run would stop at {key} = {limit:g}: {between} go"
    elif found["likely"] > limit:
        yield f"the run would probably stop at {key} = {limit:g}: {between} go"
    elif not vague:
        yield f"the run may stop at {key} = {limit:g}: {between} go"
    elif said:
        yield f"the sample is too small to tell whether the run would stop at {key} = {limit:g}"


def _of_clusters(most: int, largest: int, share: float) -> str:
    """Say how the limit on clusters stands."""
    key = f"dedup.max_cluster_size = {most:,}"
    size = round(largest / share)
    if share >= 1:
        stops = "would stop" if largest > most else "would not stop"
        return f"the run {stops} at {key}: the largest cluster has {largest:,} documents"
    if largest >= ENOUGH_SEEN and size > most:
        return f"the run would probably stop at {key}: the largest cluster has about {size:,} documents"
    if _at_most(largest, most * share) < _UNLIKELY:
        return (
            f"the run would not stop at {key}: the sample would show about {round(most * share):,}"
            f" documents of such a cluster, and has {largest:,} of its largest one"
        )
    return (
        f"the sample is too small to tell whether the run would stop at {key}: its largest cluster has"
        f" {largest:,} documents, and of one that is too large it would show about {most * share:.3g}"
    )


def _at_most(count: int, mean: float) -> float:
    """Return the chance that at most so many are seen, by Poisson's law."""
    logs = [n * math.log(mean) - mean - math.lgamma(n + 1) for n in range(count + 1)] if mean else [0.0]
    return min(1.0, sum(map(math.exp, logs)))


READ_BYTES = 1 << 29
"""Bytes on disk of inputs that are read as a whole for this: some seconds."""
MAX_FILES = 20_000
"""Files that are opened for this."""
_Z = 1.96
"""Standard deviations on each side of an interval of 95%."""


def draws_anew(files: Sequence[FoundFile]) -> bool:
    """Say whether the inputs are small enough to draw a sample of records from all of them."""
    sizes = [file.status.size or 0 for file in files]
    return len(sizes) <= MAX_FILES and sum(sizes) <= READ_BYTES


def draw_by_chance(
    run: RunFile, files: Sequence[FoundFile], folder: Path, *, share: float
) -> tuple[Source, ...]:
    """Write each record of the inputs with the same chance; return the sources, none if none was drawn.

    Raises:
        ShardmillError: an input cannot be read.
    """
    limit = int(run.ingest.max_document_bytes)
    count = 0
    for source in run.file_sources:
        place = folder / f"{source.name}.jsonl"
        with place.open("wb") as target:
            for file in sorted((f for f in files if f.source == source.name), key=lambda f: f.path):
                key = f"sources.{file.source}"
                with reading_stream(str(file.place)), open_place(file.place, key=key) as opened:
                    for record in chance_records(file, opened, limit, share=share):
                        if not isinstance(record, Drop):
                            target.write(sample_line(record, file))
                            count += 1
    if not count:
        return ()
    return tuple(sample_source(source, folder / f"{source.name}.jsonl") for source in run.file_sources)


@dataclass(frozen=True)
class SampledGroups:
    """The duplicates of a sample: how many groups there are by how many of their documents it has."""

    overall: Mapping[int, int]
    sources: Mapping[str, Mapping[int, int]]
    """Those of each source alone."""
    largest: int
    """Documents of the largest cluster."""
    earlier: Mapping[str, int] = field(default_factory=dict)
    """Documents of each source that go for one of an earlier run; they are in no group."""
    untouched: Mapping[str, int] = field(default_factory=dict)
    """Documents of each source that is not deduplicated; they are in no group."""


def sampled_groups(folder: Path, report: Report, run: RunFile) -> SampledGroups | None:
    """Return the groups of duplicates that a run over a sample found; None if it looked for none.

    Args:
        folder: of the sample's run.
        report: of it.
        run: what the sample is of.
    """
    documents = report.documents
    if documents.removed_by_source is None:
        return None
    overall, by_source, earlier = Counter[str](), dict[str, Counter[str]](), Counter[str]()
    for source, kept, kept_source, kept_run in _removed(folder / "dedup" / "removed.parquet"):
        if kept_run is not None:
            earlier[source] += 1
            continue
        overall[kept] += 1
        own = by_source.setdefault(source, Counter())
        own[kept] += 1 if own[kept] or source != kept_source else 2
    sizes = {name: one.documents for name, one in documents.removed_by_source.items()}
    untouched = {
        source.name: sizes.pop(source.name)
        for source in run.file_sources
        if source.dedup is False and source.name in sizes
    }
    compared = {name: size - earlier[name] for name, size in sizes.items()}
    return SampledGroups(
        overall=_by_size([n + 1 for n in overall.values()], sum(compared.values())),
        sources={
            name: _by_size(by_source.get(name, Counter()).values(), size)
            for name, size in compared.items()
        },
        largest=max((one.documents for one in documents.clusters or ()), default=1),
        earlier=earlier,
        untouched=untouched,
    )


def _removed(path: Path) -> Iterator[tuple[str, str, str, str | None]]:
    """Yield of each removed document its source, what it went for, its source and its earlier run."""
    with pq.ParquetFile(path) as file:
        there = KEPT_RUN in file.schema_arrow.names
        names = ["source", "kept_id", "kept_source", *([KEPT_RUN] if there else [])]
        for batch in file.iter_batches(columns=names):
            runs = batch.column(KEPT_RUN).to_pylist() if there else repeat(None)
            yield from zip(*(batch.column(name).to_pylist() for name in names[:3]), runs, strict=False)


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
    sources = {
        name: _forecast(own, share, earlier=groups.earlier.get(name, 0))
        for name, own in groups.sources.items()
    }
    sources |= {name: _forecast({}, share, untouched=count) for name, count in groups.untouched.items()}
    earlier, untouched = sum(groups.earlier.values()), sum(groups.untouched.values())
    found = sum(size * count for size, count in groups.overall.items())
    content: DuplicatesForecast = {
        "sampled": found + earlier + untouched,
        "sample_share": share,
        "by_chance": by_chance,
        "all": _forecast(groups.overall, share, earlier=earlier, untouched=untouched),
        "sources": dict(sorted(sources.items())),
        "largest_cluster": round(groups.largest / share) if groups.largest >= ENOUGH_SEEN else None,
        "limits": [],
        "untold": list(_unknown(run, share)),
    }
    content["limits"] = list(limit_lines(content, run, largest=groups.largest))
    return content


def _forecast(
    groups: Mapping[int, int], share: float, *, earlier: int = 0, untouched: int = 0
) -> RemovalForecast:
    """Return what goes of some documents.

    Args:
        groups: of duplicates.
        share: of the documents that are in the sample.
        earlier: documents of the sample that go for one of an earlier run.
        untouched: documents of it that stay whatever they are.
    """
    seen = sum(size * count for size, count in groups.items())
    found = removed_share(groups, share=share) if seen else RemovedShare(0.0, 0.0, 0.0)
    gone = share_of(earlier, seen + earlier, whole=share >= 1)
    likely, low, high = (
        (own + (1 - own) * rest) * (seen + earlier) / max(seen + earlier + untouched, 1)
        for own, rest in zip(gone, (found.likely, found.low, found.high), strict=True)
    )
    documents = (seen + earlier + untouched) / share
    return {
        "documents": round(documents),
        "removed": round(likely * documents),
        "likely": round(likely, 4),
        "low": round(low, 4),
        "high": round(high, 4),
    }


def share_of(count: int, total: int, *, whole: bool) -> tuple[float, float, float]:
    """Return a share, likely, low and high: Wilson's interval of 95%.

    Source: Wilson 1927, "Probable inference, the law of succession, and statistical inference".
    """
    likely = count / max(total, 1)
    if whole or not count:
        return likely, likely, likely
    middle = likely + _Z**2 / (2 * total)
    width = _Z * math.sqrt(likely * (1 - likely) / total + _Z**2 / (4 * total**2))
    scale = 1 + _Z**2 / total
    return likely, (middle - width) / scale, (middle + width) / scale


def _unknown(run: RunFile, share: float) -> Iterator[str]:
    """Say what of the rule a sample cannot show."""
    dedup, rules = run.dedup, [source.dedup for source in run.file_sources]
    if share >= 1:
        return
    if rules.count(True) > 1:
        yield "within a source its own duplicates count alone; those of other sources come on top"
    if dedup.containment is not None:
        yield (
            "where one long document holds many short ones (dedup.containment), more of these go than"
            " the interval says, because the long one must be in the sample too"
        )
    if dedup.semantic is not None:
        yield (
            "a sample has fewer clusters of embeddings (dedup.semantic), so a few more pairs are found"
            " in it than in the run"
        )
