"""Texts: the beginnings of documents that every model is asked about, the same for all of them.

    documents of every run -+-> fresh      held out by all; no training document of any begins so
                            +-> repeated   trained on by all; in some run several documents begin so
                            +-> once       trained on by all; in no run another document begins so

A text is known by its document, so that tokenizers may differ: each run's tokens of it are its own.

Axes: D documents, T tokens.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TEXT_TOKENS = 64
"""Most tokens of a text that models are asked about."""
_LEAST_TOKENS = 8
"""Fewest tokens of a text that is asked about."""

Beginning = NDArray[np.integer]
Texts = dict[bytes, Beginning]
"""Texts by the ids of their documents."""


@dataclass(frozen=True, eq=False)
class RunTexts:
    """The beginnings of a run's documents."""

    training: Texts
    heldout: Texts


@dataclass(frozen=True)
class ChosenTexts:
    """Documents to ask about, by id, in an order of their own."""

    fresh: tuple[bytes, ...]
    repeated: tuple[bytes, ...]
    once: tuple[bytes, ...]


def choose_texts(runs: Sequence[RunTexts], *, most: int) -> ChosenTexts:
    """Choose documents that are asked about in all runs alike; the order of the runs is of no effect.

    Args:
        runs: of each the beginnings of all its documents.
        most: documents of a kind.
    """
    counts = [Counter(text.tobytes() for text in run.training.values()) for run in runs]
    heldout = set.intersection(*(set(run.heldout) for run in runs))
    trained = set.intersection(*(set(run.training) for run in runs))
    long = {
        name for name in heldout | trained if all(len(_text(run, name)) >= _LEAST_TOKENS for run in runs)
    }

    def seen(name: bytes) -> int:
        return max(count[_text(run, name).tobytes()] for run, count in zip(runs, counts, strict=True))

    def some(names: set[bytes], *, least: int, below: float) -> tuple[bytes, ...]:
        found = (name for name in sorted(names & long) if least <= seen(name) < below)
        return tuple(found)[:most]

    return ChosenTexts(
        fresh=some(heldout, least=0, below=1),
        repeated=some(trained, least=2, below=np.inf),
        once=some(trained, least=1, below=2),
    )


def _text(run: RunTexts, name: bytes) -> Beginning:
    return run.heldout[name] if name in run.heldout else run.training[name]
