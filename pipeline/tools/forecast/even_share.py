"""Even share: documents of files of which more was read are left out, so that one factor scales all.

    files         stored   read            drawn    stay
    large         70 MB    the first 1.5%    960     960
    small, whole  0.9 MB   100%            7,500     113

Files of a source form two groups: the large ones, of which a share each is read, and the small ones, of
which some are read. Within a group, as much stays of each file as of the one of which least was read.
Between groups, as much stays of each as of the one that is least represented.
"""

from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray

Group = tuple[str, bool]
"""A source, and whether these are its large files."""


@dataclass
class DrawnFile:
    """What was drawn of a file."""

    key: str
    group: Group
    size: int
    """Bytes, as it lies on disk."""
    read: float = 1.0
    """Share of them that hold what was read."""
    unreadable: int = 0
    """Records that gave no document."""
    texts: "array[int]" = field(default_factory=lambda: array("q"))
    """Bytes of text, by document."""


def even_share(
    files: Sequence[DrawnFile], stored: Mapping[Group, int]
) -> tuple[float, list[tuple[DrawnFile, float]]]:
    """Return the share of all bytes that documents can stand for evenly, and what of each file stays.

    Args:
        files: those that were read, of all sources.
        stored: bytes of all files of each group.

    Returns:
        the share, in (0, 1]; and each file with the fraction of its documents that stays, in (0, 1].
    """
    opened, least = Counter[Group](), dict[Group, float]()
    for file in files:
        if file.size:
            opened[file.group] += file.size
            least[file.group] = min(file.read, least.get(file.group, 1.0))
    part = {group: opened[group] / stored[group] for group in opened}
    share = min((least[group] * part[group] for group in opened), default=1.0)
    fractions = [min(1.0, share / part[file.group] / file.read) if file.size else 1.0 for file in files]
    return share, list(zip(files, fractions, strict=True))


def keep_fractions(place: Path, files: Sequence[tuple[DrawnFile, float]]) -> NDArray[np.bool_]:
    """Leave lines out of the sample of a source; return which documents stay, of all that were drawn.

    The number that stays is exact, and at least 1. Hashes of their places say which ones.

    Args:
        place: of the sample, a line for each document of the files, in their order.
        files: of the source, each with the fraction that stays of its documents.
    """
    ranks = np.fromiter(_ranks(files), np.float64)
    wanted = round(sum(fraction * len(file.texts) for file, fraction in files))
    stays = np.zeros(len(ranks), np.bool_)
    stays[np.argsort(ranks, kind="stable")[: max(1, wanted)]] = True
    if not stays.all():
        whole = place.with_suffix(".whole")
        place.rename(whole)
        with whole.open("rb") as lines, place.open("wb") as target:
            target.writelines(line for line, stay in zip(lines, stays, strict=True) if stay)
        whole.unlink()
    return stays


def _ranks(files: Sequence[tuple[DrawnFile, float]]) -> Iterator[float]:
    for file, fraction in files:
        for number in range(len(file.texts)):
            yield xxhash.xxh3_64_intdigest(f"{file.key} {number}".encode()) / fraction
