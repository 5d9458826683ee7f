r"""Sets of characters, as the library that runs expressions knows them.

Which characters are letters depends on the version of Unicode, so the library itself is asked, once a
process and set. It sees every character of the planes in use, and each 4,096th of the others.

    \p{L}    ->  "A" "B" ... "\u02ac" ...    of 1,114,112 characters
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import pre_tokenizers

from stages.tokenizer.splitting.pattern import Characters

NUMERIC = "numeric"
"""The set by which the pre-tokenizer `Digits` cuts."""
_END = 0x110000
_IN_USE = ((0, 0xD800), (0xE000, 0x34000), (0xE0000, 0xE1000))
"""Characters that have a meaning or may be given one; U+D800 to U+DFFF are none."""
_STEP = 0x1000
_FOLDED = "(?i:[a-z])"
_MOST_SETS = 64
_MOST_KINDS = 256


class Kinds(NamedTuple):
    """Which of K sets characters are in; characters of one kind are in the same."""

    of: NDArray[np.uint8]
    """(0x110000,) the kind of each."""
    sets: NDArray[np.uint64]
    """(kinds,) a bit for each set."""


def kinds_of(sets: list[Characters]) -> Kinds:
    """Return the kinds of all characters.

    Raises:
        ValueError: too many sets, or kinds.
    """
    if len(sets) > _MOST_SETS:
        raise ValueError(f"{len(sets)} sets of characters")
    bits = np.zeros(len(_seen()), np.uint64)
    for number, characters in enumerate(sets):
        bits |= members(characters).astype(np.uint64) << np.uint64(number)
    begins = np.flatnonzero(np.diff(bits, prepend=~bits[:1]))  # neighbours are mostly of one kind
    found, kinds = np.unique(bits[begins], return_inverse=True)
    if len(found) > _MOST_KINDS:
        raise ValueError(f"{len(found)} kinds of characters")
    stand_for = np.diff(_seen()[begins], append=_END)
    return Kinds(np.repeat(kinds.astype(np.uint8), stand_for), found)


def members(characters: Characters) -> NDArray[np.bool_]:
    """Say of the characters that are asked about whether they are in a set."""
    found = np.zeros(len(_seen()), np.bool_)
    for part in characters.parts:
        found |= _members_of(part)
    return ~found if characters.negated else found


def characters_in(characters: Characters) -> frozenset[str]:
    """Return the characters of a set, of those that are asked about."""
    return frozenset(map(chr, _seen()[members(characters)].tolist()))


@cache
def _members_of(part: str) -> NDArray[np.bool_]:
    every = _seen()
    if len(part) == 1:
        return np.equal(every, ord(part))
    if len(part) == 3 and part[1] == "-":  # noqa: PLR2004  # a range, "a-z"
        return (every >= ord(part[0])) & (every <= ord(part[2]))
    if part == NUMERIC:
        return _numeric()
    if part[1:].startswith(("S", "D", "W", "P{")):
        return ~_members_of(part[0] + part[1].lower() + part[2:])
    if part.startswith("(?i:") and part != _FOLDED:
        return _folded(part)
    cut = pre_tokenizers.Split(tokenizers.Regex(f"(?:{part})+"), "removed")
    found = np.ones(len(every), np.bool_)
    for _, (begin, end) in cut.pre_tokenize_str(_text()):
        found[begin:end] = False
    return found


def _folded(part: str) -> NDArray[np.bool_]:
    """Find a letter in any case among the letters a to z in any case, which are few."""
    found = np.zeros(len(_seen()), np.bool_)
    cut = pre_tokenizers.Split(tokenizers.Regex(part), "removed")
    for place in np.flatnonzero(_members_of(_FOLDED)).tolist():
        found[place] = not cut.pre_tokenize_str(_text()[place])
    return found


def _numeric() -> NDArray[np.bool_]:
    """Find the characters that stand alone though a letter, "a", stands on each side."""
    found = np.zeros(len(_seen()), np.bool_)
    cut = pre_tokenizers.Digits(individual_digits=True)
    for _, (begin, end) in cut.pre_tokenize_str("a".join(_text())):
        found[begin >> 1] |= end - begin == 1  # or it is a letter, and what stands before it is numeric
    return found


@cache
def _seen() -> NDArray[np.int64]:
    """Return the characters that the library is asked about, in their order."""
    used = np.concatenate([np.arange(*bounds) for bounds in _IN_USE])
    probes = np.arange(0x34000, _END, _STEP)
    last = np.array([0xFFFFF, _END - 1])
    return np.unique(np.concatenate([used, probes, last]))


@cache
def _text() -> str:
    return "".join(map(chr, _seen().tolist()))
