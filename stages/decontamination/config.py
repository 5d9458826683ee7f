"""The settings of decontamination. Evaluation sets are read as sources are: hence `stages.reading`."""

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from stages.config import Config
from stages.reading.delimiters import Quoting, possible_delimiter
from stages.reading.encodings import UTF_8, known_encoding
from stages.reading.reader import TextSplit

Action = Literal["drop", "report"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class EvaluationSet(Config):
    """An evaluation set: files, each record of which is an item."""

    name: str
    """Name of the set in the evidence and in the report."""
    paths: tuple[str, ...] = Field(min_length=1)
    """Globs of files, relative to the run file, or URLs. The formats are those of sources."""
    exclude: tuple[str, ...] = ()
    """Globs of files that are not read, as for sources."""
    skip_unknown: bool = False
    """Whether files with an unknown ending are skipped. If not, the run is refused."""
    text_columns: tuple[str, ...] = Field(("text",), min_length=1, max_length=16)
    """Names of the fields that are looked for, such as ["question", "answer"]; each is a text of its
    own. The first holds a string; the others may also hold lists of strings, such as choices. A field
    may be inside of others, as `choices.text`. A field of fewer than `min_words` words is joined with
    the one before it. Files without fields, such as .txt, need no names."""
    id_column: str | None = None
    """Name of the field that holds the item's own id, for the evidence."""
    action: Action | None = None
    """What is done with documents that hold items of this set. By default the `action` of all sets."""
    text_split: TextSplit = TextSplit.BLANK_LINE
    """What an item of a .txt file is: the text between blank lines (`blank_line`), or the whole file
    (`file`)."""
    encoding: str = UTF_8
    """Encoding of text, CSV and JSON, as for sources."""
    delimiter: str | None = None
    """The character between two fields of CSV and TSV files, as for sources."""
    quoting: Quoting | None = None
    """What a quote means in CSV and TSV files, as for sources."""
    digests: dict[str, str] | None = None
    """XXH3-128 of each file, by its path below the root of its glob. The run fills it in. If you set it,
    files with other digests are refused."""
    words: int = 0
    """Number of words of all items. The run fills it in, to compute the memory that they need."""

    _known_encoding = field_validator("encoding")(known_encoding)
    _possible_delimiter = field_validator("delimiter")(possible_delimiter)

    @field_validator("name")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("must be letters, digits, '.', '_' and '-'")
        return name

    @field_validator("paths", "text_columns")
    @classmethod
    def _each_names_something(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not name or "\0" in name:
                raise ValueError(f"{name!r} names nothing; remove it")
            if names.count(name) > 1:
                raise ValueError(f"{name!r} stands twice; name it once")
        return names


class DecontaminationRule(Config):
    """What counts as an item of an evaluation set in a document."""

    ngram: int = Field(13, ge=4, le=64)
    """Number of words of the shortest overlap that is looked for. Letter case, punctuation and Unicode
    form do not count; each character of a script without spaces is a word."""
    min_words: int = Field(8, ge=2)
    """A text of an item with fewer words is not looked for, and counted. With `min_words` to `ngram` - 1
    words it is looked for as a whole, with more by each of its n-grams."""
    max_documents: int = Field(10, ge=1, le=1_000)
    """An n-gram that occurs in more kept documents than this is a common phrase, and no evidence."""
    words_per_document: int = Field(20, ge=0)
    """How long an overlap in several documents must be, in words for each document: with 20, an overlap
    in two documents must have 40 words. An n-gram in a single document is always evidence. With 0, only
    `max_documents` decides."""
    whole_words: int = Field(26, ge=1)
    """A text of an item with at least so many words is also evidence if at least four fifths of it occur
    in a document. This holds in up to `max_documents` documents."""
    max_items: int = Field(3, ge=1)
    """An n-gram that occurs in more items of the set than this is not looked for. It is part of the
    set's form, such as its prompt."""
    min_share: float = Field(0.0, ge=0.0, le=1.0)
    """Lowest share of the words of an item's text that the document must have."""

    @model_validator(mode="after")
    def _whole_is_shorter(self) -> "DecontaminationRule":
        if self.min_words > self.ngram:
            raise ValueError(
                f"min_words = {self.min_words}: over ngram = {self.ngram}; lower it, or raise ngram"
            )
        return self


class Decontamination(DecontaminationRule):
    """Documents that hold items of evaluation sets."""

    sets: tuple[EvaluationSet, ...] = Field(min_length=1)
    """The evaluation sets."""
    action: Action = "drop"
    """What is done with documents that hold items: `drop` removes them, `report` only lists them."""

    @model_validator(mode="after")
    def _names_differ(self) -> "Decontamination":
        names = [one.name for one in self.sets]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"sets: the name {min(twice)!r} stands twice")
        return self

    def action_of(self, number: int) -> Action:
        """Return what becomes of documents that hold items of a set."""
        return self.sets[number].action or self.action
