"""Cells: rows of Arrow record batches to raw documents, for Parquet and Arrow files alike.

Texts are taken as bytes and decoded one by one, so that one cell of bad UTF-8 costs one document.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from stages.chat.dialogue import BESIDE, NoDialogueError, chat_hint, chat_setting
from stages.columns import Drop, DropReason
from stages.errors import ConfigError, DataError
from stages.reading.dialogue_cells import DialogueCells, holds_messages
from stages.reading.kept_cells import (
    KEPT_TYPES,
    can_be_kept,
    checked_column,
    kept_column,
    python_times,
)
from stages.reading.kept_values import kept_values
from stages.reading.nested import column_of, field_names, find_fields
from stages.reading.records import (
    FieldMapping,
    LanguageColumn,
    RawDocument,
    Record,
    bad_utf8,
    language_of,
    too_large,
)

Cells = Callable[[int], pa.Buffer | None]
"""A row's number in its batch to the bytes of a column's cell there."""


@contextmanager
def reading_table(name: str) -> Iterator[None]:
    """Say which file a failure to read is about.

    Raises:
        DataError: the file is cut, damaged, or not what its ending says.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:  # the last: a name, or a place in the file
        reason = str(error).strip().splitlines()
        raise DataError(
            f"{name}: cannot be read as its ending says ({reason[0] if reason else 'no reason given'});"
            " it was cut short or damaged, or holds another format: fetch or write it again"
        ) from error


def wanted_columns(fields: FieldMapping) -> list[str]:
    """Return the columns that a source takes, each once."""
    language = fields.language.column if isinstance(fields.language, LanguageColumn) else None
    names = [*fields.text_columns, fields.id_column, language, *fields.beside, *fields.keep_columns]
    return list(dict.fromkeys(name for name in names if name is not None))


def read_columns(schema: pa.Schema, fields: FieldMapping) -> list[str]:
    """Return the columns that are read of a table: those of a source, and what belongs to dialogues."""
    beside = fields.chat is not None and len(find_fields(schema, BESIDE)) == 1
    return [*wanted_columns(fields), *((BESIDE,) if beside else ())]


def check_columns(schema: pa.Schema, fields: FieldMapping, *, name: str, key: str) -> None:
    """Refuse a table that lacks what a source takes.

    Args:
        schema: the file's schema.
        fields: what the source takes.
        name: the file, for the message.
        key: where the source stands in the run file, such as sources.web.

    Raises:
        ConfigError: a column is absent, stands twice, or is of a type that cannot hold it.
    """
    if fields.chat is None:
        _check(schema, fields.text_column, name, f"{key}.text_column", integers=False)
    else:
        for setting, column in fields.chat.columns.items():
            _check_messages(schema, column, name, f"{key}.chat.{setting}")
    for column in fields.section_columns:
        _check(schema, column, name, f"{key}.section_columns", integers=False)
    if fields.id_column is not None:
        _check(schema, fields.id_column, name, f"{key}.id_column", integers=True)
    if isinstance(fields.language, LanguageColumn):
        _check(schema, fields.language.column, name, f"{key}.language.column", integers=False)
    for column in fields.needed:
        _only_field(schema, column, name, f"filters of {key}: column")
    for column in fields.keep_columns:
        setting = f"{key}.keep_columns"
        kind = _only_field(schema, column, name, setting).type
        if not can_be_kept(kind):
            raise ConfigError(
                f"{setting} = {column!r}: {name} holds {kind} there; it must hold {KEPT_TYPES}"
            )


def read_rows(
    batch: pa.RecordBatch, fields: FieldMapping, *, first: int, max_bytes: int
) -> Iterator[Record]:
    """Yield each row of a batch as a document or as the reason why it is none.

    Args:
        batch: the columns of `read_columns`.
        fields: which column holds what.
        first: number of the batch's first row in the file, from 0.
        max_bytes: longest text taken.
    """
    columns = [_cells(batch, column) for column in _columns(fields)]
    beside = [_beside(batch, column) for column in fields.beside]
    kept = [kept_column(column_of(batch, column)) for column in fields.keep_columns]
    dialogues = None if fields.chat is None else DialogueCells(batch, fields.text_columns)
    holds_system = _holds_text(batch, BESIDE) if dialogues is not None else (lambda _: False)
    for row in range(batch.num_rows):
        cells = [cells(row) for cells in columns]
        if dialogues is None:
            record = _record(cells, fields, first + row, max_bytes)
        elif (size := dialogues.size(row)) > max_bytes:
            record = too_large(first + row + 1, first + row, size)
        else:
            record = _dialogue(dialogues, row, cells, fields, first + row)
            if isinstance(record, RawDocument) and holds_system(row):
                record = replace(record, unread=(BESIDE,))
        yield _with_values(record, beside, kept, row) if beside or kept else record


def _holds_text(batch: pa.RecordBatch, column: str) -> Callable[[int], bool]:
    """Return what says whether a row has a text in a column that a table may lack."""
    found = find_fields(batch.schema, column)
    types = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if len(found) != 1 or not any(test(found[0].type) for test in types):
        return lambda _: False
    sizes = pc.binary_length(_binary(column_of(batch, column)).cast(pa.large_binary())).to_pylist()
    return lambda row: bool(sizes[row])


