"""What torch's masks promise.

They are those of `stages.loading.masks`, pair by pair, dense and in blocks; attention under them keeps
documents apart to the bit, and FlexAttention computes with them what dense attention does.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.attention.flex_attention import create_mask, flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.data import DataLoader, Dataset

from stages.errors import ConfigError, DataError
from stages.loading.attention import attention_mask, dense_masks, flex_block_masks
from stages.loading.dataset import open_dataset
from stages.loading.losses import causal_lm_loss
from stages.loading.masks import PADDING, SelfAttention, masks_of, position_ids
from tests.campaign import FULL, examples
from tests.stages.loading.rows import LENGTH, ROWS, segments_of
from tests.stages.loading.test_dataset import write_dataset

ATTENTIONS = [*SelfAttention, "encoder_decoder"]
BLOCK = 128
"""Positions on a side of a FlexAttention block."""

Arrays = Mapping[str, NDArray[np.integer]]


def tensors(batch: Arrays) -> dict[str, Tensor]:
    return {name: torch.from_numpy(column) for name, column in batch.items()}


def batch_of(rows: list[list[int]], length: int, *, prefixes: list[int], width_out: int = 5) -> Arrays:
    """Return every column that masks of any kind follow from."""
    segment_ids = segments_of(rows, length)
    filled = (segment_ids != PADDING).sum(axis=1)
    return {
        "input_ids": np.zeros((len(rows), length), np.int64),
        "labels": np.zeros((len(rows), width_out), np.int64),
        "segment_ids": segment_ids,
        "prefix_length": np.array(prefixes),
        "in_prefix": (np.arange(length) * 7 % 5 < 2) * np.ones((len(rows), 1), np.int64),
        "input_length": filled,
        "label_length": np.minimum(filled // 2, width_out),
    }


def long_batch() -> Arrays:
    """Rows of three blocks, the last one not full: documents across blocks, in one, none at all."""
    rows = [[100, 20, 150], [300], [128, 128], []]
    return batch_of(rows, 300, prefixes=[129, 1, 255, 0], width_out=140)


@pytest.mark.parametrize("attention", ATTENTIONS)
@settings(deadline=None, derandomize=True, max_examples=examples(40))
@given(rows=ROWS, data=st.data())
def test_dense_masks_are_numpys_on_any_rows(
    attention: str, rows: list[list[int]], data: st.DataObject
) -> None:
    prefixes = data.draw(st.lists(st.integers(0, LENGTH), min_size=len(rows), max_size=len(rows)))
    batch = batch_of(rows, LENGTH, prefixes=prefixes)
    expected = masks_of(batch, attention)
    masks = dense_masks(tensors(batch), attention)
    assert masks.keys() == expected.keys()
    for name, mask in masks.items():
        assert mask.dtype == torch.bool
        assert np.array_equal(mask.numpy(), expected[name][:, None])


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_block_masks_are_numpys(attention: str) -> None:
    batch = long_batch()
    expected = masks_of(batch, attention)
    blocks = flex_block_masks(tensors(batch), attention, device="cpu")
    assert blocks.keys() == expected.keys()
    for name, block in blocks.items():
        rows, queries, keys = expected[name].shape
        assert block.shape == (rows, 1, queries, keys)
        pairs = create_mask(block.mask_mod, rows, 1, queries, keys, device="cpu")
        assert np.array_equal(pairs.numpy(), expected[name][:, None])
        padded = np.pad(expected[name], ((0, 0), (0, -queries % BLOCK), (0, -keys % BLOCK)))
        tiles = padded.reshape(rows, -(-queries // BLOCK), BLOCK, -(-keys // BLOCK), BLOCK)
        touched = np.logical_or.reduce(tiles, axis=(2, 4))
        assert np.array_equal(block.to_dense().numpy() != 0, touched[:, None])


def test_documents_in_other_blocks_are_skipped() -> None:
    batch = tensors(batch_of([[128, 128, 128]], 384, prefixes=[0]))
    within = flex_block_masks(batch, "bidirectional_within_document")["attention_mask"]
    assert within.to_dense().tolist() == [[np.eye(3, dtype=int).tolist()]]
    assert flex_block_masks(batch, "bidirectional")["attention_mask"].to_dense().sum() == 9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("attention", ATTENTIONS if FULL else ["prefix", "encoder_decoder"])
def test_flex_attention_computes_what_dense_attention_does(attention: str) -> None:
    batch = tensors(long_batch())
    blocks = flex_block_masks(batch, attention)
    generator = torch.Generator().manual_seed(0)
    for name, mask in dense_masks(batch, attention).items():
        rows, _, queries, keys = mask.shape
        query = torch.randn(rows, 2, queries, 16, generator=generator)
        key, value = torch.randn(2, rows, 2, keys, 16, generator=generator)
        flexible = flex_attention(query, key, value, block_mask=blocks[name])
        dense = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        assert isinstance(flexible, Tensor)
        assert dense.isfinite().all()
        torch.testing.assert_close(flexible, dense)


def attend(mask: Tensor, hidden: Tensor) -> Tensor:
    """Return what two heads read of hidden states (N, L, 16)."""
    heads = hidden.view(*hidden.shape[:2], 2, 8).transpose(1, 2)
    return scaled_dot_product_attention(heads, heads, heads, attn_mask=mask).transpose(1, 2).flatten(2)


@pytest.mark.parametrize("kind", [kind for kind in SelfAttention if kind.within_document])
def test_a_document_changes_no_bit_of_what_its_neighbours_read(kind: str) -> None:
    batch = tensors(batch_of([[3, 2, 3]], LENGTH, prefixes=[0]))
    mask = dense_masks(batch, kind)["attention_mask"]
    hidden = torch.randn(1, LENGTH, 16, generator=torch.Generator().manual_seed(0))
    before = attend(mask, hidden)
    for number in (0, 1, 2, PADDING):
        place = batch["segment_ids"] == number
        assert place.any()
        after = attend(mask, torch.where(place[..., None], 1e4 - hidden, hidden))
        assert torch.equal(before[~place], after[~place])
        assert not torch.equal(before[place], after[place])


@pytest.mark.parametrize(
    ("attention", "changed"),
    [
        ("causal", [0, 0, 1, 1, 1, 0, 0, 0, 0]),
        ("bidirectional", [1, 1, 1, 1, 1, 0, 0, 0, 0]),
        ("prefix", [1, 1, 1, 1, 1, 0, 0, 0, 0]),
    ],
)
def test_what_a_token_reaches_in_a_row_of_one_text(attention: str, changed: list[int]) -> None:
    batch = tensors(batch_of([[2, 3]], LENGTH, prefixes=[3]))
    mask = dense_masks(batch, attention)["attention_mask"]
    hidden = torch.randn(1, LENGTH, 16, generator=torch.Generator().manual_seed(0))
    other = hidden.clone()
    other[:, 2] = -hidden[:, 2]
    reached = (attend(mask, hidden) != attend(mask, other)).any(dim=2)
    assert reached.int().tolist() == [changed]


def test_an_opened_dataset_gives_what_masks_follow_from(tmp_path: Path) -> None:
    dataset = open_dataset(write_dataset(tmp_path))
    loader = DataLoader(cast("Dataset[dict[str, Tensor]]", dataset), batch_size=len(dataset))
    (batch,) = loader
    mask = dense_masks(batch, dataset.manifest.attention)["attention_mask"]
    arrays = dataset.batch(np.arange(len(dataset)))
    expected = masks_of(arrays, dataset.manifest.attention)["attention_mask"]
    assert np.array_equal(mask[:, 0].numpy(), expected)
    assert np.array_equal(position_ids(arrays["segment_ids"]), arrays["position_ids"])
    assert arrays["segment_ids"].max() >= 1
    logits = torch.zeros(*batch["labels"].shape, dataset.manifest.vocab_size)
    loss = causal_lm_loss(logits, batch["labels"], segment_ids=batch["segment_ids"])
    assert loss.labels == (arrays["position_ids"] > 0).sum()
    assert loss.value.item() == pytest.approx(np.log(dataset.manifest.vocab_size))


def test_masks_take_the_device_of_the_batch_or_another() -> None:
    segment_ids = torch.tensor([[0, 0, PADDING]])
    assert attention_mask(SelfAttention.CAUSAL, segment_ids).device.type == "cpu"
    batch = {"input_ids": segment_ids, "segment_ids": segment_ids}
    assert dense_masks(batch, "causal", device="meta")["attention_mask"].device.type == "meta"


def test_views_of_a_row_count_as_rows() -> None:
    views = np.zeros((2, 3, 4), np.int64)
    for columns in (
        {"input_length": np.array([1, 2])},
        {"input_length": np.array([[1, 2, 3], [4, 0, 1]])},
        {"segment_ids": segments_of([[1], [2, 1]], 4)},
    ):
        batch = {"input_ids": views, **columns}
        mask = dense_masks(tensors(batch), "bidirectional")["attention_mask"]
        assert mask.shape == (6, 1, 4, 4)
        assert np.array_equal(mask[:, 0].numpy(), masks_of(batch, "bidirectional")["attention_mask"])


def test_an_old_torch_is_told_which_one_has_flex_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.nn.attention.flex_attention", None)
    batch = tensors(batch_of([[3]], LENGTH, prefixes=[1]))
    with pytest.raises(
        ConfigError, match=r"torch \d+\.\d+.* has no FlexAttention.* torch>=2\.5, or take"
    ):
        flex_block_masks(batch, "causal")
    assert dense_masks(batch, "causal")["attention_mask"].any()


def test_what_does_not_follow_from_the_batch_is_refused() -> None:
    batch = {"input_ids": torch.zeros(1, 3)}
    with pytest.raises(ConfigError, match="'sliding': this reader knows"):
        dense_masks(batch, "sliding")
    with pytest.raises(DataError, match="column segment_ids"):
        flex_block_masks(batch, "bidirectional_within_document")
    with pytest.raises(DataError, match="column label_length"):
        dense_masks({**batch, "input_length": torch.ones(1)}, "encoder_decoder")
