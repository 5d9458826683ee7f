"""Delimited files: a record is what the dialect says, whatever quotes it has and wherever it is cut.

With `quoting = "none"` the oracles are Python's csv module with QUOTE_NONE and pyarrow.csv without a
quote character; with `quoting = "csv"` the csv module, strictly.
"""

import csv
import gzip
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.run_file.load import load_run_file
from pipeline.tools.init.init import init
from stages.columns import Drop
from stages.errors import DataError
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.delimited import CSV, TSV
from stages.reading.delimiters import Quoting
from stages.reading.notices import LONG_FIELD, LOOKS_QUOTED
from stages.reading.reader import StreamReader
from stages.reading.records import FieldMapping, RawDocument, Record
from tests.campaign import FULL, examples
from tests.conftest import run_small

DELIMITERS = {"\t": TSV, ",": CSV, ";": CSV, "|": TSV}
ENDS = (b"\n", b"\r\n")
FIELDS = (
    "plain",
    '"begins',
    'ends"',
    '"both"',
    'a "b" c',
    '"a ""b"" c"',
    '"""',
    '""',
    '"',
    ' "x"',
    'it""s',
    "é 中",
)
"""With every place that a quote may have."""


def mapping(delimiter: str, quoting: Quoting) -> FieldMapping:
    """Return the fields of a source that declares its dialect."""
    return FieldMapping(id_column="id", delimiter=delimiter, quoting=quoting)


def read(
    data: bytes, reader: StreamReader, fields: FieldMapping, *, cut: int
) -> tuple[list[Record], ColumnsSeen]:
    """Return what a file gives that comes in pieces of some bytes."""
    stream, columns = reader.open(fields, 1 << 20), ColumnsSeen(fields)
    chunks = [data[start : start + cut] for start in range(0, len(data), cut)]
    return [stream.parse(piece, columns) for piece in stream.lines(chunks)], columns


def written(rows: list[tuple[str, str]], delimiter: str, end: bytes, *, ended: bool) -> bytes:
    """Return a file whose fields stand in it as they are."""
    lines = [delimiter.join(("id", "text")), *(delimiter.join(row) for row in rows)]
    return end.join(line.encode() for line in lines) + (end if ended else b"")


@given(
    rows=st.lists(st.tuples(st.sampled_from(FIELDS), st.sampled_from(FIELDS)), min_size=1, max_size=12),
    delimiter=st.sampled_from(sorted(DELIMITERS)),
    end=st.sampled_from(ENDS),
    ended=st.booleans(),
    cut=st.integers(1, 64),
)
@settings(deadline=None, derandomize=True, max_examples=examples(4_000))
def test_without_quotes_each_line_is_the_record_that_other_parsers_read(
    rows: list[tuple[str, str]],
    delimiter: str,
    end: bytes,
    *,
    ended: bool,
    cut: int,
) -> None:
    data = written(rows, delimiter, end, ended=ended)
    fields = mapping(delimiter, Quoting.NONE)
    found, columns = read(data, DELIMITERS[delimiter], fields, cut=cut)
    module = list(
        csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter, quoting=csv.QUOTE_NONE)
    )
    table = pa.csv.read_csv(
        io.BytesIO(data),
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, quote_char=False),
        convert_options=pa.csv.ConvertOptions(
            column_types={"id": pa.string(), "text": pa.string()}, strings_can_be_null=False
        ),
    )
    assert [list(row) for row in rows] == module[1:]
    assert table.column("text").to_pylist() == [text for _, text in rows]
    assert [(one.own_id, one.text) for one in found if isinstance(one, RawDocument)] == rows
    places = [at for at, line in enumerate(data.split(b"\n")[: len(rows) + 1]) if at]
    assert [one.line for one in found] == [place + 1 for place in places]
    for one in found:
        assert data[one.position :].startswith(rows[one.line - 2][0].encode())
    looks = sum(field == '"a ""b"" c"' for row in rows for field in row)
    assert columns.noticed[LOOKS_QUOTED.name] == looks
    assert columns.further_lines == 0


QUOTED = ('"a\nb"', '"a ""b"" c"', '"x, ;\t|y"', "plain", '"open', 'clo"sed', '"a"b', '""', "", "é")


