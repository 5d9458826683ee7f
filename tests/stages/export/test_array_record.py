"""What the export for Grain and MaxText promises: all tokens of all documents, as they decode them."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from array_record.python.array_record_module import ArrayRecordReader

from stages.export.array_record import ARRAY_RECORD, chunks_of, encoded_example
from stages.export.source import StoredDocuments, open_source
from tests.pipeline.exporting import SPLITS
from tests.stages.export.built_dataset import build_dataset
from tests.stages.export.rows_on_disk import write_export


def records(place: Path) -> list[bytes]:
    """Return the records of a file, as the library reads them."""
    reader = ArrayRecordReader(str(place))
    found = reader.read_all()
    reader.close()
    return list(found)


def fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the fields of a message, all of which have a length."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        assert tag & 7 == 2
        size, at = varint(data, at)
        yield tag >> 3, data[at : at + size]
        at += size
    assert at == len(data)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """Return an integer, and where it ends."""
    value, shift = 0, 0
    while True:
        byte = data[at]
        value, at, shift = value | (byte & 127) << shift, at + 1, shift + 7
        if byte < 128:
            return value, at


def decoded(record: bytes) -> list[int]:
    """Return the ids of a tf.train.Example with one feature."""
    ((one, features),) = fields(record)
    ((two, entry),) = fields(features)
    key, value = dict(fields(entry))[1], dict(fields(entry))[2]
    ((three, int64_list),) = fields(value)
    ((four, packed),) = fields(int64_list)
    assert (one, two, three, four, key) == (1, 1, 3, 1, b"text")
    ids, at = [], 0
    while at < len(packed):
        value_at, at = varint(packed, at)
        ids.append(value_at)
    return ids


def test_the_bytes_of_an_example() -> None:
    # as protobuf writes tf.train.Example(features=Features(feature={"text": int64_list [1, 300]}))
    expected = "0a11" + "0a0f" + "0a0474657874" + "1207" + "1a05" + "0a03" + "01ac02"
    assert encoded_example(np.array([1, 300], "<u2")).hex() == expected


@pytest.mark.parametrize("ids", [[0], [127, 128, 16_383, 16_384], [2**31 - 1], list(range(3_000))])
def test_ids_of_any_size_come_back(ids: list[int]) -> None:
    assert decoded(encoded_example(np.array(ids, "<i4"))) == ids


def test_long_documents_are_cut_and_nothing_is_lost() -> None:
    block = StoredDocuments(np.arange(10, 22, dtype="<u2"), np.array([5, 1, 6]))
    assert [piece.tolist() for piece in chunks_of(block, 3)] == [
        [10, 11, 12],
        [13, 14],
        [15],
        [16, 17, 18],
        [19, 20, 21],
    ]


def test_records_end_to_end_are_the_documents_end_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))  # large files need no second disk
    build_dataset(tmp_path, SPLITS)
    source = open_source(tmp_path / "datasets" / "tiny", split="train")
    for name in ("one", "again"):
        write_export(ARRAY_RECORD, source, tmp_path / name)
    places = sorted((tmp_path / "one" / "train").iterdir())
    assert len(places) == 2, "the shard without a document has no file"
    found = [token for place in places for record in records(place) for token in decoded(record)]
    wanted = [
        token for shard in range(source.num_shards) for one in source.documents(shard) for token in one
    ]
    assert found == wanted
    for place in places:
        assert place.read_bytes() == (tmp_path / "again" / "train" / place.name).read_bytes()
