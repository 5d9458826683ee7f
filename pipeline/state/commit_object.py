"""Commit objects: what the file of a commit holds, and how it is believed.

A commit holds its own name and a digest of itself, so that a copy under another name and a commit that
was changed are damage, and are never acted on.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeVar

import xxhash
from pydantic import BaseModel, Field

from pipeline.state.state_files import as_model, parse_object
from stages.config import Config, canonical_json
from stages.errors import FormatError
from stages.store.digests import FileDigest

COMMITS = "commits"
ENDING = ".json"
_PARSED, _PARSED_BYTES = 1024, 8 << 10
"""How many parsed commits are kept, and the largest commit object of them: 48 MB at most, measured."""
Reported = TypeVar("Reported", bound=BaseModel)


class Commit(Config):
    """What a commit object holds; no time, host or path outside the run."""

    step: str
    unit: str
    fingerprint: str
    """Of the work: config, code version and inputs."""
    files: dict[str, FileDigest]
    """Final key of every file."""
    record: dict[str, Any]
    """What the work reports, in JSON: counts, and what later steps need."""
    units: dict[str, str] = Field(default_factory=dict)
    """Of a step that is whole: the digest of the commit of each of its units."""
    xxh3: str = ""
    """XXH3-128 of the canonical JSON of the other fields."""

    def read(self, kind: type[Reported]) -> Reported:
        """Return the record as what made it gave it.

        Raises:
            FormatError: it is another, as of another version of the program.
        """
        place = commit_key(self.step, self.unit)
        return as_model(kind, self.record, Path(place), way_out=way_out(self.step))

    def sealed(self) -> Self:
        """Return the commit with the digest of what it says."""
        return self.model_copy(update={"xxh3": content_digest(self.model_dump(mode="json"))})


def _parse(data: bytes, place: Path, then: str) -> Commit:
    content = parse_object(data, place, way_out=then)
    try:
        found = content_digest(content)  # of what is there: a later version may have more fields
    except ValueError:
        found = "none, for it holds what is no JSON"  # an infinite number, half a character
    said = content.get("xxh3", "")
    if isinstance(said, str) and found != said:
        raise FormatError(
            f"{place}: holds the XXH3 {said} of its content, but its content has {found}: it"
            f" was changed after it was written; {then}"
        )
    return as_model(Commit, content, place, way_out=then)


_parse_again = lru_cache(_PARSED)(_parse)


def parse_commit(data: bytes, place: Path, then: str) -> Commit:
    """Return the commit that a commit object holds; of the same bytes it is the same.

    A session reads each commit four times or more: the bytes each time, their meaning once.

    Args:
        data: what is in the object's file.
        place: the file, for messages.
        then: what a user does about a damaged one.

    Raises:
        FormatError: it is damaged.
    """
    parse = _parse_again if len(data) <= _PARSED_BYTES else _parse
    return parse(data, place, then)


def content_digest(content: Mapping[str, Any]) -> str:
    """Return the XXH3-128 of the canonical JSON of a commit's content, all but its field `xxh3`."""
    rest = {name: value for name, value in content.items() if name != "xxh3"}
    return xxhash.xxh3_128(canonical_json(rest)).hexdigest()


def way_out(step: str) -> str:
    """Say what helps where a file of a step is not what was committed."""
    return f"restore it, or run again with --replace to make step {step} and those after it anew"


def commit_key(step: str, unit: str) -> str:
    """Return where the commit of a unit lies in its run."""
    return f"{COMMITS}/{step}/{unit}{ENDING}"
