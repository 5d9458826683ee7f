"""How a run trains its tokenizer: the settings of all algorithms."""

from collections.abc import Callable
from enum import StrEnum

from pydantic import Field, model_validator

from stages.tokenizer.normalization import Normalization, rule_normaliser
from stages.tokenizer.sampling import SamplingConfig
from stages.tokenizer.special import num_reserved

NUM_BYTES = 256
"""Ids of single bytes, which every model has."""
_MIN_VOCAB = num_reserved() + NUM_BYTES + 1


class TokenizerModel(StrEnum):
    """The algorithms."""

    BPE = "bpe"
    UNIGRAM = "unigram"
    BYTE_BPE = "byte_bpe"


class PreTokenizer(StrEnum):
    """Where byte-level BPE cuts texts into words, by the model whose expression it is."""

    GPT2 = "gpt2"
    LLAMA3 = "llama3"
    QWEN2 = "qwen2"
    GPT4O = "gpt4o"


class TrainConfig(SamplingConfig):
    """Training of the tokenizer."""

    model: TokenizerModel = TokenizerModel.BPE
    """Algorithm. bpe, unigram: SentencePiece's byte-pair encoding and unigram language model, with byte
    fallback. byte_bpe: byte-level BPE, as a `tokenizer.json`."""
    pre_tokenizer: PreTokenizer = PreTokenizer.LLAMA3
    """How byte-level BPE cuts texts into words. gpt2: letters, digits and other characters, each with a
    space before them. llama3: digits in groups of up to three, line ends with what stands before them,
    one other character before letters. qwen2: likewise, with single digits. gpt4o: as llama3, but marks,
    such as the vowel signs of Hindi and Thai, are part of words, and a capital letter begins one."""
    normalization: Normalization = Normalization.IDENTITY
    """What is done to texts before they are encoded: nothing, or SentencePiece's `nmt_nfkc`, which loses
    line feeds, tabs and more (`plan` names what), so that rows decode to the normalised text."""
    vocab_size: int = Field(32000, gt=_MIN_VOCAB, le=1 << 20)
    """Ids in all: the special ones and the 256 bytes included."""
    character_coverage: float = Field(0.9995, ge=0.98, le=1.0)
    """Share of the text of each language, in characters, whose characters get pieces; the others are
    written as bytes. It is lowered for all languages alike where these characters would take more than
    half of the vocabulary."""

    @model_validator(mode="after")
    def _settings_have_a_meaning(self) -> "TrainConfig":
        """Refuse what the algorithm has no use for; says nothing of settings at their defaults."""
        fields = type(self).model_fields
        for name, (has_use, why) in self._uses().items():
            if not has_use and getattr(self, name) != fields[name].default:
                raise ValueError(f'{name}: has no meaning for model = "{self.model}", {why}')
        return self

    def _uses(self) -> dict[str, tuple[bool, str]]:
        """Say of some settings whether the algorithm uses them, and if not, why and what to do."""
        return {
            "pre_tokenizer": (self.is_byte_level, "which cuts words itself; leave it out"),
            "character_coverage": (
                not self.is_byte_level,
                "which writes every character in bytes; leave it out",
            ),
            "normalization": (
                not self.is_byte_level,
                "which keeps texts as they are; leave it out, since texts are in NFC already",
            ),
        }

    @property
    def is_byte_level(self) -> bool:
        """Whether pieces are made of bytes."""
        return self.model is TokenizerModel.BYTE_BPE

    def normaliser(self) -> Callable[[str], str]:
        """Return what turns a text into the one that pieces are learned from, spaces as they are."""
        if self.normalization is Normalization.IDENTITY:
            return str
        normaliser = rule_normaliser(self.normalization)
        return lambda text: str(normaliser.normalize(text))

    def most_characters(self) -> int:
        """Return how many pieces may be single characters: half of those that are text."""
        return (self.vocab_size - num_reserved() - NUM_BYTES) // 2
