"""Tokenizers of transformers' own classes, small ones, made from texts: what they put around a text."""

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from transformers import (
    BertTokenizerFast,
    GPT2TokenizerFast,
    LlamaTokenizerFast,
    PreTrainedTokenizerFast,
    RobertaTokenizerFast,
    T5TokenizerFast,
)

from tests.stages.tokenizer.existing_files import data_of, model_of

_MORE = ["<fim_prefix>", "<fim_middle>", "<fim_suffix>"]
"""What objectives need beside what a class has."""
_ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")


def tokenizer_of(preset: str, folder: Path) -> PreTrainedTokenizerFast:
    """Return a tokenizer of the class that is known by a preset, made from files of its own format."""
    return _with_more(_MAKERS[preset](folder))


def read_tokenizer(preset: str, folder: Path) -> PreTrainedTokenizerFast:
    """Return a tokenizer of that class whose own files a folder holds, such as `vocab.txt`."""
    return _with_more(_read(preset, folder))


def _read(preset: str, folder: Path) -> Any:
    kind, options = _CLASSES[preset]
    return kind.from_pretrained(folder, local_files_only=True, **options)


def _with_more(made: Any) -> PreTrainedTokenizerFast:
    made.add_special_tokens({"pad_token": made.pad_token or "<pad>", "additional_special_tokens": _MORE})
    found: PreTrainedTokenizerFast = made
    return found


def _byte_level(kind: Callable[..., Any], folder: Path, special: Sequence[str]) -> Any:
    model = json.loads(data_of("gpt2"))["model"]
    end, *pieces = model["vocab"]
    assert end == "<|endoftext|>"
    vocab = {piece: number for number, piece in enumerate([*special, *pieces])}
    (folder / "vocab.json").write_text(json.dumps(vocab))
    merges = (part if isinstance(part, str) else " ".join(part) for part in model["merges"])
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    return kind(str(folder / "vocab.json"), str(folder / "merges.txt"))


def _bert(folder: Path) -> Any:
    vocab = json.loads(data_of("bert"))["model"]["vocab"]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in vocab))
    return BertTokenizerFast(str(folder / "vocab.txt"))


def _llama(folder: Path) -> Any:
    (folder / "tokenizer.model").write_bytes(model_of("bpe", byte_fallback=True))
    return _read("llama", folder)


def _t5(folder: Path) -> Any:
    options = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    (folder / "spiece.model").write_bytes(model_of("unigram", **options))
    return _read("t5", folder)


_MAKERS: dict[str, Callable[[Path], Any]] = {
    "gpt2": partial(_byte_level, GPT2TokenizerFast, special=("<|endoftext|>",)),
    "roberta": partial(_byte_level, RobertaTokenizerFast, special=_ROBERTA),
    "bert": _bert,
    "llama": _llama,
    "t5": _t5,
}
_CLASSES: dict[str, tuple[Any, dict[str, Any]]] = {
    "gpt2": (GPT2TokenizerFast, {}),
    "roberta": (RobertaTokenizerFast, {}),
    "bert": (BertTokenizerFast, {}),
    "llama": (LlamaTokenizerFast, {"add_bos_token": True, "add_eos_token": True, "legacy": False}),
    "t5": (T5TokenizerFast, {"extra_ids": 20, "legacy": False}),
}
"""By preset: the class, and how it is opened."""
