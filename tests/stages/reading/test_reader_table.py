"""What the table of readers promises: the name of a file says what reads it, and one thing does."""

import pytest

from stages.reading.arrow import ARROW
from stages.reading.delimited import CSV, TSV
from stages.reading.html import HTML
from stages.reading.jsonl import JSON, JSON_LINES
from stages.reading.parquet import PARQUET
from stages.reading.reader import Reader, StreamReader, TextSplit
from stages.reading.source_code import ALL_CODE_ENDINGS
from stages.reading.table import ENDINGS, READERS, endings_of, endings_said, reader_of
from stages.reading.text import PARAGRAPHS, WHOLE_TEXT
from stages.reading.warc import WARC


@pytest.mark.parametrize(
    ("name", "reader"),
    [
        ("a.jsonl", JSON_LINES),
        ("deep/a.b.jsonl.gz", JSON_LINES),
        ("s3://bucket/a.parquet", PARQUET),
        ("a.feather", ARROW),
        ("a.csv", CSV),
        ("a.csv.gz", CSV),
        ("a.tsv.zst", TSV),
        ("a.txt.zst", WHOLE_TEXT),
        ("a.JSONL", None),
        ("a.parquet.gz", None),
        ("a.json", JSON),
        ("a.json.gz", JSON),
        ("a.ndjson", JSON_LINES),
        ("a.htm", HTML),
        ("a.html.gz", HTML),
        ("a.warc.gz", WARC),
        ("CC.warc.wet.gz", WARC),
        ("a.md", WHOLE_TEXT),
        ("a.xml", None),
        ("jsonl", None),
    ],
)
def test_the_ending_of_a_name_says_what_reads_a_file(name: str, reader: Reader | None) -> None:
    assert reader_of(name, TextSplit.FILE) is reader


def test_plain_text_is_cut_as_its_source_says() -> None:
    assert reader_of("a.txt", TextSplit.BLANK_LINE) is PARAGRAPHS
    assert reader_of("a.md.gz", TextSplit.BLANK_LINE) is PARAGRAPHS
    assert reader_of("a.jsonl", TextSplit.BLANK_LINE) is JSON_LINES


def test_every_ending_is_that_of_one_reader_for_each_split() -> None:
    for ending in ENDINGS:
        for split in TextSplit:
            fitting = [
                reader
                for reader in READERS
                if ending in endings_of(reader)
                and (not isinstance(reader, StreamReader) or reader.split in (None, split))
            ]
            assert fitting == [reader_of(f"x{ending}", split)], ending


def test_all_endings_are_said_in_few_words() -> None:
    packed, _, whole = endings_said().partition(" (also with .gz or .zst), ")
    names = packed.removesuffix(", source code such as .py and .java").split(", ")
    names += ALL_CODE_ENDINGS
    plain = [f"{name}{ending}" for name in names for ending in ("", ".gz", ".zst")]
    assert sorted([*plain, *whole.split(", ")]) == sorted(ENDINGS)
