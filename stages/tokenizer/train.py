"""Training: a SentencePiece model from the balanced sample, lossless by its settings.

The library's defaults lose newlines and indentation, skip long lines in silence and record the number
of threads in the model; each setting below that differs from a default is against one of these.
"""

import io
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import sentencepiece
from pydantic import Field

from stages.errors import ConfigError, VocabularySizeError
from stages.tokenizer.normalization import Normalization, rule_normaliser
from stages.tokenizer.sampling import MAX_PIECE_BYTES, SPACE_SYMBOL, SamplingConfig
from stages.tokenizer.special import BOS, EOS, PAD, UNK, control_symbols, num_reserved

_BYTE_PIECES = 256
_LEAST_COVERAGE = 0.98
"""Of the whole sample, in characters: the least that the library takes."""
_MIN_VOCAB = num_reserved() + _BYTE_PIECES + 1
_MOST = re.compile(r"value <= (\d+)")
_LEAST = re.compile(r"required_chars\. \d+ vs (\d+)")


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


_MEMORY = {"bpe": 28, "unigram": 24}
"""Bytes of memory that training takes for a byte of the sample, at the most."""
_MEMORY_PER_PIECE = 1 << 10
_MEMORY_BASE = 128 << 20


def training_memory(config: TrainConfig) -> int:
    """Return the bytes that training takes, at the most, beyond what the process holds before it.

    An estimate from above, from what was measured with a vocabulary of 32,000: private memory of a fresh
    process (Pss_Anon), sampled ten times a second, in MiB above its start. Texts are those of some 600
    natural and 6 programming languages, drawn as a run draws them; `code` is mostly Python; `joined` has
    all spaces taken out, so that words are lines.

    sample, MiB    8      16     32     64     16 joined   32 code   64 code
    bpe            228    304    430    758    545         303       575
    unigram        187    306    602    -      -           617       -

    The unigram figures at 8 and 16 MiB are of a corpus of 16 MiB. BPE with a vocabulary of 128,000 took
    351 MiB for 16 MiB, half a KiB more for each further piece. Unigram sorts the suffixes of the whole
    sample, some 20 bytes a character, so samples of ASCII are the dearest. It took 1 to 9 CPU minutes
    where BPE took 4 to 46 seconds.
    """
    pieces = config.vocab_size * _MEMORY_PER_PIECE
    return _MEMORY_BASE + pieces + int(config.sample_size) * _MEMORY[config.model]


def fitting_sample(config: TrainConfig, memory: int) -> int:
    """Return the bytes of the largest sample that can be trained on in some memory; 0 if none can."""
    nothing = training_memory(config.model_copy(update={"sample_size": 0}))
    return max(0, memory - nothing) // _MEMORY[config.model]


def most_characters(config: TrainConfig) -> int:
    """Return how many pieces may be single characters: half of those that are not special or bytes."""
    return (config.vocab_size - num_reserved() - _BYTE_PIECES) // 2


def train_model(
    sample: Iterable[tuple[str, int]], config: TrainConfig, *, characters: str = ""
) -> bytes:
    """Return the bytes of a SentencePiece model trained on a sample of (piece, copies).

    Args:
        sample: what is learned from.
        config: how.
        characters: that get a piece, beside those that are 98% of the whole sample.

    Raises:
        ConfigError: the sample is empty, or too small for the vocabulary.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_sentences(sample),
            model_writer=model,
            model_type=config.model,
            vocab_size=config.vocab_size,
            character_coverage=_LEAST_COVERAGE,
            required_chars=characters,
            byte_fallback=True,
            normalization_rule_name=config.normalization.value,
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            allow_whitespace_only_pieces=True,
            split_digits=True,
            max_sentence_length=MAX_PIECE_BYTES + 1,
            input_sentence_size=0,
            num_threads=1,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=3,
            unk_piece=UNK,
            bos_piece=BOS,
            eos_piece=EOS,
            pad_piece=PAD,
            control_symbols=control_symbols(),
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise _explained(str(error), config) from error
    return model.getvalue()


def _sentences(sample: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yield each piece as often as it counts; the space symbol is no text to learn from."""
    for piece, copies in sample:
        sentence = piece.replace(SPACE_SYMBOL, "")
        for _ in range(copies if sentence else 0):
            yield sentence


def _explained(message: str, config: TrainConfig) -> ConfigError:
    """Turn the trainer's message into an error that names the setting and the bound."""
    name = f"tokenizer.train.vocab_size = {config.vocab_size:,}"
    if most := _MOST.search(message):
        bound = int(most[1])
        return VocabularySizeError(
            f"{name}: the sample gives at most {bound:,} pieces; set it to {bound} or less", bound
        )
    if least := _LEAST.search(message):
        return VocabularySizeError(
            f"{name}: the special ids, the bytes and the sample's characters alone are"
            f" {int(least[1]):,}; set it well above that, or lower"
            f" tokenizer.train.character_coverage = {config.character_coverage}",
            2 * int(least[1]),
        )
    last = message.strip().splitlines()[-1]
    return ConfigError(f"{name}: the tokenizer could not be trained: {last}")
