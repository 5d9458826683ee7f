"""Measures of an extended tokenizer, and their tables: what new text costs, what became of old text.

Texts that a tokenizer is extended for, and old ones: words that are learned from, texts held out.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

import numpy as np
import xxhash

from pipeline.inputs.languages import BUNDLED_CORPUS, texts_of_file
from pipeline.report.plain import PlainConsole, PlainTable, print_json, shortened
from stages.errors import ConfigError
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.extension.drift import Drift
from stages.tokenizer.extension.extended import Extension
from stages.tokenizer.extension.kinds import Extendable
from stages.tokenizer.texts import TextIds, joined_texts

_HELD_OUT = 20
"""One text of so many is held out."""


@dataclass
class NewText:
    """The text of a language that is learned."""

    words: Counter[str] = field(default_factory=Counter)
    held_out: list[str] = field(default_factory=list)
    texts: int = 0
    bytes: int = 0
    """Of those that are learned from."""


def read_new_text(
    files: Iterable[Path], counter: Extendable, languages: Collection[str]
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
    files: Sequence[Path], counter: Extendable, learned: Collection[str]
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


_MOST_LANGUAGES = 24
"""Rows of the table of old text."""
_MOST_WORDS = 12
"""Changed words that are shown."""
_MOST_PIECES = 4
"""Pieces of a changed word that are shown."""


class LearnedLanguage(TypedDict):
    """What was learned from the text of a language, and what that saves on text that was held out."""

    texts: int
    bytes: int
    pieces: int
    held_out_texts: int
    tokens_before: int
    tokens_after: int
    pieces_used: int
    """New pieces that the held-out text gives."""


class LanguageDrift(TypedDict):
    """What became of the old text of a language."""

    documents: int
    same_documents: int
    tokens_before: int
    tokens_after: int
    changed_tokens: int


class ChangedWord(TypedDict):
    """A stretch of old text that has other ids."""

    text: str
    times: int
    old_ids: list[int]
    old_pieces: list[str]
    new_ids: list[int]
    new_pieces: list[str]


class AddedPieceShown(TypedDict):
    """A new piece."""

    id: int
    piece: str
    language: str
    uses: int
    """In the text that was learned from."""


class ExtensionMeasures(TypedDict):
    """What is measured of an extended tokenizer."""

    sha256: str
    size_before: int
    size_after: int
    parts_only: int
    """New pieces that text gives only as parts of others."""
    dropped: int
    """Pieces that were learned and that text did not give, so that others took their place."""
    languages: Mapping[str, LearnedLanguage]
    old_languages: Mapping[str, LanguageDrift]
    old_total: LanguageDrift
    """Of the languages that were not learned."""
    changed_words: Sequence[ChangedWord]
    pieces: Sequence[AddedPieceShown]


class TokenizerExtension(ExtensionMeasures):
    """All that `shardmill tokenizer extend --json` prints."""

    format_version: int
    model: str
    output: str
    max_drift: float
    old_source: str
    proved_texts: int
    """Texts that came back, with the library's ids, and without a special one."""


def print_extension(found: TokenizerExtension, *, as_json: bool) -> None:
    """Print what was appended to a tokenizer."""
    if as_json:
        print_json(found)
        return
    console = PlainConsole()
    before, after = found["size_before"], found["size_after"]
    console.line(f"{found['output']}: {after:,} ids, of which {before:,} to {after - 1:,} are new")
    console.line(
        f"no old id changed; {found['parts_only']:,} new pieces are only parts of others;"
        f" {found['proved_texts']:,} texts came back, none with a special id"
    )
    console.line()
    console.line("New text that was held out from learning")
    table = PlainTable(
        "language", "new pieces", "of them used", "tokens before", "after", "after / before"
    ).right()
    for language, one in found["languages"].items():
        table.add(
            shortened(language),
            f"{one['pieces']:,}",
            f"{one['pieces_used']:,}",
            f"{one['tokens_before']:,}",
            f"{one['tokens_after']:,}",
            f"{one['tokens_after'] / one['tokens_before']:.1%}" if one["tokens_before"] else "",
        )
    console.show(table)
    none = [shortened(name) for name, one in found["languages"].items() if not one["tokens_before"]]
    if none:
        console.line(f"too little text of {', '.join(none)} to hold any out: nothing was measured")
    _print_drift(console, found)


def _print_drift(console: PlainConsole, found: TokenizerExtension) -> None:
    console.line()
    console.line(f"Old text: {found['old_source']}")
    table = PlainTable(
        "language", "documents", "changed", "tokens before", "after", "tokens changed", "share"
    ).right()
    learned = set(found["languages"])
    languages = found["old_languages"]
    worst = sorted(languages, key=lambda one: (-_share(languages[one]), one))
    for language in sorted(worst[:_MOST_LANGUAGES]):
        _add(table, f"{shortened(language)}{' (learned)' * (language in learned)}", languages[language])
    _add(table, "all not learned", found["old_total"])
    console.show(table)
    rest = len(languages) - _MOST_LANGUAGES
    if rest > 0:
        console.line(f"{rest:,} languages more, of which all changed less, are in --json")
    if not found["changed_words"]:
        return
    console.line()
    console.line("What changed most often in old text")
    words = PlainTable("text", "times", "old pieces", "new pieces")
    for word in found["changed_words"][:_MOST_WORDS]:
        words.add(
            repr(shortened(word["text"])),
            f"{word['times']:,}",
            _shown_pieces(word["old_pieces"]),
            _shown_pieces(word["new_pieces"]),
        )
    console.show(words)


