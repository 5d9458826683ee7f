"""Vectors: those of some documents again, from their texts, by the encoder of semantic deduplication.

An encoder that computes in floating point may give slightly other numbers on another machine, or with
other texts beside a text. So a component may differ by `TOLERANCE` of 127.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from pipeline.engine.tasks import Workspace
from pipeline.steps.again.follow import MADE_AGAIN
from pipeline.steps.again.groups import DrawnUnit, drawn_groups, place_of
from pipeline.steps.dedup.semantic import encoder_of, vectors_key
from pipeline.steps.findings import CheckRecord, LookedAt
from pipeline.steps.recount import Found, recounted
from stages.dedup.encoders import embedded
from stages.dedup.semantic import SemanticConfig, rounded
from stages.errors import ConfigError
from stages.findings import Finding
from stages.store.arrays import open_array

MOST = 1_000
"""Texts of a run that an encoder is given again."""
TOLERANCE = 4
"""Of a component, the largest one of a vector being 127."""


@dataclass(frozen=True)
class EmbeddedUnit:
    """A unit of which some texts are embedded again."""

    drawn: DrawnUnit
    run: str
    """Name of the run of units that it is in."""
    first: int
    """Its first document, that of the run of units being 0."""
    config: SemanticConfig


def embed_again(workspace: Workspace, work: EmbeddedUnit) -> CheckRecord:
    """Embed texts of a unit again, and say of which the vector is another.

    Where the encoder of the user is not there, no text is looked at.
    """
    key, looked = vectors_key(work.run), [0]
    try:
        found = recounted((key, lambda: _embedded(workspace, work, key, looked)))
    except ConfigError:
        found = CheckRecord()
    one = LookedAt(what="vectors", unit="documents", looked=sum(looked), of=sum(looked))
    return found.model_copy(update={"looked": (one,)})


def _embedded(workspace: Workspace, work: EmbeddedUnit, key: str, looked: list[int]) -> Found:
    """Embed drawn texts again; how many they are is added as they come."""
    stored: Any = open_array(workspace.path(key), dtype="|i1")
    encode, left = encoder_of(workspace, work.config), work.drawn.documents
    for first, texts in drawn_groups(workspace, work.drawn):
        some = min(left, len(texts))
        place = int.from_bytes(place_of(work.drawn.key, f"row {first}")) % (len(texts) - some + 1)
        row = work.first + first + place
        again = rounded(embedded(encode, texts.slice(place, some).to_pylist())).astype(np.int64)
        own = np.asarray(stored[row : row + some]).astype(np.int64)
        if own.shape != again.shape:
            yield key, Finding(MADE_AGAIN, f"has vectors of shape {own.shape}, and not {again.shape}")
            return
        for number in np.flatnonzero((np.abs(own - again) > TOLERANCE).any(axis=1))[:1].tolist():
            lane = int(np.argmax(np.abs(own[number] - again[number])))
            message = (
                f"document {row + number:,}, component {lane}: is {own[number, lane]}, and from its text"
                f" it is {again[number, lane]}, where {TOLERANCE} more or less is allowed"
            )
            yield key, Finding(MADE_AGAIN, message)
        looked.append(some)
        left -= some
