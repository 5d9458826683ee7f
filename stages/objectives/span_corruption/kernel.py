"""Span corruption compiled: the columns of `span_corruption.corrupt_spans`, bit for bit."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.kernels.noise import fill_draws, scaled, stream_key_of
from stages.objectives.kernels.seq2seq import Frame, close_row, copy_range, frame_of
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.span_corruption.config import SpanCorruption, SpanTag, spans_of_rows
from stages.objectives.vocabulary import Vocabulary


class _Sequences(NamedTuple):
    """What is corrupted."""

    input_ids: NDArray[np.integer]
    numbers: NDArray[np.int64]
    n: NDArray[np.int64]
    noise: NDArray[np.int64]
    spans: NDArray[np.int64]


class _Ids(NamedTuple):
    """The special ids that are written; `mode` is -1 if none is."""

    pad: int
    eos: int
    mode: int
    sentinels: NDArray[np.int64]


def corrupt_spans(
    rows: StoredRows, config: SpanCorruption, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the columns of an encoder-decoder for rows as they are stored.

    Raises:
        FormatError: a row that does not fit its columns, or has more spans than there are sentinels.
    """
    n, noise, spans = spans_of_rows(rows, config, vocabulary, widths)
    mode = vocabulary.named(config.mode_token) if config.mode_token else -1
    frame = frame_of(len(n), dtype=rows.input_ids.dtype, widths=widths)
    _corrupt(
        _Sequences(rows.input_ids, rows.numbers, n, noise, spans),
        _Ids(vocabulary.named("pad"), vocabulary.named("eos"), mode, vocabulary.sentinels),
        stream_key_of(rows, SpanTag.NOISE_CUTS),
        stream_key_of(rows, SpanTag.TEXT_CUTS),
        frame,
    )
    return frame.columns()


@kernel
def _corrupt(
    bodies: _Sequences,
    ids: _Ids,
    noise_key: NDArray[np.uint64],
    text_key: NDArray[np.uint64],
    frame: Frame,
) -> None:
    """Write the rows of a frame; every row fits."""
    longest = bodies.input_ids.shape[1]
    cut = np.zeros(longest + 1, np.uint8)
    draws = np.empty(longest + 1, np.uint64)
    hidden, shown = np.empty(longest + 1, np.uint64), np.empty(longest + 1, np.uint64)
    for row in range(len(bodies.n)):
        n, noise, spans = bodies.n[row], bodies.noise[row], bodies.spans[row]
        fill_draws(noise_key, bodies.numbers[row], draws[: spans // 2 * 2])
        _compose(draws, noise, cut, hidden[:spans])
        fill_draws(text_key, bodies.numbers[row], draws[: spans // 2 * 2])
        _compose(draws, n - noise, cut, shown[:spans])
        inputs, targets = _write_row(
            bodies.input_ids[row, :n], shown[:spans], hidden[:spans], ids, frame, row
        )
        close_row(frame, row, inputs, targets, ids.pad)


@kernel
def _compose(
    draws: NDArray[np.uint64], total: int, cut: NDArray[np.uint8], ends: NDArray[np.uint64]
) -> None:
    """Cut `total` tokens into as many positive parts as there are ends; `cut` is zero before and after.

    All indices are unsigned: numba tests others for their sign, and loops stay off vector registers.
    """
    if len(ends) == 0:
        return
    lowest = np.uint64(total - len(ends) + 1)
    for number in range(np.uint64(len(ends) - 1)):
        highest = lowest + number
        place = np.uint64(1) + np.uint64(scaled(draws[number], int(highest)))
        cut[highest if cut[place] else place] = 1
    part = np.uint64(0)
    for position in range(np.uint64(1), np.uint64(total)):  # without a branch, which none could foresee
        ends[part] = position
        part += np.uint64(cut[position])
    ends[part] = total
    cut[:total] = 0


@kernel
def _write_row(
    body: NDArray[np.integer],
    shown: NDArray[np.uint64],
    hidden: NDArray[np.uint64],
    ids: _Ids,
    frame: Frame,
    row: int,
) -> tuple[int, int]:
    """Write inputs and targets of one row and give their lengths.

    `shown` and `hidden` are the ends of text and of noise, each counted without the other.
    """
    inputs, labels = frame.input_ids[row], frame.labels[row]
    one, first = np.uint64(1), np.uint64(ids.mode >= 0)
    if first:
        inputs[0] = ids.mode
    text, noise = np.uint64(0), np.uint64(0)
    for span in range(np.uint64(len(shown))):
        copy_range(body, text + noise, inputs, first + text + span, shown[span] - text)
        text = shown[span]
        inputs[first + text + span] = labels[noise + span] = ids.sentinels[span]
        copy_range(body, text + noise, labels, noise + span + one, hidden[span] - noise)
        noise = hidden[span]
    if len(shown) == 0:
        copy_range(body, 0, inputs, first, len(body))
        inputs[first + np.uint64(len(body))] = ids.eos
        return int(first) + len(body) + 1, 0
    targets = noise + np.uint64(len(shown))
    labels[targets] = ids.eos
    at = first + text + np.uint64(len(shown))
    inputs[at] = ids.eos
    return int(at + one), int(targets + one)
