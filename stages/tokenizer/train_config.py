"""How a run trains its tokenizer: the settings of all algorithms."""

from collections.abc import Callable
from enum import StrEnum

from pydantic import Field, model_validator

from stages.config import Config
from stages.tokenizer.huggingface_content import BYTE_OF
from stages.tokenizer.normalization import Normalization, rule_normaliser
from stages.tokenizer.special import num_reserved
from stages.tokenizer.vocabulary_policy import (
    DIGITS,
    NUM_GROUPS,
    UNITS,
    VocabularyPolicy,
    digit_groups,
    refuse_symbols,
)

NUM_BYTES = 256
"""Ids of single bytes, which every model has."""
_MIN_VOCAB = num_reserved() + NUM_BYTES + 1


class TokenizerModel(StrEnum):
    """The algorithms."""

    BPE = "bpe"
    UNIGRAM = "unigram"
    BYTE_BPE = "byte_bpe"
    PARITY_BPE = "parity_bpe"


class PreTokenizer(StrEnum):
    """Where byte-level BPE cuts texts into words, by the model whose expression it is."""

    GPT2 = "gpt2"
    LLAMA3 = "llama3"
    QWEN2 = "qwen2"
    GPT4O = "gpt4o"


class ParityBalance(Config):
    """What parity-aware BPE balances languages by: the same text in many of them."""

    texts: str | None = None
    """Folder of LANG.txt, relative to the run file; line N of each file is the same sentence. Without
    it, the text is the Universal Declaration of Human Rights, in 62 languages."""
    digest: str | None = None
    """XXH3-128 of the texts. The run fills it in. If you set it, other texts are refused."""


class TrainConfig(VocabularyPolicy):
    """Training of the tokenizer."""

    model: TokenizerModel = TokenizerModel.BPE
    """Algorithm. "bpe" and "unigram" are those of SentencePiece, with byte fallback. "byte_bpe" is
    byte-level BPE, as a `tokenizer.json`. "parity_bpe" is byte-level BPE in which each merge is chosen
    for one language, the one that needs most tokens for the same text."""
    pre_tokenizer: PreTokenizer = PreTokenizer.LLAMA3
    """How byte-level BPE cuts texts into words. "gpt2" cuts into letters, digits and other characters,
    each with a space before them. "llama3" has digits in groups of up to three, and line ends together
    with what precedes them. There, one other character may precede letters. "qwen2" is the same with
    single digits. "gpt4o" is like "llama3", but marks belong to words, such as the vowel signs of Hindi
    and Thai. A capital letter begins a word there."""
    parity: ParityBalance = ParityBalance()
    normalization: Normalization = Normalization.IDENTITY
    """What is done to texts before they are encoded: nothing, or SentencePiece's `nmt_nfkc`. The latter
    loses line feeds, tabs and more (`plan` names what), so rows decode to the normalised text."""
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
            "parity": (
                self.is_balanced,
                'which balances no languages; leave it out, or set model to "parity_bpe"',
            ),
            "character_coverage": (
                not self.is_byte_level,
                "which writes every character in bytes; leave it out",
            ),
            "normalization": (
                not self.is_byte_level,
                "which keeps texts as they are; leave it out, since texts are in NFC already",
            ),
            "indentation": (
                self.model is TokenizerModel.BPE,
                "which has no order of merges that would keep runs together; leave it out"
                if self.model is TokenizerModel.UNIGRAM
                else "whose pre-tokenizer says what stands together; leave it out",
            ),
            "user_symbols": (
                self.model is not TokenizerModel.UNIGRAM,
                'in which other pieces can reach over them; set model = "bpe"',
            ),
        }

    @property
    def is_byte_level(self) -> bool:
        """Whether pieces are made of bytes."""
        return self.model in (TokenizerModel.BYTE_BPE, TokenizerModel.PARITY_BPE)

    @property
    def is_balanced(self) -> bool:
        """Whether languages are balanced by parallel text."""
        return self.model is TokenizerModel.PARITY_BPE

    def normaliser(self) -> Callable[[str], str]:
        """Return what turns a text into the one that pieces are learned from, spaces as they are."""
        if self.normalization is Normalization.IDENTITY:
            return str
        normaliser = rule_normaliser(self.normalization)
        return lambda text: str(normaliser.normalize(text))

    @property
    def _has_groups(self) -> bool:
        """Whether every group of digits has a piece, learned or not."""
        return self.digits == "threes" and not self.is_byte_level

    @property
    def num_fixed(self) -> int:
        """Ids that are not learned: special ones, bytes, the user's symbols, groups of digits, runs."""
        symbols = len(self.control_symbols) + len(self.user_symbols)
        units = NUM_GROUPS * self._has_groups + len(UNITS) * self.indentation
        return num_reserved() + NUM_BYTES + symbols + units

    def most_characters(self) -> int:
        """Return how many pieces may be single characters: half of those that are text."""
        return (self.vocab_size - self.num_fixed) // 2

    @model_validator(mode="after")
    def _policy_fits(self) -> "TrainConfig":
        refuse_symbols(self.control_symbols, self.user_symbols, self.normaliser())
        if self.model is TokenizerModel.UNIGRAM and self.digits == "threes":
            raise ValueError(
                'digits = "threes": a unigram model adds up scores, which cannot tell groups from'
                ' the left; set model = "bpe", or digits = "single"'
            )
        if self.indentation and self.normalization is not Normalization.IDENTITY:
            raise ValueError(f'indentation: normalization = "{self.normalization}" loses line feeds')
        for symbol in (*self.user_symbols, *self.control_symbols):
            if self.is_byte_level and symbol in BYTE_OF:
                raise ValueError(
                    f"{symbol!r} is how a tokenizer.json writes the piece of a single byte; remove it"
                )
        taken = {*digit_groups(), *DIGITS} if self._has_groups else set()
        for symbol in self.user_symbols:
            if symbol in taken or (self.indentation and not symbol.strip(" ")):
                raise ValueError(f"user_symbols: {symbol!r} has a piece already; remove it")
        if self.vocab_size <= self.num_fixed:
            raise ValueError(
                f"vocab_size = {self.vocab_size:,}: the special ids, bytes, symbols, groups of digits"
                f" and runs of spaces alone are {self.num_fixed:,}; set it well above that"
            )
        return self
