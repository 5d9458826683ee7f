r"""Vocabulary policy: what a trained tokenizer does with digits, white space and symbols of the user's.

    digits = "threes"                12345        123 | 45
    indentation = true               x:\n    y    x | :\n and 4 spaces | y
    user_symbols = ["<tag>"]         a<tag>b      a | <tag> | b
    control_symbols = ["<|end|>"]    a<|end|>b    a | < | | | end | | | > | b, but markup gives its id

Models keep giving back every text.
"""

import re
from collections import Counter
from collections.abc import Callable
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
