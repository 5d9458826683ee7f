"""torchtitan: shardmill.TorchtitanLoader, as what its training loop takes.

torchtitan reads no files of tokens. A loader of it is built by its config, here by the class that
docs/how-to/trainers.md shows, and torchtitan's own generator of batches reads it. A state must bring a
fresh loader to the same batch. Its models attend with FlexAttention, which cannot train on a CPU, so a
small one takes their place.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.distributed.checkpoint.stateful import Stateful
from torchtitan.components.loss import IGNORE_INDEX
from torchtitan.trainer import Trainer
from watched import IGNORED, Facts, SmallModel, Watch, read_facts, tell, train

import shardmill

FIELDS = ("input_ids", "labels one on")
_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "trainers.md"


def _shown_class() -> Any:
    """Return the class of the page."""
    blocks = re.findall(
        r"^```text\n(.*?)^```$", _PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    (block,) = (one for one in blocks if "class ShardLoader" in one)
    names: dict[str, Any] = {"__name__": "shown"}
    exec(block, names)  # noqa: S102  # our own page
    return names["ShardLoader"]


def _loader(facts: Facts, *, validates: bool = False) -> Any:
    """Return the loader as torchtitan's trainer builds it, or as its validator does."""
    config = _shown_class().Config(dataset_path=str(facts.folder))
    config = replace(config, infinite=not validates)
    given = {"tokenizer": None, "seq_len": facts.seq_len, "local_batch_size": facts.batch_size}
    return config.build(dp_world_size=1, dp_rank=0, **given)


def _batches(loader: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what torchtitan's generator of batches makes of a loader."""
    metrics = SimpleNamespace(ntokens_since_last_log=0, data_loading_times=[])
    for inputs, labels in Trainer.batch_generator(SimpleNamespace(metrics_processor=metrics), loader):
        yield inputs["input"], labels


def main() -> None:
    """Train on the dataset."""
    facts = read_facts()
    fed, epoch = Watch(FIELDS), Watch(FIELDS)
    model, loader = SmallModel(facts), _loader(facts)
    losses = train(model, _batches(loader), fed, facts)
    ahead = _loader(facts)
    ahead.load_state_dict(loader.state_dict())
    here, there = (next(_batches(one))[0] for one in (loader, ahead))
    assert torch.equal(here, there), "a state does not bring a fresh loader to the same batch"
    assert isinstance(loader, Stateful), "torchtitan's checkpoints need a state"
    assert IGNORE_INDEX == IGNORED, "torchtitan's loss counts what has none here"
    size = len(shardmill.open_dataset(facts.folder, split="train"))
    for ids, labels in itertools.islice(_batches(_loader(facts)), size // facts.batch_size):
        epoch.saw({"input_ids": ids, "labels": labels})
    checked = _loader(facts, validates=True)
    for _ in range(2):
        seen = sum(len(labels) for _, labels in checked)
        assert seen == -(-size // facts.batch_size) * facts.batch_size, "validation does not end"
    tell("rows", losses, fed, epoch)


if __name__ == "__main__":
    main()
