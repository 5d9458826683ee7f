"""What semantic deduplication finds of texts that were rewritten, by threshold, and what else it takes.

    paraphrases.py OLD NEW [--show 0.95] [--json paraphrases.json]

OLD and NEW are the documentation of one program in two versions: folders of .txt or .rst files in
reStructuredText. A text is a section of 30 words or more. Sections of the same file and heading are one
text, rewritten; all others are different texts. Pairs that near-deduplication finds already (a Jaccard
similarity of 0.8 on windows of five words) are left out of both. All pairs are compared, so nothing here
depends on clusters, except for the last column: the share of the pairs that clusters let through.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.dedup.encoders import open_encoder
from stages.dedup.semantic import cosines, find_centroids, nearest_centroids, rounded

THRESHOLDS = (0.80, 0.85, 0.90, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
WORDS, SHINGLE, NEAR = 30, 5, 0.8
RULE = re.compile(r"([=\-~^\"'`*+#])\1{2,}\s*")
BLOCK = 1_024
CLUSTER_SIZE = 128
"""Documents of a cluster where the effect of clusters is measured: of more clusters than by default."""


class Section(NamedTuple):
    """A text and where it stands."""

    version: int
    place: tuple[str, str]
    text: str


class Row(NamedTuple):
    """What a threshold finds."""

    threshold: float
    rewritten: int
    """Pairs of one section in two versions at or over it."""
    of: int
    """Such pairs in all."""
    others: int
    """Pairs of different sections at or over it."""
    together: float
    """Share of all these pairs that have a cluster in common."""


def sections(folder: Path, version: int) -> Iterator[Section]:
    """Yield the sections of all files; a heading that a file has twice counts once."""
    for path in sorted([*folder.rglob("*.txt"), *folder.rglob("*.rst")]):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        heads = [
            at
            for at in range(len(lines) - 1)
            if lines[at].strip()
            and not RULE.fullmatch(lines[at])
            and RULE.fullmatch(lines[at + 1])
            and len(lines[at + 1].rstrip()) >= len(lines[at].rstrip())
        ]
        known = set[str]()
        for head, end in pairwise([*heads, len(lines)]):
            text = "\n".join(lines[head + 2 : end]).strip()
            title = lines[head].strip()
            if len(text.split()) >= WORDS and title not in known:
                known.add(title)
                yield Section(version, (path.relative_to(folder).as_posix(), title), text)


def jaccard(one: str, other: str) -> float:
    """Return the similarity of two texts by their windows of words."""
    a, b = (
        {tuple(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))}
        for words in (one.split(), other.split())
    )
    return len(a & b) / len(a | b)


def compared(found: Sequence[Section], vectors: NDArray[np.int8]) -> list[tuple[int, int, float, bool]]:
    """Return the pairs that near-deduplication does not find: places, cosine, whether of one section.

    All pairs of one section, and others from the lowest threshold on.
    """
    pairs: list[tuple[int, int, float, bool]] = []
    for start in range(0, len(found), BLOCK):
        near = cosines(vectors[start : start + BLOCK], vectors)
        for row in range(len(near)):
            own = found[start + row]
            others = np.flatnonzero(near[row, : start + row] >= THRESHOLDS[0]).tolist()
            same = [at for at in range(start + row) if found[at].place == own.place]
            pairs += [
                (at, start + row, float(near[row, at]), at in same)
                for at in sorted({*others, *same})
                if jaccard(own.text, found[at].text) < NEAR
            ]
    return pairs


def rows(pairs: Sequence[tuple[int, int, float, bool]], clusters: NDArray[np.int64]) -> list[Row]:
    """Return what each threshold finds."""
    found = []
    for threshold in THRESHOLDS:
        over = [(a, b, same) for a, b, cosine, same in pairs if cosine >= threshold]
        together = [bool(set(clusters[a].tolist()) & set(clusters[b].tolist())) for a, b, _ in over]
        rewritten = sum(same for _, _, same in over)
        share = sum(together) / max(1, len(together))
        of = sum(same for *_, same in pairs)
        found.append(Row(threshold, rewritten, of, len(over) - rewritten, share))
    return found


def markdown(found: Sequence[Row]) -> str:
    """Return the table."""
    lines = [
        "| threshold | rewritten sections found | recall | other pairs | precision | in one cluster |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {row.threshold:.2f} | {row.rewritten:,} of {row.of:,} | {row.rewritten / max(1, row.of):.1%}"
        f" | {row.others:,} | {row.rewritten / max(1, row.rewritten + row.others):.1%}"
        f" | {row.together:.1%} |"
        for row in found
    ]
    return "\n".join(lines)


def show(
    found: Sequence[Section], pairs: Sequence[tuple[int, int, float, bool]], threshold: float
) -> None:
    """Print pairs of different sections over a threshold, spread over all of them."""
    over = [pair for pair in pairs if pair[2] >= threshold and not pair[3]]
    for a, b, cosine, _ in over[:: max(1, len(over) // 30)]:
        print(f"\n--- {cosine:.3f}")
        for one in (found[a], found[b]):
            print(f"{one.version} {one.place}: {' '.join(one.text.split())[:300]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW")
    parser.add_argument("--encoder", default="wordllama")
    parser.add_argument("--show", type=float, metavar="THRESHOLD", help="print pairs of other sections")
    parser.add_argument("--json", type=Path, metavar="PATH")
    arguments = parser.parse_args(argv)
    every = [*sections(arguments.old, 0), *sections(arguments.new, 1)]
    found = list({one.text: one for one in reversed(every)}.values())[::-1]
    vectors = rounded(open_encoder(arguments.encoder)([one.text for one in found]))
    count = max(1, len(found) // CLUSTER_SIZE)
    clusters = nearest_centroids(vectors, find_centroids(vectors, count))
    pairs = compared(found, vectors)
    table = rows(pairs, clusters)
    print(f"{len(every):,} sections, {len(found):,} different ones, {count} clusters\n")
    print(markdown(table))
    if arguments.show:
        show(found, pairs, arguments.show)
    if arguments.json:
        arguments.json.write_text(json.dumps([row._asdict() for row in table]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
