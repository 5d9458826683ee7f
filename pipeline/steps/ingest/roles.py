"""Roles: whether the roles that a source's dialogues are learned by are those of its turns, and used."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pipeline.run_file.source import Source
from pipeline.steps.step import Scope
from stages.chat.table import TEMPLATES
from stages.errors import ConfigError
from stages.objectives.table import traits_of

_NAMED = 20


class CountedRoles(Protocol):
    """The record of a unit, as far as it is about roles."""

    @property
    def source(self) -> str:
        """Name of its source."""

    @property
    def roles(self) -> Mapping[str, int]:
        """Turns by role."""


def require_learned_roles(sources: Sequence[Source], units: Iterable[CountedRoles]) -> None:
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
    if chat is None or any(traits_of(one.objective).loss_mask for one in scope.file.datasets):
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
