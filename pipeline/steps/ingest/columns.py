"""Columns: whether the records of each source have the columns that the run file names, and usable ones.

Of a table this is known before a row is read. JSON lines are counted: a column that none of a source's
records has is refused, early if it can be, and so is one that never holds an id or a language; one that
some lack, or that some hold in another type, is told with their share.

Roles: whether the roles that a source's dialogues are learned by are those of its turns, and used.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pipeline.run_file.source import Source
from pipeline.steps.ingest.record import LongValues, PartRecord, add_long
from pipeline.steps.step import Scope
from stages.chat.dialogue import chat_hint
from stages.chat.table import TEMPLATES
from stages.errors import ConfigError
from stages.filtering.filter import FilterConfig
from stages.filtering.table import columns_for
from stages.reading.columns_seen import ID, LANGUAGE, NAMED, NOTHING
from stages.reading.kept_values import DEEPEST, MOST_BYTES
from stages.reading.records import LanguageColumn

_TEXT = "text_column"
_BESIDE = "filters"
"""Stands for the setting of a column that filters alone read."""
_KEPT = "keep_columns"
_GIVES = {ID: "no id of their own", LANGUAGE: "no language", _KEPT: "no such value"}


@dataclass
class _ColumnSums:
    """Sums over the units of a source."""

    records: int = 0
    absent: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    """For each column that some record lacks, the first file of such a record."""
    there: list[str] = field(default_factory=list)
    textless: int = 0
    untaken: dict[str, Counter[str]] = field(default_factory=dict)
    """For each setting, the records without id or language, by what its column holds."""
    first_wrong: dict[str, str] = field(default_factory=dict)
    """For each setting, the first file of a record whose column holds another type."""
    documents: int = 0
    too_long: dict[str, LongValues] = field(default_factory=dict)
    """For each column whose values go along, those that are too long."""

    def wrong(self, key: str) -> Counter[str]:
        """Return the records whose column holds another type, by type."""
        untaken = self.untaken.get(key, Counter())
        return Counter({kind: number for kind, number in untaken.items() if kind != NOTHING})

    def taken(self, key: str) -> int:
        """Return the records whose column gave an id or a language."""
        return self.records - self.textless - self.untaken.get(key, Counter()).total()


class SourceColumns:
    """Counts over units which columns the JSON records of each source have.

    Args:
        sources: what the run file names.
        filters: which may read columns too.
    """

    def __init__(self, sources: Sequence[Source], filters: Sequence[FilterConfig] = ()) -> None:
        self._named = {source.name: _named_columns(source, filters) for source in sources}
        self._sources = sources
        self._seen: dict[str, _ColumnSums] = {}

    def add(self, unit: PartRecord) -> None:
        """Take the record of one unit, in canonical order."""
        counts = unit.columns
        seen = self._seen.setdefault(unit.source, _ColumnSums())
        seen.records += counts.records
        for name, number in counts.absent.items():
            seen.absent[name] += number
        seen.first = {**counts.first, **seen.first}
        seen.there += [name for name in counts.there if name not in seen.there]
        seen.textless += counts.textless
        for key, kinds in counts.untaken.items():
            seen.untaken.setdefault(key, Counter()).update(kinds)
        seen.first_wrong = {**counts.first_wrong, **seen.first_wrong}
        seen.documents += unit.documents
        add_long(seen.too_long, unit.too_long)

    def require_any(self, *, least: int = 1) -> None:
        """Refuse a column that no record of its source has, or that never holds what it must.

        Args:
            least: records before anything is said.

        Raises:
            ConfigError: there is one.
        """
        for source in self._sources:
            seen = self._seen.get(source.name, _ColumnSums())
            if seen.records < least:
                continue
            for key, column in self._named[source.name]:
                if seen.absent[column] == seen.records:
                    raise ConfigError(_absent_everywhere(source, key, column, seen))
                if seen.wrong(key) and not seen.taken(key):
                    raise ConfigError(_wrong_everywhere(source, key, column, seen))

    def warnings(self) -> list[str]:
        """Say which columns some records lack or misuse; those of texts are drops and counted there."""
        found = []
        for source in self._sources:
            seen = self._seen.get(source.name, _ColumnSums())
            for key, column in self._named[source.name]:
                if column in source.text_columns or key == _BESIDE:
                    continue
                wrong = seen.wrong(key)
                for what, number, first in (
                    ("absent", seen.absent[column], seen.first.get(column)),
                    (" or ".join(sorted(wrong)), wrong.total(), seen.first_wrong.get(key)),
                ):
                    if number:
                        found.append(
                            f"sources.{source.name}.{key} = {column!r}: {what} in {number:,} of"
                            f" {seen.records:,} records ({number / seen.records:.2%}), first in {first};"
                            f" these have {_GIVES[key]}"
                        )
            found += [
                f"sources.{source.name}.{_KEPT} = {column!r}: over {MOST_BYTES:,} bytes, or nested over"
                f" {DEEPEST} deep, in {long.documents:,} of {seen.documents:,} documents"
                f" ({long.documents / seen.documents:.2%}), first in {long.first}; these have"
                f" {_GIVES[_KEPT]}"
                for column, long in seen.too_long.items()
            ]
        return found


def _named_columns(source: Source, filters: Sequence[FilterConfig]) -> list[tuple[str, str]]:
    """Return the columns of a source, each with the key that names it."""
    columns = [(_TEXT, source.text_column)]
    if source.chat is not None:
        columns = [(f"chat.{key}", column) for key, column in source.chat.columns.items()]
    columns += [("section_columns", column) for column in source.section_columns]
    if source.id_column is not None:
        columns.append((ID, source.id_column))
    if isinstance(source.language, LanguageColumn):
        columns.append((LANGUAGE, source.language.column))
    columns += [(_KEPT, column) for column in source.keep_columns]
    return [*columns, *((_BESIDE, column) for column in columns_for(filters, source.name))]


def _absent_everywhere(source: Source, key: str, column: str, seen: _ColumnSums) -> str:
    there = ", ".join(seen.there[:NAMED]) or "none"
    setting = f"sources.{source.name}.{key}"
    if key == _BESIDE:
        setting = f"filters of sources.{source.name}: column"
    way = chat_hint(seen.there) if key == _TEXT else ""
    return (
        f"{setting} = {column!r}: none of {seen.records:,} records has such a column;"
        f" columns there: {there}{way}. Correct it and run again with --replace"
    )


def _wrong_everywhere(source: Source, key: str, column: str, seen: _ColumnSums) -> str:
    wrong = seen.wrong(key)
    needed = "a string or an integer" if key == ID else "a string"
    other = "leave id_column out" if key == ID else 'give one language, such as language = "en"'
    return (
        f"sources.{source.name}.{key} = {column!r}: all {wrong.total():,} records that have it hold"
        f" {' or '.join(sorted(wrong))} there; it must be {needed}. Name another column, or {other}, and"
        " run again with --replace"
    )


_NAMED = 20


def require_learned_roles(sources: Sequence[Source], units: Iterable[PartRecord]) -> None:
    """Refuse a role that is to be learned and that no turn has; a misspelt one would learn nothing.

    Raises:
        ConfigError: there is one.
    """
    counts: dict[str, Counter[str]] = {}
    for unit in units:
        counts.setdefault(unit.source, Counter()).update(unit.roles)
    for source in sources:
        roles = counts.get(source.name)
        if source.chat is None or source.chat.template not in TEMPLATES or not roles:
            continue
        for role in source.chat.learn:
            if not roles[role]:
                there = ", ".join(f"{name} ({count:,})" for name, count in roles.most_common(_NAMED))
                raise ConfigError(
                    f"sources.{source.name}.chat.learn: no turn is of role {role!r}; roles there:"
                    f" {there}. Correct it and run again with --replace"
                )


def unused_roles(scope: Scope) -> str | None:
    """Say that no dataset learns chosen turns alone, or None if one does or no source has dialogues."""
    chat = next((source for source in scope.file.sources if source.chat), None)
    if chat is None or any(one.traits.loss_mask for one in scope.file.datasets):
        return None
    assert chat.chat is not None, "is a source with dialogues"
    chosen = f"learn = {json.dumps(chat.chat.learn)}"
    if chat.chat.template not in TEMPLATES:
        chosen = "{% generation %} in its template"
    return (
        f'sources.{chat.name}.chat: {chosen} has no effect, because no dataset has loss = "targets": the'
        " turns of all roles are learned. To learn the chosen turns alone, write below [[datasets]]"
        ' name = "clm" and objective = { kind = "clm", loss = "targets" }; see docs/chat.md'
    )
