"""Making: what becomes of the records of a part, each a document or a drop, with counts and samples.

    record -> dialogue written out -> cleaned -> length, own id, language -> filters -> document

Of each reason the documents with the least ids are samples. Ids are hashes, so these are drawn alike
from all that went, whatever the order or the number of workers.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from pipeline.engine.tasks import Workspace
from pipeline.steps.ingest.dialogues import DialogueWriter
from pipeline.steps.ingest.reading import InputPart
from pipeline.steps.ingest.record import Sample
from stages.cleaning.text import CleanedText, cleaned
from stages.columns import Drop, DropReason
from stages.config import canonical_json, changed_settings
from stages.errors import DataError
from stages.filtering.chain import FilterChain, FilteredDocument
from stages.filtering.filter import Document, Dropped
from stages.filtering.length import EMPTY, LengthFilter, length_verdict
from stages.filtering.table import filters_for
from stages.identity import document_id
from stages.reading.records import UNDETERMINED, RawDocument, Record

SAMPLES = 3
"""Of the documents that went for one reason."""
_MOST_BUFFERED = 256
"""Samples before all but the least are let go."""
MAX_NAME_BYTES = {"own_id": 4096, "language": 256}
"""Longest own id and language: what is longer stands in the wrong column."""
_UTF8 = 4
"""Bytes of a character, at the most."""
_ANY = LengthFilter(min_chars=1)


def least_samples(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Return the samples to keep of some, by reason and id."""
    kept: list[Sample] = []
    for sample in sorted(samples, key=lambda one: (one.reason, one.id)):
        before = kept[-SAMPLES:]
        if len(before) < SAMPLES or before[0].reason != sample.reason:
            kept.append(sample)
    return tuple(kept)


class NewDocument(NamedTuple):
    """A document that a record gave."""

    record: RawDocument
    """As its file has it, or as its dialogue is written out."""
    text: bytes
    """Of all its sections, cleaned, in UTF-8."""
    ends: list[int]
    """Of its sections, in characters."""
    language: str


@dataclass
class Making:
    """What makes documents of the records of a part."""

    part: InputPart
    dialogues: DialogueWriter | None
    """What writes dialogues, if the source has such."""
    chain: FilterChain | None
    """None if no filter looks at the part's documents."""
    cleaned: int = 0
    """Documents whose text was changed, dialogues aside."""
    changes: Counter[str] = field(default_factory=Counter)
    """What filters changed of the documents that are left, by name."""
    _samples: list[Sample] = field(default_factory=list)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Of what filters dropped."""
        return least_samples(self._samples)

    def write(self, record: Record) -> Record:
        """Return a record with its dialogue written out, if it is one."""
        if self.dialogues is None or isinstance(record, Drop):
            return record
        return self.dialogues.write(record)

    def make(self, record: Record, path: str) -> NewDocument | Drop:
        """Return the document that a record gives, or why it gives none.

        Args:
            record: of a dialogue, written out.
            path: of its file.

        Raises:
            DataError: the user's own code failed on it.
        """
        if isinstance(record, Drop):
            return record
        sections = [cleaned(section) for section in (record.text, *record.sections)]
        text = sections[0].data if len(sections) == 1 else b"".join(part.data for part in sections)
        self.cleaned += any(section.changed for section in sections)
        verdict = length_verdict(text, self.part.ingest) or _long_name(record, self.part)
        if verdict is None and record.sections and not record.flags:
            verdict = _empty_section(sections, self.part)
        if verdict is not None:
            return Drop(record.line, record.position, *verdict)
        made = NewDocument(
            record, text, list(accumulate(one.characters for one in sections)), record.language
        )
        return made if self.chain is None else self._judged(made, self.chain, path)

    def _judged(self, made: NewDocument, chain: FilterChain, path: str) -> NewDocument | Drop:
        """Return what filters make of a document; count its changes, or take it as a sample."""
        record, part = made.record, self.part
        asked = Document(made.text, made.ends[-1], _language(record), _values(part, record))
        try:
            judged = chain.judge(asked)
        except DataError as error:
            place = part.place_of(path, record.line, record.position)
            raise DataError(f"{place}: {error}") from error
        if judged.reason is not None:
            self._sample(judged, record, path)
            return Drop(record.line, record.position, judged.reason, judged.detail)
        self.changes.update(judged.counts)
        document = judged.document
        ends = [*made.ends[:-1], document.characters]
        return NewDocument(record, document.text, ends, document.language or made.language)

    def _sample(self, judged: FilteredDocument, record: RawDocument, path: str) -> None:
        """Take a document that went as a sample, if its id is among the least."""
        sample = Sample(
            reason=str(judged.reason),
            id=document_id(self.part.source, path, record.position).hex(),
            place=self.part.place_of(path, record.line, record.position),
            detail=judged.detail,
            excerpt=judged.excerpt,
        )
        self._samples.append(sample)
        if len(self._samples) > _MOST_BUFFERED:
            self._samples = list(least_samples(self._samples))


def making_of(workspace: Workspace, part: InputPart) -> Making:
    """Return what makes documents of the records of a part; filters that are open stay with the worker.

    Of another source's, what both look at is not opened again: a model takes half a second.
    """
    dialogues = None if part.fields.chat is None else DialogueWriter(part.fields.chat)
    if not filters_for(part.filters, part.source):
        return Making(part, dialogues, None)
    key = canonical_json([part.source, [changed_settings(one) for one in part.filters]])
    kept: tuple[bytes, FilterChain] | None = workspace.cache.get("filters")
    if kept is None or kept[0] != key:
        workspace.cache.pop("filters", None)
        before = None if kept is None else kept[1]
        kept = workspace.cache["filters"] = (key, FilterChain(part.filters, part.source, before))
    return Making(part, dialogues, kept[1])


def _long_name(document: RawDocument, part: InputPart) -> Dropped:
    """Say why a document goes whose own id or language is too long to be one."""
    for key, name in (("own_id", document.own_id), ("language", document.language)):
        most = MAX_NAME_BYTES[key]
        if name is not None and len(name) * _UTF8 > most and (size := len(name.encode())) > most:
            return (
                DropReason.TOO_LARGE,
                f"its {key} has {size:,} bytes, over {most:,}; {_column(key, part)}",
            )
    return None


def _column(key: str, part: InputPart) -> str:
    """Say which setting names the column of an own id or of a language."""
    if key == "own_id":
        return f"sources.{part.source}.id_column = {part.fields.id_column!r} may name another column"
    return f"sources.{part.source}.language.column may name another column"


def _empty_section(sections: Sequence[CleanedText], part: InputPart) -> Dropped:
    """Say why a document of several sections goes: each must hold something."""
    for name, section in zip(part.fields.text_columns, sections, strict=True):
        if length_verdict(section.data, _ANY) is not None:
            return EMPTY, f"field {name!r} has no character but white space"
    return None


def _language(document: RawDocument) -> str | None:
    return None if document.language == UNDETERMINED else document.language


def _values(part: InputPart, document: RawDocument) -> dict[str, object]:
    if not document.values:  # a text file has no columns
        return {}
    return dict(zip(part.fields.beside, document.values, strict=True))
