"""Quality rules of Gopher: how many words a document has, how long they are, how its lines begin.

    too_few_words, too_many_words     words that are not punctuation alone: 50 to 100,000
    short_words, long_words           their mean length: 3 to 10 characters
    hashes, ellipses                  # and ... against words: 0.1 at the most
    bullet_lines, ellipsis_lines      lines that begin with a bullet: 0.9; that end with an ellipsis: 0.3
    non_alphabetic_words              words with a letter, of all, punctuation too: 0.8 at the least
    few_stop_words                    of the, be, to, of, and, that, have, with: 2 at the least

The first rule that a document breaks gives the reason. An ellipsis is "..." or "…"; a bullet is "•" or
"-", where the paper says "bullet point". Stop words count as written here, in lower case.

Source: Rae et al. 2021, "Scaling language models: methods, analysis & insights from training Gopher",
section A.1.1, arXiv 2112.11446. Verdicts are those of datatrove's filter of that name, given these
words.
"""

from typing import Literal
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from stages.byte_kernels import code_point
from stages.filtering.characters import SPACE, character_flags
from stages.filtering.filter import Document, Filter, FilterConfig, Judge, Removal, measured
from stages.filtering.words import ALPHABETIC, REAL, Words, split_words, word_hash
from stages.kernels import lean_kernel

_STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")
_BULLETS = tuple(map(ord, "•-"))
_ELLIPSIS = "…"
_LINE_FEED, _FULL_STOP, _DOTS = 10, 46, 3
"""Code points, and the dots of an ellipsis."""
_RULES = (
    "too_few_words",
    "too_many_words",
    "short_words",
    "long_words",
    "hashes",
    "ellipses",
    "bullet_lines",
    "ellipsis_lines",
    "non_alphabetic_words",
    "few_stop_words",
)


class GopherQuality(FilterConfig):
    """Gopher's quality rules; those of its paper are the defaults."""

    kind: Literal["gopher_quality"] = "gopher_quality"
    """Names the filter."""
    min_words: int = Field(50, ge=0)
    """Fewest words, without those of punctuation alone."""
    max_words: int = Field(100_000, ge=1)
    """Most of them."""
    min_mean_word_length: float = Field(3.0, ge=0.0)
    """Least mean length of these words, in characters."""
    max_mean_word_length: float = Field(10.0, gt=0.0)
    """Largest mean length."""
    max_symbol_ratio: float = Field(0.1, ge=0.0)
    """Most hash signs for each word, and most ellipses."""
    max_bullet_lines: float = Field(0.9, ge=0.0, le=1.0)
    """Largest share of lines that begin with a bullet."""
    max_ellipsis_lines: float = Field(0.3, ge=0.0, le=1.0)
    """Largest share of lines that end with an ellipsis."""
    min_alphabetic_words: float = Field(0.8, ge=0.0, le=1.0)
    """Least share of words that hold a letter; each punctuation mark counts as a word without one."""
    min_stop_words: int = Field(2, ge=0)
    """Fewest different stop words; 0 for texts that are not in their language."""
    stop_words: tuple[str, ...] = _STOP_WORDS
    """The stop words, in the letter case of the texts."""

    @field_validator("stop_words")
    @classmethod
    def _words_of_texts(cls, words: tuple[str, ...]) -> tuple[str, ...]:
        words = tuple(normalize("NFC", word) for word in words)
        for word in words if words != _STOP_WORDS else ():  # the defaults need no compiled code
            places = (word, f"a{word}", f"{word}a")  # 's is a word only behind another
            if not any(word in split_words(place) for place in places):
                parts = ", ".join(map(repr, split_words(word))) or "none"
                raise ValueError(f"{word!r} is no single word; words in it: {parts}; name one an entry")
        return words

    @model_validator(mode="after")
    def _bounds_in_order(self) -> "GopherQuality":
        if self.min_words > self.max_words:
            raise ValueError(f"min_words = {self.min_words}: over max_words = {self.max_words}")
        if self.min_mean_word_length > self.max_mean_word_length:
            raise ValueError(
                f"min_mean_word_length = {self.min_mean_word_length}: over max_mean_word_length ="
                f" {self.max_mean_word_length}"
            )
        if self.min_stop_words > len(set(self.stop_words)):
            raise ValueError(
                f"min_stop_words = {self.min_stop_words}: stop_words has {len(set(self.stop_words))}"
            )
        return self


