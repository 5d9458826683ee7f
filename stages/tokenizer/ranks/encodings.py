r"""Encodings: what files of ranks leave out, known of some models and said by the run file of others.

A file has ranks alone. The expression that cuts texts and the special tokens are in the code of each
model. They are known here by the digest of the ranks.

Sources: tiktoken, `tiktoken_ext/openai_public.py`; Meta's llama-models, `llama3/tokenizer.py`,
`llama4/tokenizer.py`; Alibaba's dashscope, `tokenizers/qwen_tokenizer.py`. Expressions are theirs,
without what only makes their library faster: possessive counts, `\s++$` where `\s+(?!\S)` does the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, model_validator

from stages.config import Config

EncodingName = Literal[
    "r50k_base",
    "p50k_base",
    "p50k_edit",
    "cl100k_base",
    "o200k_base",
    "o200k_harmony",
    "llama3",
    "llama4",
    "qwen",
]
_END = "<|endoftext|>"
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_PROMPT = "<|endofprompt|>"
_BEGIN = "<|begin_of_text|>"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = (
    _CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN = _LLAMA3.replace("{1,3}", "")
_CL100K = _LLAMA3.replace(r"|\s*[\r\n]+", r"|\s+(?![\s\S])|\s*[\r\n]+")
"""White space at the end of a text is one word, line breaks in it or not."""
_O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _CONTRACTIONS + "?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    + _CONTRACTIONS
    + "?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


class TiktokenConfig(Config):
    """What a file of tiktoken's ranks leaves out. Files of well-known models need none of it."""

    encoding: EncodingName | None = None
    """The model that the ranks are of: its expression and its special tokens."""
    pattern: str | None = Field(None, min_length=1)
    """Or the expression that cuts texts into words (tiktoken's `pat_str`)."""
    special_tokens: Mapping[str, int] = {}
    """Special tokens with their ids. If there are some, those of the encoding are left out."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "TiktokenConfig":
        if self.encoding is not None and self.pattern is not None:
            raise ValueError("encoding and pattern are both given: an encoding has its pattern")
        return self


UNSAID = TiktokenConfig()
"""Where nothing is said of ranks."""


@dataclass(frozen=True)
class RankEncoding:
    """What is known of the files of a model."""

    sha256: str
    """Digest of the ranks, as lines in their order."""
    pattern: str
    special_tokens: Mapping[str, int]
    begin: str | None = None
    """What the models expect before each text."""
    normalization: str | None = None


def _numbered(pieces: Iterable[str], first: int) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(pieces, first)}


def _llama3() -> Iterator[str]:
    """Yield the 256 special tokens of Llama 3."""
    yield from (_BEGIN, "<|end_of_text|>", *_reserved("", 2), "<|finetune_right_pad_id|>", "<|step_id|>")
    yield from ("<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>")
    yield from ("<|python_tag|>", "<|image|>", *_reserved("", 244, first=2))


def _llama4() -> Iterator[str]:
    """Yield the 2,048 special tokens of Llama 4."""
    yield from (_BEGIN, "<|end_of_text|>", *_FIM)
    yield from ("<|header_start|>", "<|header_end|>", "<|eom|>", "<|eot|>", "<|step|>")
    yield from (*_reserved("text_post_train_", 6), "<|python_start|>", "<|python_end|>")
    yield from ("<|finetune_right_pad|>", *_reserved("text_post_train_", 61, first=8))
    yield from ("<|image_start|>", "<|image_end|>", *_reserved("vision_", 2))
    yield from ("<|tile_x_separator|>", "<|tile_y_separator|>", *_reserved("vision_", 4, first=2))
    yield from ("<|image|>", *_reserved("vision_", 1, first=6), "<|patch|>")
    yield from (*_reserved("vision_", 1041, first=7), *_reserved("reasoning_", 8))
    yield from ("<|reasoning_thinking_start|>", "<|reasoning_thinking_end|>", *_reserved("", 904))


def _reserved(name: str, count: int, *, first: int = 0) -> Iterator[str]:
    return (f"<|{name}reserved_special_token_{number}|>" for number in range(first, first + count))


def _harmony() -> dict[str, int]:
    named = {"startoftext": 199_998, "endoftext": 199_999, "return": 200_002, "constrain": 200_003}
    named |= {"channel": 200_005, "start": 200_006, "end": 200_007, "message": 200_008, "call": 200_012}
    taken = set(named.values())
    rest = {f"reserved_{number}": number for number in range(200_000, 201_088) if number not in taken}
    # 200018 has two names in tiktoken, and the later counts in decoding
    return {f"<|{piece}|>": number for piece, number in (named | rest).items()}


_P50K = "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069"
_O200K_RANKS = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
ENCODINGS: Mapping[EncodingName, RankEncoding] = {
    "r50k_base": RankEncoding(
        "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930", _GPT2, {_END: 50_256}
    ),
    "p50k_base": RankEncoding(_P50K, _GPT2, {_END: 50_256}),
    "p50k_edit": RankEncoding(_P50K, _GPT2, {_END: 50_256, **_numbered(_FIM, 50_281)}),
    "cl100k_base": RankEncoding(
        "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
        _CL100K,
        {**_numbered((_END, *_FIM), 100_257), _PROMPT: 100_276},
    ),
    "o200k_base": RankEncoding(_O200K_RANKS, _O200K, {_END: 199_999, _PROMPT: 200_018}),
    "o200k_harmony": RankEncoding(_O200K_RANKS, _O200K, _harmony()),
    "llama3": RankEncoding(
        "82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55",
        _LLAMA3,
        _numbered(_llama3(), 128_000),
        _BEGIN,
    ),
    "llama4": RankEncoding(
        "d0bdbaf59b0762c8c807617e2d8ea51420eb1b1de266df2495be755c8e0ed6ed",
        _O200K,
        _numbered(_llama4(), 200_000),
        _BEGIN,
    ),
    "qwen": RankEncoding(
        "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186",
        _QWEN,
        _numbered(
            (_END, "<|im_start|>", "<|im_end|>", *(f"<|extra_{n}|>" for n in range(205))), 151_643
        ),
        normalization="NFC",
    ),
}
"""Of two with the same ranks, the first is meant unless the run file names the other."""
