"""torchtitan: a data loader of its kind over shardmill.Batches.

torchtitan reads no files of tokens. A loader of it is an iterable with a state, which Batches are, so
the class below is all that is between them. A state must bring a fresh loader to the same batch. Its
models attend with FlexAttention, which cannot train on a CPU, so a small one takes their place.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torchtitan.components.dataloader import BaseDataLoader
from watched import Facts, SmallModel, Watch, read_facts, tell, train

import shardmill

FIELDS = ("input_ids", "labels one on")


class ShardmillDataLoader(BaseDataLoader):  # type: ignore[misc]  # torchtitan ships no types
    """Batches of packed rows as torchtitan's training loop takes them.

    Args:
        config: names the folder of the dataset.
        dp_world_size: processes that train together.
        dp_rank: this one among them.
        local_batch_size: rows of a batch.
    """

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):  # type: ignore[misc]
        """`dataset_path` is the folder of the dataset."""

    def __init__(
        self, config: Config, *, dp_world_size: int, dp_rank: int, local_batch_size: int, **_: object
    ) -> None:
        rows = shardmill.open_dataset(str(config.dataset_path), split="train")
        self.batches = shardmill.Batches(rows, local_batch_size, rank=dp_rank, world_size=dp_world_size)

    def __iter__(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """Yield the rest of the epoch; labels stand one on, and a document's last token has none."""
        for batch in self.batches:
            tensors = {name: torch.from_numpy(column) for name, column in batch.items()}
            labels = torch.full_like(tensors["labels"], -100)
            labels[:, :-1] = shardmill.next_labels(tensors["labels"], tensors["segment_ids"])
            yield {"input": tensors["input_ids"], "positions": tensors["position_ids"]}, labels

    def state_dict(self) -> dict[str, Any]:
        """Return where the epoch stands."""
        return dict(self.batches.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go where a state says; torchtitan gives an empty one when there is none."""
        if state_dict:
            self.batches.load_state_dict(state_dict)


def _loader(facts: Facts) -> ShardmillDataLoader:
    config = ShardmillDataLoader.Config(dataset_path=str(facts.folder))
    options = {"dp_world_size": 1, "dp_rank": 0, "local_batch_size": facts.batch_size}
    loader: ShardmillDataLoader = config.build(**options)
    return loader


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
    for inputs, labels in _loader(facts):
        epoch.saw({"input_ids": inputs["input"], "labels": labels})
    tell("rows", losses, fed, epoch)


if __name__ == "__main__":
    main()
