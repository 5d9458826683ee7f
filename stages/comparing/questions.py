"""Questions: one token of a text, asked for in the form that a model has learned to answer.

The forms are drawn in `stages.objectives.traits`. All models answer the same questions, so that what
they know of a text can be compared; what no row of an objective asks is not asked of its models.

Axes: Q questions, L tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from stages.comparing.texts import Beginning
from stages.objectives.traits import Form
from stages.objectives.vocabulary import Vocabulary
from stages.tokenizer.framing import BEGIN
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows

ATTENTION = {
    Form.NEXT: "causal_within_document",
    Form.MIDDLE: "causal_within_document",
    Form.PREFIX: "prefix",
    Form.MASK: "bidirectional_within_document",
    Form.REST: "encoder_decoder",
    Form.SPAN: "encoder_decoder",
}


def ask(
    texts: Sequence[Beginning],
    places: Sequence[Sequence[int]],
    *,
    form: Form,
    vocabulary: Vocabulary,
    within: bool = False,
) -> LabelledRows:
    """Ask for the tokens at some places of each text: a row a question, with one label, (Q, L).

    Args:
        texts: of ordinary ids.
        places: of each text, from 1 on.
        form: in which the model is asked.
        vocabulary: names the special ids.
        within: whether what stands behind the token is given too, or only what stands before it.
    """
    return _rows(
        [
            _question(
                text[:place], text[place], text[place + 1 :] if within else text[:0], form, vocabulary
            )
            for text, some in zip(texts, places, strict=True)
            for place in some
        ],
        form,
    )


def whole_texts(texts: Sequence[Beginning], *, attention: str, begin: int | None = None) -> LabelledRows:
    """Return texts as rows without labels, to be read and not asked about: a prefix is all of a text.

    Args:
        texts: of ordinary ids.
        attention: of the rows.
        begin: the id that begins every document or every row of the run, if one does.
    """
    before = [] if begin is None else [begin]
    rows = _padded([[*before, *text.tolist()] for text in texts], attention)
    lengths = np.array([len(before) + len(text) for text in texts], np.int64)
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
    before: Beginning, token: np.integer, after: Beginning, form: Form, vocabulary: Vocabulary
) -> _Question:
    eos, pad = vocabulary.named("eos"), vocabulary.named("pad")
    head, tail, asked = before.tolist(), after.tolist(), int(token)
    if BEGIN in vocabulary.special_ids:  # what the model has seen before a document or a row
        head = [vocabulary.named(BEGIN), *head]
    decoder: list[int] = []
    match form:
        case Form.NEXT | Form.PREFIX:
            inputs = [*head, asked]
        case Form.MASK:
            inputs = [*head, vocabulary.named("mask"), *tail]
        case Form.MIDDLE:
            prefix, suffix, middle = (vocabulary.named(f"fim_{part}") for part in _PARTS)
            inputs = [prefix, *head, suffix, *tail, middle, asked]
        case Form.SPAN:
            sentinel = int(vocabulary.sentinels[0])
            inputs, decoder = [*head, sentinel, *tail, eos], [pad, sentinel]
        case Form.REST:
            inputs, decoder = [*head, eos], [pad]
    place = len(decoder) - 1 if decoder else len(head) if form != Form.MIDDLE else len(inputs) - 1
    return _Question(inputs, asked, place, decoder, len(head))


_PARTS = ("prefix", "suffix", "middle")


def _rows(questions: Sequence[_Question], form: Form) -> LabelledRows:
    rows = _padded([question.inputs for question in questions], ATTENTION[form])
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
        prefix_length=prefix if rows.attention.startswith(ATTENTION[Form.PREFIX]) else None,
        decoder_input_ids=decoder,
    )
