"""Limits: a run stops after dedup has decided and before anything is made of what is left.

    dedup.max_removed_fraction      of all documents
    sources.NAME.max_removed_fraction   of a source's
    dedup.max_cluster_size          of documents that are duplicates of each other

The run that stops has committed what it decided. With a higher limit it goes on from there.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipeline.run_file.config import RunFile
from pipeline.steps.dedup.clusters import LargeCluster
from pipeline.steps.dedup.equal import EXACT
from pipeline.steps.dedup.minhash import NEAR
from pipeline.steps.earlier_runs import BY_KEY, URL
from pipeline.steps.units import Unit
from stages.config import Config
from stages.errors import VerificationError
from stages.ledger import Flow
from stages.store.generations import GENERATIONS

FEWEST = 100
"""Removed documents from which limits on shares hold: fewer can be looked at one by one."""
NEARLY_ALL = 0.9
"""Share of a source that it is warned of, if the source has no limit."""
NOTABLE = 0.05
"""Share of all documents that one cluster removes, of which a run warns."""
_EXCERPT = 60
_DIGITS = 10_000


class SourceRemovals(Config):
    """What dedup removes of a source."""

    documents: int
    removed: int

    @property
    def share(self) -> float:
        """Of its documents."""
        return self.removed / max(self.documents, 1)

    def passes(self, limit: float) -> bool:
        """Say whether more is removed than a limit allows; 114 of 200 are not more than 0.57."""
        return self.removed >= FEWEST and self.share > limit

    def __str__(self) -> str:
        """Return both numbers and the share."""
        return f"{self.removed:,} of {self.documents:,} documents, {self.share:.2%}"


@dataclass(frozen=True)
class Removals:
    """What dedup has decided, as far as limits are held to it."""

    sources: Mapping[str, SourceRemovals]
    methods: Mapping[str, int]
    """Documents by method."""
    largest: Sequence[LargeCluster]

    @property
    def total(self) -> SourceRemovals:
        """Of all sources."""
        return SourceRemovals(
            documents=sum(one.documents for one in self.sources.values()),
            removed=sum(one.removed for one in self.sources.values()),
        )


def removals_by_source(units: Sequence[Unit], flows: Mapping[str, Flow]) -> dict[str, SourceRemovals]:
    """Return what dedup removes of each source, from the flows of its units."""
    found: dict[str, SourceRemovals] = {}
    for unit in units:
        flow = flows[unit.commit_name]
        before = found.get(unit.source, SourceRemovals(documents=0, removed=0))
        found[unit.source] = SourceRemovals(
            documents=before.documents + flow.input.documents,
            removed=before.removed + flow.input.documents - flow.output.documents,
        )
    return found


def require_limits(file: RunFile, removals: Removals, root: Path) -> None:
    """Stop a run that would pass a limit.

    Args:
        file: the run file.
        removals: what was decided.
        root: the run's folder.

    Raises:
        VerificationError: it would; says which, with numbers, where to look, and how to go on.
    """
    for passed in _together(passed_limits(file, removals)):
        raise VerificationError(
            f"{passed.said}.{_culprits(removals)} No document is removed yet. Look at the documents:"
            f" shardmill inspect {root} --clusters, or {root}/dedup/removed.parquet. If they are"
            f" duplicates, {passed.way} and run again: nothing is redone. If they are not,"
            f" {_other_way(removals)} and run again with --replace{_replaced(root)}"
        )


def _replaced(root: Path) -> str:
    """Return what --replace does beside redoing this run."""
    return ", which redoes all generations as one run" if root.parent.name == GENERATIONS else ""


@dataclass(frozen=True)
class PassedLimit:
    """A limit that a run would pass."""

    said: str
    way: str
    """How to raise it."""


def _together(passed: Iterator[PassedLimit]) -> Iterator[PassedLimit]:
    """Yield one limit for all that are passed, so that people raise them at once."""
    found = list(passed)
    if found:
        yield PassedLimit("; ".join(one.said for one in found), ", ".join(one.way for one in found))


def passed_limits(file: RunFile, removals: Removals) -> Iterator[PassedLimit]:
    """Yield the limits that a run would pass, the overall one first."""
    dedup, total = file.dedup, removals.total
    if total.passes(dedup.max_removed_fraction):
        key = "dedup.max_removed_fraction"
        by = ", ".join(f"{name}: {n:,}" for name, n in removals.methods.items() if n)
        said = f"{key} = {dedup.max_removed_fraction:g}: {total}, would be removed as duplicates ({by})"
        yield PassedLimit(said, _raised(key, total))
    for source in file.sources:
        limit, own = source.max_removed_fraction, removals.sources.get(source.name)
        if limit is not None and own is not None and own.passes(limit):
            key = f"sources.{source.name}.max_removed_fraction"
            said = f"{key} = {limit:g}: {own}, would be removed as duplicates"
            yield PassedLimit(said, _raised(key, own))
    largest = next(iter(removals.largest), None)
    if dedup.max_cluster_size and largest and largest.documents > dedup.max_cluster_size:
        key, size = "dedup.max_cluster_size", f"{largest.documents:,}"
        said = f"{key} = {dedup.max_cluster_size:,}: a cluster has {size} documents"
        yield PassedLimit(said, f"set {key} to {size} or more")


def warnings_of(file: RunFile, removals: Removals) -> Iterator[str]:
    """Yield what people should look at though no limit stops the run."""
    for source in file.sources:
        own = removals.sources.get(source.name)
        if own is not None and source.max_removed_fraction is None and own.passes(NEARLY_ALL):
            yield (
                f"source {source.name}: {own}, are removed as duplicates; they are listed in"
                " dedup/removed.parquet; to stop a run at such a share, set the source's"
                " max_removed_fraction"
            )
    for cluster in () if file.dedup.max_cluster_size else removals.largest:
        gone = cluster.documents - cluster.kept
        if gone >= FEWEST and gone > NOTABLE * removals.total.documents:
            yield (
                f"dedup: one cluster loses {gone / removals.total.documents:.2%} of all documents:"
                f" {_cluster(cluster)}; shardmill inspect DIR --clusters shows some of them; to stop a"
                " run at such a cluster, set dedup.max_cluster_size"
            )


def _culprits(removals: Removals) -> str:
    """Return sentences that name the source and the cluster that lose the most."""
    said = ""
    if len(removals.sources) > 1:
        name, most = max(removals.sources.items(), key=lambda item: item[1].removed)
        said += f" Most are of source {name}: {most}."
    largest = next(iter(removals.largest), None)
    return said + (f" The largest cluster: {_cluster(largest)}." if largest else "")


def _cluster(cluster: LargeCluster) -> str:
    said = f"{cluster.documents:,} documents, of which {cluster.kept:,} {_stay(cluster.kept)}"
    if not cluster.kept:
        said = f"{cluster.documents:,} documents that go for one of an earlier run"
    if cluster.shown:
        first = cluster.shown[0]
        said += f", beginning with {first.place} ({' '.join(first.excerpt.split())[:_EXCERPT]!r})"
    return said


def _stay(number: int) -> str:
    return "stays" if number == 1 else "stay"


def _raised(key: str, removed: SourceRemovals) -> str:
    least = math.ceil(_DIGITS * removed.share) / _DIGITS
    return f"set {key} to {least:g}{' or more' * (least < 1)}"


def _other_way(removals: Removals) -> str:
    """Return what keeps the documents that the method which removes the most takes for duplicates."""
    method = max(removals.methods, key=lambda name: removals.methods[name])
    if method == EXACT:
        return "set dedup.exact and dedup.near to false, which keeps equal texts,"
    if method == NEAR:
        return "set dedup.minhash.threshold higher, or dedup.near to false,"
    if method == URL:
        return "leave out dedup.url,"
    if method.startswith(BY_KEY):
        return f"leave {method.removeprefix(BY_KEY)} out of dedup.keys,"
    return f"set dedup.{method}.threshold higher, or leave out dedup.{method},"
