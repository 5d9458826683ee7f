"""Tiny checkpoints of transformers, made here: no hub."""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 1},
    "gpt2": {"resid_pdrop": 0.1},
    "qwen2": {"num_key_value_heads": 1},
}
SIZES = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def write_checkpoint(folder: Path, kind: str = "llama", *, vocab_size: int = 64, **options: Any) -> Path:
    """Write a model with random weights, always the same."""
    own = {"intermediate_size": 32, **ARCHITECTURES.get(kind, {}), **options}
    own = {"max_position_embeddings": 512, **own}
    config = AutoConfig.for_model(kind, vocab_size=vocab_size, **SIZES, **own)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    return folder


def write_config(folder: Path, **options: Any) -> Path:
    """Write a config without weights."""
    write_checkpoint(folder, **options)
    (folder / "model.safetensors").unlink()
    return folder
