"""What the trainers of the Hugging Face family share: how rows are opened, small models, and a watch."""

import re
import runpy
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from datasets import Dataset, disable_caching, load_dataset, load_from_disk
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor
from transformers import (
    BertConfig,
    BertForMaskedLM,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
    Trainer,
)
from watched import LEARNING_RATE, Facts, Watch

Collate = Callable[[Sequence[Mapping[str, Any]]], dict[str, Tensor]]
WIDTH = 64


def open_rows(facts: Facts) -> Dataset:
    """Return the training rows of an export, as its READ.md opens them."""
    disable_caching()  # else what a trainer makes of the rows is written beside them
    if facts.format == "hf":
        return load_from_disk(str(facts.folder))["train"]
    files = {"train": str(facts.folder / "train" / "*.parquet")}
    return load_dataset("parquet", data_files=files, split="train", cache_dir=facts.scratch)


def read_collate(facts: Facts) -> Collate:
    """Return the collator that READ.md of an export has for users to paste."""
    blocks = re.findall(r"```python\n(.*?)```", (facts.folder / "READ.md").read_text(), re.DOTALL)
    (source,) = (block for block in blocks if "def collate" in block)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pasted.py"
        path.write_text(source)
        collate: Collate = runpy.run_path(str(path))["collate"]
    return collate


def make_model(facts: Facts) -> PreTrainedModel:
    """Return a small model for an objective."""
    ids = facts.special_ids
    if facts.objective == "span_corruption":
        sizes = {"d_model": WIDTH, "d_ff": 2 * WIDTH, "d_kv": 16, "num_layers": 2, "num_heads": 4}
        start = {"decoder_start_token_id": ids["pad"], "pad_token_id": ids["pad"]}
        return T5ForConditionalGeneration(
            T5Config(vocab_size=facts.vocab_size, dropout_rate=0.0, **sizes, **start)
        )
    sizes = {"hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "max_position_embeddings": facts.seq_len}
    names = {f"{name}_token_id": ids[name] for name in ("pad", "bos", "eos")}
    if facts.objective == "mlm":
        return BertForMaskedLM(BertConfig(vocab_size=facts.vocab_size, **sizes, **names))
    return LlamaForCausalLM(LlamaConfig(vocab_size=facts.vocab_size, **sizes, **names))


def make_tokenizer(facts: Facts) -> PreTrainedTokenizerFast:
    """Return a tokenizer that has the special ids of the data, for trainers that ask for one."""
    words = WordLevel({str(number): number for number in range(facts.vocab_size)}, unk_token="0")  # noqa: S106  # an id
    names = {f"{name}_token": str(facts.special_ids[name]) for name in ("pad", "bos", "eos")}
    return PreTrainedTokenizerFast(tokenizer_object=Tokenizer(words), **names)


def arguments(facts: Facts) -> dict[str, Any]:
    """Return what TrainingArguments, and those of trainers built on them, are to say."""
    return {
        "output_dir": facts.scratch,
        "max_steps": facts.steps,
        "per_device_train_batch_size": facts.batch_size,
        "learning_rate": LEARNING_RATE,
        "lr_scheduler_type": "constant",
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "use_cpu": True,
        "disable_tqdm": True,
        "dataloader_drop_last": True,
    }


def train(trainer: Trainer, fields: Sequence[str]) -> tuple[list[float], Watch, Watch]:
    """Train, then draw an epoch of the trainer's loader; return losses, what was fed, and the epoch."""
    fed, epoch = Watch(fields), Watch(fields)
    fed.hook(trainer.model)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    for batch in trainer.get_train_dataloader():
        epoch.saw(batch)
    return losses, fed, epoch
