"""Kinds of tokenizers that pieces are appended to."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from stages.errors import ConfigError
from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.extension.byte_level_bpe import ByteLevelBpe
from stages.tokenizer.extension.extended import Extension
from stages.tokenizer.extension.sentencepiece_append import SentencePieceBpe
from stages.tokenizer.extension.sentencepiece_unigram import SentencePieceUnigram
from stages.tokenizer.sentencepiece_model import ModelKind, SentencePieceModel


class Extendable(Protocol):
    """A tokenizer that pieces are appended to."""

    size: int
    """Every old id is below it."""

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Return how often each word stands in texts: no piece reaches out of a word."""
        ...

    def extend(self, words: Sequence[Mapping[str, int]], wanted: int, *, max_drift: float) -> Extension:
        """Return the tokenizer with further pieces, as many from each language as from another.

        Args:
            words: how often each word stands in the text of each language, and at last in old text.
            wanted: pieces.
            max_drift: share of the tokens of old text that may change, for each language.

        Raises:
            ConfigError: the text does not give so many pieces.
        """
        ...


def extendable(data: bytes, kind: TokenizerKind, *, name: str) -> Extendable:
    """Return a tokenizer that pieces are appended to, from its file, which was described before.

    Raises:
        ConfigError: it is of a kind that is not extended.
    """
    if kind is TokenizerKind.HUGGING_FACE:
        return ByteLevelBpe(data, name=name)
    found = SentencePieceModel(data).kind
    if found is ModelKind.BPE:
        return SentencePieceBpe(data)
    if found is ModelKind.UNIGRAM:
        return SentencePieceUnigram(data)
    raise ConfigError(
        f"{name}: is a SentencePiece model of kind {found.name.lower()}; extended are those of BPE and"
        " unigram"
    )
