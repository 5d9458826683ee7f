"""Examples: the loader's columns as rows that a tiny model can learn from in seconds.

    labels                    rows                                           cut
    of each token             as they are                                    anywhere
    behind a prefix           as they are, one text each or several          anywhere; prefixes with them
    of a decoder              windows of the inputs, with the spans that     here
                              their sentinels stand for
    of a pair of texts        the masks: as of each token; the pairs: CLS    anywhere; here
                              and what stands around the SEP between them

Numpy alone. An encoder-decoder's row of some hundred tokens is learned in windows, since its cost grows
with its length and the tie between a sentinel and its span does not:

    inputs    The <X> fox | jumps <Y> over </s>          window of 3: The <X> fox
    labels    <X> quick brown <Y> past </s>                           <X> quick brown
    decoder   .   <X>   quick brown <Y> past                          .   <X>   quick

Sentinels are numbered from the first one in the window on, or each of a hundred would have to be learned
by itself. A row without sentinels keeps the start of its inputs if the targets restate them (bart), and
their end if the targets go on from there.

Axes: N rows, L tokens, M labels, W those of a window.
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stages.objectives.table import components_of, traits_of
from stages.objectives.traits import PAIRS, TARGETS, Objective
from stages.objectives.vocabulary import Vocabulary
from stages.verify.rows import NO_LABEL, PADDING, LabelledRows

AnyBatch = Mapping[str, NDArray[np.int64]]

PAIR_LABELS = ("next_sentence_label", "sentence_order_label")
"""The columns that say of a row whether its texts belong together."""


def labelled_rows(
    batch: AnyBatch, objective: Objective, vocabulary: Vocabulary, *, length: int
) -> LabelledRows:
    """Return the rows of a batch for the objective's own loss.

    Args:
        batch: the loader's columns.
        objective: of the dataset; not one of views.
        vocabulary: names EOS and the sentinels.
        length: most tokens of a window, of rows that are cut here.
    """
    traits = traits_of(objective)
    assert traits.label_convention != PAIRS, "views have no labels"
    if traits.label_convention == TARGETS:
        return cut_pairs(
            batch,
            length=length,
            apart=(vocabulary.named("eos"), *vocabulary.sentinels.tolist()),
            restating=_restating(batch, objective),
        )
    segment_ids = batch["segment_ids"]
    if not traits.attention.endswith("within_document"):
        segment_ids = np.minimum(segment_ids, 0)
    return LabelledRows(
        batch["input_ids"],
        batch["labels"],
        segment_ids.astype(np.int32),
        batch["position_ids"].astype(np.int32),
        attention=traits.attention,
        prefix_length=batch.get("prefix_length"),
        in_prefix=batch.get("in_prefix"),
        classes=2 if traits.label_convention == "replaced" else 0,
    )


def _restating(batch: AnyBatch, objective: Objective) -> NDArray[np.bool_]:
    """Say which rows have targets that restate their inputs: (N,)."""
    parts = components_of(objective) or (objective,)
    restating = np.array([traits_of(part).restates for part in parts])
    chosen = batch.get("objective_id", np.zeros(len(batch["labels"]), np.int64))
    return restating[chosen]


def cut_pairs(
    batch: AnyBatch, *, length: int, apart: tuple[int, ...], restating: NDArray[np.bool_]
) -> LabelledRows:
    """Return windows of inputs with the targets of their sentinels, padded to length: (N', W) each.

    Args:
        batch: columns of an encoder-decoder.
        length: W.
        apart: EOS, then the sentinels in order of use.
        restating: (N,), whose targets restate the inputs.
    """
    number = np.full(int(max(*(batch[name].max(initial=0) for name in _IDS), *apart)) + 1, -1)
    number[list(apart[1:])] = np.arange(len(apart) - 1)
    made: list[tuple[NDArray[np.int64], ...]] = []
    for row, (input_length, label_length) in enumerate(
        zip(batch["input_length"], batch["label_length"], strict=True)
    ):
        inputs = batch["input_ids"][row, :input_length]
        labels = batch["labels"][row, :label_length]
        decoder = batch["decoder_input_ids"][row, :label_length]
        windows = _windows_with_targets(inputs, labels, number, length=length, head=bool(restating[row]))
        for first, places in windows:
            window = inputs[first : first + length]
            found = number[window][number[window] >= 0]
            shift = int(found[0]) if len(found) else 0
            made.append(
                tuple(
                    _renumbered(ids, number, shift, apart)
                    for ids in (window, labels[places], decoder[places])
                )
            )
    input_ids, segment_ids = _padded([ids for ids, _, _ in made], length, 0)
    labels, _ = _padded([ids for _, ids, _ in made], length, NO_LABEL)
    decoder, _ = _padded([ids for _, _, ids in made], length, 0)
    positions = np.tile(np.arange(length, dtype=np.int32), (len(segment_ids), 1))
    return LabelledRows(
        input_ids,
        labels,
        segment_ids,
        positions,
        attention="encoder_decoder",
        decoder_input_ids=decoder,
        apart=apart,
    )


_IDS = ("input_ids", "labels", "decoder_input_ids")


def _windows_with_targets(
    inputs: NDArray[np.int64],
    labels: NDArray[np.int64],
    number: NDArray[np.int64],
    *,
    length: int,
    head: bool,
) -> list[tuple[int, NDArray[np.int64]]]:
    """Return where windows of a row's inputs begin, each with the places of its targets."""
    marks = np.flatnonzero(number[labels] >= 0)
    if not len(marks) or not (number[inputs] >= 0).any():
        first = 0 if head else max(len(inputs) - length, 0)
        return [(first, np.arange(min(length, len(labels))))]
    spans = {int(labels[begin]): np.arange(begin, end) for begin, end in pairwise([*marks, len(labels)])}
    windows = []
    for first in range(0, len(inputs), length):
        window = inputs[first : first + length]
        targets = [spans[mark] for mark in window[number[window] >= 0].tolist() if mark in spans]
        if targets:
            windows.append((first, np.concatenate(targets)[:length]))
    return windows


def _renumbered(
    ids: NDArray[np.int64], number: NDArray[np.int64], shift: int, apart: tuple[int, ...]
) -> NDArray[np.int64]:
    """Return ids with their sentinels numbered from `shift` on."""
    own = number[ids]
    sentinels = np.array([*apart[1:], 0])
    return np.where(own >= 0, sentinels[np.maximum(own - shift, 0)], ids)


def _padded(
    lines: list[NDArray[np.int64]], width: int, fill: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return lines as rows, with 0 where a token stands and -1 on padding."""
    counts = np.array([len(line) for line in lines], np.int64)
    covered = np.arange(width) < counts[:, None]
    rows = np.full(covered.shape, fill, np.int64)
    if lines:
        rows[covered] = np.concatenate(lines)
    return rows, np.where(covered, 0, PADDING).astype(np.int32)


def classified_pairs(batch: AnyBatch, *, length: int) -> LabelledRows:
    """Return pairs of texts for the loss on their label, which CLS predicts.

    CLS and the tokens around the end of the first text: (N', W), rows without a label left out.
    """
    name = next(name for name in PAIR_LABELS if name in batch)
    chosen = np.flatnonzero(batch[name] != NO_LABEL)
    covered = (batch["segment_ids"][chosen] >= 0).sum(axis=1)
    second = (batch["token_type_ids"][chosen] == 1).argmax(axis=1)
    begin = np.clip(second - length // 2, 1, np.maximum(covered - length + 1, 1))
    places = begin[:, None] + np.arange(length - 1)
    places = np.concatenate([np.zeros_like(places[:, :1]), places], axis=1)
    inside = places < covered[:, None]
    places = np.where(inside, places, 0)
    labels = np.full(places.shape, NO_LABEL, np.int64)
    labels[:, 0] = batch[name][chosen]
    return LabelledRows(
        np.take_along_axis(batch["input_ids"][chosen], places, axis=1),
        labels,
        np.where(inside, 0, PADDING).astype(np.int32),
        np.tile(np.arange(length, dtype=np.int32), (len(places), 1)),
        attention="bidirectional_within_document",
        classes=2,
    )
