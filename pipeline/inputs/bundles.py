"""Bundles: small files that stand next to each other are read as if they were one.

Each unit costs a task, a commit and some twenty files, whatever is in it; a corpus of 100,000 small
texts would be made of nothing else. So neighbours in canonical order share a unit. Where a bundle begins
is decided by the names and sizes of its own files: a file that is added or changed changes its own
bundle, sometimes the next to it, and no other.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import xxhash

from pipeline.inputs.files import InputFile
from stages.reading.decompress import COMPRESSIONS
from stages.reading.reader import StreamReader, TextSplit
from stages.reading.slices import Slice
from stages.reading.table import reader_of

SMALL = 64
"""A file of at most this part of a unit shares one, 1 MiB as a rule; a larger one is worth its own."""
MEAN, MOST = 8, 2
"""A bundle has an eighth of a unit on average at the most, 8 MiB as a rule, and never more than half."""
MEAN_FILES, MOST_FILES = 128, 1024
"""Files of a bundle: at most on average, and ever."""
COMPRESSED = 4
"""A byte of a compressed file counts as so many."""
BUNDLES = (SMALL, MEAN, MOST, MEAN_FILES, MOST_FILES, COMPRESSED)
"""What decides the bundles: part of the fingerprint of their units."""


@dataclass(frozen=True)
class Bundle:
    """Small files of one source that are read as one, or a single file."""

    files: tuple[InputFile, ...]
    """In canonical order; no other file stands between them."""

    @property
    def source(self) -> str:
        """Name of their source."""
        return self.files[0].source

    @property
    def key(self) -> str:
        """Return the folder of its units: that of its first file."""
        return self.files[0].key

    @property
    def label(self) -> str:
        """Return what people call it: its file, or the first of them and how many more there are."""
        first, others = self.files[0].path, len(self.files) - 1
        return f"{first} and {others:,} more" if others else first

    @property
    def slices(self) -> tuple[Slice, ...] | None:
        """Return what can be read in any order; None if it is read from front to back."""
        return self.files[0].slices if len(self.files) == 1 else None


def bundles_of(files: Sequence[InputFile], unit_size: int) -> list[Bundle]:
    """Return the bundles of a run's files, in canonical order.

    Args:
        files: in canonical order.
        unit_size: `ingest.unit_size`.
    """
    bundles: list[list[InputFile]] = []
    last: InputFile | None = None
    bundle_bytes = 0
    for file in files:
        size = _size(file)
        if (
            last is None
            or last.source != file.source
            or not _is_small(last, unit_size)
            or not _is_small(file, unit_size)
            or len(bundles[-1]) == MOST_FILES
            or (bundle_bytes + size) * MOST > unit_size
            or _begins(file, unit_size)
        ):
            bundles.append([])
            bundle_bytes = 0
        bundles[-1].append(file)
        last, bundle_bytes = file, bundle_bytes + size
    return [Bundle(tuple(bundle)) for bundle in bundles]


def _size(file: InputFile) -> int:
    """Return about how many bytes there are to read of a file."""
    return file.size * (COMPRESSED if file.path.endswith(COMPRESSIONS) else 1)


def _is_small(file: InputFile, unit_size: int) -> bool:
    """Say whether a file may share a unit. Tables may not: their rows have numbers of their own."""
    small = _size(file) * SMALL <= unit_size
    return small and isinstance(reader_of(file.path, TextSplit.FILE), StreamReader)


def _begins(file: InputFile, unit_size: int) -> bool:
    """Say whether a small file begins a bundle: the larger it is, the likelier."""
    chance = _size(file) * MEAN / unit_size + 1 / MEAN_FILES
    return xxhash.xxh3_64_intdigest(file.path.encode()) < int(chance * 2**64)
