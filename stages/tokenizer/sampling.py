"""The training sample: parts of documents, balanced over languages.

A language with n_i bytes gets a share q_i ~ n_i^alpha of the sample (alpha 1: as it comes; 0: all
alike), so that small languages get a vocabulary too. No language is repeated more than `max_repeats`
times; what it cannot fill goes to the others in the same proportion.

Source: Conneau, Lample 2019, "Cross-lingual language model pretraining", section 3.1 (arXiv
1901.07291), with the cap on repeats of Muennighoff et al. 2023 (arXiv 2305.16264).
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from pydantic import ByteSize, Field

from stages.config import Config
from stages.seeding import Purpose, document_hash

MAX_PART_BYTES = 4096
"""SentencePiece skips longer sentences in silence (its limit is 4,192 bytes)."""

LEAST_MEASURED = 1 << 20
"""Bytes of a language from which documents of it are held out: of a smaller one there are too few."""
_MOST_HELD_OUT = 0.05

_CONTINUATION = 0x80
"""The high bits of a byte that begins no character in UTF-8."""

SPACE_SYMBOL = "\u2581"
"""How SentencePiece writes a space inside its pieces; in text it is a character like any other."""

UNKNOWN_SYMBOL = "\u2585"
"""How SentencePiece's trainer writes a character without a piece: it skips texts that have it in
silence, and fails if it is to be a piece."""


class SamplingConfig(Config):
    """How the tokenizer's training sample is drawn."""

    alpha: float = Field(0.3, ge=0.0, le=1.0)
    """Exponent of the balance over languages: 1 keeps the corpus's shares, 0 makes them equal."""
    sample_size: ByteSize = Field(ByteSize(64 << 20), ge=1 << 10, validate_default=True)
    """Bytes of text to train on; a smaller corpus gives a sample of its own size."""
    max_repeats: int = Field(2, ge=1)
    """How often the text of a small language may be repeated. With 1, alpha has no effect on a corpus
    that is smaller than the sample."""
    held_out: ByteSize = Field(ByteSize(256 << 10), ge=0, validate_default=True)
    """Bytes of text of each language of 1 MiB or more that are not trained on. So the tokenizer is
    measured on text that it has not seen. They are whole documents, at most a twentieth of the language,
    and those that validation would hold out next."""


def balanced_targets(sizes: Mapping[str, int], config: SamplingConfig) -> dict[str, float]:
    """Return the bytes wanted of each language.

    {"en": 900, "th": 100}, alpha 0, size 400 -> {"en": 200.0, "th": 200.0}

    Args:
        sizes: bytes of text by language.
        config: exponent, size of the sample and cap on repeats.

    Returns:
        Targets that sum to the smaller of the sample's size and the corpus's, none above
        `max_repeats` times the language's own bytes.
    """
    sizes = {language: size for language, size in sorted(sizes.items()) if size > 0}
    open_languages, remaining = dict(sizes), float(min(config.sample_size, sum(sizes.values())))
    targets: dict[str, float] = {}
    while open_languages:
        weights = {name: size**config.alpha for name, size in open_languages.items()}
        unit = remaining / sum(weights.values())
        full = [n for n, s in open_languages.items() if weights[n] * unit > s * config.max_repeats]
        if not full:
            return dict(sorted((targets | {n: w * unit for n, w in weights.items()}).items()))
        for name in full:
            targets[name] = float(open_languages.pop(name) * config.max_repeats)
            remaining -= targets[name]
    return dict(sorted(targets.items()))


def held_out_shares(sizes: Mapping[str, int], config: SamplingConfig) -> dict[str, float]:
    """Return the share of each language's documents that are held out; small languages have none.

    Args:
        sizes: bytes of text by language.
        config: the text that is wanted of each.
    """
    return {
        language: min(_MOST_HELD_OUT, config.held_out / size)
        for language, size in sorted(sizes.items())
        if size >= LEAST_MEASURED
    }


def cut_parts(text: str, *, max_bytes: int = MAX_PART_BYTES) -> Iterator[str]:
    """Yield a text in parts of at most `max_bytes` bytes of UTF-8, cut after line feeds if it can.

    A line that is longer is cut after a space, or else between two characters. Nothing is lost:
    the parts join to the text.
    """
    data, start = text.encode(), 0
    while len(data) - start > max_bytes:
        end = start + max_bytes
        cut = data.rfind(b"\n", start, end) + 1 or data.rfind(b" ", start, end) + 1
        while not cut and data[end] & 0xC0 == _CONTINUATION:
            end -= 1
        cut = cut or end
        yield data[start:cut].decode()
        start = cut
    if start < len(data):
        yield data[start:].decode()


def sample_parts(text: str, identity: bytes, *, rate: Fraction, seed: int) -> Iterator[tuple[str, int]]:
    """Yield the parts of a document that the sample takes, each with its number of copies.

    Each part is taken `rate` times on average: the whole part always, the fraction by the hash of
    (seed, document id, part number), so the choice depends on nothing else.
    """
    whole, fraction = divmod(rate, 1)
    bound = int(fraction * 2**64)
    for number, part in enumerate(cut_parts(text)):
        draw = document_hash(identity, seed, purpose=Purpose.SAMPLE, copy=number)
        copies = int(whole) + (draw < bound)
        if copies:
            yield part, copies
