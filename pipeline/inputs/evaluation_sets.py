"""Evaluation sets: their files found, held to digests, and read item by item.

They are read twice: when the run is planned, so that a misspelt column stops it before hours of work,
and by the step that makes their index. Nothing reads them after that.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import xxhash

from pipeline.inputs.files import FoundFile, find_inputs
from pipeline.inputs.place_files import open_place
from pipeline.inputs.places import is_url, root_of
from pipeline.inputs.spread_records import spread_records
from pipeline.run_file.config import RunFile
from pipeline.run_file.dataset import Dataset
from pipeline.run_file.source import Source
from stages.cleaning.text import clean_text
from stages.columns import Drop
from stages.decontamination.config import Decontamination, EvaluationSet
from stages.decontamination.index import passages_of
from stages.errors import ConfigError, DataError
from stages.reading.delimiters import Quoting
from stages.reading.reader import StreamReader
from stages.reading.records import FieldsForFilters, RawDocument
from stages.stores.given import given_path

_ITEM_BYTES = 1 << 28
"""Longest item."""
_CHUNK = 1 << 22
_BASE = "/./"
"""In a resolved path, between the run file's folder, of which nothing is a pattern, and what it says."""


@dataclass(frozen=True)
class EvaluationItem:
    """A record of an evaluation set."""

    file: str
    """Its path below the root of its glob."""
    record: int
    """Number of its line or row, from 1."""
    own_id: str | None
    fields: tuple[str, ...]
    """Its texts in the order of `text_columns`."""


@dataclass
class ItemsRead:
    """What was read of a set."""

    items: int = 0
    words: int = 0
    usable: int = 0
    """Items of which something is long enough to be looked for."""
    empty: Counter[str] = field(default_factory=Counter)
    """For each column, the items without a text in it."""
    unread: int = 0
    """Records that could not be read."""
    first_fault: str = ""


def resolve_sets(file: RunFile, base: Path) -> RunFile:
    """Return a run whose evaluation sets know their files and their digests.

    Args:
        file: the run.
        base: folder that its paths are relative to.

    Raises:
        ConfigError: a file is not there, is not what its ending says, or lacks a column; or no item of a
            set is long enough.
    """
    if file.decontamination is None:
        return file
    sets = tuple(_resolved(one, file, base) for one in file.decontamination.sets)
    return file.model_copy(
        update={"decontamination": file.decontamination.model_copy(update={"sets": sets})}
    )


def read_items(wanted: EvaluationSet, found: ItemsRead | None = None) -> Iterator[EvaluationItem]:
    """Yield the items of a set that is resolved.

    Args:
        wanted: the set.
        found: counts what is read.

    Raises:
        DataError: a file changed since the run was planned.
    """
    files = _found_here(wanted)
    with _named(wanted):
        if {one.path: _digest(one) for one in files} != wanted.digests:
            raise DataError(f"{_key(wanted)}: its files changed since the run was planned; run again")
        for one in files:
            yield from _items(one, wanted, found or ItemsRead())


def local_files(wanted: EvaluationSet) -> Iterator[tuple[str, Path]]:
    """Yield the files of a resolved set that lie on this machine, each with its path below its root."""
    for one in _found_here(wanted):
        if isinstance(one.place, Path):
            yield one.path, one.place


def _found_here(wanted: EvaluationSet) -> list[FoundFile]:
    """Return the files of a resolved set in the order of their paths, where a task finds them."""
    files: list[FoundFile] = []
    for path in wanted.paths:
        base, pattern = Path("/"), path
        if _BASE in path and not is_url(path):
            before, _, pattern = path.partition(_BASE)
            base = Path(before)
        if not is_url(path):
            inside = root_of(Path(), pattern)
            base, pattern = given_path(base / inside), str(Path(pattern).relative_to(inside))
        files += _found(wanted.model_copy(update={"paths": (pattern,)}), base)
    return sorted(files, key=lambda one: one.path)


def _resolved(wanted: EvaluationSet, file: RunFile, base: Path) -> EvaluationSet:
    assert file.decontamination is not None, "there are sets"
    paths = tuple(
        path if is_url(path) or Path(path).is_absolute() else f"{base.absolute()}{_BASE}{path}"
        for path in wanted.paths
    )
    key, placed = _key(wanted), wanted.model_copy(update={"paths": paths})
    with _named(wanted):
        files = _found(wanted, base)
        digests = {one.path: _digest(one) for one in files}
        if wanted.digests not in (None, digests):
            raise ConfigError(
                f"{key}.digests: the files have {digests}; set those that are meant, or leave it out"
            )
        found = ItemsRead()
        for one in files:
            for item in _items(one, placed, found):
                least = file.decontamination.min_words
                words = [len(one) for one in passages_of(item.fields, min_words=least)]
                found.words += sum(words)
                found.usable += max(words, default=0) >= least
    _require_items(wanted, found, file.decontamination)
    usual = {one.reader.quoting for one in files if isinstance(one.reader, StreamReader)} - {None}
    quoting = Quoting.NONE if usual == {Quoting.NONE} else None
    known = {"digests": digests, "words": found.words, "quoting": wanted.quoting or quoting}
    return placed.model_copy(update=known)


