"""Megatron-core: IndexedDataset, GPTDataset, and over sentences its datasets for BERT and T5.

GPTDataset shuffles documents before it cuts them, so its answer names the order it took. BERT's and T5's
samples are put together again from what they mask, so their answer names the sentences of each.
"""

import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from answers import Answer, Facts, digest, read_facts, stream_answer, tell
from megatron.core.datasets.bert_dataset import (
    BERTMaskedWordPieceDataset,
    BERTMaskedWordPieceDatasetConfig,
)
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset
from megatron.core.datasets.t5_dataset import T5MaskedWordPieceDataset, T5MaskedWordPieceDatasetConfig
from megatron.core.datasets.utils import Split

MASKING = {
    "masking_probability": 0.15,
    "short_sequence_probability": 0.1,
    "masking_max_ngram": 3,
    "masking_do_full_word": False,
    "masking_do_permutation": False,
    "masking_use_longer_ngrams": False,
    "masking_use_geometric_distribution": False,
}


ONE_EPOCH = 1
"""Samples asked of BERT's and T5's datasets: they end with the epoch in which they have as many."""


class Ids:
    """What Megatron asks of a tokenizer when texts are ids already.

    Args:
        facts: name the special ids.
    """

    def __init__(self, facts: Facts) -> None:
        ids = facts.special_ids
        self.cls, self.sep, self.mask = ids.get("cls"), ids.get("sep"), ids.get("mask")
        self.pad, self.bos, self.eos, self.eod = ids["pad"], ids["bos"], ids["eos"], ids["eos"]
        self.vocab_size = facts.vocab_size
        self.inv_vocab = {number: str(number) for number in range(facts.vocab_size)}
        self.additional_special_tokens_ids = [
            ids[name] for name in sorted(ids, key=lambda name: ids[name]) if name.startswith("sentinel")
        ]
        self.unique_identifiers = {"class": "ids"}


def gpt_answer(split: str, low: IndexedDataset, prefix: str, options: dict[str, Any]) -> Answer:
    """Return the samples of GPTDataset, targets checked, and the order of their documents."""
    config = GPTDatasetConfig(
        reset_position_ids=True, reset_attention_mask=True, eod_mask_loss=False, **options
    )
    documents = np.arange(len(low.document_indices) - 1, dtype=np.int32)
    samples = GPTDataset(low, prefix, documents, None, Split.train, config)
    found: dict[int, torch.Tensor] = {}
    for place, number in enumerate(samples.shuffle_index):
        sample = samples[place]
        assert torch.equal(sample["tokens"][1:], sample["labels"][:-1]), "labels are not one on"
        found[int(number)] = torch.cat([sample["tokens"], sample["labels"][-1:]])
    order = [int(number) for number in samples.document_index]
    ids = (found[number] for number in sorted(found))
    return Answer(f"{split} samples", len(found), len(order), digest(ids), order)


def bert_answer(split: str, low: IndexedDataset, prefix: str, options: dict[str, Any]) -> Answer:
    """Return the pairs of BERT's dataset that were not cut, unmasked and in their own order."""
    config = BERTMaskedWordPieceDatasetConfig(classification_head=True, **options, **MASKING)
    documents = np.arange(len(low.document_indices) - 1, dtype=np.int32)
    samples = BERTMaskedWordPieceDataset(low, prefix, documents, ONE_EPOCH, Split.train, config)
    parts, order, pad = [], [], config.tokenizer.pad
    for number, (first, last, _) in enumerate(samples.sample_index):
        sample = samples[number]
        if sample["truncated"]:
            continue
        shown = np.where(sample["labels"] >= 0, sample["labels"], sample["text"])
        assert pad not in (0, 1), "types and padding could not be told apart"
        halves = [shown[sample["types"] == half] for half in (0, 1)]
        a, b = halves[0][1:-1], halves[1][:-1]  # without the ids that stand around them
        parts += [b, a] if sample["is_random"] else [a, b]
        order += [int(first), int(last), -1]
    return Answer(f"{split} pairs for BERT", len(order) // 3, None, digest(parts), order)


def t5_answer(split: str, low: IndexedDataset, prefix: str, options: dict[str, Any]) -> Answer:
    """Return the samples of T5's dataset, their spans put back where the sentinels stand."""
    length = options["sequence_length"]
    config = T5MaskedWordPieceDatasetConfig(sequence_length_decoder=length, **options, **MASKING)
    documents = np.arange(len(low.document_indices) - 1, dtype=np.int32)
    samples = T5MaskedWordPieceDataset(low, prefix, documents, ONE_EPOCH, Split.train, config)
    sentinels = set(config.tokenizer.additional_special_tokens_ids)
    parts: list[int] = []
    order: list[int] = []
    for number, (first, last, target) in enumerate(samples.sample_index):
        sample = samples[number]
        spans: dict[int, list[int]] = {}
        for token in sample["labels"][sample["labels"] >= 0][:-1].tolist():
            if token in sentinels:
                spans[token] = []
            else:
                spans[next(reversed(spans))].append(token)
        for token in sample["text_enc"][sample["enc_mask"] == 1].tolist():
            parts += spans.get(token, [token])
        order += [int(first), int(last), int(target)]
    return Answer(f"{split} samples for T5", len(order) // 3, None, digest([parts]), order)


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield the stream of each split, and the samples that the datasets of models make of it."""
    tokenizer = Ids(facts)
    for split in facts.splits:
        prefix = str(facts.folder / split)
        low = IndexedDataset(prefix)
        sequences = (low[number] for number in range(len(low)))
        lengths = np.add.reduceat(low.sequence_lengths, low.document_indices[:-1])
        yield stream_answer(split, sequences, lengths, sequences=len(low))
        with tempfile.TemporaryDirectory() as cache:
            options = {
                "random_seed": 1,
                "sequence_length": facts.seq_len,
                "blend": ([prefix], None),
                "split": "1",
                "path_to_cache": cache,
                "tokenizer": tokenizer,
            }
            if facts.format == "megatron":
                yield gpt_answer(split, low, prefix, options)
            else:
                yield bert_answer(split, low, prefix, options)
                yield t5_answer(split, low, prefix, options)


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile() as meeting:
        # the indices of BERT's and T5's datasets are built by rank 0 of a process group
        place = f"file://{meeting.name}"
        torch.distributed.init_process_group("gloo", init_method=place, rank=0, world_size=1)
        tell(answers(read_facts()))
