"""Clusters: the largest clusters of duplicates as people read them, also of a run that was stopped."""

from pathlib import Path
from typing import cast

from pipeline.report.content import ClusterContent
from pipeline.report.plain import PlainConsole, print_json
from pipeline.state.commits import Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.dedup.clusters import LargestRecord
from pipeline.steps.dedup.step import DEDUP, LARGEST_UNIT
from stages.errors import ConfigError


def describe_clusters(folder: Path) -> list[ClusterContent]:
    """Return the largest clusters of duplicates of a run, the largest first.

    Raises:
        ConfigError: the folder holds no run that has come so far, or one without deduplication.
    """
    commit = Commits(LocalStorage(folder)).survey(DEDUP.name).commits.get(LARGEST_UNIT)
    if commit is None:
        raise ConfigError(
            f"{folder}: no clusters of duplicates are described here: it holds no run whose"
            " deduplication is decided, or one with dedup.exact = false; run until dedup first"
        )
    content = commit.read(LargestRecord).model_dump(mode="json")
    return cast("list[ClusterContent]", content["clusters"])


def print_clusters(clusters: list[ClusterContent], *, as_json: bool) -> None:
    """Print clusters with a few documents of each."""
    if as_json:
        print_json(clusters)
        return
    console = PlainConsole()
    if not clusters:
        console.line("no document is removed as a duplicate")
    for number, cluster in enumerate(clusters, 1):
        removed = ", ".join(f"{name}: {count:,}" for name, count in cluster["removed"].items())
        gone = f", {cluster['documents'] - cluster['kept']:,} removed ({removed})" if removed else ""
        console.line(f"{number}. {cluster['documents']:,} documents, {cluster['kept']:,} kept{gone}")
        for shown in cluster["shown"]:
            what = "kept" if shown["kept"] else f"removed ({shown['method']})"
            if shown["similarity"] is not None:
                what += f", similarity {shown['similarity']:.3f}"
            console.line(f"   {what}: {shown['place']}")
            console.line(f"      {' '.join(shown['excerpt'].split())}")