def _require_items(wanted: EvaluationSet, found: ItemsRead, config: Decontamination) -> None:
    """Refuse a set of which nothing can be looked for."""
    key = _key(wanted)
    if not found.items:
        if found.unread:
            raise ConfigError(
                f"{key}: none of its {found.unread:,} records gives an item ({found.first_fault}); check"
                " text_columns, of which the first must hold a string"
            )
        raise ConfigError(f"{key}: its files hold no record; name others in paths, or remove the set")
    for column, empty in found.empty.items():
        if empty == found.items:
            raise ConfigError(
                f"{key}.text_columns: {column!r} holds no text in any of {found.items:,} items; check"
                " its name, or leave it out"
            )
    if not found.usable:
        raise ConfigError(
            f"{key}: none of its {found.items:,} items has a text of min_words = {config.min_words}"
            " words; name more in text_columns, or lower decontamination.min_words"
        )


def _items(file: FoundFile, wanted: EvaluationSet, found: ItemsRead) -> Iterator[EvaluationItem]:
    """Yield the items of one file and count them."""
    with open_place(file.place, key=_key(wanted)) as opened:
        for _, record in spread_records(file, opened, _ITEM_BYTES, share=1.0, spread=1.0):
            if isinstance(record, Drop):
                found.unread += 1
                place = f"{file.place}, record {record.line}: {record.reason}: {record.detail}"
                found.first_fault = found.first_fault or place
                continue
            fields = _fields(record, file, wanted, found.empty)
            found.items += 1
            yield EvaluationItem(file.path, record.line, record.own_id, fields)


def _fields(
    record: RawDocument, file: FoundFile, wanted: EvaluationSet, empty: Counter[str]
) -> tuple[str, ...]:
    """Return the texts of an item; of lists, each string. They are cleaned, since documents are."""
    fields = [clean_text(record.text)]
    for column, value in zip(file.fields.beside, record.values, strict=False):
        texts = list(_strings(value))
        empty[column] += not texts
        fields += texts
    empty[wanted.text_columns[0]] += not record.text.strip()
    return tuple(fields)


def _strings(value: object) -> Iterator[str]:
    """Yield the strings of a value: itself, or those of a list."""
    if isinstance(value, str):
        if value.strip():
            yield clean_text(value)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _strings(one)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)


def _found(wanted: EvaluationSet, base: Path) -> list[FoundFile]:
    """Return the files of a set in the order of their paths."""
    first, *others = wanted.text_columns
    source = Source(
        name=_FOLDER,
        paths=wanted.paths,
        exclude=wanted.exclude,
        skip_unknown=wanted.skip_unknown,
        text_column=first,
        id_column=wanted.id_column,
        text_split=wanted.text_split,
        encoding=wanted.encoding,
        delimiter=wanted.delimiter,
        quoting=wanted.quoting,
    )
    probe = RunFile(sources=(source,), datasets=(Dataset(name=_FOLDER),))
    with _named(wanted):
        files = find_inputs(probe, base).files
    return [_with_columns(file, others) for file in files]


def _with_columns(file: FoundFile, others: list[str]) -> FoundFile:
    """Let a file give the values of more columns, of whatever type."""
    if isinstance(file.reader, StreamReader) and not file.reader.has_columns:
        return file
    content = file.fields.model_dump(exclude={"asked"})
    return replace(file, fields=FieldsForFilters(**content, asked=tuple(others))) if others else file


def _digest(file: FoundFile) -> str:
    digest = xxhash.xxh3_128()
    with open_place(file.place, key=file.label) as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _key(wanted: EvaluationSet) -> str:
    return f"decontamination.sets.{wanted.name}"


_FOLDER = "set"


@contextmanager
def _named(wanted: EvaluationSet) -> Iterator[None]:
    """Let messages name the set, and not the source that it is read as."""
    try:
        yield
    except (ConfigError, DataError) as error:
        message = str(error).replace(f"sources.{_FOLDER}", _key(wanted))
        message = message.replace(f"filters of {_key(wanted)}: column", f"{_key(wanted)}.text_columns")
        raise type(error)(message.replace(".text_column =", ".text_columns =")) from error
