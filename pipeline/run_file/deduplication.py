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
"""Whether the documents of a source are deduplicated with all sources, with each other only, or not."""


class Dedup(Config):
    """Deduplication over all sources: which documents are duplicates, and which of them stays."""

    exact: bool = True
    """Whether documents with the same cleaned text are removed. If they are not, all of them are on one
    side of the validation split."""
    near: bool = True
    """Whether near-duplicates are removed: documents that share most of their shingles (`minhash`)."""
    minhash: MinHashConfig = MinHashConfig()
    against: tuple[str, ...] = ()
    """Folders of finished runs, relative to the run file. A duplicate of a document that one of them
    keeps is removed here. Nothing changes there. All generations of a folder are compared."""
    containment: ContainmentConfig | None = None
    """Remove documents that are part of a better-ranked one, completely or nearly. Off unless given."""
    semantic: SemanticConfig | None = None
    """Remove documents that say the same in other words, found by embeddings. Off unless given."""
    url: str | None = Field(None, min_length=1)
    """Name of the field that holds a URL. Documents with the same URL are duplicates, whatever their
    texts; those without one are compared by their texts only. Not compared: `http` or `https`, `www.`,
    letter case of the host, a default port, a fragment. Compared: path, slash at the end, query."""
    keys: tuple[str, ...] = Field((), max_length=8)
    """Names of fields, such as doi. Documents with the same value in one of them are duplicates,
    whatever their texts. Values are strings or numbers; white space at both ends does not count."""
    max_removed_fraction: float = Field(0.9, ge=0.0, le=1.0)
    """Limit on the share of all documents that deduplication removes. A run that would exceed it stops
    with exit code 3, before any later step begins. Fewer than 100 removals never exceed it. If you raise
    a limit and run again, nothing is redone."""
    max_cluster_size: int | None = Field(None, ge=2)
    """Limit on the documents of a cluster that loses some: documents that are duplicates of each other,
    directly or through others. A run that would pass it stops in the same way. By default there is no
    limit, and the run warns of a large cluster."""
    lines: RepeatedLines | None = None
    """Cut lines that occur in many documents from all of them but the first. Off unless given."""
    paragraphs: RepeatedLines | None = None
    """The same for paragraphs: lines without a blank line between them. Off unless given."""
    substrings: RepeatedSubstrings | None = None
    """Cut long strings that occur more than once, all but the first copy. Off unless given."""
    keep: KeepPolicy = "first"
    """Which of several duplicates stays: the `first` by source name, path and position, the `longest` in
    bytes, or the best by a field, `{ column = "quality", order = "highest" }`. Of equally good ones the
    first stays."""
    source_order: tuple[str, ...] = ()
    """Names of sources, the best first. Documents of an earlier source outrank those of a later one;
    `keep` decides within a source. Sources that are not named come last, in the order of the run
    file."""

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

    def setting_of(self, column: str) -> str:
        """Return the setting that names a field."""
        if column == self.url:
            return "dedup.url"
        return "dedup.keys" if column in self.keys else "dedup.keep.column"

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
