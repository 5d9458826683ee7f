"""The law of masks in models of transformers: a document's logits are those of the document alone.

A slice of `clients/masked_models.py`, which `make clients` runs over every class: each way in which a
class attends is here. And a model that is trained on packed rows scores a document alone as trained.
"""

import importlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import (
    FNetConfig,
    FNetForMaskedLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
)

import shardmill
from stages.errors import ConfigError
from stages.loading.model_masks import attention_of
from tests.conftest import bundled_lines, run_small

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of transformers, about settings
CLIENTS = Path(__file__).resolve().parents[2] / "clients"
SLICE = {
    "LlamaForCausalLM": "causal",
    "Gemma2ForCausalLM": "causal",  # eager alone; layers with a window and without
    "MistralForCausalLM": "causal",  # one window for all layers
    "Llama4ForCausalLM": "causal",  # chunks
    "MptForCausalLM": "causal",  # ALiBi, a mask of its own
    "GPTNeoForCausalLM": "causal",  # local attention of its own
    "BertForMaskedLM": "masked",
    "ModernBertForMaskedLM": "masked",  # windows to both sides
    "T5ForConditionalGeneration": "seq2seq",
}
STEPS, RATE, BATCH = 24, 6e-3, 8
SHORT, CHARACTERS = 90, 200
"""Texts, and what is taken of each."""
NEAR = 0.05
"""What the loss as trained and as used may differ by."""


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return `clients/masked_models.py`."""
    monkeypatch.syspath_prepend(CLIENTS)
    monkeypatch.syspath_prepend(CLIENTS.parent)
    return importlib.import_module("masked_models")


@pytest.mark.parametrize("name", SLICE)
def test_each_document_has_the_logits_that_it_has_alone(models: ModuleType, name: str) -> None:
    lines = [line for task in models.classes([name]) for line in models.lines_of(*task)]
    compared = [line for line in lines if line.leak is not None]
    assert compared
    assert {line.attention for line in compared} == set(models.ATTENTIONS[SLICE[name]])
    assert [line for line in compared if models.fault(line) is not None] == []


def test_bfloat16_may_differ_by_what_its_coarser_roundings_make_of_those_of_float32(
    models: ModuleType,
) -> None:
    line = models.Line("x", dtype="bfloat16", leak=0.0, alone=0.3, exact=1e-5)
    assert models.fault(line) is None
    for found in ({"exact": 1e-6}, {"alone": 0.7}, {"dtype": "float32", "exact": 0.0}):
        assert models.fault(replace(line, **found)) == "differs from the document alone"


@pytest.mark.parametrize(
    "name",
    [
        "xLSTMForCausalLM",
        "BltForCausalLM",
        "PerceiverForMaskedLM",
        "ReformerForMaskedLM",
        "FNetForMaskedLM",
    ],
)
def test_types_of_models_that_mix_documents_without_the_mask_are_refused(
    models: ModuleType, name: str
) -> None:
    ((task, model_type, _),) = models.classes([name])
    with pytest.raises(ConfigError, match="so no mask keeps documents apart"):
        shardmill.model_masks(
            models.whole_model(model_type, name), models.batch_of(1), models.ATTENTIONS[task][0]
        )


def test_every_class_is_among_those_that_are_compared(models: ModuleType) -> None:
    named = {name for _, _, name in models.classes(())}
    assert set(SLICE) < named
    assert len(named) > 150


SIZES = {
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
}
"""Of the tiny models."""


def llama(kernel: str, vocabulary: int) -> Any:
    """Return a tiny Llama."""
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**SIZES, vocab_size=vocabulary, attn_implementation=kernel))


def gemma(_: str, vocabulary: int) -> Any:
    """Return a tiny Gemma 2, which attends eagerly and has a window shorter than documents."""
    torch.manual_seed(0)
    own = {"num_key_value_heads": 2, "head_dim": 12, "sliding_window": 8}
    return Gemma2ForCausalLM(Gemma2Config(**SIZES, **own, vocab_size=vocabulary))


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> shardmill.ShardDataset:
    """Return rows of a real run over short texts, of which several share a row.

    The vocabulary is small, because a model gives a logit for each of it.
    """
    folder = tmp_path_factory.mktemp("masks")
    records = [json.loads(line) for line in bundled_lines("text/books*", SHORT)]
    short = [json.dumps({**record, "text": record["text"][:CHARACTERS]}) for record in records]
    (folder / "short.jsonl").write_text("\n".join(short) + "\n")
    tokenizer = {"train": {"vocab_size": 700}}
    run_small(folder, folder / "run", packing={"seq_len": 128}, tokenizer=tokenizer)
    return shardmill.open_dataset(folder / "run" / "datasets" / "clm")


def packed_loss(model: nn.Module, batch: Mapping[str, Tensor], attention: str) -> shardmill.Loss:
    """Return the loss of packed rows under the mask."""
    masks = shardmill.model_masks(model, batch, attention)
    logits = model(input_ids=batch["input_ids"], position_ids=batch["position_ids"], **masks).logits
    return shardmill.causal_lm_loss(logits, batch["labels"], segment_ids=batch["segment_ids"])


def documents(batch: Mapping[str, Tensor]) -> Iterator[Tensor]:
    """Yield the ids of each document, or of the part of one that is in a row."""
    for ids, segments in zip(batch["input_ids"], batch["segment_ids"], strict=True):
        for number in range(int(segments.max()) + 1):
            found = ids[segments == number]
            if len(found) > 1:
                yield found


def score_alone(model: nn.Module, batch: Mapping[str, Tensor]) -> float:
    """Return the loss of documents one by one, as the model is used: without any mask of ours."""
    total = labels = 0.0
    with torch.no_grad():
        for ids in documents(batch):
            loss = shardmill.causal_lm_loss(model(input_ids=ids[None]).logits, ids[None])
            total, labels = total + loss.total.item(), labels + loss.labels
    return total / labels


def train(model: nn.Module, rows: shardmill.ShardDataset, how: str) -> None:
    """Train some steps, on packed rows under the mask or on documents alone."""
    attention = rows.manifest.attention
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE)
    loader = shardmill.Loader(shardmill.Batches(rows, BATCH, last="carry"))
    batches = (batch for _ in range(STEPS) for batch in loader)
    for _, batch in zip(range(STEPS), batches, strict=False):
        if how == "alone":
            losses = [
                shardmill.causal_lm_loss(model(input_ids=ids[None]).logits, ids[None])
                for ids in documents(batch)
            ]
            labels = sum(loss.labels for loss in losses)
            loss = torch.stack([loss.total for loss in losses]).sum() / labels
        else:
            loss = packed_loss(model, batch, attention).value
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


@pytest.mark.parametrize(
    ("make", "kernel", "how"),
    [
        (gemma, "eager", "packed"),
        pytest.param(llama, "sdpa", "alone", marks=pytest.mark.campaign),
        pytest.param(llama, "eager", "packed", marks=pytest.mark.campaign),
        pytest.param(llama, "sdpa", "packed", marks=pytest.mark.campaign),
    ],
)
def test_a_model_scores_documents_alone_as_it_was_trained(
    rows: shardmill.ShardDataset, make: Any, kernel: str, how: str
) -> None:
    model = make(kernel, rows.manifest.vocab_size)
    assert attention_of(model) == kernel
    train(model, rows, how)
    batch = {name: torch.from_numpy(one) for name, one in rows.at(5, np.arange(24)).items()}
    with torch.no_grad():
        trained = packed_loss(model, batch, rows.manifest.attention).value.item()
    assert trained < math.log(rows.manifest.vocab_size) - 0.5, "it learned something"
    assert abs(score_alone(model, batch) - trained) < NEAR


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_a_boolean_mask_shows_an_eager_model_the_future(
    rows: shardmill.ShardDataset, kernel: str
) -> None:
    model = llama(kernel, rows.manifest.vocab_size)
    batch = {name: torch.from_numpy(one) for name, one in rows.batch(range(1)).items()}
    mask = shardmill.dense_masks(batch, rows.manifest.attention)["attention_mask"]
    later = batch["input_ids"].clone()
    later[:, 64:] = 9
    first, second = (
        model(input_ids=ids, attention_mask=mask, position_ids=batch["position_ids"]).logits[:, :64]
        for ids in (batch["input_ids"], later)
    )
    assert torch.equal(first, second) is (kernel == "sdpa")


def test_a_boolean_mask_is_refused_for_an_eager_model_alone(rows: shardmill.ShardDataset) -> None:
    batch = {name: torch.from_numpy(one) for name, one in rows.batch(range(2)).items()}
    boolean = shardmill.dense_masks(batch, rows.manifest.attention)["attention_mask"]
    numbers = shardmill.dense_masks(batch, rows.manifest.attention, dtype=torch.float32)[
        "attention_mask"
    ]
    eager, sdpa = llama("eager", 100), llama("sdpa", 100)
    for model in (eager, nn.DataParallel(eager)):
        with pytest.raises(ConfigError, match="LlamaForCausalLM: its attention is eager, and adds"):
            shardmill.refuse_boolean_mask(model, boolean)
    with pytest.raises(ConfigError, match=r"pass dtype=model\.dtype to collate or dense_masks"):
        shardmill.refuse_boolean_mask(eager, {"full_attention": numbers, "sliding_attention": boolean})
    shardmill.refuse_boolean_mask(eager, numbers)
    shardmill.refuse_boolean_mask(eager, boolean[:, 0, 0])  # of padding: models make a mask of it
    shardmill.refuse_boolean_mask(sdpa, boolean)
    shardmill.refuse_boolean_mask(nn.Linear(2, 2), boolean)


def test_masks_are_of_the_dtype_that_the_model_computes_in(rows: shardmill.ShardDataset) -> None:
    batch = {name: torch.from_numpy(one) for name, one in rows.batch(range(2)).items()}
    model = llama("sdpa", 100)
    for dtype in (torch.float32, torch.bfloat16):
        found = shardmill.model_masks(model.to(dtype), batch, rows.manifest.attention)["attention_mask"]
        assert isinstance(found, Tensor)
        assert found.dtype == dtype
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model = model.to(torch.float32)
        found = shardmill.model_masks(model, batch, rows.manifest.attention)["attention_mask"]
    assert isinstance(found, Tensor)
    assert found.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            lambda: FNetForMaskedLM(FNetConfig(vocab_size=90, hidden_size=8, num_hidden_layers=1)),
            "FNetForMaskedLM has a Fourier transform over all tokens of a row, so no mask keeps",
        ),
        (
            lambda: MambaForCausalLM(MambaConfig(vocab_size=90, hidden_size=8, num_hidden_layers=1)),
            "MambaForCausalLM has layers of linear_attention, which no mask keeps",
        ),
    ],
)
def test_models_that_mix_documents_without_the_mask_are_refused(
    rows: shardmill.ShardDataset, model: Any, said: str
) -> None:
    batch = {name: torch.from_numpy(one) for name, one in rows.batch(range(1)).items()}
    with pytest.raises(ConfigError, match=said):
        shardmill.model_masks(model(), batch, rows.manifest.attention)


def test_a_model_that_takes_no_mask_is_told_what_it_takes(rows: shardmill.ShardDataset) -> None:
    batch = {name: torch.from_numpy(one) for name, one in rows.batch(range(1)).items()}
    model = llama("sdpa", 100)
    model.config._attn_implementation = "flash_attention_2"  # noqa: SLF001  # which is not installed here
    with pytest.raises(ConfigError, match=r'flash_attention_2, which takes no mask; .* masks="varlen"'):
        shardmill.model_masks(model, batch, rows.manifest.attention)
    model.config._attn_implementation = "flex_attention"  # noqa: SLF001  # to see what is made for it
    found = shardmill.model_masks(model, batch, rows.manifest.attention)["attention_mask"]
    assert type(found).__name__ == "BlockMask"
