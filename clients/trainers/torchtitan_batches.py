"""torchtitan: shardmill.TorchtitanLoader, as what its training loop takes.

torchtitan reads no files of tokens. A loader of it is an iterable with a state. A state must bring a
fresh loader to the same batch. Its models attend with FlexAttention, which cannot train on a CPU, so a
small one takes their place.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.distributed.checkpoint.stateful import Stateful
from torchtitan.components.loss import IGNORE_INDEX
from watched import IGNORED, Facts, SmallModel, Watch, read_facts, tell, train

import shardmill

FIELDS = ("input_ids", "labels one on")


def _loader(facts: Facts) -> shardmill.TorchtitanLoader:
    rows = shardmill.open_dataset(facts.folder, split="train")
    return shardmill.TorchtitanLoader(shardmill.Loader(shardmill.Batches(rows, facts.batch_size)))


def main() -> None:
    """Train on the dataset."""
    facts = read_facts()
    fed, epoch = Watch(FIELDS), Watch(FIELDS)
    model, loader = SmallModel(facts), _loader(facts)

    def batches() -> Iterator[tuple[Tensor, Tensor]]:
        for inputs, labels in loader:
            yield inputs["input"], labels

    losses = train(model, batches(), fed, facts)
    ahead = _loader(facts)
    ahead.load_state_dict(loader.state_dict())
    here, there = (next(iter(one))[0]["input"] for one in (loader, ahead))
    assert torch.equal(here, there), "a state does not bring a fresh loader to the same batch"
    assert isinstance(loader, Stateful), "torchtitan's checkpoints need a state"
    assert IGNORE_INDEX == IGNORED, "torchtitan's loss counts what has none here"
    size = len(shardmill.open_dataset(facts.folder, split="train")) // facts.batch_size
    for _, (inputs, labels) in zip(range(size), _loader(facts), strict=False):
        epoch.saw({"input_ids": inputs["input"], "labels": labels})
    tell("rows", losses, fed, epoch)


if __name__ == "__main__":
    main()
