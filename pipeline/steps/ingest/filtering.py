"""Filtering: what the filters of a run make of a part's documents, with counts and samples of drops.

Of each reason the documents with the least ids are samples. Ids are hashes, so these are drawn alike
from all that went, whatever the order or the number of workers.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from pipeline.engine.tasks import Workspace
from pipeline.steps.ingest.reading import InputPart
from pipeline.steps.ingest.record import Sample
from stages.config import canonical_json, changed_settings
from stages.errors import DataError
from stages.filtering.chain import FilterChain, Judged
from stages.filtering.filter import Document
from stages.filtering.table import filters_for
from stages.identity import document_id
from stages.reading.records import UNDETERMINED, RawDocument

SAMPLES = 3
"""Of the documents that went for one reason."""
_MOST_HELD = 256
"""Samples before all but the least are let go."""


def least_samples(samples: Iterable[Sample]) -> tuple[Sample, ...]:
    """Return the samples to keep of some, by reason and id."""
    kept: list[Sample] = []
    for sample in sorted(samples, key=lambda one: (one.reason, one.id)):
        before = kept[-SAMPLES:]
        if len(before) < SAMPLES or before[0].reason != sample.reason:
            kept.append(sample)
    return tuple(kept)


@dataclass
class PartFilters:
    """The filters of a part at work."""

    chain: FilterChain | None
    """None if no filter looks at the part's documents."""
    changes: Counter[str] = field(default_factory=Counter)
    """By the name of the change."""
    _samples: list[Sample] = field(default_factory=list)

    @property
    def samples(self) -> tuple[Sample, ...]:
        """Of what went."""
        return least_samples(self._samples)

    def judge(
        self, part: InputPart, document: RawDocument, path: str, *, text: bytes, characters: int
    ) -> Judged:
        """Return what becomes of a document; count its changes, or take it as a sample.

        Args:
            part: that it is of.
            document: as its file has it.
            path: of its file.
            text: of all its sections, cleaned.
            characters: of the text.

        Raises:
            DataError: the user's own code failed on it.
        """
        assert self.chain is not None, "there is nothing to ask"
        asked = Document(text, characters, _language(document), _values(part, document))
        try:
            judged = self.chain.judge(asked)
        except DataError as error:
            place = part.place_of(path, document.line, document.position)
            raise DataError(f"{place}: {error}") from error
        if judged.reason is None:
            self.changes.update(judged.counts)
        else:
            self._sample(judged, part, document, path)
        return judged

    def _sample(self, judged: Judged, part: InputPart, document: RawDocument, path: str) -> None:
        """Take a document that went as a sample, if its id is among the least."""
        sample = Sample(
            reason=str(judged.reason),
            id=document_id(part.source, path, document.position).hex(),
            place=part.place_of(path, document.line, document.position),
            detail=judged.detail,
            excerpt=judged.excerpt,
        )
        self._samples.append(sample)
        if len(self._samples) > _MOST_HELD:
            self._samples = list(least_samples(self._samples))


def part_filters(workspace: Workspace, part: InputPart) -> PartFilters:
    """Return the filters of a part; those that a worker has opened stay with it.

    Of another source's, what both look at is not opened again: a model takes half a second.
    """
    if not filters_for(part.filters, part.source):
        return PartFilters(None)
    key = canonical_json([part.source, [changed_settings(one) for one in part.filters]])
    held: tuple[bytes, FilterChain] | None = workspace.cache.get("filters")
    if held is None or held[0] != key:
        workspace.cache.pop("filters", None)
        before = None if held is None else held[1]
        held = workspace.cache["filters"] = (key, FilterChain(part.filters, part.source, before))
    return PartFilters(held[1])


def _language(document: RawDocument) -> str | None:
    return None if document.language == UNDETERMINED else document.language


def _values(part: InputPart, document: RawDocument) -> dict[str, object]:
    if not document.values:  # a text file has no columns
        return {}
    return dict(zip(part.fields.beside, document.values, strict=True))
