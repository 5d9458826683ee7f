"""Words of SentencePiece models: no piece crosses their ends, by the rules that a model was trained by.

    rules      cut at spaces, between scripts, around digits
    text       "_the_cat3_한국어로."
    words      _the  _cat  3  _한국어로  .

The rules stand in the model, among the settings of its trainer.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from tokenizers import pre_tokenizers

from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import TRAINER, SentencePieceModel, next_field
from stages.tokenizer.splitting.characters import characters_in
from stages.tokenizer.splitting.pattern import Characters

_INHERITED = Characters(frozenset([r"\p{Inherited}"]))
_DIGITS = frozenset("0123456789\uff10\uff11\uff12\uff13\uff14\uff15\uff16\uff17\uff18\uff19")
_BEFORE = re.compile(f"{SPACE_SYMBOL}?[^{SPACE_SYMBOL}\n]+")
_PLAIN = re.compile(f"{SPACE_SYMBOL}?[A-Za-z]+{SPACE_SYMBOL}?")
"""A word whatever the rules are."""
_BEHIND = re.compile(f"[^{SPACE_SYMBOL}\n]+{SPACE_SYMBOL}?")


@dataclass(frozen=True)
class WordRules:
    """What pieces may hold; the defaults are SentencePiece's.

    New pieces never hold a space but at one end, also if the model allows it elsewhere.
    """

    longest: int = 16
    """Characters of the longest piece."""
    by_script: bool = True
    """Whether a piece is of one script."""
    by_number: bool = True
    """Whether digits count as a script."""
    space_behind: bool = False
    """Whether a space stands at the end of a piece, not at its beginning."""
    single_digits: bool = False
    """Whether digits stand alone."""


_FIELDS = {20: "longest", 21: "by_script", 23: "by_number", 24: "space_behind", 25: "single_digits"}
"""Of a trainer's settings."""


def rules_of(model: SentencePieceModel) -> WordRules:
    """Return the rules that a model was trained by."""
    found: dict[str, int] = {}
    data = np.frombuffer(model.data, np.uint8)
    for field in np.flatnonzero(model.fields.numbers == TRAINER).tolist():
        place, stop = int(model.fields.begins[field]), int(model.fields.stops[field])
        while place < stop:
            number, value, _, place = next_field(data, place)
            if number in _FIELDS:
                found[_FIELDS[int(number)]] = int(value)
    longest = found.pop("longest", WordRules.longest)
    return WordRules(longest, **{name: bool(value) for name, value in found.items()})


def count_words(texts: Iterable[str], rules: WordRules) -> Counter[str]:
    """Return how often each word stands in normalised texts, with U+2581 for spaces.

    Runs of spaces are no words, and no word holds a line feed.
    """
    pattern = _BEHIND if rules.space_behind else _BEFORE
    parts = Counter[str]()
    for text in texts:
        parts.update(pattern.findall(text))
    words = Counter[str]()
    for part, count in parts.items():
        for word in _words_in(part, rules):
            words[word] += count
    return words


def _words_in(part: str, rules: WordRules) -> Iterator[str]:
    """Yield the words of what stands between two spaces, with one space at most."""
    if _PLAIN.fullmatch(part):
        yield part
        return
    cuts = sorted({0, *_cuts(part, rules), len(part)})
    for begin, end in pairwise(cuts):
        yield part[begin:end]


def _cuts(part: str, rules: WordRules) -> Iterator[int]:
    if rules.single_digits:
        for place, character in enumerate(part):
            if character in _DIGITS:
                yield from (place, place + 1)
    if not rules.by_script:
        return
    passed = _passed(by_number=rules.by_number)
    kept = [place for place, character in enumerate(part) if character not in passed]
    bare = "".join(part[place] for place in kept)
    for _, (begin, _end) in _SCRIPTS.pre_tokenize_str(bare):
        if begin:
            yield kept[begin]


_SCRIPTS = pre_tokenizers.UnicodeScripts()


@cache
def _passed(*, by_number: bool) -> frozenset[str]:
    """Return what is of any script: the space, marks that are of the script below them, digits maybe."""
    return characters_in(_INHERITED) | {SPACE_SYMBOL} | (frozenset() if by_number else _DIGITS)
