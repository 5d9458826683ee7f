"""Texts that a tokenizer is extended for, and old ones: words that are learned from, texts held out."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import xxhash

from pipeline.inputs.languages import texts_of_file
from stages.errors import ConfigError

_HELD_OUT = 20
"""One text of so many is held out."""


class WordCounter(Protocol):
    """What cuts texts into words."""

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Return how often each word stands in texts."""
        ...


@dataclass
class NewText:
    """The text of a language that is learned."""

    words: Counter[str] = field(default_factory=Counter)
    held_out: list[str] = field(default_factory=list)
    texts: int = 0
    bytes: int = 0
    """Of those that are learned from."""


def read_new_text(
    files: Iterable[Path], counter: WordCounter, languages: Collection[str]
) -> dict[str, NewText]:
    """Return the text of each language, by name; one text of twenty is held out.

    Which are held out depends on their content alone.

    Args:
        files: each is read once.
        counter: cuts texts into words.
        languages: that are learned; all if none is named.

    Raises:
        ConfigError: there is no text of a language.
        DataError: a file cannot be read.
    """
    found: dict[str, NewText] = {}
    others = set[str]()
    for path in sorted({file.resolve(): file for file in files}.values()):
        for language, texts in texts_of_file(path):
            if languages and language not in languages:
                others.add(language)
                continue
            own = found.setdefault(language, NewText())
            learned = [text for text in texts if not _is_held_out(text)]
            own.held_out += [text for text in texts if _is_held_out(text)]
            own.words.update(counter.count(learned))
            own.texts += len(learned)
            own.bytes += sum(len(text.encode()) for text in learned)
    missing = sorted(set(languages) - found.keys())
    if missing or not found:
        named = f"--language {missing[0]}" if missing else "--text"
        there = (
            f"; there is text of {', '.join(sorted(others | found.keys()))}" if others or found else ""
        )
        raise ConfigError(f"{named}: no text is left after cleaning{there}")
    return dict(sorted(found.items()))


def count_old_words(
    files: Sequence[Path], counter: WordCounter, learned: Collection[str]
) -> Counter[str]:
    """Return how often words stand in old text, that of learned languages left out.

    Raises:
        DataError: a file cannot be read.
    """
    words = Counter[str]()
    for path in files:
        for language, texts in texts_of_file(path):
            if language not in learned:
                words.update(counter.count(texts))
    return words


def _is_held_out(text: str) -> bool:
    return xxhash.xxh3_64_intdigest(text.encode()) % _HELD_OUT == 0