@given(
    rows=st.lists(st.tuples(st.sampled_from(QUOTED), st.sampled_from(QUOTED)), min_size=1, max_size=12),
    delimiter=st.sampled_from(sorted(DELIMITERS)),
    end=st.sampled_from(ENDS),
    cut=st.integers(1, 64),
)
@settings(deadline=None, derandomize=True, max_examples=examples(4_000))
def test_with_quotes_the_records_are_those_of_the_csv_module_and_every_line_is_counted(
    rows: list[tuple[str, str]], delimiter: str, end: bytes, cut: int
) -> None:
    data = written(rows, delimiter, end, ended=True)
    fields = mapping(delimiter, Quoting.CSV)
    found, columns = read(data, DELIMITERS[delimiter], fields, cut=cut)
    source = io.StringIO(data.decode(), newline="")
    wanted: list[list[str] | None] = []
    reader = csv.reader(source, delimiter=delimiter, strict=True)
    whole: list[list[str] | None] = []
    try:
        whole.extend(row if len(row) == 2 else None for row in reader)
        wanted = whole[1:]
    except csv.Error:  # the module gives up at the first fault; the rest is read record by record
        wanted = [one_record(data, one, following, delimiter) for one, following in spans(found, data)]
        assert wanted[: len(whole) - 1] == whole[1:]
    texts = [[one.own_id or "", one.text] if isinstance(one, RawDocument) else None for one in found]
    assert texts == wanted
    for one in found:
        if isinstance(one, Drop) and one.lines > 1:
            assert one.detail.endswith(f"it takes {one.lines:,} lines")
    lines = data.count(b"\n") - 1
    assert len(found) + columns.further_lines == lines
    long = sum("\n" in field for row in wanted if row for field in row)
    assert columns.noticed[LONG_FIELD.name] >= long


def spans(found: list[Record], data: bytes) -> list[tuple[int, int]]:
    """Return where each record begins and the next one does."""
    places = [one.position for one in found]
    return list(zip(places, [*places[1:], len(data)], strict=True))


def one_record(data: bytes, begin: int, end: int, delimiter: str) -> list[str] | None:
    """Return the fields of a record that the csv module reads alone; None if it refuses it."""
    text = data[begin:end].decode().removesuffix("\n").removesuffix("\r")
    try:
        (row,) = csv.reader([text], delimiter=delimiter, strict=True)
    except csv.Error:
        return None
    return row if len(row) == 2 else None


UNITS = ("1KiB", "1MiB", "2KiB")
TEXTS = [
    f'"{number} lines begin so' if number % 7 == 0 else f"a line, number {number}"
    for number in range(60)
]


@pytest.mark.parametrize("packed", [False, True])
def test_counts_and_documents_depend_on_no_unit(tmp_path: Path, *, packed: bool) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [f'{n}\t"a ""b"" {n}"' if n % 5 == 0 else f"{n}\t{text}" for n, text in enumerate(TEXTS)]
    data = "\n".join(["id\ttext", *rows, ""]).encode()
    name = "a.tsv.gz" if packed else "a.tsv"
    (folder / name).write_bytes(gzip.compress(data, mtime=0) if packed else data)
    seen = []
    for unit in UNITS[: 3 if FULL else 2]:
        source = {"name": "t", "paths": [f"{folder}/*"], "id_column": "id"}
        output = tmp_path / unit
        report = run_small(
            tmp_path,
            output,
            until="ingest",
            sources=[source],
            ingest={"unit_size": unit, "min_chars": 1},
        )
        documents = [
            row
            for path in sorted(output.glob("ingest/*/*/documents.parquet"))
            for row in pq.read_table(path, columns=["id", "own_id", "text"]).to_pylist()
        ]
        seen.append((documents, report["documents"]["noticed"], report["documents"]["dropped"]))
    assert len(seen[0][0]) == len(TEXTS)
    assert seen[0][1] == {"t": {LOOKS_QUOTED.said: 12}}
    assert all(one == seen[0] for one in seen)


def test_a_quote_that_is_left_open_counts_as_the_lines_that_it_takes(tmp_path: Path) -> None:
    lines = ["id,text", *(f'{n},"open {n}' if n == 20 else f"{n},line {n}" for n in range(400))]
    (tmp_path / "a.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    source = {"name": "t", "paths": [f"{tmp_path}/*.csv"], "id_column": "id"}
    with pytest.raises(DataError, match=r"380 of 400 lines are unreadable \(.*it takes 380 lines\)"):
        run_small(tmp_path, tmp_path / "out", until="ingest", sources=[source])


CASES = {
    "tsv as awk writes it": ("a.tsv", 'id\ttext\n1\t"begins\n2\tends"\n', None),
    "tsv as pandas writes it": ("a.tsv", 'id\ttext\n1\t"a ""b"" c"\n2\tplain\n', Quoting.CSV),
    "tsv with quoted names": ("a.tsv", '"id"\t"text"\n"1"\t"a line"\n', Quoting.CSV),
    "tsv with fields over lines": ("a.tsv", 'id\ttext\n1\t"a\nb"\n2\tplain\n', Quoting.CSV),
    "csv": ("a.csv", 'id,text\n1,"a, ""b"""\n2,plain\n', None),
    "csv without quotes": ("a.csv", 'id,text\n1,"begins\n2,it ends\n', Quoting.NONE),
}


@pytest.mark.parametrize("case", CASES)
def test_init_writes_what_a_quote_means_where_the_ending_does_not_say_it(
    case: str, tmp_path: Path
) -> None:
    name, text, wanted = CASES[case]
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / name).write_text(text, encoding="utf-8")
    place = tmp_path / "run.toml"
    init(folder, place)
    (source,) = load_run_file(place).sources
    assert source.quoting is wanted
    line = [line for line in place.read_text().splitlines() if line.startswith("quoting")]
    assert [len(one.split("#", 1)[1]) > 10 for one in line] == [True] * (wanted is not None)
