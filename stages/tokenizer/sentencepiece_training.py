"""Training of SentencePiece models, lossless by their settings.

The library's defaults lose newlines and indentation, skip long lines in silence and record the number
of threads in the model; each setting below that differs from a default is against one of these.
"""

import io
import re
import sys
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import sentencepiece

from stages.errors import ConfigError, VocabularySizeError
from stages.tokenizer.sampling import MAX_PART_BYTES, SPACE_SYMBOL, UNKNOWN_SYMBOL, cut_parts
from stages.tokenizer.sentencepiece_model import SentencePieceModel, rewritten
from stages.tokenizer.special import BOS, EOS, PAD, UNK, control_symbols, num_reserved
from stages.tokenizer.train_config import TrainConfig
from stages.tokenizer.vocabulary_policy import (
    DIGITS,
    UNITS,
    digit_groups,
    space_scores,
    spelled_spaces,
    with_units,
    without_units,
)

_LEAST_COVERAGE = 0.98
"""Of the whole sample, in characters: the least that the library takes."""
_MOST = re.compile(r"value <= (\d+)")
_LEAST = re.compile(r"required_chars\. \d+ vs (\d+)")


def train_sentencepiece(
    sample: Callable[[], Iterable[tuple[str, int]]], config: TrainConfig, *, characters: str = ""
) -> bytes:
    """Return the bytes of a SentencePiece model trained on a sample of (piece, copies).

    Args:
        sample: yields what is learned from, from the start at each call.
        config: how.
        characters: that get a piece, beside those that are 98% of the whole sample.

    Raises:
        ConfigError: the sample is empty, or too small for the vocabulary.
    """
    model, added = io.BytesIO(), digit_groups() if config.digits == "threes" else {}
    characters += "".join(digit for digit in DIGITS if added and digit not in characters)
    spell = with_units if config.indentation else str
    controls = [*control_symbols(), *config.control_symbols]
    users = [spell(symbol).replace(" ", SPACE_SYMBOL) for symbol in config.user_symbols]
    symbols = [*config.control_symbols, *users]
    required = "".join(one for one in spell(characters) if one not in symbols)  # they are pieces
    required += UNITS * config.indentation
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=_sentences(sample(), config),
            model_writer=model,
            model_type=config.model,
            vocab_size=config.vocab_size - len(added),
            character_coverage=_coverage(_sentences(sample(), config), required, config),
            required_chars=required,
            byte_fallback=True,
            normalization_rule_name=config.normalization.value,
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            allow_whitespace_only_pieces=True,
            split_digits=config.digits != "whole",
            max_sentence_length=MAX_PART_BYTES + 1,
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
            control_symbols=controls,
            user_defined_symbols=users,
            minloglevel=2,
        )
    except (RuntimeError, OSError) as error:
        raise _explained(str(error), config, len(added)) from error
    first, texts = num_reserved(), SentencePieceModel(model.getvalue()).texts
    assert texts[first : first + len(symbols)] == [symbol.encode() for symbol in symbols]
    if not (added or config.indentation):
        return model.getvalue()
    return rewritten(model.getvalue(), spelled_spaces, space_scores(), added)


def sentencepiece_parts(text: str, config: TrainConfig) -> list[str]:
    """Return a text in parts, without the characters that the library, or we, keep for other uses.

    "a\u2581b\u2585c" -> "ab" "c"

    The library drops line feeds at the end of what it is given, and so a part that has nothing else.
    """
    kept = text.replace(SPACE_SYMBOL, "")
    if config.indentation:
        kept = without_units(kept)
    return [part for part in kept.split(UNKNOWN_SYMBOL) if part.strip("\n")]


def _sentences(sample: Iterable[tuple[str, int]], config: TrainConfig) -> Iterator[str]:
    """Yield each piece as often as it counts, cut again where characters for spaces make it too long."""
    spell = with_units if config.indentation else str
    for text, copies in sample:
        parts = sentencepiece_parts(text, config)
        sentences = [one for part in parts for one in cut_parts(spell(part))]
        for _ in range(copies):
            yield from sentences


def _coverage(sentences: Iterable[str], required: str, config: TrainConfig) -> float:
    """Return the share of the sample at which the library has taken all characters that are required.

    It takes these first, by how often they occur, and stops at the share, though some be left: it stops
    too soon where hardly any character is a space, as in a corpus that is Chinese alone.
    """
    if not required:
        return _LEAST_COVERAGE
    wanted, normalise, found, total = np.zeros(sys.maxunicode + 1, np.bool_), config.normaliser(), 0, 0
    wanted[list(map(ord, required))] = True
    for sentence in sentences:
        codes = np.frombuffer(normalise(sentence).encode("utf-32-le"), np.uint32)
        found, total = found + int(np.count_nonzero(wanted[codes])), total + len(codes)
    share = np.float32(found / max(total, 1))  # as the library has it
    if share < np.float32(_LEAST_COVERAGE):
        return _LEAST_COVERAGE
    return float(min(np.nextafter(share, np.float32(2)), np.float32(1)))


def _explained(message: str, config: TrainConfig, added: int) -> ConfigError:
    """Turn the trainer's message into an error that names the setting and the bound.

    Args:
        message: of the library.
        config: what was asked.
        added: pieces of the vocabulary that the library does not learn.
    """
    name = f"tokenizer.train.vocab_size = {config.vocab_size:,}"
    if most := _MOST.search(message):
        bound = int(most[1]) + added
        return VocabularySizeError(
            f"{name}: the sample gives at most {bound:,} pieces; set it to {bound} or less", bound
        )
    if least := _LEAST.search(message):
        return VocabularySizeError(
            f"{name}: the special ids, the bytes and the sample's characters alone are"
            f" {int(least[1]) + added:,}; set it well above that, or lower"
            f" tokenizer.train.character_coverage = {config.character_coverage}",
            2 * (int(least[1]) + added),
        )
    last = message.strip().splitlines()[-1]
    return ConfigError(f"{name}: the tokenizer could not be trained: {last}")
