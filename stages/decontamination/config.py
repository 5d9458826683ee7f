"""The settings of decontamination. Evaluation sets are read as sources are: hence `stages.reading`."""

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from stages.config import Config
from stages.reading.encodings import UTF_8, known_encoding
from stages.reading.reader import TextSplit

Action = Literal["drop", "report"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


class EvaluationSet(Config):
    """An evaluation set: files, each record of which is an item."""

    name: str
    """Names it in the evidence and in the report."""
    paths: tuple[str, ...] = Field(min_length=1)
    """Globs of files, relative to the run file, or URLs; of the formats that sources have."""
    exclude: tuple[str, ...] = ()
    """Globs of files that are not read, as for sources."""
    skip_unknown: bool = False
    """Whether files whose ending no reader knows are passed over; otherwise one is refused."""
    text_columns: tuple[str, ...] = Field(("text",), min_length=1, max_length=16)
    """The fields of a record that are looked for, such as ["question", "answer"], each by itself. The
    first holds a string; the others may also hold lists of strings, such as choices. A field may be
    inside of others, as `choices.text`. A field of fewer than `min_words` words is joined with the one
    before it. Files without columns, such as .txt, have their text alone."""
    id_column: str | None = None
    """The field that holds the item's own id, for the evidence."""
    action: Action | None = None
    """What becomes of documents that hold items of this set; that of all sets unless given."""
    text_split: TextSplit = TextSplit.BLANK_LINE
    """What an item of a .txt file is: what stands between lines that are blank (`blank_line`), or all of
    the file (`file`)."""
    encoding: str = UTF_8
    """What text, CSV and JSON are written in, as for sources."""
    digests: dict[str, str] | None = None
    """XXH3-128 of each file by its path below the root of its glob; found when the run is planned. If it
    is set, other files are refused."""
    words: int = 0
    """Words of all items; found when the run is planned, for the memory that they take."""

    _known_encoding = field_validator("encoding")(known_encoding)

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
    """Words of the shortest overlap. Letter case, punctuation and Unicode form do not matter; each
    character of a script without spaces is a word."""
    min_words: int = Field(8, ge=2)
    """Words of the shortest text of an item that is looked for as a whole; texts of at least `ngram`
    words are looked for n-gram by n-gram. Shorter ones are not used, and counted."""
    max_documents: int = Field(10, ge=1, le=1_000)
    """Largest number of kept documents that an n-gram may stand in; past it, it is a common phrase and
    no evidence."""
    words_per_document: int = Field(20, ge=0)
    """Words that an overlap must have for each document that it stands in, if there are several: with
    20, one n-gram is evidence if it stands in one document, an overlap of 40 words if it stands in at
    most two. With 0, `max_documents` alone decides."""
    whole_words: int = Field(26, ge=1)
    """Words of a text of an item that is evidence in up to `max_documents` documents if at least four
    fifths of it stand there."""
    max_items: int = Field(3, ge=1)
    """Largest number of items of a set that an n-gram may stand in; past it, it is the set's own form,
    such as its prompt, and not looked for."""
    min_share: float = Field(0.0, ge=0.0, le=1.0)
    """Smallest share of an item's text that must stand in the document, in words."""

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
    """What becomes of documents that hold items: `drop` them, or keep and `report` them."""

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
