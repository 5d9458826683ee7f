"""What reading page headers promises.

Every page of a column is found, with its size and its values, whatever writer, version and compression;
headers that lead elsewhere are refused.
"""

import io
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stages.reading.parquet_pages import Page, pages_of

TEXTS = [f"{number} " * (1 + number % 50) for number in range(5_000)]


def pages(texts: Sequence[str | None], **options: Any) -> tuple[list[Page], Any]:
    """Return the pages of a written column, and what the footer says of it."""
    file = io.BytesIO()
    pq.write_table(pa.table({"text": texts}), file, **options)
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    return list(pages_of(file, column)), column


@pytest.mark.parametrize("compression", ["none", "zstd", "snappy"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("more", [{}, {"write_page_checksum": True}, {"write_statistics": False}])
def test_every_page_is_found(
    compression: str, version: str, *, dictionary: bool, more: dict[str, Any]
) -> None:
    found, column = pages(
        TEXTS,
        compression=compression,
        data_page_version=version,
        use_dictionary=dictionary,
        data_page_size=20_000,
        **more,
    )
    assert sum(page.values for page in found if not page.dictionary) == len(TEXTS)
    assert [page.dictionary for page in found] == [dictionary] + [False] * (len(found) - 1)
    assert len(found) > 1
    headers = column.total_uncompressed_size - sum(page.bytes for page in found)
    assert 0 < headers < 1_000 * len(found)


def test_statistics_longer_than_a_header_are_passed_over() -> None:
    found, _ = pages(["x" * 9_000, "y" * 9_000], use_dictionary=False)
    assert [page.values for page in found] == [2]


def test_a_column_without_values_has_no_pages() -> None:
    found, _ = pages([])
    assert found == []


def test_damaged_headers_are_refused_or_lead_to_an_end() -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"text": TEXTS}), file, data_page_size=20_000)
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    refused = 0
    for place in range(4, 40):
        damaged = bytearray(file.getvalue())
        damaged[place] ^= 0xFF
        try:
            list(pages_of(io.BytesIO(damaged), column))
        except pa.ArrowInvalid:
            refused += 1
    assert refused > 5
