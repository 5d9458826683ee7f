"""Clusters: the largest clusters of duplicates as people read them, also of a run that was stopped.

Marked: two texts side by side, with the words marked in which one differs from the other.
"""

import re
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any, NewType

from markupsafe import Markup, escape

from pipeline.report.plain import PlainConsole, print_json
from pipeline.state.places import reading
from pipeline.steps.dedup.clusters import LargeCluster, LargestRecord
from pipeline.steps.dedup.step import DEDUP, LARGEST_UNIT
from pipeline.steps.run_folder import RunFolder
from pipeline.system.disk_faults import disk_faults
from pipeline.system.printable import printable
from stages.errors import ConfigError

ClusterContent = NewType("ClusterContent", dict[str, Any])
"""The JSON of a `LargeCluster`."""


def duplicates(folder: str | Path) -> list[ClusterContent]:
    """Return the largest clusters of duplicates of a run, with a few documents of each.

    Args:
        folder: of the run; a limit may have stopped it.

    Raises:
        ShardmillError: deduplication has not decided yet, or there is none.
    """
    with reading(Path(folder), key="folder") as place, disk_faults(place):
        commit = RunFolder(place).commits.survey(DEDUP.name).commits.get(LARGEST_UNIT)
    if commit is None:
        raise ConfigError(
            f"{folder}: no clusters of duplicates are described here: it holds no run whose"
            " deduplication is decided, or one with dedup.exact = false; run until dedup first"
        )
    found = commit.read(LargestRecord).clusters
    return [ClusterContent(cluster.model_dump(mode="json")) for cluster in found]


def print_clusters(clusters: list[ClusterContent], *, as_json: bool) -> None:
    """Print clusters with a few documents of each."""
    if as_json:
        print_json(clusters)
        return
    console = PlainConsole()
    if not clusters:
        console.line("no document is removed as a duplicate")
    for number, cluster in enumerate(map(LargeCluster.model_validate, clusters), 1):
        removed = ", ".join(f"{name}: {count:,}" for name, count in cluster.removed.items())
        gone = f", {cluster.documents - cluster.kept:,} removed ({removed})" if removed else ""
        console.line(f"{number}. {cluster.documents:,} documents, {cluster.kept:,} kept{gone}")
        for shown in cluster.shown:
            what = "kept" if shown.kept else f"removed ({shown.method})"
            if shown.similarity is not None:
                what += f", similarity {shown.similarity:.3f}"
            console.line(f"   {what}: {shown.place}")
            console.line(f"      {' '.join(shown.excerpt.split())}")


_WORDS = re.compile(r"\w+|\s+|[^\w\s]")


def marked(text: str, other: str | None) -> Markup:
    """Return a text as HTML; words that another text does not have at that place stand in <mark>."""
    if other is None or other == text:
        return escape(printable(text))
    words, others = _WORDS.findall(text), _WORDS.findall(other)
    parts = []
    for kind, first, last, _, _ in SequenceMatcher(None, words, others, autojunk=False).get_opcodes():
        part = escape(printable("".join(words[first:last])))
        parts.append(
            part if kind == "equal" or not part.strip() else Markup("<mark>{}</mark>").format(part)
        )
    return Markup("").join(parts)