def _beside(batch: pa.RecordBatch, column: str) -> pa.Array:
    """Return a column that filters or deduplication read; one that a table lacks has no values."""
    if len(find_fields(batch.schema, column)) != 1:
        return pa.nulls(batch.num_rows)
    return python_times(checked_column(column_of(batch, column)))


def _check(schema: pa.Schema, column: str, name: str, key: str, *, integers: bool) -> None:
    kind = _only_field(schema, column, name, key).type
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    strings = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    if any(test(value) for test in (*strings, pa.types.is_null)) or (
        integers and pa.types.is_integer(value)
    ):
        return
    needed = "strings or integers" if integers else "strings"
    way = f"; to read lists of messages, set {chat_setting(column)}" if holds_messages(kind) else ""
    raise ConfigError(f"{key} = {column!r}: {name} holds {kind} there; it must hold {needed}{way}")


def _check_messages(schema: pa.Schema, column: str, name: str, key: str) -> None:
    kind = _only_field(schema, column, name, key).type
    if not holds_messages(kind):
        raise ConfigError(
            f"{key} = {column!r}: {name} holds {kind} there; it must hold lists of messages with role"
            " and content, or from and value, or such lists as strings of JSON"
        )


def _only_field(schema: pa.Schema, column: str, name: str, key: str) -> pa.Field:
    """Return the field of a column, and refuse a table that lacks it."""
    found = find_fields(schema, column)
    if len(found) != 1:
        names = list(dict.fromkeys(field_names(schema)))
        there = ", ".join(names) or "none"
        problem = "such a column twice" if found else "no such column"
        way = chat_hint(names) if key.endswith(".text_column") else ""
        raise ConfigError(f"{key} = {column!r}: {name} has {problem}; columns there: {there}{way}")
    return found[0]


def _with_values(
    record: Record, beside: Sequence[pa.Array], kept: Sequence[pa.Array], row: int
) -> Record:
    """Return a document with what its row has in the columns that filters read, and that go along."""
    if isinstance(record, Drop):
        return record
    try:
        values = tuple(column[row].as_py() for column in beside)
        own = kept_values([column[row].as_py() for column in kept])
    except UnicodeDecodeError as error:
        return bad_utf8(record.line, record.position, error)
    return replace(record, values=values, kept=own)


def _columns(fields: FieldMapping) -> tuple[str | None, ...]:
    """Return the columns of the id and the language, if there are any, then those of the text."""
    language = fields.language.column if isinstance(fields.language, LanguageColumn) else None
    return fields.id_column, language, *(fields.text_columns if fields.chat is None else ())


def _cells(batch: pa.RecordBatch, name: str | None) -> Cells:
    """Return access to a column's cells, as the bytes of strings."""
    if name is None:
        return lambda _: None
    column = column_of(batch, name)
    if pa.types.is_dictionary(column.type):
        values = _binary(column.dictionary)
        # Checks that every index is in range, which a damaged file need not keep to.
        indices = pa.DictionaryArray.from_arrays(column.indices, values).indices.to_pylist()
        return lambda row: None if indices[row] is None else values[indices[row]].as_buffer()
    plain = _binary(column)
    return lambda row: plain[row].as_buffer()


def _binary(column: pa.Array) -> pa.Array:
    """Return strings as binary, checked to lie within their buffers before any is looked at."""
    column.validate()
    if pa.types.is_null(column.type):  # what writers give a column without a value
        return column.cast(pa.binary())
    if pa.types.is_integer(column.type):
        return column.cast(pa.string()).cast(pa.binary())
    same = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}
    binary = column.cast(same.get(column.type, pa.binary_view()))
    binary.validate(full=True)
    return binary


def _record(cells: Sequence[pa.Buffer | None], fields: FieldMapping, row: int, max_bytes: int) -> Record:
    line, texts = row + 1, []
    for name, cell in zip(fields.text_columns, cells[2:], strict=True):
        if cell is None:
            return Drop(line, row, DropReason.MISSING_TEXT, f"column {name!r} is null")
        texts.append(cell)
    size = sum(cell.size for cell in texts)
    if size > max_bytes:
        return too_large(line, row, size)
    try:
        first, *rest = (str(cell, "utf-8") for cell in texts)
        own_id, named = _names(cells, fields)
    except UnicodeDecodeError as error:
        return bad_utf8(line, row, error)
    return RawDocument(line, row, first, own_id, named, tuple(rest))


def _names(cells: Sequence[pa.Buffer | None], fields: FieldMapping) -> tuple[str | None, str]:
    """Return own id and language, which the first two cells hold."""
    own_id, language = (None if cell is None else str(cell, "utf-8") for cell in cells[:2])
    return own_id, fields.language if isinstance(fields.language, str) else language_of(language)


def _dialogue(
    dialogues: DialogueCells,
    number: int,
    cells: Sequence[pa.Buffer | None],
    fields: FieldMapping,
    row: int,
) -> Record:
    """Return the dialogue of a row, given its number in the batch, and in the file."""
    line, null = row + 1, dialogues.null(number)
    if null is not None:
        return Drop(line, row, DropReason.MISSING_TEXT, f"column {null!r} is null")
    try:
        turns = dialogues.turns(number)
        own_id, named = _names(cells, fields)
    except UnicodeDecodeError as error:
        return bad_utf8(line, row, error)
    except NoDialogueError as error:
        return Drop(line, row, DropReason.BAD_DIALOGUE, f"column {error}")
    return RawDocument(line, row, "", own_id, named, turns=turns)
