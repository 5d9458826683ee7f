"""What `tokenizer extend` prints: the new pieces, what they save, and what became of old text."""

from collections.abc import Mapping, Sequence
from typing import TypedDict

from pipeline.report.plain import PlainConsole, PlainTable, print_json, shortened

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
            _shown(word["old_pieces"]),
            _shown(word["new_pieces"]),
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


def _shown(pieces: Sequence[str]) -> str:
    more = len(pieces) - _MOST_PIECES
    return " ".join(map(repr, pieces[:_MOST_PIECES])) + (f" and {more:,} more" if more > 0 else "")
