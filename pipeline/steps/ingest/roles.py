"""Roles: whether the roles that a source's dialogues are learned by are those of its turns."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from pipeline.run_file.config import Source
from stages.chat.table import TEMPLATES
from stages.errors import ConfigError

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
