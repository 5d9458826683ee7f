"""Questions: one token of a text, asked for in the way that a model has learned to answer.

    text        The quick brown fox jumps              the token asked for: brown

                what comes next                        what stood there
    next        The quick -> brown
    prefix      The quick -> brown                     (the quick is read both ways)
    rest        The quick </s> => brown
    mask        The quick <mask>                       The quick <mask> fox jumps
    span        The quick <X> </s> => <X> brown        The quick <X> fox jumps </s> => <X> brown
    middle                                             <PRE> The quick <SUF> fox jumps <MID> -> brown

`->` is the next position, `=>` the decoder. All models answer the same questions, so that what they know
of a text can be compared; what no row of an objective asks is not asked of its models.

Axes: Q questions, L tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stages.comparing.texts import Text
from stages.objectives.mixture import Mixture
from stages.objectives.prefix_lm import PrefixLM
from stages.objectives.table import Objective, components_of
from stages.objectives.vocabulary import Vocabulary
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows


class Way(StrEnum):
    """How a model is asked for a token."""

    NEXT = "next"
    PREFIX = "prefix"
    REST = "rest"
    MASK = "mask"
    SPAN = "span"
    MIDDLE = "middle"


ATTENTION = {
    Way.NEXT: "causal_within_document",
    Way.MIDDLE: "causal_within_document",
    Way.PREFIX: "prefix",
    Way.MASK: "bidirectional_within_document",
    Way.REST: "encoder_decoder",
    Way.SPAN: "encoder_decoder",
}


@dataclass(frozen=True)
class Ways:
    """How the models of an objective are asked; None: no row of it asks so."""

    going_on: Way | None = None
    """What comes next."""
    filling_in: Way | None = None
    """What stood there."""


def ways_of(objective: Objective) -> Ways:
    """Say how the models of an objective are asked; those of a mixture as all its components are."""
    if isinstance(objective, PrefixLM):
        return Ways(Way.PREFIX if objective.architecture == "decoder_only" else Way.REST)
    if isinstance(objective, Mixture):
        first, *others = map(ways_of, components_of(objective))
        return first if all(other == first for other in others) else Ways()
    return _WAYS.get(objective.kind, Ways())


_WAYS = {
    "clm": Ways(Way.NEXT),
    "fim": Ways(Way.NEXT, Way.MIDDLE),
    "mlm": Ways(Way.MASK, Way.MASK),
    "nsp": Ways(Way.MASK, Way.MASK),
    "sop": Ways(Way.MASK, Way.MASK),
    "span_corruption": Ways(Way.SPAN, Way.SPAN),
    "ul2": Ways(Way.SPAN, Way.SPAN),
}


def ask(
    texts: Sequence[Text],
    places: Sequence[Sequence[int]],
    *,
    way: Way,
    vocabulary: Vocabulary,
    within: bool = False,
) -> LabelledRows:
    """Ask for the tokens at some places of each text: a row a question, with one label, (Q, L).

    Args:
        texts: of ordinary ids.
        places: of each text, from 1 on.
        way: in which the model is asked.
        vocabulary: names the special ids.
        within: whether what stands behind the token is given too, or only what stands before it.
    """
    return _rows(
        [
            _question(
                text[:place], text[place], text[place + 1 :] if within else text[:0], way, vocabulary
            )
            for text, some in zip(texts, places, strict=True)
            for place in some
        ],
        way,
    )


def whole_texts(texts: Sequence[Text], *, attention: str) -> LabelledRows:
    """Give texts as rows without labels, to be read and not asked about: a prefix is all of a text."""
    rows = _padded([text.tolist() for text in texts], attention)
    lengths = np.array([len(text) for text in texts], np.int64)
    return _with_labels(rows, np.full_like(rows.input_ids, NO_LABEL), prefix=lengths)


@dataclass(frozen=True)
class _Question:
    inputs: list[int]
    token: int
    place: int
    """Of the token in the inputs, or what stands before it in the decoder's."""
    decoder: list[int]
    before: int


def _question(
    before: Text, token: np.integer, after: Text, way: Way, vocabulary: Vocabulary
) -> _Question:
    eos, pad = vocabulary.named("eos"), vocabulary.named("pad")
    head, tail, asked = before.tolist(), after.tolist(), int(token)
    decoder: list[int] = []
    match way:
        case Way.NEXT | Way.PREFIX:
            inputs = [*head, asked]
        case Way.MASK:
            inputs = [*head, vocabulary.named("mask"), *tail]
        case Way.MIDDLE:
            prefix, suffix, middle = (vocabulary.named(f"fim_{part}") for part in _PARTS)
            inputs = [prefix, *head, suffix, *tail, middle, asked]
        case Way.SPAN:
            sentinel = int(vocabulary.sentinels[0])
            inputs, decoder = [*head, sentinel, *tail, eos], [pad, sentinel]
        case Way.REST:
            inputs, decoder = [*head, eos], [pad]
    place = len(decoder) - 1 if decoder else len(head) if way != Way.MIDDLE else len(inputs) - 1
    return _Question(inputs, asked, place, decoder, len(head))


_PARTS = ("prefix", "suffix", "middle")


def _rows(questions: Sequence[_Question], way: Way) -> LabelledRows:
    rows = _padded([question.inputs for question in questions], ATTENTION[way])
    width = max((len(question.decoder) for question in questions), default=0)
    labels = np.full((len(questions), width or rows.input_ids.shape[1]), NO_LABEL)
    labels[np.arange(len(questions)), [q.place for q in questions]] = [q.token for q in questions]
    before = np.array([question.before for question in questions], np.int64)
    decoder = np.array([question.decoder for question in questions], np.int64) if width else None
    return _with_labels(rows, labels, prefix=before, decoder=decoder)


def _padded(lines: Sequence[Sequence[int]], attention: str) -> LabelledRows:
    lengths = np.array([len(line) for line in lines], np.int64)
    places = np.arange(max(lengths.max(initial=0), 1))
    covered = places < lengths[:, None]
    ids = np.zeros(covered.shape, np.int64)
    ids[covered] = list(chain.from_iterable(lines))
    positions = np.where(covered, places, 0).astype(np.int32)
    segments = np.where(covered, 0, PADDING).astype(np.int32)
    return LabelledRows(ids, ids, segments, positions, attention=attention)


def _with_labels(
    rows: LabelledRows,
    labels: NDArray[np.int64],
    *,
    prefix: NDArray[np.int64],
    decoder: NDArray[np.int64] | None = None,
) -> LabelledRows:
    return LabelledRows(
        rows.input_ids,
        labels,
        rows.segment_ids,
        rows.position_ids,
        attention=rows.attention,
        prefix_length=prefix if rows.attention == ATTENTION[Way.PREFIX] else None,
        decoder_input_ids=decoder,
    )
