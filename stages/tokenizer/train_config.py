"""How a run trains its tokenizer: the settings of all algorithms."""

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from stages.tokenizer.normalization import Normalization, rule_normaliser
from stages.tokenizer.sampling import SamplingConfig
from stages.tokenizer.special import num_reserved

NUM_BYTES = 256
"""Ids of single bytes, which every model has."""
_MIN_VOCAB = num_reserved() + NUM_BYTES + 1


class TrainConfig(SamplingConfig):
    """Training of the tokenizer."""

    model: Literal["bpe", "unigram"] = "bpe"
    """Algorithm: byte-pair encoding, or a unigram language model; both with byte fallback."""
    normalization: Normalization = Normalization.IDENTITY
    """What is done to texts before they are encoded: nothing, or SentencePiece's `nmt_nfkc`, which loses
    line feeds, tabs and more (`plan` names what), so that rows decode to the normalised text."""
    vocab_size: int = Field(32000, gt=_MIN_VOCAB, le=1 << 20)
    """Ids in all: the special ones and the 256 bytes included."""
    character_coverage: float = Field(0.9995, ge=0.98, le=1.0)
    """Share of the text of each language, in characters, whose characters get pieces; the others are
    written as bytes. It is lowered for all languages alike where these characters would take more than
    half of the vocabulary."""

    def normaliser(self) -> Callable[[str], str]:
        """Return what turns a text into the one that pieces are learned from, spaces as they are."""
        if self.normalization is Normalization.IDENTITY:
            return str
        normaliser = rule_normaliser(self.normalization)
        return lambda text: str(normaliser.normalize(text))

    def most_characters(self) -> int:
        """Return how many pieces may be single characters: half of those that are text."""
        return (self.vocab_size - num_reserved() - NUM_BYTES) // 2
