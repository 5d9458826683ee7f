"""Tokenizer files as others train them, small ones, made from the bundled corpus."""

import io
import json
import os
from collections.abc import Callable
from functools import cache
from typing import Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # Ray starts processes after it

import sentencepiece
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from stages.cleaning.text import clean_text
from stages.tokenizer.existing import TokenizerKind
from tests.conftest import bundled_lines

FILES = ("gpt2", "bert", "t5", "llama-json", "albert-model", "llama-model")
"""Each is written in the way of the models that are known by the name."""
EXTRA = 20
"""Sentinels of the one that has some."""
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_SIZE = 1500


@cache
def texts() -> tuple[str, ...]:
    """Return the beginnings of some bundled texts, cleaned."""
    lines = [*bundled_lines("text/*", 2), *bundled_lines("code/*", 2)]
    return tuple(clean_text(json.loads(line)["text"][:1500]) for line in lines)


def kind_of_file(name: str) -> TokenizerKind:
    """Return what a file is."""
    return TokenizerKind.SENTENCEPIECE if name.endswith("model") else TokenizerKind.HUGGING_FACE


@cache
def data_of(name: str) -> bytes:
    """Return the content of one of `FILES`."""
    return _maker(name)()


def _maker(name: str) -> Callable[[], bytes]:
    return {
        "gpt2": _gpt2,
        "bert": _bert,
        "t5": _t5,
        "llama-json": _llama_json,
        "albert-model": lambda: model_of(
            "unigram",
            control_symbols=["[CLS]", "[SEP]"],
            user_defined_symbols=["[MASK]", "<aside>"],
            pad_id=3,
        ),
        "llama-model": lambda: model_of(
            "bpe",
            byte_fallback=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
        ),
    }[name]


def changed(data: bytes, **changes: Any) -> bytes:
    """Return a tokenizer.json with other top-level parts, or others of its model (`model__...`)."""
    content = json.loads(data)
    for key, value in changes.items():
        part = content["model"] if key.startswith("model__") else content
        part[key.removeprefix("model__")] = value
    return json.dumps(content).encode()


def _gpt2() -> bytes:
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    special = ["<|endoftext|>"]
    return _trained(made, trainers.BpeTrainer, special_tokens=special, initial_alphabet=alphabet)


def _bert() -> bytes:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))  # noqa: S106  # no password
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    return _trained(made, trainers.WordPieceTrainer, special_tokens=special)


def _t5() -> bytes:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>", *(f"<extra_id_{number}>" for number in range(EXTRA))]
    unknown = {"unk_token": "<unk>"}
    return _trained(made, trainers.UnigramTrainer, special_tokens=special, **unknown)


def _llama_json() -> bytes:
    made = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))  # noqa: S106  # no password
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    made.pre_tokenizer = pre_tokenizers.Split("\u2581", "merged_with_next")  # in training alone
    parts = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"]
    data = _trained(made, trainers.BpeTrainer, special_tokens=[*special, *_BYTES], max_token_length=12)
    added = [token for token in json.loads(data)["added_tokens"] if token["content"] in special]
    return changed(data, added_tokens=added, pre_tokenizer=None)


def _trained(made: Tokenizer, trainer: Any, **options: Any) -> bytes:
    made.train_from_iterator(texts(), trainer(vocab_size=_SIZE, show_progress=False, **options))
    return str(made.to_str()).encode()


def model_of(kind: str, *, vocab_size: int = _SIZE, **options: Any) -> bytes:
    """Return a SentencePiece model of a kind."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for text in texts() for line in text.splitlines()),
        model_writer=model,
        model_type=kind,
        vocab_size=vocab_size,
        character_coverage=0.98,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()
