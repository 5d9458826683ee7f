"""litgpt: its data module LitData, and a small model of its own."""

from collections.abc import Iterator

import torch
from litgpt import GPT, Config
from litgpt.data import LitData
from torch import Tensor
from torch.utils.data import DataLoader
from watched import Facts, Watch, read_facts, tell, train

FIELDS = ("input_ids", "labels")


def _batches(loader: DataLoader[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what litgpt's pretrain makes of a batch: its ids, and the same one on."""
    for blocks in loader:
        yield blocks[:, :-1].long(), blocks[:, 1:].long()


def _model(facts: Facts) -> GPT:
    sizes = {"n_layer": 2, "n_head": 4, "n_embd": 64, "intermediate_size": 128}
    return GPT(Config(block_size=facts.seq_len, padded_vocab_size=facts.vocab_size, **sizes))


def main() -> None:
    """Train on one export."""
    facts = read_facts()
    data = LitData(data_path=facts.folder, split_names=("train", "validation"), num_workers=0)
    data.connect(batch_size=facts.batch_size, max_seq_length=facts.seq_len)
    fed, epoch = Watch(FIELDS), Watch(FIELDS)
    loader = data.train_dataloader()
    losses = train(_model(facts), _batches(loader), fed, facts)
    for ids, labels in _batches(data.train_dataloader()):
        epoch.saw({"input_ids": ids, "labels": labels})
    assert torch.is_tensor(next(iter(data.val_dataloader()))), "no validation"
    tell("windows of a file", losses, fed, epoch)


if __name__ == "__main__":
    main()
