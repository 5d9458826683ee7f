"""Classes: documents by what is known of them, for a probe to tell apart. Free of torch.

Axes: D documents.

Probes: what a trained model knows of texts, measured alike whatever it was trained on.

    questions   bits per byte of the tokens asked for, over the whole vocabulary
    knowledge   the mean over a text of what the model knows at its tokens -> a linear probe of its class

A token that has no output of its own costs what the output of all rare ones costs, and what it costs to
tell it from these by frequency: so losses are those of a model of every text, and the number of outputs,
or the tokenizer, may differ.

Axes: D documents, Q questions, K channels, C classes, V ids of the vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from stages.comparing.budget import with_rare_labels
from stages.comparing.questions import whole_texts
from stages.comparing.settings import IdCounts
from stages.comparing.texts import Beginning
from stages.verify.model import TinyTransformer, autocast, heldout_loss, known_of
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows, take_rows

_LEAST_OF_CLASS = 8
"""Fewest documents of a class that is told from others."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Documents by class, half of them to learn from and half to measure on.

    Args:
        places: (D',) of the documents of classes that are large enough.
        numbers: (D',) of their classes.
        names: of the classes.
    """

    places: NDArray[np.int64]
    numbers: NDArray[np.int64]
    names: tuple[str, ...]

    @cached_property
    def measured(self) -> NDArray[np.bool_]:
        """Say which are measured on: every second of each class, (D',)."""
        measured = np.zeros(len(self.numbers), np.bool_)
        for number in range(len(self.names)):
            measured[np.flatnonzero(self.numbers == number)[1::2]] = True
        return measured

    @property
    def majority(self) -> float:
        """Share of the measured documents that are of the class that is most frequent in training."""
        most = np.bincount(self.numbers[~self.measured]).argmax()
        return float(np.mean(self.numbers[self.measured] == most))


def classes_of(labels: Sequence[str]) -> Classes | None:
    """Number the classes of documents, (D,); None without two that are large enough."""
    names, numbers, counts = np.unique(np.array(labels), return_inverse=True, return_counts=True)
    large = np.flatnonzero(counts >= _LEAST_OF_CLASS)
    if len(large) < 2:  # noqa: PLR2004  # there must be something to tell apart
        return None
    places = np.flatnonzero(np.isin(numbers, large))
    return Classes(
        places, np.searchsorted(large, numbers[places]), tuple(str(names[number]) for number in large)
    )


_ROWS = 64
"""Texts read at a time."""
_RIDGE = 1.0


def frequency_bits(texts: Sequence[Beginning], places: Sequence[Sequence[int]], ids: IdCounts) -> float:
    """Return what tokens at some places of texts cost by their frequency alone, in bits per byte."""
    asked = np.concatenate([text[some] for text, some in zip(texts, places, strict=True)])
    return float(ids.frequency_costs()[asked].sum()) / math.log(2) / int(ids.num_bytes[asked].sum())


def bits_per_byte(
    model: TinyTransformer, questions: LabelledRows, *, kept: NDArray[np.int64], ids: IdCounts
) -> float:
    """Return what the tokens asked for cost the model, in bits per byte of their text."""
    asked = questions.labels[questions.labels != NO_LABEL]
    nats = heldout_loss(model, with_rare_labels(questions, kept)) * len(asked)
    nats += float(ids.rare_costs(kept)[asked].sum())
    return nats / math.log(2) / int(ids.num_bytes[asked].sum())


@torch.no_grad()
def knowledge(
    model: TinyTransformer,
    texts: Sequence[Beginning],
    *,
    kept: NDArray[np.int64],
    attention: str,
    begin: int | None = None,
) -> NDArray[np.float64]:
    """Return the mean of what the model knows at the tokens of each text, (D, K), or its encoder."""
    rows = with_rare_labels(whole_texts(texts, attention=attention, begin=begin), kept)
    parts = []
    for start in range(0, len(texts), _ROWS):
        some = take_rows(rows, np.arange(start, min(start + _ROWS, len(texts))))
        with autocast(model):
            hidden = known_of(model, some).float()
        inside = torch.from_numpy(some.segment_ids != PADDING).to(hidden.device)[..., None]
        parts.append(((hidden * inside).sum(dim=1) / inside.sum(dim=1)).double().cpu().numpy())
    return np.concatenate(parts)


def linear_accuracy(known: NDArray[np.float64], classes: Classes) -> float:
    """Return the share of documents whose class a linear probe tells: ridge regression on the others.

    Args:
        known: (D, K) of all documents.
        classes: of some of them.
    """
    chosen = known[classes.places]
    learned, measured = chosen[~classes.measured], chosen[classes.measured]
    mean, scale = learned.mean(axis=0), learned.std(axis=0) + 1e-6
    learned, measured = ((part - mean) / scale for part in (learned, measured))
    wanted = np.eye(len(classes.names))[classes.numbers[~classes.measured]]
    middle = wanted.mean(axis=0)
    square = learned.T @ learned + _RIDGE * np.eye(learned.shape[1])
    weights = np.linalg.solve(square, learned.T @ (wanted - middle))
    return float(
        np.mean((measured @ weights + middle).argmax(axis=1) == classes.numbers[classes.measured])
    )