def _share(drift: LanguageDrift) -> float:
    return drift["changed_tokens"] / max(drift["tokens_before"], 1)


def _add(table: PlainTable, name: str, drift: LanguageDrift) -> None:
    table.add(
        name,
        f"{drift['documents']:,}",
        f"{drift['documents'] - drift['same_documents']:,}",
        f"{drift['tokens_before']:,}",
        f"{drift['tokens_after']:,}",
        f"{drift['changed_tokens']:,}",
        f"{_share(drift):.3%}",
    )


def _shown_pieces(pieces: Sequence[str]) -> str:
    more = len(pieces) - _MOST_PIECES
    return " ".join(map(repr, pieces[:_MOST_PIECES])) + (f" and {more:,} more" if more > 0 else "")


_INT32 = np.dtype(np.int32)
_MOST_CHANGED = 1000
"""Changed words that are kept."""


@dataclass(frozen=True)
class TokenizerPair:
    """A tokenizer before and after it was extended."""

    before: Tokenizer
    after: Tokenizer

    def encode(self, texts: Sequence[str]) -> tuple[TextIds, TextIds]:
        """Return the ids of texts by both."""
        joined = joined_texts([text.encode() for text in texts])
        before = self.before.encode_texts(joined, dtype=_INT32)
        return before, self.after.encode_texts(joined, dtype=_INT32)


def old_source(given: Sequence[Path]) -> str:
    """Return where old text is from."""
    return " ".join(map(str, given)) if given else str(BUNDLED_CORPUS)


def measure_drift(
    files: Sequence[Path], both: TokenizerPair, learned: Collection[str]
) -> dict[str, Drift]:
    """Return what became of old text, by language; of learned ones without the stretches that changed.

    Raises:
        DataError: a file cannot be read.
    """
    sizes = np.fromiter(map(len, both.after.codec.piece_bytes()), np.int64, both.after.vocab_size)
    found: dict[str, Drift] = {}
    for path in files:
        for language, texts in texts_of_file(path):
            own = found.setdefault(language, Drift())
            own.add(*both.encode(texts), sizes, listed=language not in learned)
    return dict(sorted(found.items()))


def measured(
    both: TokenizerPair, extension: Extension, new: Mapping[str, NewText], drifts: Mapping[str, Drift]
) -> ExtensionMeasures:
    """Return what is said of an extended tokenizer."""
    names, first = list(new), both.before.vocab_size
    total = sum((own for one, own in drifts.items() if one not in new), Drift())
    shown = both.after.codec.pieces(range(first, both.after.vocab_size))
    pieces: list[AddedPieceShown] = [
        {"id": first + n, "piece": text, "language": names[piece.language], "uses": uses}
        for n, (piece, text, uses) in enumerate(
            zip(extension.pieces, shown, extension.uses.tolist(), strict=True)
        )
    ]
    given = Counter(piece["language"] for piece in pieces)
    return {
        "sha256": hashlib.sha256(extension.data).hexdigest(),
        "size_before": first,
        "size_after": both.after.vocab_size,
        "parts_only": sum(not piece["uses"] for piece in pieces),
        "dropped": extension.dropped,
        "languages": {name: _learned(both, own, pieces=given[name]) for name, own in new.items()},
        "old_languages": {name: _shown(drift) for name, drift in drifts.items()},
        "old_total": _shown(total),
        "changed_words": _changed(total, both),
        "pieces": pieces,
    }


def _learned(both: TokenizerPair, text: NewText, *, pieces: int) -> LearnedLanguage:
    before, after = both.encode(text.held_out)
    used = np.unique(after.ids)
    return {
        "texts": text.texts,
        "bytes": text.bytes,
        "pieces": pieces,
        "held_out_texts": len(text.held_out),
        "tokens_before": len(before.ids),
        "tokens_after": len(after.ids),
        "pieces_used": int((used >= both.before.vocab_size).sum()),
    }


def _shown(drift: Drift) -> LanguageDrift:
    return {
        "documents": drift.documents,
        "same_documents": drift.same_documents,
        "tokens_before": drift.tokens_before,
        "tokens_after": drift.tokens_after,
        "changed_tokens": drift.changed_tokens,
    }


def _changed(drift: Drift, both: TokenizerPair) -> list[ChangedWord]:
    """Return the stretches that changed most often."""
    spelled = both.after.codec.piece_bytes()
    ordered = sorted(drift.stretches.items(), key=lambda item: (-item[1], item[0]))
    return [
        {
            "text": b"".join(spelled[number] for number in old).decode(errors="replace"),
            "times": times,
            "old_ids": list(old),
            "old_pieces": both.after.codec.pieces(old),
            "new_ids": list(new),
            "new_pieces": both.after.codec.pieces(new),
        }
        for (old, new), times in ordered[:_MOST_CHANGED]
    ]
