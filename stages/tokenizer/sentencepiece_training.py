"""Training of SentencePiece models, lossless by their settings.

The library's defaults lose newlines and indentation, skip long lines in silence and record the number
of threads in the model; each setting below that differs from a default is against one of these.
"""

import io
import re
from collections.abc import Iterable, Iterator

import sentencepiece

from stages.errors import ConfigError, VocabularySizeError
from stages.tokenizer.digit_groups import DIGITS, digit_groups
from stages.tokenizer.rewritten_model import rewritten
from stages.tokenizer.sampling import MAX_PIECE_BYTES, SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import SentencePieceModel
from stages.tokenizer.space_runs import UNITS, run_scores, spelled_runs, with_units
from stages.tokenizer.special import BOS, EOS, PAD, UNK, control_symbols, num_reserved
from stages.tokenizer.train_config import TrainConfig

_LEAST_COVERAGE = 0.98
"""Of the whole sample, in characters: the least that the library takes."""
_MOST = re.compile(r"value <= (\d+)")
_LEAST = re.compile(r"required_chars\. \d+ vs (\d+)")


def train_sentencepiece(
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
    model, added = io.BytesIO(), digit_groups() if config.digits == "threes" else {}
    characters += "".join(digit for digit in DIGITS if added and digit not in characters)
    written = with_units if config.indentation else str
    controls = [*control_symbols(), *config.control_symbols]
    users = [written(symbol).replace(" ", SPACE_SYMBOL) for symbol in config.user_symbols]
    symbols = [*config.control_symbols, *users]
    required = "".join(one for one in written(characters) if one not in symbols)  # they are pieces
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(written, _sentences(sample)),
            model_writer=model,
            model_type=config.model,
            vocab_size=config.vocab_size - len(added),
            character_coverage=_LEAST_COVERAGE,
            required_chars=required + UNITS * config.indentation,
            byte_fallback=True,
            normalization_rule_name=config.normalization.value,
            remove_extra_whitespaces=False,
            add_dummy_prefix=False,
            allow_whitespace_only_pieces=True,
            split_digits=config.digits != "whole",
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
    return rewritten(model.getvalue(), spelled_runs, run_scores(), added)


def _sentences(sample: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yield each piece as often as it counts; the space symbol is no text to learn from."""
    for piece, copies in sample:
        sentence = piece.replace(SPACE_SYMBOL, "")
        for _ in range(copies if sentence else 0):
            yield sentence


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
