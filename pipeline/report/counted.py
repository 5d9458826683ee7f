"""Counted: what a report read of large files of a run, kept so that the next one does not read them.

    report/counted.json    {"shardmill": version, "counted": {NAME: {"of": fingerprint, "value": ...}}}

A value stays true while what it was counted of has the same fingerprint. Another version of the program
counts anew.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from pipeline.report.made import installed

REPORT, COUNTED = "report", "counted.json"
"""The folder of a report in that of its run, and the file in it."""
_VERSION = "shardmill"

_Value = TypeVar("_Value")


class Counted:
    """What was counted of a run's files, by name.

    Args:
        output: the run.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        """The run."""
        self._place = output / REPORT / COUNTED
        self._before = _read(self._place)
        self._now: dict[str, dict[str, Any]] = {}

    def once(
        self,
        name: str,
        of: str | None,
        kind: Any,
        count: Callable[[], _Value],
        *,
        is_sound: Callable[[_Value], object] = bool,
        anew: bool = False,
    ) -> _Value:
        """Return a value that was counted before, or count it.

        Args:
            name: of the value.
            of: fingerprint of what is counted; None if that is not whole yet.
            kind: of the value, by which its JSON is read.
            count: returns it.
            is_sound: says whether it is kept; without it, what is empty or None is not.
            anew: whether it is counted even if it is known.
        """
        adapter: TypeAdapter[_Value] = TypeAdapter(kind)
        known = self._before.get(name)
        if of is not None and known is not None and known.get("of") == of and not anew:
            with suppress(ValidationError):
                value = adapter.validate_python(known.get("value"))
                self._now[name] = known
                return value
        value = count()
        if of is not None and is_sound(value):
            self._now[name] = {"of": of, "value": adapter.dump_python(value, mode="json")}
        return value

    def write(self, *, whole: bool) -> None:
        """Keep what was asked for.

        Args:
            whole: whether the report was of all; else what was not asked for is kept, too.
        """
        kept = self._now if whole else self._before | self._now
        content = {_VERSION: installed(_VERSION), "counted": kept}
        self._place.parent.mkdir(exist_ok=True)
        self._place.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


def _read(place: Path) -> dict[str, dict[str, Any]]:
    """Return what a file keeps; nothing of one that is damaged, or of another version."""
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
        if content[_VERSION] != installed(_VERSION):
            return {}
        return {str(name): dict(one) for name, one in content["counted"].items()}
    except (OSError, ValueError, LookupError, AttributeError, TypeError):  # none, or not one of ours
        return {}
