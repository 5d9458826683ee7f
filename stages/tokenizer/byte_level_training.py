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

from collections.abc import Iterable, Iterator, Mapping

import orjson
import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from stages.errors import ConfigError, VocabularySizeError
from stages.tokenizer.special import num_reserved, special_pieces
from stages.tokenizer.train_config import NUM_BYTES, PreTokenizer, TrainConfig

LEAST_COUNT = 2
"""How often a pair must occur to become a piece."""
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_OTHERS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_MARKED_WORDS = "|".join(
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}{first}{_LOWER}{last}(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    for first, last in ("*+", "+*")
)
_EXPRESSIONS: Mapping[PreTokenizer, str | None] = {
    PreTokenizer.GPT2: None,
    PreTokenizer.LLAMA3: rf"{_WORDS}|\p{{N}}{{1,3}}|{_OTHERS}",
    PreTokenizer.QWEN2: rf"{_WORDS}|\p{{N}}|{_OTHERS}",
    PreTokenizer.GPT4O: (
        rf"{_MARKED_WORDS}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
"""What is cut out of texts; None is the library's own expression for GPT-2."""


def train_byte_bpe(sample: Iterable[tuple[str, int]], config: TrainConfig) -> bytes:
    """Return a tokenizer.json of byte-level BPE trained on a sample of (text, copies).

    Raises:
        ConfigError: the sample is empty, or too small for the vocabulary.
    """
    library = untrained(config)
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size - num_reserved(),
        min_frequency=LEAST_COUNT,
        initial_alphabet=alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(_texts(sample), trainer)
    return finished(library, config)


def untrained(config: TrainConfig) -> tokenizers.Tokenizer:
    """Return a tokenizer of bytes, without pieces."""
    library = tokenizers.Tokenizer(models.BPE())
    expression = _EXPRESSIONS[config.pre_tokenizer]
    parts: list[pre_tokenizers.PreTokenizer] = [
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=expression is None)
    ]
    if expression is not None:
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
    wanted = config.vocab_size - num_reserved() - NUM_BYTES
    if count < wanted:
        raise _too_few(count, config)
    special = special_pieces()
    pieces = {piece: number for number, piece in special.items()}
    vocab = pieces | {piece: number + len(pieces) for piece, number in learned["vocab"].items()}
    assert len(vocab) == config.vocab_size, "a piece of text is spelled like a special one"
    merges = [(one, two) for one, two in learned["merges"]]
    whole = untrained(config)
    whole.model = models.BPE(vocab=vocab, merges=merges)
    whole.add_special_tokens(
        [tokenizers.AddedToken(piece, normalized=False, special=True) for piece in special.values()]
    )
    return f"{whole.to_str(pretty=True)}\n".encode()


def _texts(sample: Iterable[tuple[str, int]]) -> Iterator[str]:
    for text, copies in sample:
        for _ in range(copies):
            yield text


def _too_few(count: int, config: TrainConfig) -> ConfigError:
    most = num_reserved() + NUM_BYTES + count
    name = f"tokenizer.train.vocab_size = {config.vocab_size:,}"
    if not count:
        return ConfigError(f"{name}: the sample is empty, or too small to learn from; add documents")
    return VocabularySizeError(
        f"{name}: the sample gives at most {most:,} pieces; set it to {most} or less", most
    )
