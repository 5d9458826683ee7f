"""Columns and numbers: no document is lost for a number or for the type of a column.

JSON has no bound on the digits of a number (RFC 8259, section 6): Python's `json` is the oracle, with
its integers as the digits that stand there. A column of Arrow's type null is what writers give a column
without a value: it gives what a column of strings that are all null gives (`pyarrow.unify_schemas`).
"""

import io
import json
import math
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.columns import Drop
from stages.reading.arrow import ARROW
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.jsonl import JSON, JSON_LINES
from stages.reading.kept_values import MOST_BYTES, loaded
from stages.reading.parquet import PARQUET
from stages.reading.reader import StreamReader, TableReader
from stages.reading.records import FieldMapping, FieldsForFilters, LanguageColumn, RawDocument, Record
from tests.campaign import examples
from tests.conftest import run_small

DIGITS = st.sampled_from([1, 18, 19, 20, 21, 40, 308, 309, 310, 400, 4_000, 4_097, 4_301, 9_000])
INTEGERS = st.builds(
    lambda count, digit, sign: sign + str(digit) * count,
    DIGITS,
    st.integers(1, 9),
    st.sampled_from(["", "-"]),
)
FLOATS = st.sampled_from(
    ["1e308", "-1e308", "1.8e308", "1e309", "-1e999", "1e-999", "0.1e4000", "1.5", "9" * 400 + ".25e3"]
)
NUMBERS = st.one_of(INTEGERS, FLOATS)
STRINGS = ["1e999", 'a "1e999"', "\\\\", "9" * 400, "\\u0031e999"]
FIELDS = FieldsForFilters(id_column="id", keep_columns=("n", "meta.n"), asked=("n",))


@pytest.mark.parametrize("reader", [JSON_LINES, JSON], ids=lambda reader: reader.name)
@settings(deadline=None, derandomize=True, max_examples=examples(3_000))
@given(own=INTEGERS, number=NUMBERS, inner=NUMBERS, unused=NUMBERS, text=st.sampled_from(STRINGS))
def test_a_number_of_any_size_costs_no_document_and_keeps_its_digits(
    reader: StreamReader, own: str, number: str, inner: str, unused: str, text: str
) -> None:
    escaped = text if text == "\\u0031e999" else json.dumps(text)[1:-1]
    line = (
        f'{{"id": {own}, "text": "{escaped}", "n": {number}, "meta": {{"n": {inner}}}, "x": [{unused}]}}'
    )
    stream, columns = reader.open(FIELDS, 1 << 20), ColumnsSeen(FIELDS)
    (piece,) = stream.lines([line.encode() + b"\n"])
    found = stream.parse(piece, columns)
    assert isinstance(found, RawDocument), found
    oracle: Any = json.loads(line, parse_int=str)
    assert found.text == oracle["text"]
    assert found.own_id == (own if len(own) <= 4_300 else None)
    (value,) = found.values
    if number.lstrip("-").isdecimal():
        assert value == (int(number) if len(number) <= 4_300 else None)
    else:
        assert value == (None if math.isinf(float(number)) else float(number))
    for kept, wanted in zip(found.kept.texts, (number, inner), strict=True):
        if wanted.lstrip("-").isdecimal():
            assert kept == (wanted if len(wanted) <= MOST_BYTES else None)
        else:
            infinite = math.isinf(float(wanted))
            assert (kept is None) == infinite, "no double holds it, so it has no text"
            assert kept is None or float(kept) == float(wanted)


def test_a_number_in_a_string_is_a_string_and_what_is_no_json_stays_none() -> None:
    many = '{"n": 1e999, "a\\"1e999": "1e999, \\" 1e999", "b": [-1e999, {"c": 1e999}]}'
    assert loaded(many.encode()) == {
        "n": 1e300,
        'a"1e999': '1e999, " 1e999',
        "b": [-1e300, {"c": 1e300}],
    }
    for wrong in ('{"n": 1e999,}', '{"n": 1e999, "s": "\\ud800"}', '{"n": 1e999, "m": NaN}', "01e999"):
        with pytest.raises(orjson.JSONDecodeError):
            loaded(wrong.encode())


def test_keys_that_differ_in_one_digit_of_many_are_different_keys(tmp_path: Path) -> None:
    lines = [
        json.dumps({"text": f"a line, number {n}, of its own", "key": 2**70 + n % 20}) for n in range(25)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines), encoding="utf-8")
    report = run_small(
        tmp_path,
        tmp_path / "out",
        until="dedup",
        sources=[{"name": "s", "paths": ["*.jsonl"]}],
        ingest={"min_chars": 1},
        dedup={"keys": ["key"], "near": False},
    )
    assert (report["documents"]["read"], report["documents"]["kept"]) == (25, 20)


