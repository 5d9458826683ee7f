"""Small models of every class of transformers, with weights drawn at random."""

import copy
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, PreTrainedModel

from stages.loading.model_masks import attention_of

VOCABULARY = 160
LARGEST = 30_000_000
"""Numbers that a small model may have; one with more was not made small."""
SMALL: dict[str, object] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "embedding_size", "emb_dim"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "rotary_dim", "attention_head_size"), 8),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "n_inner", "d_ff", "ffn_hidden_size"), 64),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "hidden_dim"), 64),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k"), 2),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"), 64),
    **dict.fromkeys(("sliding_window", "window_size", "attention_chunk_size", "local_attention"), 6),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCABULARY),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "v_head_dim"), 8),
    "qk_rope_head_dim": 4,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 0,
}
"""Settings of small models, by the names that configs have for them."""
_HEADS = ("head_dim", "rotary_dim", "attention_head_size", "d_kv")
_RANKS = ("q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")
FORCED = {"head_dim": 8, "num_key_value_heads": 4, "vocab_size": VOCABULARY}
"""What is set at last even if a config says nothing of it, or wants as many keys as heads."""
SPECIAL: dict[str, dict[str, object]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "reformer": {"is_decoder": True},
}
"""Settings of single types."""


def small_configs(task: str, model_type: str) -> Iterator[Any]:
    """Yield settings of small models of a type, the next with fewer names set than the last."""
    config = AutoConfig.for_model(model_type)
    fixed = {name for name in SMALL if isinstance(getattr(type(config), name, None), property)}
    for without, forced in (((), {}), (_HEADS, {}), ((*_HEADS, *_RANKS), {}), ((), FORCED)):
        known = {
            name: value
            for name, value in (SMALL | SPECIAL.get(model_type, {})).items()
            if name not in fixed and name not in without and number_of(config, name) is not None
        } | forced
        if task == "causal" and number_of(config, "is_decoder") is not None:
            known["is_decoder"] = True  # else BERT's kind attends to both sides
        kinds = number_of(config, "layer_types")
        if isinstance(kinds, list) and not isinstance(
            getattr(type(config), "layer_types", None), property
        ):
            kinds = [*dict.fromkeys(kinds)]
            known["layer_types"] = kinds if len(kinds) > 1 else kinds * 2
            known["num_hidden_layers"] = max(2, len(kinds))
        yield AutoConfig.for_model(model_type, **known)


def number_of(config: Any, name: str) -> object:
    """Return a setting; None if there is none, or one for each layer."""
    with suppress(Exception):
        return getattr(config, name, None)
    return None


def make_model(name: str, config: Any, kernel: str) -> PreTrainedModel:
    """Return a small model of a class in evaluation, with weights that say something.

    Raises:
        ValueError: the settings make no small model.
    """
    made = getattr(transformers, name)
    with torch.device("meta"):
        size = sum(parameter.numel() for parameter in made(copy.deepcopy(config)).parameters())
    if size > LARGEST:
        raise ValueError(f"{size:,} numbers: no small model comes of its settings")
    torch.manual_seed(0)
    config = copy.deepcopy(config)
    config._attn_implementation = kernel  # noqa: SLF001  # as attn_implementation= sets it
    model: PreTrainedModel = made._from_config(config)  # noqa: SLF001  # as from_pretrained calls it
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, 0.3)
    return model.eval()


def whole_model(model_type: str, name: str) -> PreTrainedModel:
    """Return a model of a class with the settings of its type, without any memory for its weights."""
    with torch.device("meta"):
        model: PreTrainedModel = getattr(transformers, name)(AutoConfig.for_model(model_type))
    return model


def first_that_computes(
    task: str, model_type: str, name: str, kernel: str, ids: Tensor
) -> tuple[PreTrainedModel | None, str]:
    """Return a small model of a class, or None and the reason why none was made."""
    note = ""
    try:
        for config in small_configs(task, model_type):
            model, note = tried(name, config, kernel, task, ids)
            if model is not None:
                return model, ""
    except Exception as error:  # noqa: BLE001  # likewise
        note = said(error)
    return None, note


def tried(
    name: str, config: Any, kernel: str, task: str, ids: Tensor
) -> tuple[PreTrainedModel | None, str]:
    """Return a model that computes, or None and the reason."""
    try:
        model = make_model(name, config, kernel)
        if attention_of(model) != kernel:
            return None, f"attends by {attention_of(model)}"
        more = {"decoder_input_ids": ids} if task == "seq2seq" else {}
        with torch.no_grad():
            model(input_ids=ids, **more)
    except Exception as error:  # noqa: BLE001  # likewise
        return None, said(error)
    return model, ""


def said(error: Exception) -> str:
    """Return an error in a line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:150]}"
