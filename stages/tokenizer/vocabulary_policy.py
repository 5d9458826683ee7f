r"""Vocabulary policy: what a trained tokenizer does with digits, white space and symbols of the user's.

    digits = "threes"                12345        123 | 45
    indentation = true               x:\n    y    x | :\n and 4 spaces | y
    user_symbols = ["<tag>"]         a<tag>b      a | <tag> | b
    control_symbols = ["<|end|>"]    a<|end|>b    a | < | | | end | | | > | b, but markup gives its id

Models keep giving back every text.

Digit groups: pieces that make plain BPE take digits in threes from the left, exactly.

    12345     pairs of one score, the leftmost first    12 3 4 5
              groups of three before further pairs      123 4 5   ->   123 45

All pairs have one score, and all groups of three a better one. SentencePiece merges the best pair first,
of equals the leftmost. So a group of three is complete before another pair begins behind it. No other
piece has a digit and something else, so nothing reaches into a group.

Groups of the digits 0 to 9 alone: those of other scripts stay single, since each script would take as
many pieces again.

Space runs: runs of 2 to 16 spaces as units of plain BPE, so that pieces can be learned over them.

    if x:\n        return        trained on   if x:\nRreturn         R: one character for 8 spaces
    :\nR                         learned, and written as ":\n" and 8 spaces

SentencePiece lets no piece hold a space behind anything else, so that line feeds and the indentation
behind them are at least two tokens. Here each run is one character while pieces are learned. Afterwards
it is written as spaces again, and the runs get scores above all that is learned. So the spaces of a run
merge before anything else does, and the same merges follow as in training.

A run of more than 16 is as many of 16 as it has, and the rest behind them:

    37   ->   16 16 5

Runs of 2, 4, 8 and 16 have the best scores, in this order, so that a run falls into powers of two, the
greatest first. The others follow by length and join what is behind those of 16. So each run is one
piece.

The characters are counting rods (U+1D360 to U+1D36E): they count as signs, as spaces and brackets do,
and hardly any text has them. What a text itself has of them is not learned, and is written in bytes.
"""

import re
from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Literal

from stages.tokenizer.sampling import SPACE_SYMBOL, SamplingConfig
from stages.tokenizer.special import special_pieces

_BYTE_PIECE = re.compile(r"<0x[0-9A-F]{2}>")
_SURROGATES = re.compile("[\\ud800-\\udfff]")
_MOST = 256
_MOST_BEGINNINGS = 64
"""Symbols that begin one another, as a, ab, abc: SentencePiece has room for so many."""


class VocabularyPolicy(SamplingConfig):
    """What a trained tokenizer does with digits, white space and the user's own symbols."""

    digits: Literal["single", "threes", "whole"] | None = None
    """Pieces of digits. `single`: each digit is a token. `threes`: three digits are a token, from the
    left, so 12345 is 123 and 45. `whole`: as learned, up to complete numbers. Without it, SentencePiece
    models have single digits, and `pre_tokenizer` decides for byte-level BPE. In SentencePiece's BPE,
    `threes` are groups of the digits 0 to 9, and all of the 1,100 groups have a piece."""
    indentation: bool = False
    """Whether each run of 2 to 16 spaces has a piece. A longer run is cut into runs of 16 and a rest.
    Pieces can also hold line feeds with the indentation after them. For SentencePiece's BPE."""
    user_symbols: tuple[str, ...] = ()
    """Texts that get one token each wherever they are written, such as "<br>". The longest counts. Not
    for unigram models, in which other pieces can reach over them."""
    control_symbols: tuple[str, ...] = ()
    """Further special pieces, such as "<|im_start|>", with the ids after the others. No text gives them;
    the templates of dialogues do."""
    template_symbols: bool = False
    """Whether the markup of the templates of all sources is among the control symbols."""


