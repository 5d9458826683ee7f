"""Draft: the sources of a run file that is not written yet, and what was seen of them."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.tools.init.fields import FieldChoice
from stages.reading.delimiters import Quoting
from stages.reading.source_code import is_code_language


@dataclass(frozen=True)
class DraftSource:
    """One source of a run file to be, and what was seen of it."""

    name: str
    format: str
    folder: Path
    """Below which its patterns are."""
    patterns: tuple[str, ...]
    """Relative to the folder."""
    files: int
    size: int
    """Bytes on disk."""
    documents: float
    """About."""
    text_bytes: float
    """About."""
    lengths: tuple[int, ...]
    """Bytes of some documents."""
    choice: FieldChoice
    exclude: tuple[str, ...] = ()
    language: str | None = None
    """One for all of it."""
    encoding: str | None = None
    """Another than UTF-8."""
    delimiter: str | None = None
    """Another than the ending of its files says."""
    quoting: tuple[Quoting, str] | None = None
    """Likewise, with the reason."""
    bad: float = 0.0
    """Share of the records looked at that give no document."""
    foreign: float = 0.0
    """Share of the files looked at that are not UTF-8."""
    languages: tuple[str, ...] = ()
    """Those that its records name, of the ones looked at."""
    characters: frozenset[str] = frozenset()
    """That stand in the texts looked at."""

    @property
    def is_code(self) -> bool:
        """Say whether it is source code: most of its languages are those of programs."""
        named = self.languages or (self.language or "",)
        return sum(map(is_code_language, named)) > len(named) / 2

    @property
    def has_answers(self) -> bool:
        """Say whether its documents are dialogues, or prompts with what is learned behind them."""
        return self.choice.chat is not None or self.choice.section is not None


@dataclass(frozen=True)
class Draft:
    """What folders hold."""

    sources: tuple[DraftSource, ...]
    left_out: tuple[tuple[str, int, str], ...]
    """What is not read: why, how many files, and one of them."""

    @property
    def text_bytes(self) -> float:
        """Of all sources, about."""
        return sum(source.text_bytes for source in self.sources)

    @property
    def documents(self) -> float:
        """Of all sources, about."""
        return sum(source.documents for source in self.sources)
