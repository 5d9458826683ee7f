"""Training: the algorithms that a run can train its tokenizer by, each with what it costs.

    bpe          SentencePiece     pieces of characters, byte fallback
    unigram      SentencePiece     likewise
    byte_bpe     tokenizers        pieces of bytes
    parity_bpe   tokenizers        likewise, balanced by parallel text

Each is one value of a table: how it is trained, and the memory that this takes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from stages.tokenizer.byte_level_training import between_symbols, train_byte_bpe
from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.parity_training import train_parity_bpe
from stages.tokenizer.sentencepiece_training import sentencepiece_parts, train_sentencepiece
from stages.tokenizer.train_config import TokenizerModel, TrainConfig

__all__ = [
    "TRAINERS",
    "TokenizerTrainer",
    "TrainConfig",
    "TrainingSample",
    "fitting_sample",
    "train_model",
    "training_memory",
]

_MEMORY_PER_PIECE = 1 << 10
_MEMORY_BASE = 128 << 20


@dataclass(frozen=True)
class TrainingSample:
    """What is learned from.

    Args:
        texts: yields (language, text, copies) in canonical order, from the start at each call.
        characters: that get a piece, if the algorithm has pieces of characters.
        parallel: the same text in some languages, if the algorithm balances languages by it.
    """

    texts: Callable[[], Iterator[tuple[str, str, int]]]
    characters: str = ""
    parallel: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class TokenizerTrainer:
    """An algorithm.

    Args:
        kind: of the file.
        train: returns the bytes of the file of a tokenizer that was trained on a sample.
        parts: returns what of a text is learned from.
        most_memory: bytes that training takes for a byte of the sample, at the most.
        usual_memory: the same in the middle of what was measured.
    """

    kind: TokenizerKind
    train: Callable[[TrainingSample, TrainConfig], bytes]
    parts: Callable[[str, TrainConfig], list[str]]
    most_memory: int
    usual_memory: int


def _by_bytes(sample: TrainingSample, config: TrainConfig) -> bytes:
    return train_byte_bpe(((text, copies) for _, text, copies in sample.texts()), config)


def _by_parity(sample: TrainingSample, config: TrainConfig) -> bytes:
    return train_parity_bpe(sample.texts(), config, parallel=sample.parallel)


def _by_sentencepiece(sample: TrainingSample, config: TrainConfig) -> bytes:
    def texts() -> Iterator[tuple[str, int]]:
        yield from ((text, copies) for _, text, copies in sample.texts())

    return train_sentencepiece(texts, config, characters=sample.characters)


def _of_pieces(most_memory: int, usual_memory: int) -> TokenizerTrainer:
    kind = TokenizerKind.SENTENCEPIECE
    return TokenizerTrainer(kind, _by_sentencepiece, sentencepiece_parts, most_memory, usual_memory)


def _of_bytes(
    train: Callable[[TrainingSample, TrainConfig], bytes], most_memory: int, usual_memory: int
) -> TokenizerTrainer:
    kind = TokenizerKind.HUGGING_FACE
    return TokenizerTrainer(kind, train, between_symbols, most_memory, usual_memory)


TRAINERS: Mapping[TokenizerModel, TokenizerTrainer] = {
    TokenizerModel.BPE: _of_pieces(most_memory=28, usual_memory=10),
    TokenizerModel.UNIGRAM: _of_pieces(most_memory=24, usual_memory=20),
    TokenizerModel.BYTE_BPE: _of_bytes(_by_bytes, most_memory=48, usual_memory=16),
    TokenizerModel.PARITY_BPE: _of_bytes(_by_parity, most_memory=104, usual_memory=45),
}
"""By `tokenizer.train.model`."""


def train_model(
    sample: Iterable[tuple[str, int]], config: TrainConfig, *, characters: str = ""
) -> bytes:
    """Return the file of a tokenizer trained on a sample of (text, copies), all of one language.

    Args:
        sample: what is learned from.
        config: how.
        characters: that get a piece, beside those that are 98% of the whole sample.

    Raises:
        ConfigError: the sample is empty, or too small for the vocabulary.
    """
    texts = list(sample)

    def sample_texts() -> Iterator[tuple[str, str, int]]:
        yield from (("", text, copies) for text, copies in texts)

    return TRAINERS[config.model].train(TrainingSample(sample_texts, characters), config)


def training_memory(config: TrainConfig) -> int:
    """Return the bytes that training takes, at the most, beyond what the process holds before it.

    An estimate from above, from what was measured with a vocabulary of 32,000: private memory of a fresh
    process (Pss_Anon), sampled ten times a second, in MiB above its start. Texts are those of some 600
    natural and 6 programming languages, drawn as a run draws them; `code` is mostly Python; `joined` has
    all spaces taken out, so that words are lines.

    sample, MiB    8      16     32     64     16 joined   32 code   64 code
    bpe            228    304    430    758    545         303       575
    unigram        187    306    602    -      -           617       -
    byte_bpe       296    398    562    993    -           -         -
    parity_bpe     656    899    -      2,220  -           -         -

    The unigram figures at 8 and 16 MiB are of a corpus of 16 MiB. BPE with a vocabulary of 128,000 took
    351 MiB for 16 MiB, half a KiB more for each further piece. Unigram sorts the suffixes of the whole
    sample, some 20 bytes a character, so samples of ASCII are the dearest. It took 1 to 9 CPU minutes
    where BPE took 4 to 46 seconds. byte_bpe with a vocabulary of 128,000 took 437 MiB for 16 MiB; at
    64 MiB, pre_tokenizer = "gpt4o" took 993 MiB, "llama3" 781. Joined text of 8 MiB took 517, of
    16 MiB 872; 8 MiB of letters alone took 495. The figure of parity_bpe at 64 MiB is of 446 languages,
    each balanced by its part of the sample. It took 855 MiB for 8 MiB of joined text, with a vocabulary
    of 2,000.
    """
    pieces = config.vocab_size * _MEMORY_PER_PIECE
    return _MEMORY_BASE + pieces + int(config.sample_size) * TRAINERS[config.model].most_memory


def fitting_sample(config: TrainConfig, memory: int) -> int:
    """Return the bytes of the largest sample that can be trained on in some memory; 0 if none can."""
    nothing = training_memory(config.model_copy(update={"sample_size": 0}))
    return max(0, memory - nothing) // TRAINERS[config.model].most_memory
