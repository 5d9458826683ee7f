"""Megatron-core: GPTDataset, as its builder makes it, and the batches of a torch loader over it.

Its models need a GPU, so a small one takes their place.
"""

import tempfile
from collections.abc import Iterator

import numpy as np
import torch
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import IndexedDataset
from megatron.core.datasets.utils import Split
from torch import Tensor
from torch.utils.data import DataLoader
from watched import Facts, SmallModel, Watch, read_facts, tell, train

FIELDS = ("input_ids", "labels")


class Ids:
    """What Megatron asks of a tokenizer when texts are ids already.

    Args:
        facts: name the special ids.
    """

    def __init__(self, facts: Facts) -> None:
        self.pad, self.eod = facts.special_ids["pad"], facts.special_ids["eos"]
        self.vocab_size = facts.vocab_size
        self.unique_identifiers = {"class": "ids"}


def _dataset(facts: Facts) -> GPTDataset:
    prefix = str(facts.folder / "train")
    config = GPTDatasetConfig(
        random_seed=1,
        sequence_length=facts.seq_len,
        blend=([prefix], None),
        split="1",
        path_to_cache=facts.scratch,
        tokenizer=Ids(facts),
        reset_position_ids=True,
        reset_attention_mask=True,
        eod_mask_loss=False,
    )
    low = IndexedDataset(prefix)
    documents = np.arange(len(low.document_indices) - 1, dtype=np.int32)
    return GPTDataset(low, prefix, documents, None, Split.train, config)


def _batches(loader: DataLoader[dict[str, Tensor]]) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in loader:
        yield batch["tokens"], batch["labels"].masked_fill(batch["loss_mask"] == 0, -100)


def main() -> None:
    """Train on one export."""
    facts = read_facts()
    with tempfile.NamedTemporaryFile() as meeting:
        place = f"file://{meeting.name}"
        torch.distributed.init_process_group("gloo", init_method=place, rank=0, world_size=1)
        dataset = _dataset(facts)
    loader = DataLoader(dataset, batch_size=facts.batch_size)
    fed, epoch = Watch(FIELDS), Watch(FIELDS)
    losses = train(SmallModel(facts), _batches(loader), fed, facts)
    for ids, labels in _batches(loader):
        epoch.saw({"input_ids": ids, "labels": labels})
    tell("samples", losses, fed, epoch, order=[int(number) for number in dataset.document_index])


if __name__ == "__main__":
    main()
