"""Objectives of every kind, for runs that are to have them all."""

from collections.abc import Collection, Mapping
from typing import Any

from stages.objectives.table import KINDS
from stages.seeding import Tag

Content = Mapping[str, Any]
"""An objective as a run file has it."""


TAGS = [tag for own in Tag.__subclasses__() for tag in own]
"""Of all draws: those of the objectives, and of all rows."""


def with_every_kind(chosen: Mapping[str, Content], *, but: Collection[str] = ()) -> dict[str, Content]:
    """Return objectives by name, and every kind that is not among them, at its defaults.

    Args:
        chosen: kinds in the forms that somebody wants to see.
        but: kinds that are left out.
    """
    there = {objective["kind"] for objective in chosen.values()}
    return {**chosen, **{kind: {"kind": kind} for kind in KINDS if kind not in {*there, *but}}}
