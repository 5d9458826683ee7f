"""The section `[dedup]` of the run file: which documents are duplicates, and which of them stays."""

from typing import Literal

from pydantic import Field, model_validator

from stages.config import Config
from stages.dedup.containment import ContainmentConfig
from stages.dedup.lsh import MinHashConfig
from stages.dedup.ranking import KeepColumn, KeepPolicy
from stages.dedup.semantic import SemanticConfig
from stages.dedup.spans import RepeatedLines, RepeatedSubstrings

SourceRule = bool | Literal["within"]
"""Whether the documents of a source are deduplicated, or with each other alone."""


class Dedup(Config):
    """Deduplication over all sources."""

    exact: bool = True
    """Remove documents whose cleaned text is the same. If not, they are on one side of the split."""
    near: bool = True
    """Remove documents that are near-duplicates by `minhash`."""
    minhash: MinHashConfig = MinHashConfig()
    against: tuple[str, ...] = ()
    """Folders of finished runs, relative to the run file. A document that one of them has goes, for
    the document there; what they decided and wrote stays. A folder stands for all its generations."""
    containment: ContainmentConfig | None = None
    """Remove documents most of which stands inside a better-ranked one, too: off by default."""
    semantic: SemanticConfig | None = None
    """Remove documents that say the same in other words, by embeddings: off by default."""
    url: str | None = Field(None, min_length=1)
    """The field of the records that holds a URL. Documents of the same URL are duplicates, whatever
    their texts; those without one are compared by their texts alone. `http`, `www.`, letter case of the
    host, a default port and a fragment make no difference; path, last slash and query do."""
    keys: tuple[str, ...] = Field((), max_length=8)
    """Fields of the records, such as doi. Documents with the same value in one are duplicates; those
    without a value are not. Strings and numbers are compared, without white space at both ends."""
    max_removed_fraction: float = Field(0.9, ge=0.0, le=1.0)
    """Largest share of all documents that may be removed; past it the run stops before anything is made
    of what is left. It is checked once 100 documents are removed. No limit enters a fingerprint: raise
    one and run again, and nothing is redone."""
    max_cluster_size: int | None = Field(None, ge=2)
    """Most documents that may be duplicates of each other, directly or through others, where some of
    them are removed; past it the run stops in the same way. By default the run only warns of a large
    cluster."""
    lines: RepeatedLines | None = None
    """Cut lines that stand in many documents from all but the first; not done unless given."""
    paragraphs: RepeatedLines | None = None
    """Cut paragraphs likewise: lines that no blank line parts."""
    substrings: RepeatedSubstrings | None = None
    """Cut strings of many words that stand more than once, all but the first; not done unless given."""
    keep: KeepPolicy = "first"
    """Which of some duplicates stays: the `first` in the order of sources, paths and positions, the
    `longest` in bytes, or the best by a field: `{ column = "quality", order = "highest" }`. Of equal
    ones the first."""
    source_order: tuple[str, ...] = ()
    """Sources whose documents outrank those of the sources behind them, whatever `keep` says. Sources
    that are not named come after, in the order of the run file."""

    @property
    def cuts(self) -> bool:
        """Whether parts of documents are cut."""
        return (self.lines, self.paragraphs, self.substrings) != (None, None, None)

    @property
    def ranked(self) -> bool:
        """Whether another than the first document of some duplicates may stay."""
        return self.keep != "first" or bool(self.source_order)

    @property
    def value_columns(self) -> tuple[str, ...]:
        """The fields whose equal values make duplicates; that of the URL is the first."""
        return (*((self.url,) if self.url is not None else ()), *self.keys)

    @property
    def columns(self) -> tuple[str, ...]:
        """All fields of the records that are read, each once."""
        ranked = (self.keep.column,) if isinstance(self.keep, KeepColumn) else ()
        return tuple(dict.fromkeys((*self.value_columns, *ranked)))

    @model_validator(mode="after")
    def _each_field_and_source_once(self) -> "Dedup":
        for key, names in (("keys", self.keys), ("source_order", self.source_order)):
            twice = [name for name in names if names.count(name) > 1]
            if twice:
                raise ValueError(f"{key}: {twice[0]!r} stands twice")
            if "" in names:
                raise ValueError(f"{key}: '' names nothing")
        if self.url is not None and self.url in self.keys:
            raise ValueError(f"keys: {self.url!r} is compared as `url` already")
        if not self.exact and (self.columns or self.containment or self.semantic or self.ranked):
            raise ValueError(
                "exact = false: containment, semantic, url, keys, keep and source_order need"
                " exact = true"
            )
        return self

    @model_validator(mode="after")
    def _near_needs_exact(self) -> "Dedup":
        if self.near and not self.exact:
            raise ValueError("near = true needs exact = true: equal texts are near-duplicates too")
        if self.against and not self.exact:
            raise ValueError("against needs exact = true: without it nothing is compared")
        if "" in self.against or any("\0" in folder for folder in self.against):
            raise ValueError("against: '' names no folder; write the folder of a run")
        return self
