r"""Training of byte-level BPE: a tokenizer.json whose pieces are made of bytes.

    ids      0 to 268         269 to 524      525 and on
    pieces   <unk>, <s> ...   single bytes    what merges give, in the order of the merges

No piece lies across a cut of the pre-tokenizer. Each expression puts letters and a `>` behind them into
two parts, so that no text gives the spelling of a special piece.

The trainer is that of Hugging Face's tokenizers. It counts equal words together, and takes the pair
that occurs most often; of equal pairs that of the lower ids. All occurrences of a pair begin to exist
with one merge, since a piece is always made of the same two. So merges depend on the counts of words
alone, not on the order of texts or on threads.

Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2, for
bytes; its `encoder.py`, and the tokenizer.json of Llama 3, Qwen 2 and GPT-4o, for where words
end.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import orjson
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from stages.errors import ConfigError, VocabularySizeError
from stages.tokenizer.special import special_pieces
from stages.tokenizer.train_config import NUM_BYTES, PreTokenizer, TrainConfig

LEAST_COUNT = 2
"""How often a pair must occur to become a piece."""
_DIGITS = {"single": r"\p{N}", "threes": r"\p{N}{1,3}", "whole": r"\p{N}+"}
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_OTHERS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_MARKED_WORDS = "|".join(
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}{first}{_LOWER}{last}(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    for first, last in ("*+", "+*")
)
_EXPRESSIONS: Mapping[PreTokenizer, tuple[str, str, str]] = {
    PreTokenizer.GPT2: (
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?",
        "whole",
        r" ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    ),
    PreTokenizer.LLAMA3: (f"{_WORDS}|", "threes", _OTHERS),
    PreTokenizer.QWEN2: (f"{_WORDS}|", "single", _OTHERS),
    PreTokenizer.GPT4O: (
        f"{_MARKED_WORDS}|",
        "threes",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}
"""What is cut out of texts: before the digits, how many digits, and behind them."""


def train_byte_bpe(sample: Iterable[tuple[str, int]], config: TrainConfig) -> bytes:
    """Return a tokenizer.json of byte-level BPE trained on a sample of (text, copies).

    Raises:
        ConfigError: the sample is empty, or too small for the vocabulary.
    """
    library = untrained(config)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size - config.num_fixed + NUM_BYTES,
        min_frequency=LEAST_COUNT,
        initial_alphabet=alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(_texts(sample, config), trainer)
    return finished(library, config)


def untrained(config: TrainConfig) -> tokenizers.Tokenizer:
    """Return a tokenizer of bytes, without pieces."""
    library = tokenizers.Tokenizer(models.BPE())
    before, digits, behind = _EXPRESSIONS[config.pre_tokenizer]
    expression = f"{before}{_DIGITS[config.digits or digits]}|{behind}"
    is_the_librarys = config.pre_tokenizer is PreTokenizer.GPT2 and config.digits is None
    parts: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=is_the_librarys)
    ]
    if not is_the_librarys:
        parts.insert(0, pre_tokenizers.Split(tokenizers.Regex(expression), "isolated"))
    library.pre_tokenizer = parts[0] if len(parts) == 1 else pre_tokenizers.Sequence(parts)
    library.decoder = decoders.ByteLevel()
    return library


def alphabet() -> list[str]:
    """Return what stands for each byte in pieces."""
    return sorted(pre_tokenizers.ByteLevel.alphabet())


def finished(library: tokenizers.Tokenizer, config: TrainConfig) -> bytes:
    """Return the file of a tokenizer that has learned its pieces, with the special ids before them.

    Raises:
        ConfigError: it has learned fewer than are asked for.
    """
    learned = orjson.loads(library.to_str())["model"]
    count = len(learned["merges"])
    wanted = config.vocab_size - config.num_fixed
    if count < wanted:
        raise _too_few(count, config)
    special = special_pieces(config.control_symbols)
    named = (*special.values(), *config.user_symbols)
    vocab = {piece: number for number, piece in enumerate(named)}
    _refuse_spelled(learned["vocab"], vocab)
    vocab |= {piece: number + len(named) for piece, number in learned["vocab"].items()}
    merges = [(one, two) for one, two in learned["merges"]]
    whole = untrained(config)
    whole.model = models.BPE(vocab=vocab, merges=merges)
    added = tokenizers.AddedToken
    whole.add_special_tokens(
        [added(piece, normalized=False, special=True) for piece in special.values()]
    )
    whole.add_tokens([added(piece, normalized=False, special=False) for piece in config.user_symbols])
    return f"{whole.to_str(pretty=True)}\n".encode()


def _refuse_spelled(learned: Iterable[str], named: Iterable[str]) -> None:
    """Refuse symbols that are spelled as pieces of bytes are, as U+0120 is for a space."""
    both = set(learned).intersection(named)
    if both:
        raise ConfigError(
            f"tokenizer.train: the symbol {min(both)!r} is spelled as a piece of other bytes is in a"
            " tokenizer.json; remove it"
        )


def between_symbols(text: str, config: TrainConfig) -> list[str]:
    """Return a text in parts, without the symbols of the run's own that it writes out."""
    symbols = sorted((*config.user_symbols, *config.control_symbols), key=len, reverse=True)
    if not symbols:
        return [text]
    return [part for part in re.split("|".join(map(re.escape, symbols)), text) if part]


def _texts(sample: Iterable[tuple[str, int]], config: TrainConfig) -> Iterator[str]:
    """Yield texts as often as they count, cut where symbols stand."""
    for text, copies in sample:
        parts = between_symbols(text, config)
        for _ in range(copies):
            yield from parts


def _too_few(count: int, config: TrainConfig) -> ConfigError:
    most = config.num_fixed + count
    name = f"tokenizer.train.vocab_size = {config.vocab_size:,}"
    if not count:
        return ConfigError(f"{name}: the sample is empty, or too small to learn from; add documents")
    return VocabularySizeError(
        f"{name}: the sample gives at most {most:,} pieces; set it to {most} or less", most
    )
