"""torchtitan: its own Trainer and Validator, fed by the data loader that docs/how-to/trainers.md shows.

torchtitan reads no files of tokens, so the loader is `shardmill.TorchtitanLoader`. Each training is a
process: a whole one with checkpoints, and two that load one of them, whose batches must be those of the
whole one. Each validation must see every row of the other split once.

torchtitan trains on a GPU. Here a few names of its are replaced: the device is the CPU, and attention is
torch's causal one, which makes nothing of positions. What the model is given is the same.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from watched import IGNORED, Facts, Watch, read_facts, tell

import shardmill

FIELDS = ("input_ids", "labels one on")
ACCUMULATION = 2
EVERY = 7
"""Steps from checkpoint to checkpoint."""
VALIDATED = 3
"""Validations: at the first step, half way and at the end."""
_PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "trainers.md"
_PORT = "29817"


def _shown_class() -> Any:
    """Return the class of the page."""
    page = _PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```text\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (block,) = (one for one in blocks if "class ShardLoader" in one)
    names: dict[str, Any] = {"__name__": "shown"}
    exec(block, names)  # noqa: S102  # our own page
    return names["ShardLoader"]


def _use_cpu() -> None:
    """Let torchtitan take the CPU for its device; before anything else of it is imported."""
    from torchtitan.tools import utils  # noqa: PLC0415

    def nothing(*_: object) -> None:
        """Do nothing."""

    told = SimpleNamespace(total_memory=1 << 34, name="CPU")
    utils.device_type = "cpu"
    utils.device_module = SimpleNamespace(
        set_device=nothing,
        synchronize=nothing,
        empty_cache=nothing,
        reset_peak_memory_stats=nothing,
        device_count=lambda: 1,
        current_device=lambda: 0,
        memory_stats=lambda *_: {},
        get_device_name=lambda *_: "CPU",
        get_device_properties=lambda *_: told,
    )
    torch.distributed.set_timeout = nothing  # type: ignore[attr-defined]  # of a later torch
    names = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    os.environ.update(names, MASTER_PORT=_PORT)


def _config(facts: Facts, loader: Any, load_step: int) -> Any:
    """Return the config of a training of torchtitan's smallest Llama, of one layer."""
    from torchtitan.components.checkpoint import CheckpointManager  # noqa: PLC0415
    from torchtitan.components.loss import CrossEntropyLoss  # noqa: PLC0415
    from torchtitan.components.validate import Validator  # noqa: PLC0415
    from torchtitan.models import llama3  # noqa: PLC0415
    from torchtitan.models.common.attention import ScaledDotProductAttention  # noqa: PLC0415
    from torchtitan.models.llama3.config_registry import llama3_debugmodel  # noqa: PLC0415

    llama3.get_attention_config = lambda _: ScaledDotProductAttention.Config()
    config = llama3_debugmodel()
    config.model_spec = llama3.model_registry("debugmodel")
    model = config.model_spec.model
    model.vocab_size = model.tok_embeddings.num_embeddings = facts.vocab_size
    model.lm_head.out_features = facts.vocab_size
    model.layers = model.layers[:1]
    config.loss = CrossEntropyLoss.Config(global_vocab_size=facts.vocab_size)
    config.tokenizer = SimpleNamespace(build=lambda **_: None)  # rows are tokenized
    config.activation_checkpoint = None
    config.dump_folder = facts.scratch
    config.training.local_batch_size = facts.batch_size // ACCUMULATION
    config.training.global_batch_size = facts.batch_size
    config.training.seq_len = facts.seq_len
    config.training.steps = facts.steps
    config.training.disable_cuda_graphs = True
    config.checkpoint = CheckpointManager.Config(
        enable=True, interval=EVERY, keep_latest_k=0, load_step=load_step, last_save_model_only=False
    )
    config.dataloader = loader.Config(dataset_path=str(facts.folder))
    validation = loader.Config(dataset_path=str(facts.folder), split="validation")
    half = facts.steps // (VALIDATED - 1)
    config.validator = Validator.Config(enable=load_step < 0, freq=half, dataloader=validation)
    return config


def _one_training(facts: Facts, load_step: int) -> None:
    """Train, and print the losses of micro-batches, the rows that were fed, and those of validations."""
    _use_cpu()
    from torchtitan.components.loss import IGNORE_INDEX  # noqa: PLC0415
    from torchtitan.trainer import Trainer  # noqa: PLC0415

    assert IGNORE_INDEX == IGNORED, "torchtitan's loss counts what has none here"
    fed, losses, checked, loader = Watch(FIELDS), [], [], _shown_class()
    steps, batches = Trainer.forward_backward_step, loader.__iter__

    def watched_step(trainer: Any, *, input_dict: Any, labels: Any, **others: Any) -> Any:
        fed.saw({"input_ids": input_dict["input"], "labels": labels})
        loss = steps(trainer, input_dict=input_dict, labels=labels, **others)
        losses.append(float(loss))
        return loss

    def watched_batches(one: Any) -> Iterator[Any]:
        seen = Watch(FIELDS)
        for inputs, labels in batches(one):
            seen.saw({"input_ids": inputs["input"], "labels": labels})
            yield inputs, labels
        checked.append(seen.digests)  # a validation: a training never gets here

    Trainer.forward_backward_step, loader.__iter__ = watched_step, watched_batches
    with ExitStack() as stack:
        trainer = Trainer(_config(facts, loader, load_step))
        stack.callback(trainer.close)
        trainer.train()
    torch.distributed.destroy_process_group()
    print(json.dumps({"losses": losses, "fed": fed.digests, "checked": checked}))


def _training(facts: Facts, load_step: int = -1) -> dict[str, Any]:
    """Return what a training in a process of its own printed; it loads a checkpoint, or begins at 0."""
    told = json.dumps({**asdict(facts), "folder": str(facts.folder)})
    done = subprocess.run(
        [sys.executable, "-W", "ignore", __file__, told, str(load_step)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Train on the dataset."""
    facts = read_facts()
    if len(sys.argv) > 2:  # noqa: PLR2004  # the facts, and where to begin
        _one_training(facts, int(sys.argv[2]))
        return
    whole = _training(facts)
    for step in (EVERY, 2 * EVERY):
        resumed = _training(facts, step)
        assert resumed["fed"] == whole["fed"][step * facts.batch_size :], (
            f"resumed at step {step}: other batches"
        )
    rows = shardmill.open_dataset(facts.folder, split="validation")
    for seen in whole["checked"]:
        assert seen == whole["checked"][0], "a validation saw other rows than the first one"
        size = facts.batch_size // ACCUMULATION
        assert len(seen) == -(-len(rows) // size) * size, "a validation did not see every row once"
    assert len(whole["checked"]) == VALIDATED
    losses = [
        sum(whole["losses"][at : at + ACCUMULATION])
        for at in range(0, len(whole["losses"]), ACCUMULATION)
    ]
    epoch = Watch(FIELDS)
    loader = shardmill.Loader(shardmill.Batches(shardmill.open_dataset(facts.folder), facts.batch_size))
    titan = iter(shardmill.TorchtitanLoader(loader))
    for _ in range(len(loader)):
        inputs, labels = next(titan)
        epoch.saw({"input_ids": inputs["input"], "labels": labels})
    fed = Watch(FIELDS)
    fed.digests = whole["fed"]
    tell("rows", losses, fed, epoch)


if __name__ == "__main__":
    main()
