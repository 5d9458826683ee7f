"""Parquet groups: the row groups of several parquet files in one, copied and not written again.

    PAR1  row groups of the first file  row groups of the second  ...  description  length  PAR1

The description of a file says where each column of each row group begins. Joined, each file's numbers
grow by how far its row groups are moved. The joined file is byte for byte the one that the writer of
the parts makes of all their rows in the same row groups.

Source: Apache Parquet, parquet.thrift: FileMetaData, RowGroup, ColumnChunk, ColumnMetaData.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import IO, cast

from stages.errors import FormatError
from stages.store.thrift import ListOf, Struct, decode, encode

_MAGIC = b"PAR1"
_ENDING = 8
"""Bytes after the description: its length, and the magic."""
_BLOCK = 1 << 22
"""Bytes that are copied together."""
_ROWS, _GROUPS = 3, 4
"""Fields of a file."""
_COLUMNS, _GROUP_BEGIN, _ORDINAL = 1, 5, 7
"""Fields of a row group."""
_CHUNK_BEGIN, _METADATA = 2, 3
"""Fields of a column in a row group."""
_BEGINS = (9, 10, 11)
"""Fields of its metadata: where its data, index and dictionary pages begin."""


def join_parquet(path: Path, parts: Sequence[Path]) -> None:
    """Write the row groups of some parquet files end to end.

    Args:
        path: the file.
        parts: one or more files of one schema, as one writer leaves them, without page indexes.

    Raises:
        FormatError: a part is no parquet file, or its schema is not that of the first.
    """
    description: Struct | None = None
    rows, groups = 0, list[Struct]()
    with path.open("wb") as target:
        target.write(_MAGIC)
        for part in parts:
            with part.open("rb") as source:
                own, end = _description(source, part)
                description = description or own
                if _rest(own) != _rest(description):
                    raise FormatError(
                        f"{part}: its columns are not those of {parts[0]}; make both again"
                    )
                moved = target.tell() - len(_MAGIC)
                own_groups = _structs(_list(own, _GROUPS))
                groups += [_moved(one, moved, len(groups) + n) for n, one in enumerate(own_groups)]
                rows += _number(own, _ROWS)
                _copy(source, target, len(_MAGIC), end)
        assert description is not None, "there is no part, so nobody says what columns there are"
        every = ListOf(_list(description, _GROUPS).kind, [*groups])
        data = encode(_with(_with(description, _ROWS, rows), _GROUPS, every))
        target.write(data + len(data).to_bytes(4, "little") + _MAGIC)


def _description(source: IO[bytes], part: Path) -> tuple[Struct, int]:
    """Return the description of a file, and where its row groups end."""
    size = source.seek(0, 2)
    source.seek(max(0, size - _ENDING))
    ending = source.read(_ENDING)
    length = int.from_bytes(ending[:4], "little")
    if ending[4:] != _MAGIC or size < length + _ENDING + len(_MAGIC):
        raise FormatError(f"{part}: not a whole parquet file of {size:,} bytes; make it again")
    end = size - _ENDING - length
    source.seek(end)
    return decode(source.read(length)), end


def _copy(source: IO[bytes], target: IO[bytes], begin: int, end: int) -> None:
    source.seek(begin)
    while begin < end:
        begin += target.write(source.read(min(_BLOCK, end - begin)))


def _moved(group: Struct, by: int, ordinal: int) -> Struct:
    """Return a row group that begins so many bytes later, and is the one of a number in its file."""
    columns = _list(group, _COLUMNS)
    moved = ListOf(columns.kind, [_moved_column(one, by) for one in _structs(columns)])
    found = _with(group, _COLUMNS, moved)
    if _has(group, _ORDINAL):
        found = _with(found, _ORDINAL, ordinal)
    return _with(found, _GROUP_BEGIN, _number(group, _GROUP_BEGIN) + by)


def _moved_column(column: Struct, by: int) -> Struct:
    (metadata,) = _structs(ListOf(0, [_field(column, _METADATA)]))
    for number in _BEGINS:
        if _has(metadata, number):
            metadata = _with(metadata, number, _number(metadata, number) + by)
    moved, begin = _with(column, _METADATA, metadata), _number(column, _CHUNK_BEGIN)
    return _with(moved, _CHUNK_BEGIN, begin + by) if begin else moved  # 0 of newer writers


def _rest(description: Struct) -> Struct:
    """Return what files of one schema and one writer have in common."""
    return [one for one in description if one[0] not in (_ROWS, _GROUPS)]


def _has(struct: Struct, number: int) -> bool:
    return any(own == number for own, _, _ in struct)


def _field(struct: Struct, number: int) -> object:
    return next(value for own, _, value in struct if own == number)


def _number(struct: Struct, number: int) -> int:
    found = _field(struct, number)
    assert isinstance(found, int)
    return found


def _list(struct: Struct, number: int) -> ListOf:
    found = _field(struct, number)
    assert isinstance(found, ListOf)
    return found


def _structs(listed: ListOf) -> list[Struct]:
    """Return values that are structs."""
    assert all(type(one) is list for one in listed.values)
    return cast("list[Struct]", listed.values)


def _with(struct: Struct, number: int, value: object) -> Struct:
    """Return a struct with another value of one of its fields."""
    return [(own, kind, value if own == number else old) for own, kind, old in struct]
