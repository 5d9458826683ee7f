"""Repetition rules of Gopher: how much of a document repeats itself.

    paragraphs, paragraph_characters    repeated ones: 0.30 of them, 0.20 of all characters
    lines, line_characters              likewise 0.30 and 0.20
    top_2 to top_4                      characters of the top run of 2 to 4 words: 0.20, 0.18, 0.16
    repeated_5 to repeated_10           characters of repeated runs of 5 to 10 words: 0.15, 0.14 .. 0.10

The first rule that a document breaks gives the reason. The shares of characters are of the whole text. A
line of white space alone is no line; one such or more part paragraphs. A top run's characters are those
of its words and a space between two, for each time it stands there; repeated runs are looked for from
left to right, none overlaps another, and they are compared without spaces. The paper leaves these open.
Unlike the paper's, a run that occurs once counts as a top run too, so a very short text is dropped. Top
runs may overlap, so their characters can be more than the text has; the share is then 1. A bound of 1.0
switches a rule off.

Source: Rae et al. 2021, "Scaling language models: methods, analysis & insights from training Gopher",
section A.1.1 and table A1, arXiv 2112.11446. Verdicts are those of datatrove's filter of that name,
given these words and the text without its blank lines: it takes those with a space for lines, and so the
nothing before a first line feed and behind a last one.
"""

from collections.abc import Iterator
from typing import Literal

import numpy as np
from pydantic import Field, field_validator

from stages.filtering.characters import character_flags
from stages.filtering.filter import Document, Filter, FilterConfig, Judge, Removal, measured
from stages.filtering.repeats import (
    empty_set,
    most_frequent_ngram,
    no_numbers,
    repeated_ngrams,
    repeated_parts,
)
from stages.filtering.words import Words

_TOP = (2, 3, 4)
_REPEATED = (5, 6, 7, 8, 9, 10)


class GopherRepetition(FilterConfig):
    """Gopher's repetition rules; those of its paper are the defaults."""

    kind: Literal["gopher_repetition"] = "gopher_repetition"
    """Names the filter."""
    max_lines: float = Field(0.30, ge=0.0, le=1.0)
    """Largest share of lines that repeat an earlier line."""
    max_paragraphs: float = Field(0.30, ge=0.0, le=1.0)
    """Largest share of paragraphs likewise."""
    max_line_characters: float = Field(0.20, ge=0.0, le=1.0)
    """Largest share of characters in such lines."""
    max_paragraph_characters: float = Field(0.20, ge=0.0, le=1.0)
    """Largest share of characters in such paragraphs."""
    max_top: tuple[float, ...] = (0.20, 0.18, 0.16)
    """Largest share of characters of the most frequent run of 2, 3 and 4 words; 1.0 drops nothing."""
    max_repeated: tuple[float, ...] = (0.15, 0.14, 0.13, 0.12, 0.11, 0.10)
    """Largest share of characters of repeated runs of 5 to 10 words."""

    @field_validator("max_top", "max_repeated")
    @classmethod
    def _one_each(cls, values: tuple[float, ...], info: object) -> tuple[float, ...]:
        sizes = _TOP if getattr(info, "field_name", "") == "max_top" else _REPEATED
        if len(values) != len(sizes):
            raise ValueError(
                f"must hold {len(sizes)} shares, for runs of {sizes[0]} to {sizes[-1]} words"
            )
        if not all(0.0 <= value <= 1.0 for value in values):
            raise ValueError("must hold shares, from 0.0 to 1.0")
        return values


def _open(config: GopherRepetition) -> Judge:
    def judge(document: Document) -> Removal | None:
        return next(_removals(document, config), None)

    return judge


def _removals(document: Document, config: GopherRepetition) -> Iterator[Removal]:
    """Yield the rules that a document breaks, in their order."""
    yield from _repeated_parts(
        document, "paragraph", config.max_paragraphs, config.max_paragraph_characters
    )
    yield from _repeated_parts(document, "line", config.max_lines, config.max_line_characters)
    words, characters = Words(document.text), document.characters
    arrays, most = (words.hashes, words.powers, words.lengths), len(words.hashes)
    for size, bound in zip(_TOP, config.max_top, strict=True):
        top = most_frequent_ngram(*arrays, size, empty_set(most), no_numbers(most))  # let go at once
        share = min(1.0, top / characters)  # "! ! !" has two runs of "! !"
        if share > bound:
            yield measured(f"top_{size}", "share of characters", share, "max_top", bound)
    for size, bound in zip(_REPEATED, config.max_repeated, strict=True):
        share = repeated_ngrams(*arrays, size, empty_set(most)) / characters
        if share > bound:
            yield measured(f"repeated_{size}", "share of characters", share, "max_repeated", bound)


def _repeated_parts(
    document: Document, what: str, most: float, most_characters: float
) -> Iterator[Removal]:
    data = document.text.decode().strip().encode() if what == "paragraph" else document.text
    counts = np.zeros(3, np.int64)
    table = empty_set(data.count(b"\n") + 1)
    buffer, whole = np.frombuffer(data, np.uint8), what == "paragraph"
    repeated_parts(buffer, character_flags(), whole, table, counts)
    parts, repeats, characters = counts.tolist()
    share, of_characters = repeats / parts, characters / document.characters
    rules = [(f"{what}s", f"share of {what}s", share, f"max_{what}s", most)]
    named = (f"{what}_characters", "share of characters", of_characters, f"max_{what}_characters")
    yield from (measured(*one) for one in [*rules, (*named, most_characters)] if one[2] > one[4])


_PARTS = ("paragraphs", "paragraph_characters", "lines", "line_characters")
_NGRAMS = (*(f"top_{size}" for size in _TOP), *(f"repeated_{size}" for size in _REPEATED))
GOPHER_REPETITION = Filter(GopherRepetition, (*_PARTS, *_NGRAMS), _open, version=3, memory_factor=39)
