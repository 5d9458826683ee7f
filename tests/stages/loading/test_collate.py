"""What collating promises: tensors, and beside them what the attention needs in the form asked for."""

from pathlib import Path

import numpy as np
import pytest
import torch

from stages.errors import ConfigError
from stages.loading.attention import dense_masks
from stages.loading.batches import Batches, padded
from stages.loading.collate import collate
from stages.loading.dataset import Batch, open_dataset
from stages.loading.losses import causal_lm_loss
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("attention", [CAUSAL, "encoder_decoder"])
def test_masks_of_a_dtype_are_added_to_scores(
    tmp_path: Path, attention: str, dtype: torch.dtype
) -> None:
    batch = packed(tmp_path) if attention == CAUSAL else pairs_of_lengths()
    plain, numbers = collate(batch, attention), collate(batch, attention, dtype=dtype)
    names = [name for name in plain if name.endswith("_mask")]
    assert len(names) == (1 if attention == CAUSAL else 3)
    for name in names:
        shown, added = plain[name], numbers[name]
        assert isinstance(shown, torch.Tensor)
        assert isinstance(added, torch.Tensor)
        assert (shown.dtype, added.dtype) == (torch.bool, dtype)
        assert (added[shown] == 0).all()
        assert (added[~shown] == torch.finfo(dtype).min).all()
        assert shown.any()
        assert not shown.all()


def test_a_dtype_that_no_mask_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dtype = torch.int64: must be that of the model"):
        collate(packed(tmp_path), CAUSAL, dtype=torch.int64)
    for masks in ("none", "flex", "varlen"):
        with pytest.raises(ConfigError, match=f'only masks="dense" have one, and masks = {masks!r}'):
            collate(packed(tmp_path), CAUSAL, masks=masks, dtype=torch.float32)


@pytest.mark.parametrize("attention", [CAUSAL, "bidirectional", "encoder_decoder"])
def test_a_batch_of_padding_alone_has_one_sequence_of_one_token(tmp_path: Path, attention: str) -> None:
    batch = packed(tmp_path) if attention == CAUSAL else pairs_of_lengths()
    size = len(batch["input_ids"])
    filled = padded({name: column[:0] for name, column in batch.items()}, size, pad=3)
    got = collate(filled, attention, masks="varlen")
    sides = {"": "input_ids"} | ({"decoder_": "labels"} if attention == "encoder_decoder" else {})
    for side, name in sides.items():
        cu_seqlens, column = got[f"{side}cu_seqlens"], got[name]
        assert isinstance(cu_seqlens, torch.Tensor)
        assert isinstance(column, torch.Tensor)
        assert (cu_seqlens[:2].tolist(), int(cu_seqlens[-1])) == ([0, 1], 1)
        assert got[f"{side}max_seqlen"] == 1
        assert len(column) == 1
    assert got["input_ids"].tolist() == [3]  # type: ignore[union-attr]
    if attention != "bidirectional":  # whose labels here are of another width
        assert got["labels"].tolist() == [-100]  # type: ignore[union-attr]
    if attention == CAUSAL:
        assert got["cu_seqlens"].tolist() == [0, 1]  # type: ignore[union-attr]
        assert got["position_ids"].tolist() == [0]  # type: ignore[union-attr]


def gradient_of(batches: list[Batch]) -> torch.Tensor:
    """Return the gradient of what ranks are trained on together: their losses by the labels of all."""
    torch.manual_seed(0)
    model = torch.nn.Embedding(300, 300)
    losses = []
    for batch in batches:
        flat = collate(batch, CAUSAL, masks="varlen")
        ids, labels, positions = (flat[name] for name in ("input_ids", "labels", "position_ids"))
        assert isinstance(ids, torch.Tensor)
        assert isinstance(labels, torch.Tensor)
        assert isinstance(positions, torch.Tensor)
        labels = labels.masked_fill(positions == 0, -100)
        losses.append(causal_lm_loss(model(ids)[None], labels[None]))
        assert torch.isfinite(losses[-1].value)
    labelled = sum(loss.labels for loss in losses)
    torch.stack([loss.total for loss in losses]).sum().div(labelled).backward()  # type: ignore[no-untyped-call]
    assert model.weight.grad is not None
    return model.weight.grad


def test_ranks_of_which_one_has_padding_alone_train_as_one_rank(tmp_path: Path) -> None:
    documents = [[[10 + number, 40 + number, 2]] for number in range(13)]
    rows = open_dataset(write_dataset(tmp_path, (documents,)))
    together = Batches(rows, 6, last="pad")
    ranks = [Batches(rows, 2, rank=rank, world_size=3, last="pad") for rank in range(3)]
    alone = 0
    for step in range(len(together)):
        batches = [rank[step] for rank in ranks]
        alone += sum(bool((batch["segment_ids"] < 0).all()) for batch in batches)
        torch.testing.assert_close(gradient_of(batches), gradient_of([together[step]]))
    assert alone == 2