MESSAGES = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
TEXT = pa.array(["one text", None, "another"])
NULLS = pa.nulls(3)
STRUCT = pa.StructArray.from_arrays([pa.nulls(3), TEXT], ["id", "lang"])


def strings(kind: pa.DataType | None = None) -> pa.Array:
    """Return a column of nulls of another type than null; of strings by default."""
    return pa.nulls(3, kind or pa.string())


CHAT: dict[str, Any] = {"column": "m", "template": "chatml"}
CASES: dict[str, tuple[dict[str, Any], dict[str, pa.Array], dict[str, pa.Array]]] = {
    "text": ({}, {"text": NULLS}, {"text": strings()}),
    "section": ({"section_columns": ("b",)}, {"text": TEXT, "b": NULLS}, {"text": TEXT, "b": strings()}),
    "id": ({"id_column": "id"}, {"text": TEXT, "id": NULLS}, {"text": TEXT, "id": strings(pa.int64())}),
    "language": (
        {"language": LanguageColumn(column="l")},
        {"text": TEXT, "l": NULLS},
        {"text": TEXT, "l": strings()},
    ),
    "kept": ({"keep_columns": ("k",)}, {"text": TEXT, "k": NULLS}, {"text": TEXT, "k": strings()}),
    "asked": ({"asked": ("k",)}, {"text": TEXT, "k": NULLS}, {"text": TEXT, "k": strings(pa.float64())}),
    "compared": ({"compared": ("k",)}, {"text": TEXT, "k": NULLS}, {"text": TEXT, "k": strings()}),
    "chat": ({"chat": CHAT}, {"m": NULLS}, {"m": strings(MESSAGES)}),
    "lists of nothing": (
        {"chat": CHAT},
        {"m": pa.array([[], None, []], pa.list_(pa.null()))},
        {"m": pa.array([[], None, []], MESSAGES)},
    ),
    "inside of a struct": (
        {"id_column": "meta.id"},
        {"text": TEXT, "meta": STRUCT},
        {"text": TEXT, "meta": pa.StructArray.from_arrays([strings(), TEXT], ["id", "lang"])},
    ),
    "a struct of nulls": (
        {"id_column": "meta.id", "keep_columns": ("meta.a.b",), "asked": ("meta.c",)},
        {"text": TEXT, "meta": NULLS},
        {
            "text": TEXT,
            "meta": strings(
                pa.struct(
                    [("id", pa.string()), ("a", pa.struct([("b", pa.string())])), ("c", pa.string())]
                )
            ),
        },
    ),
    "text inside": (
        {"text_column": "meta.text"},
        {"meta": NULLS},
        {"meta": strings(pa.struct([("text", pa.string())]))},
    ),
}


def rows_of(table: pa.Table, reader: TableReader, fields: FieldMapping, *, form: str) -> list[Record]:
    """Write a table, and return what a reader makes of it."""
    file = io.BytesIO()
    if form == "parquet":
        pq.write_table(table, file)
    else:
        new = pa.ipc.new_file if form == "file" else pa.ipc.new_stream
        with new(file, table.schema) as writer:
            writer.write_table(table)
    file.seek(0)
    reader.check(file, fields, name="a.table", key="sources.s")
    slices, rows = reader.slices(file, fields, unit=1 << 20, name="a.table", key="sources.s")
    assert rows == table.num_rows
    records = (reader.records(file, one, fields, max_bytes=1 << 20, name="a.table") for one in slices)
    return [record for some in records for record in some]


@pytest.mark.parametrize("form", ["parquet", "file", "stream"])
@pytest.mark.parametrize("case", CASES)
def test_a_column_of_type_null_gives_what_a_column_of_nulls_gives(case: str, form: str) -> None:
    settings_, with_null, with_type = CASES[case]
    fields = FieldsForFilters.model_validate(settings_)
    reader = PARQUET if form == "parquet" else ARROW
    found, wanted = (
        rows_of(pa.table(columns), reader, fields, form=form) for columns in (with_null, with_type)
    )
    assert found == wanted
    assert len(found) == 3
    assert any(isinstance(one, Drop) for one in found)


def test_a_dictionary_of_nulls_is_a_column_of_nulls() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([None, None, None], pa.int8()), pa.nulls(0))
    fields = FieldMapping(id_column="id")
    found = rows_of(pa.table({"text": TEXT, "id": column}), ARROW, fields, form="file")
    assert [one.own_id for one in found if isinstance(one, RawDocument)] == [None, None]
