"""Fields: the document of a record whose fields have names, or the reason why it gives none."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stages.chat.dialogue import BESIDE, NoDialogueError
from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ID, LANGUAGE, ColumnsSeen
from stages.reading.kept_values import UNWRITABLE, KeptValues, exactly, kept_values, may_be_inexact
from stages.reading.lines import Line
from stages.reading.messages import are_messages, turns_of
from stages.reading.nested import find_column
from stages.reading.records import FieldMapping, RawDocument, Record, language_of, own_id_of


def document_of(
    record: Mapping[str, object], line: Line, fields: FieldMapping, columns: ColumnsSeen | None
) -> Record:
    """Return the document that a record holds, or the reason why it holds none.

    Args:
        record: its fields by name.
        line: where it stands.
        fields: which of them hold what.
        columns: counts those that are there.
    """
    if columns is not None:
        columns.add(record)
    if fields.chat is not None:
        return _dialogue(record, line, fields, columns)
    texts = []
    for name in fields.text_columns:
        _, text = find_column(record, name)
        if not isinstance(text, str):
            return _missing(name, text, line, columns)
        texts.append(text)
    own_id = _own_id(record, line, fields, columns)
    language = _language(record, fields, columns)
    first, *rest = texts
    values = _beside(record, line, fields)
    document = RawDocument(line.number, line.position, first, own_id, language, tuple(rest), values)
    return replace(document, kept=_kept(record, line, fields)) if fields.keep_columns else document


def _kept(record: Mapping[str, object], line: Line, fields: FieldMapping) -> KeptValues:
    """Return what of a record goes along; an integer of any length with all its digits."""
    return kept_values(_values(record, line, fields.keep_columns))


def _values(record: Mapping[str, object], line: Line, names: Sequence[str]) -> list[object]:
    """Return what some fields hold; an integer of any length with all its digits.

    orjson reads integers of more than 64 bits as floats, so a record with such is read once more. Only
    records of JSON have any: the values of CSV are strings.
    """
    values = [find_column(record, name)[1] for name in names]
    inexact = may_be_inexact(values)
    if not any(inexact):
        return values
    exact = exactly(line.content)
    if exact is None:  # hundreds of lists inside of each other
        return [UNWRITABLE if lost else one for one, lost in zip(values, inexact, strict=True)]
    return [find_column(exact, name)[1] for name in names]


def _beside(record: Mapping[str, object], line: Line, fields: FieldMapping) -> tuple[object, ...]:
    """Return what filters and deduplication read of a record; what cannot be written is none."""
    if not fields.beside:
        return ()
    values = _values(record, line, fields.beside)
    return tuple(None if value is UNWRITABLE else value for value in values)


def _missing(
    name: str, found: object, line: Line, columns: ColumnsSeen | None, *, needed: str = ""
) -> Drop:
    """Return the drop of a record whose field holds no text, and count it."""
    kind = "absent" if found is None else f"of type {type(found).__name__}{needed}"
    if columns is not None:
        columns.textless += 1
    detail = f"field {name!r} is {kind}"
    return Drop(line.number, line.position, DropReason.MISSING_TEXT, detail)


def _dialogue(
    record: Mapping[str, object], line: Line, fields: FieldMapping, columns: ColumnsSeen | None
) -> Record:
    """Return the dialogue that a record holds, or the reason why it holds none."""
    found = [(name, find_column(record, name)[1]) for name in fields.text_columns]
    for name, value in found:
        if not are_messages(value):
            return _missing(name, value, line, columns, needed=", not a list of messages")
    try:
        turns = turns_of(found)
    except NoDialogueError as error:
        if columns is not None:
            columns.textless += 1
        detail = f"field {error}"
        return Drop(line.number, line.position, DropReason.BAD_DIALOGUE, detail)
    own_id = _own_id(record, line, fields, columns)
    language = _language(record, fields, columns)
    values = _beside(record, line, fields)
    unread = (BESIDE,) if isinstance(record.get(BESIDE), str) and record[BESIDE] else ()
    document = RawDocument(
        line.number, line.position, "", own_id, language, (), values, turns, unread=unread
    )
    return replace(document, kept=_kept(record, line, fields)) if fields.keep_columns else document


def _own_id(
    record: Mapping[str, object], line: Line, fields: FieldMapping, columns: ColumnsSeen | None
) -> str | None:
    if not fields.id_column:
        return None
    (value,) = _values(record, line, (fields.id_column,))
    own_id = own_id_of(value)
    if own_id is None and columns is not None:
        columns.add_untaken(ID, value)
    return own_id


def _language(record: Mapping[str, object], fields: FieldMapping, columns: ColumnsSeen | None) -> str:
    if isinstance(fields.language, str):
        return fields.language
    _, value = find_column(record, fields.language.column)
    language = language_of(value)
    if language != value and columns is not None:
        columns.add_untaken(LANGUAGE, value)
    return language
