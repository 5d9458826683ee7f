"""Roles of a sample: those that are learned and of which no turn was drawn.

The run refuses a role that no turn has. A sample may only have missed it, so its run learns others.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import orjson

from pipeline.run_file.source import Source
from stages.chat.table import TEMPLATES


def drawn_roles(sources: Sequence[Source]) -> tuple[tuple[Source, ...], list[str]]:
    """Return the sources of a sample with roles that it has, and a note for each that it has not.

    Args:
        sources: of the sample, each a file of JSON lines.
    """
    found, notes = [], list[str]()
    for source in sources:
        roles = _roles(source)
        absent = list(_absent(source, roles))
        if absent:
            found.append(_learning(source, absent, roles))
            there = ", ".join(name for name, _ in roles.most_common())
            notes += [
                f"sources.{source.name}.chat.learn: no turn of the sample is of role {role!r}; roles"
                f" there: {there}. If no turn of the whole source is, the run is refused"
                for role in absent
            ]
        else:
            found.append(source)
    return tuple(found), notes


def _absent(source: Source, roles: Counter[str]) -> Iterator[str]:
    if source.chat is not None and source.chat.template in TEMPLATES and roles:
        yield from (role for role in source.chat.learn if not roles[role])


def _learning(source: Source, absent: Sequence[str], roles: Counter[str]) -> Source:
    """Return a source that learns the roles it has of those asked for, or else the commonest role."""
    assert source.chat is not None, "has roles"
    learn = tuple(role for role in source.chat.learn if role not in absent)
    chat = source.chat.model_copy(update={"learn": learn or (roles.most_common(1)[0][0],)})
    return source.model_copy(update={"chat": chat})


def _roles(source: Source) -> Counter[str]:
    """Return the turns of a source by role, of dialogues that say something."""
    roles = Counter[str]()
    if source.chat is None:
        return roles
    with Path(source.paths[0]).open("rb") as lines:
        for line in lines:
            turns = orjson.loads(line)[source.chat.column]
            if any(turn["content"].strip() for turn in turns):
                roles.update(turn["role"] for turn in turns)
    return roles
