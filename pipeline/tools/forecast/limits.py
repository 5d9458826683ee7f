"""Limits of a forecast: at which of them a run would stop, by what a sample says of its duplicates."""

import math
from collections.abc import Iterator

from pipeline.run_file.config import RunFile
from pipeline.run_file.deduplication import Dedup
from pipeline.steps.dedup.limits import FEWEST
from pipeline.tools.forecast.content import DuplicatesForecast, RemovalForecast

ENOUGH_SEEN = 5
"""Documents of the largest cluster in the sample, from which its size is told."""
_TELLING = 0.5
"""Width of an interval from which it does not say that a limit may be passed."""
_UNLIKELY = 0.025


def limits_told(content: DuplicatesForecast, run: RunFile, *, largest: int) -> Iterator[str]:
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
