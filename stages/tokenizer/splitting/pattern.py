r"""Regular expressions of pre-tokenizers, read into trees.

    \s+(?!\S)| ?\p{N}{1,3}      Either( (Repeat(\s, 1 to any), Ahead(no \S)),
                                        (Repeat(" ", 0 to 1), Repeat(\p{N}, 1 to 3)) )

Read are alternatives, groups, sets of characters, how often either may stand, one character ahead, and
letters without regard to case. Files whose expressions have anything else are left to the library.

Source: the syntax of Ruby in Oniguruma, https://github.com/kkos/oniguruma/blob/master/doc/RE, which
Hugging Face's tokenizers use.
"""

import re
from dataclasses import dataclass

MANY = -1
"""As often as may be."""
_LITERAL_ESCAPES = {"r": "\r", "n": "\n", "t": "\t"}
_SETS = re.compile(r"\\(?:[sSdDwW]|[pP]\{\w+\})")
_COUNT = re.compile(r"\{(\d+)(,?)(\d*)\}")
_BOUNDS = {"?": (0, 1), "*": (0, MANY), "+": (1, MANY)}
_COUNTS = "?*+{"
_FOLDED_TOGETHER = ("ss", "ff", "fi", "fl", "st")
"""Letters that are one character in another case."""


@dataclass(frozen=True)
class Characters:
    """One character of a set, or one of all others."""

    parts: frozenset[str]
    r"""Each a character, a range (`a-z`), or a set that the library knows (`\s`, `(?i:s)`)."""
    negated: bool = False


@dataclass(frozen=True)
class Lookahead:
    """The next character is of a set; or it is not, which is so at the end too."""

    of: Characters
    negated: bool


@dataclass(frozen=True)
class Alternation:
    """The first of some sequences with which the whole matches."""

    branches: tuple[tuple["PatternPart", ...], ...]


@dataclass(frozen=True)
class Repeat:
    """The same as often as it can be, within bounds, so that the whole matches."""

    of: "Characters | Alternation"
    least: int
    most: int
    """Or `MANY`."""
    lazy: bool = False
    """Whether it is as seldom as it can be instead."""


PatternPart = Characters | Lookahead | Alternation | Repeat


def parse(pattern: str) -> Alternation:
    """Return the tree of an expression.

    Raises:
        ValueError: it has what is not read here.
    """
    if "&&" in pattern:  # what two sets have in common
        raise ValueError(pattern)
    reader = _PatternReader(pattern)
    tree = reader.either(folded=False)
    reader.require(at_end=True)
    return tree


class _PatternReader:
    """Reads an expression from its beginning to its end."""

    def __init__(self, pattern: str) -> None:
        self._pattern, self._place = pattern, 0

    def either(self, *, folded: bool) -> Alternation:
        branches = [self._sequence(folded=folded)]
        while self._takes("|"):
            branches.append(self._sequence(folded=folded))
        return Alternation(tuple(branches))

    def require(self, *, at_end: bool) -> None:
        if at_end != (self._place == len(self._pattern)):
            raise ValueError(self._pattern)

    def _sequence(self, *, folded: bool) -> tuple[PatternPart, ...]:
        found: list[PatternPart] = []
        begin = self._place
        while self._place < len(self._pattern) and self._pattern[self._place] not in "|)":
            found.append(self._item(folded=folded))
        spelling = self._pattern[begin : self._place].lower()
        if folded and any(pair in spelling for pair in _FOLDED_TOGETHER):
            raise ValueError(self._pattern)
        return tuple(found)

    def _item(self, *, folded: bool) -> PatternPart:
        for start, negated in (("(?=", False), ("(?!", True)):
            if self._takes(start):
                ahead = Lookahead(self._characters(folded=folded), negated)
                self._close()
                return ahead
        for start, ignores_case in (("(?:", folded), ("(?i:", True), ("(", folded)):
            if self._takes(start):
                if self._takes("?"):
                    raise ValueError(self._pattern)
                inner = self.either(folded=ignores_case)
                self._close()
                return self._counted(inner)
        return self._counted(self._characters(folded=folded))

    def _close(self) -> None:
        if not self._takes(")"):
            raise ValueError(self._pattern)

    def _counted(self, inner: Characters | Alternation) -> PatternPart:
        least, most = self._bounds()
        lazy = most != least and self._pattern[self._place - 1] != "}" and self._takes("?")
        if self._place < len(self._pattern) and self._pattern[self._place] in _COUNTS:
            raise ValueError(self._pattern)
        return inner if least == most == 1 else Repeat(inner, least, most, lazy)

    def _bounds(self) -> tuple[int, int]:
        for sign, bounds in _BOUNDS.items():
            if self._takes(sign):
                return bounds
        count = _COUNT.match(self._pattern, self._place)
        if count is None:
            return 1, 1
        self._place = count.end()
        least = int(count[1])
        most = int(count[3]) if count[3] else MANY if count[2] else least
        if least > most != MANY:
            raise ValueError(self._pattern)
        return least, most

    def _characters(self, *, folded: bool) -> Characters:
        if not self._takes("["):
            part = self._one(".^$|()]{}*+?")
            if folded and (len(part) > 1 or not part.isascii()):
                raise ValueError(self._pattern)
            return Characters(frozenset([f"(?i:{part})" if folded and part.isalpha() else part]))
        if folded:
            raise ValueError(self._pattern)
        negated = self._takes("^")
        parts = set[str]()
        while not self._takes("]"):
            first = self._one("[]-")
            if self._takes("-"):
                last = self._one("[]-")
                if len(first) > 1 or len(last) > 1 or first > last:
                    raise ValueError(self._pattern)
                first = f"{first}-{last}"
            parts.add(first)
        if not parts:
            raise ValueError(self._pattern)
        return Characters(frozenset(parts), negated)

    def _one(self, refused: str) -> str:
        """Return a character, or the name of a set."""
        self.require(at_end=False)
        character = self._pattern[self._place]
        if character in refused:
            raise ValueError(self._pattern)
        if character != "\\":
            self._place += 1
            return character
        named = _SETS.match(self._pattern, self._place)
        if named is not None:
            self._place = named.end()
            return named[0]
        escaped = self._pattern[self._place + 1 : self._place + 2]
        if not escaped or (escaped.isalnum() and escaped not in _LITERAL_ESCAPES) or escaped > "~":
            raise ValueError(self._pattern)
        self._place += 2
        return _LITERAL_ESCAPES.get(escaped, escaped)

    def _takes(self, expected: str) -> bool:
        found = self._pattern.startswith(expected, self._place)
        self._place += len(expected) * found
        return found
