"""What collating promises: tensors, and beside them what the attention needs in the form asked for."""

from pathlib import Path

import numpy as np
import pytest
import torch

from stages.errors import ConfigError
from stages.loading.attention import dense_masks
from stages.loading.collate import collate
from stages.loading.dataset import Batch, open_dataset
from tests.stages.loading.test_dataset import ROWS, write_dataset

CAUSAL = "causal_within_document"


def packed(root: Path) -> Batch:
    return open_dataset(write_dataset(root), shuffle=False).batch(np.arange(5))


def pairs_of_lengths() -> Batch:
    """Return two rows for an encoder-decoder: 3 and 1 inputs, 2 and 4 targets."""
    return {
        "input_ids": np.array([[1, 2, 3], [4, 0, 0]]),
        "labels": np.array([[5, 6, -100, -100], [7, 8, 9, 10]]),
        "input_length": np.array([3, 1]),
        "label_length": np.array([2, 4]),
    }


def test_dense_masks_come_beside_the_columns(tmp_path: Path) -> None:
    batch = packed(tmp_path)
    got = collate(batch, CAUSAL)
    assert set(got) == {*batch, "attention_mask"}
    expected = dense_masks({name: torch.from_numpy(column) for name, column in batch.items()}, CAUSAL)
    assert torch.equal(got["attention_mask"], expected["attention_mask"])  # type: ignore[arg-type]
    assert set(collate(batch, CAUSAL, masks="none")) == set(batch)


def test_variable_lengths_leave_padding_out_of_every_column(tmp_path: Path) -> None:
    got = collate(packed(tmp_path), CAUSAL, masks="varlen")
    covered = [[segment >= 0 for segment in row["segment_ids"]] for row in ROWS]
    for name in ROWS[0]:
        flat = [
            value
            for row, inside in zip(ROWS, covered, strict=True)
            for value, there in zip(row[name], inside, strict=True)
            if there
        ]
        assert got[name].tolist() == flat  # type: ignore[union-attr]
    cu_seqlens = got["cu_seqlens"]
    assert isinstance(cu_seqlens, torch.Tensor)
    assert cu_seqlens.dtype == torch.int32
    assert cu_seqlens.tolist() == [0, 3, 5, 11, 13, 15, 16, 19, 23]
    assert got["max_seqlen"] == 6


def test_an_encoder_decoder_has_lengths_of_either_side() -> None:
    got = collate(pairs_of_lengths(), "encoder_decoder", masks="varlen")
    plain = {
        name: value.tolist() if isinstance(value, torch.Tensor) else value for name, value in got.items()
    }
    assert plain == {
        "input_ids": [1, 2, 3, 4],
        "labels": [5, 6, 7, 8, 9, 10],
        "input_length": [3, 1],
        "label_length": [2, 4],
        "cu_seqlens": [0, 3, 4],
        "max_seqlen": 3,
        "decoder_cu_seqlens": [0, 2, 6],
        "decoder_max_seqlen": 4,
    }


def test_views_that_see_all_of_their_row_are_a_segment_each() -> None:
    batch = {"input_ids": np.arange(12).reshape(2, 2, 3), "input_length": np.array([[3, 1], [2, 2]])}
    got = collate(batch, "bidirectional", masks="varlen")
    assert got["input_ids"].tolist() == [0, 1, 2, 3, 6, 7, 9, 10]  # type: ignore[union-attr]
    assert got["cu_seqlens"].tolist() == [0, 3, 4, 6, 8]  # type: ignore[union-attr]


def test_documents_that_see_each_other_are_one_segment(tmp_path: Path) -> None:
    got = collate(packed(tmp_path), "causal", masks="varlen")
    assert got["cu_seqlens"].tolist() == [0, 5, 11, 16, 19, 23]  # type: ignore[union-attr]


def test_a_prefix_has_no_variable_lengths(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lengths alone cannot say"):
        collate(packed(tmp_path), "prefix", masks="varlen")


def test_a_row_without_inputs_has_its_place_among_the_lengths_of_either_side() -> None:
    batch = pairs_of_lengths() | {"input_length": np.array([0, 1])}
    got = collate(batch, "encoder_decoder", masks="varlen")
    assert got["cu_seqlens"].tolist() == [0, 0, 1]  # type: ignore[union-attr]
    assert got["decoder_cu_seqlens"].tolist() == [0, 2, 6]  # type: ignore[union-attr]
    assert got["max_seqlen"] == 1
    assert got["input_ids"].tolist() == [4]  # type: ignore[union-attr]
