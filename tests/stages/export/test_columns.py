"""What the columns of exported rows promise: the narrowest dtype that holds what a column may hold."""

from pathlib import Path

import numpy as np
import pytest

from stages.export.columns import available_columns
from stages.export.source import open_source
from tests.stages.export.built_dataset import EOS, build_dataset


@pytest.mark.parametrize(
    ("vocab_size", "width", "dtypes"),
    [
        (32_768, 256, ("<i2", "|u1", "<i2")),
        (32_769, 257, ("<i4", "<u2", "<i2")),
        (32_769, 32_769, ("<i4", "<u2", "<i4")),
        (65_537, 65_537, ("<i4", "<i4", "<i4")),
    ],
)
def test_dtypes_change_where_a_value_no_longer_fits(
    tmp_path: Path, vocab_size: int, width: int, dtypes: tuple[str, ...]
) -> None:
    manifest = open_source(build_dataset(tmp_path, {"train": [[[10, EOS]]]}), split="train").manifest
    row = {
        name: np.zeros((1, width), np.int64)
        for name in ("input_ids", "labels", "position_ids", "segment_ids")
    }
    known = manifest.model_copy(update={"vocab_size": vocab_size})
    found = available_columns(row, known)
    names = ("labels", "position_ids", "segment_ids")
    assert tuple(found[name].dtype for name in names) == dtypes
    assert found["attention_mask"].dtype == "|u1"
    assert all(kind.shape == (width,) for kind in found.values())
