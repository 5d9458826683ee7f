"""A sample of the inputs: records from all over their files, a share of their bytes, for a forecast.

If the share of a file is less than `_LEAST` bytes, so many are read of it, but not of every such file:
only of as many files of its source as make up their share together, at least one. Which ones depends on
their names, and on which are empty. Nothing is scanned. Of files of which more was read, documents are
left out (`pipeline.tools.forecast.sample`).

Files often begin with documents that are not like the others. So records are drawn from the whole of a
file, up to `_SAMPLED_BYTES` bytes on disk of all files together, which takes some seconds.

Even share: documents of files of which more was read are left out, so that one factor scales all.

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
from typing import BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from pipeline.inputs.files import FoundFile, find_inputs
from pipeline.inputs.limited import sample_line, sample_source
from pipeline.inputs.place_files import open_place
from pipeline.inputs.spread_records import spread_records
from pipeline.run_file.config import RunFile
from pipeline.run_file.source import Source
from stages.columns import Drop
from stages.errors import ConfigError
from stages.reading.decompress import reading_stream

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


_LEAST = 1 << 20
"""Bytes that are read of a file, at the least: fewer do not tell how well it is compressed."""
_SAMPLED_BYTES = 1 << 29
"""Bytes on disk of all files that samples are spread over; shares that are more are read anyway."""


@dataclass
class SourceSample:
    """What was drawn of a source, and stays."""

    name: str
    documents: int = 0
    expected: float = 0.0
    """Documents, if parts of one could stay."""
    unreadable: float = 0.0
    """Records that gave no document, as many as go with the documents that stay."""
    text_bytes: int = 0
    whole: bool = False
    """Whether all of its bytes were read."""


@dataclass
class InputSample:
    """What was drawn of a run's inputs, and stays."""

    sources: tuple[Source, ...] = ()
    """Those of the run, as sources of JSON lines."""
    parts: list[SourceSample] = field(default_factory=list)
    """By source, in the order in which a run reads them."""
    stored: int = 0
    """Bytes of all input files, as they lie on disk."""
    read: float = 0.0
    """Bytes of them that were read."""
    taken: float = 0.0
    """Bytes of them that the sample stands for, the same share of each source."""
    files: int = 0
    """Input files."""
    opened: int = 0
    """Those of which something was read."""
    largest_file: int = 0
    """Bytes of the largest input file, as it lies on disk."""

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the inputs."""
        return self.taken == self.stored

    @property
    def times(self) -> float:
        """How many times as many bytes the inputs have."""
        return self.stored / self.taken

    @property
    def unreadable(self) -> float:
        """Records that gave no document."""
        return sum(part.unreadable for part in self.parts)

    @property
    def documents(self) -> int:
        """Records that gave one."""
        return sum(part.documents for part in self.parts)

    @property
    def records(self) -> int:
        """All records."""
        return round(self.documents + self.unreadable)

    @property
    def text_bytes(self) -> int:
        """Bytes of text."""
        return sum(part.text_bytes for part in self.parts)

    @property
    def largest_source(self) -> int:
        """Bytes of text of one source, at the most."""
        return max((part.text_bytes for part in self.parts), default=0)


def draw_sample(
    run: RunFile, base: Path, folder: Path, *, share: float, output: Path | None = None
) -> InputSample:
    """Write a sample of each source as a file of JSON lines.

    Args:
        run: what the sample is of.
        base: folder that its paths are relative to.
        folder: where the sample goes.
        share: of the bytes of the inputs, in (0, 1].
        output: folder of the run, which is no input of it.

    Raises:
        ShardmillError: an input cannot be found or read; or no record was drawn.
    """
    files = find_inputs(run, base, output=output).files
    stored = Counter[Group]()
    for file in files:
        stored[_group(file, share)] += _size(file)
    sizes = list(map(_size, files))
    sample = InputSample(stored=sum(sizes), files=len(files), largest_file=max(sizes, default=0))
    drawn = []
    chosen = {
        one.name: _chosen([f for f in files if f.source == one.name], share) for one in run.file_sources
    }
    room = _SAMPLED_BYTES / max(1, sum(map(len, chosen.values())))
    for name, parts in chosen.items():
        with (folder / f"{name}.jsonl").open("wb") as target:
            for file, part in parts:
                drawn.append(DrawnFile(file.key, _group(file, share), _size(file)))
                spread = max(part, min(1.0, room / max(_size(file), 1)))
                _draw(file, run, drawn[-1], target, share=part, spread=spread)
    sample.opened = len(drawn)
    sample.read = sum(file.read * file.size for file in drawn)
    even, stays = even_share(drawn, stored)
    sample.taken = even * sample.stored
    for name in sorted(source.name for source in run.file_sources):
        its = [one for one in stays if one[0].group[0] == name]
        size = stored[name, True] + stored[name, False]
        sample.parts.append(_part(name, its, folder / f"{name}.jsonl", stored=size))
    if not sample.text_bytes:
        raise ConfigError(
            f"--sample {share}: no document was drawn of {sample.stored:,} bytes in {len(files):,}"
            " files; raise it"
        )
    sample.sources = tuple(sample_source(one, folder / f"{one.name}.jsonl") for one in run.file_sources)
    return sample


def _part(
    name: str, files: Sequence[tuple[DrawnFile, float]], place: Path, *, stored: int
) -> SourceSample:
    """Leave documents of a source out of its sample, and return what stays."""
    stays = keep_fractions(place, files)
    texts = (size for file, _ in files for size in file.texts)
    return SourceSample(
        name=name,
        documents=int(stays.sum()),
        expected=sum(fraction * len(file.texts) for file, fraction in files),
        unreadable=sum(fraction * file.unreadable for file, fraction in files),
        text_bytes=sum(size for size, stay in zip(texts, stays, strict=True) if stay),
        whole=sum(file.read * file.size for file, _ in files) == stored,
    )


def _group(file: FoundFile, share: float) -> Group:
    """Return the group of a file: large ones have a share that is worth reading."""
    return file.source, share * _size(file) >= _LEAST


def _chosen(files: Sequence[FoundFile], share: float) -> list[tuple[FoundFile, float]]:
    """Return the files of a source that are read, each with the share of it that is read.

    All large files are read, and of the small ones as many as make up their share: at least one.
    """
    large = [(file, share) for file in files if _group(file, share)[1]]
    small = [file for file in files if not _group(file, share)[1]]
    left = share * sum(map(_size, small))
    # empty files last: the first is read whatever is left
    small.sort(key=lambda file: (_size(file) == 0, xxhash.xxh3_64_intdigest(file.key.encode())))
    found = list[tuple[FoundFile, float]]()
    for file in small:
        if left <= 0 and (found or large):
            break
        own = min(1.0, _LEAST / max(_size(file), 1))
        found.append((file, own))
        left -= own * _size(file)
    return sorted([*large, *found], key=lambda one: one[0].path)


def _draw(
    file: FoundFile, run: RunFile, drawn: DrawnFile, target: BinaryIO, *, share: float, spread: float
) -> None:
    """Write the documents of a share of a file, and count what was read of it."""
    limit, drawn.read = int(run.ingest.max_document_bytes), 0.0
    with reading_stream(str(file.place)), open_place(file.place, key=f"sources.{file.source}") as opened:
        for part, record in spread_records(file, opened, limit, share=share, spread=spread):
            drawn.read = part
            if isinstance(record, Drop):
                drawn.unreadable += 1
                continue
            texts = [
                record.text,
                *record.sections,
                *(text for turn in record.turns for text in turn.texts),
            ]
            drawn.texts.append(sum(len(text.encode()) for text in texts))
            target.write(sample_line(record, file))
    if drawn.read < share == spread:  # the file has no further records
        drawn.read = 1.0


def _size(file: FoundFile) -> int:
    """Return the bytes of a file, as it lies on disk."""
    if file.status.size is None:
        raise ConfigError(
            f"{file.label}: its server does not say how long it is, so nobody knows what a sample is a"
            " share of; copy the file to a disk, or plan without --sample"
        )
    return file.status.size
