r"""Training of parity-aware BPE: each merge is one for the language that takes the most tokens.

    parallel text      en 900 tokens   hi 1,500 tokens   the others 1,200 tokens
    the next merge     the pair that occurs most often in the Hindi part of the sample

What comes out is a byte-level BPE like any other. Only the order of the merges is another.

Languages with parallel text are balanced by it. All other languages of the sample count as one more,
which is balanced by text of its own: lines of the sample, spread evenly, of as many bytes as the
parallel text has in the middle language. Parallel text counts `_WEIGHT` times, so that this text can be
so much longer: hundreds of languages are not described by 13 KB.

The trainer is that of Hugging Face's tokenizers, its variant `base`. Its variant `window` never ends
where small languages run out of pairs, and a language of the window has its share (tokenizers 0.23.3).

Source: Foroutan et al. 2025, "Parity-Aware Byte-Pair Encoding: Improving Cross-lingual Fairness in
Tokenization", section 3 (arXiv 2508.04796). We leave it in the languages without parallel text.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median

from tokenizers import trainers

from stages.errors import ConfigError
from stages.tokenizer.byte_level_training import (
    LEAST_COUNT,
    alphabet,
    between_symbols,
    finished,
    untrained,
)
from stages.tokenizer.train_config import TrainConfig

FEWEST_BALANCED = 2
"""Languages of the sample that must have parallel text."""
_WEIGHT = 16
_NAME = "ParityBpeTrainer"

_Copies = list[tuple[str, int]]
"""Texts, each with its number of copies."""


def require_parity_trainer() -> None:
    """Refuse an installed library that cannot train parity-aware BPE.

    Raises:
        ConfigError: says which version can.
    """
    if not hasattr(trainers, _NAME):
        raise ConfigError(
            'tokenizer.train.model = "parity_bpe": the installed tokenizers has no trainer for it;'
            ' install tokenizers >= 0.23, or set model to "byte_bpe"'
        )


def train_parity_bpe(
    sample_texts: Iterable[tuple[str, str, int]],
    config: TrainConfig,
    *,
    parallel: Mapping[str, Sequence[str]],
) -> bytes:
    """Return a tokenizer.json of parity-aware BPE trained on a sample of (language, text, copies).

    Args:
        sample_texts: what is learned from.
        config: how.
        parallel: the same text in some languages.

    Raises:
        ConfigError: the sample is too small for the vocabulary, or fewer than two of its languages have
            parallel text.
    """
    require_parity_trainer()
    sample: defaultdict[str, _Copies] = defaultdict(list)
    for language, text, copies in sample_texts:
        sample[language] += [(part, copies) for part in between_symbols(text, config)]
    balanced = sorted(sample.keys() & parallel.keys())
    if len(balanced) < FEWEST_BALANCED:
        raise ConfigError(
            'tokenizer.train.model = "parity_bpe": of the languages of the sample, parallel text is'
            f" there for {', '.join(balanced) or 'none'}, and two are needed; set"
            " tokenizer.train.parity.texts to a folder with LANG.txt of more of them, or model to"
            ' "byte_bpe"'
        )
    groups = [_repeated(sample[language]) for language in balanced]
    texts = [iter([*parallel[language]] * _WEIGHT) for language in balanced]
    others = [part for language in sorted(sample.keys() - parallel.keys()) for part in sample[language]]
    if others:
        size = median(sum(len(text.encode()) for text in parallel[name]) for name in balanced)
        groups.append(_repeated(others))
        texts.append(_spread(others, int(size) * _WEIGHT))
    library = untrained(config)
    trainer = trainers.ParityBpeTrainer(
        num_merges=config.vocab_size - config.num_fixed,
        min_frequency=LEAST_COUNT,
        initial_alphabet=alphabet(),
        show_progress=False,
    )
    trainer.train_from_iterator(library, groups, dev_iterators=texts)
    return finished(library, config)


def _repeated(copies: _Copies) -> Iterator[str]:
    for text, count in copies:
        for _ in range(count):
            yield text


def _spread(copies: _Copies, wanted: int) -> Iterator[str]:
    """Yield lines of texts, of about so many bytes, evenly; all of them again and again if needed.

    Of lines a b c d e f of one size, half of that wanted -> a c e
    """
    lines = [line for text, _ in copies for line in text.splitlines(keepends=True)]
    sizes = [len(line.encode()) for line in lines]
    times, rest = divmod(wanted, max(1, total := sum(sizes)))
    taken = before = 0
    for line, size in zip(lines, sizes, strict=True):
        extra = rest > 0 and taken * total <= before * rest
        taken, before = taken + size * extra, before + size
        for _ in range(times + extra):
            yield line
