"""What the LitData export promises: read as its index says, each chunk holds the documents.

The reader here does what LitData's TokensLoader does, and knows the numbers that LitData gives dtypes.
"""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from stages.export.source import open_source
from stages.export.table import FORMATS
from tests.stages.export.built_dataset import EOS, build_dataset
from tests.stages.export.test_raw_formats import export

NUMBERS = (
    *(np.int8, np.int16, np.int32, np.int64),
    *(np.uint8, np.uint16, np.uint32, np.uint64),
    *(np.float16, np.float32, np.float64),
)
"""The dtypes of LitData 0.2.76 in the order of their numbers: _NUMPY_SCTYPES in its constants.py."""


def as_read(files: dict[str, bytes]) -> tuple[np.dtype[np.generic], list[list[int]]]:
    """Return dtype and documents of all chunks, as the index says that they are to be read."""
    index = json.loads(files["train/index.json"])
    (code,) = index["config"]["data_format"]
    serializer, number = code.split(":")
    assert serializer == "no_header_numpy"
    assert index["config"]["item_loader"] == "TokensLoader"
    dtype, documents = np.dtype(NUMBERS[int(number)]), []
    for chunk in index["chunks"]:
        content = files[f"train/{chunk['filename']}"]
        assert len(content) == chunk["chunk_bytes"] <= index["config"]["chunk_bytes"]
        count = int(np.frombuffer(content, "<u4", 1)[0])
        begins = np.frombuffer(content, "<u4", count + 1, 4).tolist()
        parts = [np.frombuffer(content[first:last], dtype).tolist() for first, last in pairwise(begins)]
        assert (count, sum(map(len, parts))) == (chunk["chunk_size"], chunk["dim"])
        documents += parts
    return dtype, documents


@pytest.mark.parametrize("vocab_size", [300, 65_535, 65_536, 65_537, 100_000, 1 << 20])
def test_documents_are_read_with_the_dtype_that_the_index_names(vocab_size: int, tmp_path: Path) -> None:
    shards = [
        [[vocab_size - 1, 9, EOS], [vocab_size - 2, EOS]],
        [],
        [[EOS], [10, vocab_size // 2, 11, EOS]],
    ]
    path = build_dataset(tmp_path / "run", {"train": shards}, vocab_size=vocab_size)
    files = export(FORMATS["litdata"], open_source(path, split="train"), tmp_path / "out")
    wanted = np.dtype(np.uint16 if vocab_size <= 65_536 else np.int32)  # torch has little for uint32
    assert as_read(files) == (wanted, [document for shard in shards for document in shard])
