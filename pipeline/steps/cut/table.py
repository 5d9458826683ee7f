"""Methods: what parts of a text are compared, each as one value; all that the step knows of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.run_file.deduplication import Dedup
from stages.config import Config
from stages.dedup.byte_windows import stretches_of
from stages.dedup.spans import (
    RepeatedSubstrings,
    Spans,
    lines_of,
    paragraphs_of,
    substrings_of,
    words_of,
)


@dataclass(frozen=True)
class CutMethod:
    """One sort of span."""

    name: str
    """In the evidence and in the ledger."""
    config: Callable[[Dedup], Config | None]
    """Returns its settings, None if it is off."""
    spans: Callable[[NDArray[np.uint8], Any], Spans]
    """Returns the spans of a text in UTF-8, by its settings."""
    min_documents: Callable[[Any], int]
    """Returns in how many documents a span must stand to be cut; 1 if repeats in one document count."""
    windows: bool = False
    """Whether spans overlap, so that words or bytes are marked and not whole spans cut."""
    sampled: bool = False
    """Whether its spans are windows of bytes, found by `pipeline.steps.cut.byte_windows`."""


def _substrings(text: NDArray[np.uint8], config: Any) -> Spans:
    return substrings_of(words_of(text), min_words=config.min_words)


def _stretches(text: NDArray[np.uint8], config: Any) -> Spans:
    found = stretches_of(text, min_bytes=config.min_bytes)
    return Spans(found.minimizers, found.counts, found.starts, found.starts)


def _in_words(dedup: Dedup) -> RepeatedSubstrings | None:
    found = dedup.substrings
    return found if found is not None and found.min_bytes is None else None


def _in_bytes(dedup: Dedup) -> RepeatedSubstrings | None:
    found = dedup.substrings
    return found if found is not None and found.min_bytes is not None else None


METHODS = (
    CutMethod(
        name="paragraph",
        config=lambda dedup: dedup.paragraphs,
        spans=lambda text, config: paragraphs_of(text, min_chars=config.min_chars),
        min_documents=lambda config: int(config.min_documents),
    ),
    CutMethod(
        name="line",
        config=lambda dedup: dedup.lines,
        spans=lambda text, config: lines_of(text, min_chars=config.min_chars),
        min_documents=lambda config: int(config.min_documents),
    ),
    CutMethod(
        name="substring",
        config=_in_words,
        spans=_substrings,
        min_documents=lambda _: 1,
        windows=True,
    ),
    CutMethod(
        name="substring",
        config=_in_bytes,
        spans=_stretches,
        min_documents=lambda _: 1,
        windows=True,
        sampled=True,
    ),
)
"""In the order in which bytes are counted: what a method cuts is no other's after it. A run has one of
the two of a name, by the unit that its settings give."""


def methods_of(dedup: Dedup) -> tuple[CutMethod, ...]:
    """Return the methods of a run."""
    return tuple(method for method in METHODS if method.config(dedup) is not None)


def method_of(dedup: Dedup, name: str) -> CutMethod:
    """Return a method of a run by its name."""
    return next(method for method in methods_of(dedup) if method.name == name)
