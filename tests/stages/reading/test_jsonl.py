"""What parsing a record promises.

A line gives its document or a drop with the reason; whatever bytes it holds, nothing is raised.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.columns import Drop, DropReason
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.jsonl import parse_line
from stages.reading.lines import Line, split_lines
from stages.reading.records import UNDETERMINED, FieldMapping, LanguageColumn, RawDocument
from stages.reading.text import parse_text
from tests.campaign import examples

PLAIN = FieldMapping()
FULL = FieldMapping(text_column="body", id_column="key", language=LanguageColumn(column="lang"))


def parse(data: bytes, fields: FieldMapping = PLAIN) -> RawDocument | Drop:
    """Parse one line that stands at byte 9 as line 4."""
    return parse_line(Line(4, 9, data, len(data)), fields)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"text": "a"}', "a"),
        (b'  {"text": "a"} \r', "a"),
        (b'{"text": ""}', ""),
        (b'{"other": [1, {"text": "b"}], "text": "a"}', "a"),
        (b'{"text": "a", "text": "b"}', "b"),
        (b'{"text": "\\u00e9\\ud83d\\ude00\\n\\u0000"}', "é😀\n\0"),
        ('{"text": "é😀"}'.encode(), "é😀"),
        (b'{"text": "a", "n": 123456789012345678901234567890}', "a"),
    ],
)
def test_a_record_gives_its_document(data: bytes, text: str) -> None:
    assert parse(data) == RawDocument(4, 9, text, None, UNDETERMINED)


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (b"", DropReason.BAD_JSON, ""),
        (b"{", DropReason.BAD_JSON, ""),
        (b'{"text": "a"', DropReason.BAD_JSON, ""),
        (b'{"text": "a"} {"text": "b"}', DropReason.BAD_JSON, ""),
        (b"{'text': 'a'}", DropReason.BAD_JSON, ""),
        (b'{"text": NaN}', DropReason.BAD_JSON, ""),
        (b'{"text": "a", "n": Infinity}', DropReason.BAD_JSON, ""),
        (b'{"text": "\\ud800"}', DropReason.BAD_JSON, "surrogate"),
        (b'{"text": "\\udc00a"}', DropReason.BAD_JSON, ""),
        (b'{"text": "\xed\xa0\x80"}', DropReason.BAD_UTF8, "byte 10 of the record"),
        (b'{"text": "\xff"}', DropReason.BAD_UTF8, "byte 10 of the record"),
        (b'{"text": "\xc3"}', DropReason.BAD_UTF8, "byte 10 of the record"),
        (b'{"text": "a\x01"}', DropReason.BAD_JSON, ""),
        (b'\xef\xbb\xbf{"text": "a"}', DropReason.BAD_JSON, ""),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, DropReason.BAD_JSON, ""),
        (b"[" * 100_000, DropReason.BAD_JSON, ""),
        (b"null", DropReason.BAD_JSON, "NoneType"),
        (b'"text"', DropReason.BAD_JSON, "of type str, not an object"),
        (b'[{"text": "a"}]', DropReason.BAD_JSON, "of type list, not an object"),
        (b"{}", DropReason.MISSING_TEXT, "field 'text' is absent"),
        (b'{"Text": "a"}', DropReason.MISSING_TEXT, "field 'text' is absent"),
        (b'{"text": null}', DropReason.MISSING_TEXT, "field 'text'"),
        (b'{"text": 7}', DropReason.MISSING_TEXT, "field 'text' is of type int"),
        (b'{"text": ["a"]}', DropReason.MISSING_TEXT, "field 'text' is of type list"),
    ],
)
def test_a_bad_record_gives_its_drop(data: bytes, reason: DropReason, detail: str) -> None:
    drop = parse(data)
    assert isinstance(drop, Drop)
    assert (drop.line, drop.position, drop.reason) == (4, 9, reason)
    assert detail in drop.detail
    assert drop.detail


def test_a_line_that_was_too_long_to_hold_is_dropped_with_its_size() -> None:
    drop = parse_line(Line(4, 9, b"", 1_234_567), PLAIN)
    assert drop == Drop(4, 9, DropReason.TOO_LARGE, "1,234,567 bytes, over ingest.max_document_bytes")


@pytest.mark.parametrize(
    ("record", "own_id", "language"),
    [
        ({"key": "k1", "lang": "no"}, "k1", "no"),
        ({"key": 7, "lang": "th"}, "7", "th"),
        ({"key": -(2**63), "lang": "th"}, str(-(2**63)), "th"),
        ({"key": 10**30 + 7, "lang": "th"}, str(10**30 + 7), "th"),
        ({"key": "", "lang": ""}, "", UNDETERMINED),
        ({"key": None, "lang": None}, None, UNDETERMINED),
        ({"key": ["k"], "lang": 7}, None, UNDETERMINED),
        ({"key": 1.5}, None, UNDETERMINED),
        ({"key": True, "lang": True}, None, UNDETERMINED),
        ({}, None, UNDETERMINED),
    ],
)
def test_the_users_id_and_language_are_kept(
    record: dict[str, object], own_id: str | None, language: str
) -> None:
    data = json.dumps({"body": "a", **record}).encode()
    assert parse(data, FULL) == RawDocument(4, 9, "a", own_id, language)


def test_one_language_may_stand_for_a_whole_source() -> None:
    found = parse(b'{"text": "a", "language": "de"}', FieldMapping(language="no"))
    assert found == RawDocument(4, 9, "a", None, "no")


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(st.binary(max_size=60) | st.binary(max_size=30).map(lambda b: b'{"text": "' + b + b'"}'))
def test_no_bytes_raise(data: bytes) -> None:
    found = parse(data)
    assert found.position == 9
    if isinstance(found, RawDocument):
        assert found.text.encode().decode() == found.text


@settings(deadline=None, derandomize=True, max_examples=examples(50))
@given(st.text(max_size=60))
def test_every_text_comes_back(text: str) -> None:
    for ascii_only in (False, True):
        data = json.dumps({"text": text}, ensure_ascii=ascii_only).encode()
        assert parse(data) == RawDocument(4, 9, text, None, UNDETERMINED)


@pytest.mark.parametrize("wrong", [{"text_column": ""}, {"language": {"column": ""}}, {"text": "a"}])
def test_a_mapping_that_names_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        FieldMapping.model_validate(wrong)


SECTIONS = FieldMapping(section_columns=("target", "other"))


def test_sections_continue_the_text() -> None:
    found = parse(b'{"other": "c", "target": "b", "text": "a"}', SECTIONS)
    assert found == RawDocument(4, 9, "a", None, UNDETERMINED, ("b", "c"))


@pytest.mark.parametrize("data", [b'{"text": "a", "other": "c"}', b'{"text": "a", "target": 7}'])
def test_a_record_without_a_section_is_dropped_by_its_name(data: bytes) -> None:
    found = parse(data, SECTIONS)
    assert isinstance(found, Drop)
    assert found.reason is DropReason.MISSING_TEXT
    assert "'target'" in found.detail


def test_no_field_is_two_sections() -> None:
    with pytest.raises(ValidationError, match="'text' is a section of the text already"):
        FieldMapping(section_columns=("text",))


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    lines = list(split_lines([b'\xef\xbb\xbf{"text": "a"}\n\xef\xbb\xbf{"text": "b"}\n'], max_bytes=99))
    first, second = (parse_line(line, PLAIN) for line in lines)
    assert first == RawDocument(1, 0, "a", None, "und")
    assert isinstance(second, Drop), "in the midst of a file it is a character like others"
    (alone, after) = split_lines([b'\xef\xbb\xbf\n{"text": "b"}\n'], max_bytes=99)
    assert alone.blank
    assert parse_line(after, PLAIN) == RawDocument(2, 4, "b", None, "und")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_file_of_utf_16_is_named_as_one(encoding: str) -> None:
    data = '\ufeff{"text": "a"}\n'.encode(encoding)
    first, *_ = split_lines([data], max_bytes=99)
    drop = parse_line(first, PLAIN)
    assert isinstance(drop, Drop)
    assert (drop.reason, drop.line) == (DropReason.BAD_UTF8, 1)
    assert drop.detail == (
        "the file looks like UTF-16; set encoding = 'utf-16' of its source, or convert it to UTF-8"
    )
    text = parse_text(first, PLAIN)
    assert isinstance(text, Drop)
    assert text.detail == drop.detail


def test_the_columns_of_objects_are_counted_and_null_is_a_column() -> None:
    fields = FieldMapping(id_column="id", language=LanguageColumn(column="lang"))
    seen = ColumnsSeen(fields)
    for data in (b'{"text": "a", "id": null}', b'{"x": 1, "lang": "en"}', b"7", b"{"):
        parse_line(Line(1, 0, data, len(data)), fields, seen)
    assert seen.records == 2
    assert seen.absent == {"text": 1, "id": 1, "lang": 1}
    assert seen.there == ["text", "id", "x", "lang"]


def test_of_columns_that_exist_a_few_are_named() -> None:
    seen = ColumnsSeen(PLAIN)
    for number in range(1_000):
        seen.add({f"{number:0100d}{n}": 1 for n in range(100)})
    assert seen.absent == {"text": 1_000}
    assert len(seen.there) <= 20
    assert max(map(len, seen.there)) == 60


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'{"data": {"text": "a"}}', "a"),
        (b'{"data.text": "b", "data": {"text": "a"}}', "b"),
        (b'{"data": {"text": null}}', None),
        (b'{"data": null}', None),
        (b'{"data": [{"text": "a"}]}', None),
        (b'{"data": "text"}', None),
        (b'{"text": "a"}', None),
    ],
)
def test_a_field_may_be_inside_of_others(data: bytes, text: str | None) -> None:
    found = parse(data, FieldMapping(text_column="data.text"))
    if text is None:
        assert found == Drop(4, 9, DropReason.MISSING_TEXT, "field 'data.text' is absent")
    else:
        assert found == RawDocument(4, 9, text, None, UNDETERMINED)


def test_ids_and_languages_may_be_inside_of_others_and_are_counted_there() -> None:
    fields = FieldMapping(id_column="m.id", language=LanguageColumn(column="m.x.lang"))
    seen = ColumnsSeen(fields)
    data = b'{"text": "a", "m": {"id": 7, "x": {"lang": "no"}}}'
    assert parse_line(Line(4, 9, data, len(data)), fields, seen) == RawDocument(4, 9, "a", "7", "no")
    data = b'{"text": "a", "m": {"id": {}, "x": {}}}'
    parse_line(Line(4, 9, data, len(data)), fields, seen)
    assert seen.absent == {"text": 0, "m.id": 0, "m.x.lang": 1}
    assert seen.there == ["text", "m.id", "m.x"]
    assert seen.untaken["id_column"] == {"an object": 1}


def test_where_a_record_is_broken_is_said_of_the_record_and_not_of_a_line() -> None:
    drop = parse_line(Line(7, 90, b'{"text": }', 10), FieldMapping())
    assert isinstance(drop, Drop)
    assert drop.detail.endswith(", at character 9 of the record")
