"""The chain: the filters of a run ask about a document one after the other; the first drop ends it.

    text -> filter 1 -> filter 2 -> ... -> text, or the reason why it goes

A text that a filter changed is cleaned again before the next one sees it, so that every text that stays
is a clean one.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from stages.cleaning.text import cleaned
from stages.config import canonical_json, changed_settings
from stages.filtering.filter import Change, Document, FilterConfig, Judge, Removal
from stages.filtering.length import EMPTY, LengthFilter, length_verdict
from stages.filtering.table import filter_of, filters_for

_ANY = LengthFilter(min_chars=1)
EXCERPT_CHARACTERS = 300
"""Of a dropped text that are shown."""


@dataclass(frozen=True)
class FilteredDocument:
    """What the filters made of a document."""

    document: Document
    """As the last filter left it."""
    reason: str | None = None
    """Why it goes, or None if it stays."""
    detail: str = ""
    excerpt: str = ""
    """What may be shown of the text of one that goes."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Changes by name."""


class FilterChain:
    """The filters of one source, opened.

    Args:
        configs: all filters of the run, resolved.
        source: whose documents are asked about.
        before: the chain of another source; what this one needs of it is not opened again, and it is
            not to be asked any more.
    """

    def __init__(
        self, configs: Sequence[FilterConfig], source: str, before: "FilterChain | None" = None
    ) -> None:
        own = [(label, _key(one), one) for label, one in filters_for(configs, source)]
        wanted = {key for _, key, _ in own}
        self._opened: dict[bytes, Judge] = {}
        if before is not None:  # what is not needed is let go before other lists are read
            self._opened = before.give_up(wanted)
        for _, key, one in own:
            if key not in self._opened:
                self._opened[key] = filter_of(one).open(one)
        self._judges = [(label, self._opened[key], filter_of(one).rules) for label, key, one in own]

    def give_up(self, wanted: Collection[bytes]) -> dict[bytes, Judge]:
        """Return the filters that another chain wants, and let go of all."""
        opened, self._opened, self._judges = self._opened, {}, []
        return {key: judge for key, judge in opened.items() if key in wanted}

    def judge(self, document: Document) -> FilteredDocument:
        """Return what becomes of a document."""
        counts: Counter[str] = Counter()
        for label, judge, rules in self._judges:
            verdict = judge(document)
            if verdict is None:
                continue
            if isinstance(verdict, Removal):
                assert verdict.rule in rules, f"{label}.{verdict.rule} is none of the filter's rules"
                return _gone(document, label, verdict)
            counts.update({f"{label}.{name}": number for name, number in verdict.counts.items()})
            counts[f"{label}.documents"] += 1
            document = _changed(document, verdict)
            if verdict.text is not None and length_verdict(document.text, _ANY) is not None:
                return _gone(document, label, Removal(EMPTY, "no character but white space is left"))
        return FilteredDocument(document, counts=counts)


def _key(config: FilterConfig) -> bytes:
    """Return what tells filters apart whose verdicts may differ."""
    return canonical_json(changed_settings(config.model_copy(update={"sources": None})))


def _changed(document: Document, change: Change) -> Document:
    language = document.language if change.language is None else change.language
    if change.text is None:
        return replace(document, language=language)
    clean = cleaned(change.text.decode())
    return replace(document, language=language, text=clean.data, characters=clean.characters)


def _gone(document: Document, label: str, verdict: Removal) -> FilteredDocument:
    shown = document.text if verdict.excerpt is None else verdict.excerpt
    excerpt = shown[: 4 * EXCERPT_CHARACTERS].decode(errors="ignore")[:EXCERPT_CHARACTERS]
    return FilteredDocument(document, f"{label}.{verdict.rule}", verdict.detail, excerpt)
