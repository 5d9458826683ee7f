"""Compared fields: the fields of records by which documents are duplicates, or outrank others.

    ingest/UNIT/keys.npy       (N, K, 2) uint64: digests of the values of each field, zeros for none
    ingest/UNIT/ranking.npy    (N,) float64: what each document ranks by, NaN for nothing

They are there only if the run file names such fields; no text of theirs goes to later steps.

Versions: what reads and writes documents, and so decides them beside the settings.

Most files and sources need none of these: then nothing of them is in a fingerprint.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.inputs.files import InputFile
from pipeline.run_file.config import RunFile
from pipeline.run_file.deduplication import Dedup
from stages.chat.rendering import template_version
from stages.dedup.keys import key_digest, key_text, normal_url
from stages.dedup.ranking import KeepColumn, rank_value
from stages.reading.delimiters import Quoting
from stages.reading.reader import StreamReader, TextSplit
from stages.reading.records import RawDocument
from stages.reading.table import reader_of
from stages.store.arrays import array_writer

_Append = Callable[[NDArray[np.generic]], None]


@dataclass(frozen=True)
class ComparedColumns:
    """The fields that are read."""

    url: str | None = None
    keys: tuple[str, ...] = ()
    rank: str | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """Those whose equal values make duplicates."""
        return (*((self.url,) if self.url is not None else ()), *self.keys)

    @property
    def all(self) -> tuple[str, ...]:
        """These, and the one that documents rank by."""
        return (*self.values, *((self.rank,) if self.rank is not None else ()))


@dataclass(frozen=True)
class ComparedValues:
    """What is written of one document."""

    digests: bytes
    rank: float


def compared_columns(dedup: Dedup) -> ComparedColumns | None:
    """Return the fields that a run compares or ranks by; None if there are none."""
    rank = dedup.keep.column if isinstance(dedup.keep, KeepColumn) else None
    return ComparedColumns(dedup.url, dedup.keys, rank) if dedup.columns else None


def compared_values(
    columns: ComparedColumns, beside: Sequence[str], document: RawDocument
) -> ComparedValues:
    """Return what is written of a document.

    Args:
        columns: that are compared.
        beside: the fields that were read for filters and deduplication.
        document: with their values, none of a text file.
    """
    values = dict(zip(beside, document.values, strict=False))
    digests = []
    for column in columns.values:
        text = key_text(values.get(column))
        digests.append(key_digest(normal_url(text) if text and column == columns.url else text))
    rank = float("nan") if columns.rank is None else rank_value(values.get(columns.rank))
    return ComparedValues(b"".join(digests), rank)


@dataclass
class ComparedFiles:
    """The files of a unit, on their way."""

    columns: ComparedColumns
    counts: dict[str, int]
    """Documents that have a value, by field."""
    keys: _Append | None = None
    ranks: _Append | None = None

    def add(self, documents: Sequence[ComparedValues]) -> None:
        """Write what is compared of some documents."""
        if self.keys is not None:
            data = b"".join(one.digests for one in documents)
            keys = np.frombuffer(data, "<u8").reshape(len(documents), -1, 2)
            self.keys(keys)
            there = keys.any(axis=2).sum(axis=0).tolist()
            for column, count in zip(self.columns.values, there, strict=True):
                self.counts[column] += count
        if self.ranks is not None and self.columns.rank is not None:
            ranks = np.array([one.rank for one in documents], np.float64)
            self.ranks(ranks)
            ranked = int(np.count_nonzero(~np.isnan(ranks)))
            if self.columns.rank not in self.columns.values:
                self.counts[self.columns.rank] += ranked


@contextmanager
def compared_files(
    workspace: Workspace, folder: str, columns: ComparedColumns | None
) -> Iterator[ComparedFiles]:
    """Open what there is to write of a unit.

    Args:
        workspace: where it goes.
        folder: of the unit.
        columns: that are compared; without any nothing is written.
    """
    known = columns or ComparedColumns()
    files = ComparedFiles(known, dict.fromkeys(known.all, 0))
    with ExitStack() as stack:
        if count := len(known.values):
            place = workspace.create(f"{folder}/keys.npy")
            files.keys = stack.enter_context(array_writer(place, dtype="<u8", shape=(count, 2)))
        if known.rank is not None:
            place = workspace.create(f"{folder}/ranking.npy")
            files.ranks = stack.enter_context(array_writer(place, dtype="<f8"))
        yield files


def libraries_of(files: Iterable[InputFile]) -> dict[str, str]:
    """Return the versions of what else reads some files, by name; most files need none."""
    readers = {reader_of(file.path, TextSplit.FILE) for file in files}
    names = {library.name for reader in readers if reader for library in reader.libraries}
    return {name: _version(name) for name in sorted(names)}


def readers_of(files: Iterable[InputFile]) -> dict[str, int]:
    """Return the versions of the readers of some files, by name; the first version adds nothing."""
    readers = {reader_of(file.path, TextSplit.FILE) for file in files}
    return dict(sorted((one.name, one.version) for one in readers if one and one.version > 1))


def templates_of(file: RunFile) -> dict[str, int]:
    """Return the versions of what writes dialogues, by source; the first version adds nothing."""
    found = {source.name: template_version(source.chat) for source in file.sources if source.chat}
    return {name: number for name, number in found.items() if number > 1}


def unquoted_of(file: RunFile, files: Iterable[InputFile]) -> dict[str, list[str]]:
    """Return by source the formats of delimited text in which a quote means nothing; most have none."""
    declared = {source.name: source.quoting for source in file.sources}
    found: dict[str, set[str]] = {}
    for one in files:
        reader = reader_of(one.path, TextSplit.FILE)
        usual = reader.quoting if isinstance(reader, StreamReader) else None
        if reader is not None and usual and (declared.get(one.source) or usual) is Quoting.NONE:
            found.setdefault(one.source, set()).add(reader.name)
    return {source: sorted(names) for source, names in sorted(found.items())}


def _version(package: str) -> str:
    """Return the version of a package; a run may be verified where one of its libraries is not."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