@lean_kernel
def _count_lines(
    buffer: NDArray[np.uint8],
    flags: NDArray[np.uint16],
    bullets: NDArray[np.int64],
    counts: NDArray[np.int64],
) -> None:
    """Count lines, those that begin with a bullet and those that end with an ellipsis."""
    size, place = len(buffer), 0
    lines = bulleted = ended = 0
    while place < size:
        lines += 1
        first, dots, last, apart = -1, 0, -1, False
        while place < size:
            code, width = code_point(buffer, place)
            place += width
            if code == _LINE_FEED:  # the only line end of a clean text
                break
            if flags[code] & SPACE:
                apart = True
                continue
            first = code if first < 0 else first
            dots = 0 if code != _FULL_STOP else 1 if apart else dots + 1
            last, apart = code, False
        bulleted += first == bullets[0] or first == bullets[1]
        ended += dots >= _DOTS or last == bullets[2]
    counts[0], counts[1], counts[2] = lines, bulleted, ended


def _open(config: GopherQuality) -> Judge:
    stop_words = np.array([word_hash(word) for word in sorted(set(config.stop_words))], np.uint64)

    def judge(document: Document) -> Removal | None:
        words = Words(document.text)
        return (
            _lengths(words, config)
            or _symbols(words, document.text, config)
            or _lines(document.text, config)
            or _kinds(words, stop_words, config)
        )

    return judge


def _lengths(words: Words, config: GopherQuality) -> Removal | None:
    real = words.kinds & REAL != 0
    count = int(real.sum())
    if count < config.min_words:
        return measured("too_few_words", "words", count, "min_words", config.min_words)
    if count > config.max_words:
        return measured("too_many_words", "words", count, "max_words", config.max_words)
    mean = int(words.lengths[real].sum(dtype=np.int64)) / max(1, count)
    least, most = config.min_mean_word_length, config.max_mean_word_length
    if mean < least:
        return measured("short_words", "characters a word", mean, "min_mean_word_length", least)
    if mean > most:
        return measured("long_words", "characters a word", mean, "max_mean_word_length", most)
    return None


def _symbols(words: Words, data: bytes, config: GopherQuality) -> Removal | None:
    most, count = config.max_symbol_ratio, len(words.kinds)
    hashes = data.count(b"#") / count
    if hashes > most:
        return measured("hashes", "hash signs a word", hashes, "max_symbol_ratio", most)
    ellipses = (data.count(b"...") + data.count(_ELLIPSIS.encode())) / count
    if ellipses > most:
        return measured("ellipses", "ellipses a word", ellipses, "max_symbol_ratio", most)
    return None


def _lines(data: bytes, config: GopherQuality) -> Removal | None:
    counts, marks = np.zeros(3, np.int64), np.array([*_BULLETS, ord(_ELLIPSIS)], np.int64)
    _count_lines(np.frombuffer(data, np.uint8), character_flags(), marks, counts)
    lines, bulleted, ended = counts.tolist()
    if bulleted / lines > config.max_bullet_lines:
        bound = config.max_bullet_lines
        return measured("bullet_lines", "share of lines", bulleted / lines, "max_bullet_lines", bound)
    if ended / lines > config.max_ellipsis_lines:
        bound = config.max_ellipsis_lines
        return measured("ellipsis_lines", "share of lines", ended / lines, "max_ellipsis_lines", bound)
    return None


def _kinds(words: Words, stop_words: NDArray[np.uint64], config: GopherQuality) -> Removal | None:
    share = int((words.kinds & ALPHABETIC != 0).sum()) / len(words.kinds)
    least = config.min_alphabetic_words
    if share < least:
        return measured(
            "non_alphabetic_words", "share with a letter", share, "min_alphabetic_words", least
        )
    found = count_found(words.hashes, stop_words)
    if found < config.min_stop_words:
        return measured("few_stop_words", "stop words", found, "min_stop_words", config.min_stop_words)
    return None


@lean_kernel
def count_found(hashes: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> int:
    """Return how many of some different values are among others."""
    found = 0
    for value in wanted:
        for one in hashes:
            if one == value:
                found += 1
                break
    return found


GOPHER_QUALITY = Filter(GopherQuality, _RULES, _open, memory_factor=28)
