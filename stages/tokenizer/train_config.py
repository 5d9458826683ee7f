"""How a run trains its tokenizer: the settings of all algorithms."""

from collections.abc import Callable
from typing import Literal

from pydantic import Field, model_validator

from stages.tokenizer.digit_groups import NUM_GROUPS, digit_groups
from stages.tokenizer.normalization import Normalization, rule_normaliser
from stages.tokenizer.space_runs import UNITS
from stages.tokenizer.special import num_reserved
from stages.tokenizer.vocabulary_policy import VocabularyPolicy, refuse_symbols

NUM_BYTES = 256
"""Ids of single bytes, which every model has."""
_MIN_VOCAB = num_reserved() + NUM_BYTES + 1


class TrainConfig(VocabularyPolicy):
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

    @property
    def num_fixed(self) -> int:
        """Ids that are not learned: special ones, bytes, the user's symbols, groups of digits, runs."""
        symbols = len(self.control_symbols) + len(self.user_symbols)
        units = NUM_GROUPS * (self.digits == "threes") + len(UNITS) * self.indentation
        return num_reserved() + NUM_BYTES + symbols + units

    def most_characters(self) -> int:
        """Return how many pieces may be single characters: half of those that are text."""
        return (self.vocab_size - self.num_fixed) // 2

    @model_validator(mode="after")
    def _policy_fits(self) -> "TrainConfig":
        refuse_symbols(self.control_symbols, self.user_symbols, self.normaliser())
        if self.model != "bpe":
            for name in ("user_symbols", "indentation"):
                if getattr(self, name):
                    raise ValueError(f'{name}: not for model = "{self.model}"; set model = "bpe"')
            if self.digits == "threes":
                raise ValueError(
                    'digits = "threes": a unigram model adds up scores, which cannot tell groups from'
                    ' the left; set model = "bpe", or digits = "single"'
                )
        if self.indentation and self.normalization is not Normalization.IDENTITY:
            raise ValueError(f'indentation: normalization = "{self.normalization}" loses line feeds')
        taken = set(digit_groups()) if self.digits == "threes" else set()
        for symbol in self.user_symbols:
            if symbol in taken or (self.indentation and not symbol.strip(" ")):
                raise ValueError(f"user_symbols: {symbol!r} has a piece already; remove it")
        if self.vocab_size <= self.num_fixed:
            raise ValueError(
                f"vocab_size = {self.vocab_size:,}: the special ids, bytes, symbols, groups of digits"
                f" and runs of spaces alone are {self.num_fixed:,}; set it well above that"
            )
        return self