def refuse_symbols(
    control: tuple[str, ...], user: tuple[str, ...], normalise: Callable[[str], str]
) -> None:
    """Refuse symbols that cannot be pieces of their own.

    Args:
        control: that no text gives.
        user: that texts give as a whole.
        normalise: what is done to texts.

    Raises:
        ValueError: names the symbol, and why.
    """
    for name, symbols in (("control_symbols", control), ("user_symbols", user)):
        for symbol in symbols:
            reason = _fault_of(symbol, normalise)
            if reason:
                raise ValueError(f"{name}: {symbol!r} {reason}")
    twice = [symbol for symbol, count in Counter([*control, *user]).items() if count > 1]
    if twice:
        raise ValueError(f"{twice[0]!r} stands twice among control_symbols and user_symbols")
    if " " in user:
        raise ValueError("user_symbols: ' ' would cut all words from the spaces before them; remove it")
    known = set(user)
    for symbol in user:
        if sum(symbol[:size] in known for size in range(1, len(symbol) + 1)) > _MOST_BEGINNINGS:
            raise ValueError(
                f"user_symbols: over {_MOST_BEGINNINGS} of them begin {symbol!r}, and SentencePiece has"
                " room for so many; remove some"
            )


def _fault_of(symbol: str, normalise: Callable[[str], str]) -> str | None:
    """Say why a symbol cannot be a piece of its own, or None if it can."""
    faults = (
        (not symbol, "is empty; remove it"),
        (bool(_SURROGATES.search(symbol)), "has half of a surrogate pair, which is no character"),
        (len(symbol) > _MOST, f"has {len(symbol):,} characters; at most {_MOST} are possible"),
        ("\0" in symbol, "has U+0000, which no text has"),
        (SPACE_SYMBOL in symbol, "has U+2581, which stands for a space in pieces; write a space"),
        (
            symbol in special_pieces().values() or bool(_BYTE_PIECE.fullmatch(symbol)),
            "is a piece of every model already; remove it, or write another",
        ),
    )
    fault = next((reason for holds, reason in faults if holds), None)
    if fault is None and normalise(symbol) != symbol:
        return f"is {normalise(symbol)!r} after normalization, so no text has it; write that"
    return fault


DIGITS = "0123456789"
"""Each has a piece where groups have: a reader that merges pieces alone finds groups only by these."""
_PAIR, _THREE = 1.0, 2.0
"""Scores: above those of what is learned, which are 0 and below."""


def digit_groups() -> dict[str, float]:
    """Return the groups of two and three digits with their scores: 1,100."""
    return {
        "".join(group): score
        for size, score in ((2, _PAIR), (3, _THREE))
        for group in product(DIGITS, repeat=size)
    }


NUM_GROUPS = 1_100


MOST_SPACES = 16
_FIRST_UNIT = 0x1D360
_UNITS = {size: chr(_FIRST_UNIT + size - 2) for size in range(2, MOST_SPACES + 1)}
_SIZES = {unit: size for size, unit in _UNITS.items()}
UNITS = "".join(_UNITS.values())
"""A character for each run."""
_POWERS = [size for size in _UNITS if size & (size - 1) == 0]
_ORDER = [*_POWERS, *(size for size in _UNITS if size not in _POWERS)]
_SPACES = re.compile(f" {{2,}}|[{UNITS}]")
_UNIT = re.compile(f"[{UNITS}]")


def with_units(text: str) -> str:
    """Return a text with a character for each run of spaces, and without those that it has itself."""
    return _SPACES.sub(_units_of, text)


def _units_of(spaces: re.Match[str]) -> str:
    if spaces[0] in _SIZES:
        return ""
    whole, rest = divmod(len(spaces[0]), MOST_SPACES)
    return _UNITS[MOST_SPACES] * whole + (_UNITS[rest] if rest > 1 else " " * rest)


def without_units(text: str) -> str:
    """Return a text without the characters that stand for runs."""
    return _UNIT.sub("", text)


def spelled_spaces(piece: str) -> str:
    """Return a piece with U+2581 for the spaces that its characters stand for."""
    return _UNIT.sub(lambda unit: SPACE_SYMBOL * _SIZES[unit[0]], piece)


def space_scores() -> dict[str, float]:
    """Return the score of each run, by its character."""
    return {_UNITS[size]: float(len(_ORDER) - place) for place, size in enumerate(_ORDER)}
