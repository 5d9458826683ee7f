"""Fill in the middle, compiled: the columns of `stages.objectives.fim.config`, over whole shards."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.fim.config import FIM, GROWTH, FimTag, fim_ids, require_room
from stages.objectives.kernels.noise import draw_block, scaled, stream_key_of
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import threshold


class _Frame(NamedTuple):
    """The columns under construction."""

    input_ids: NDArray[np.integer]
    labels: NDArray[np.int32]
    segment_ids: NDArray[np.int32]
    position_ids: NDArray[np.int32]


def fill_in_middle(rows: StoredRows, config: FIM, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Return the columns of packed rows whose segments are transformed, as the plain version does.

    Raises:
        FormatError: a row was stored without room for the growth of its segments.
    """
    require_room(rows, widths)
    shape = len(rows.input_ids), widths.inputs
    frame = _Frame(
        np.empty(shape, rows.input_ids.dtype),
        *(np.empty(shape, np.int32) for _ in ("labels", "segment_ids", "position_ids")),
    )
    rates = [threshold(config.fim_rate), threshold(config.fim_spm_rate)]
    _transform_rows(
        rows.input_ids,
        (rows.segment_ptr, rows.segment_length, rows.numbers),
        stream_key_of(rows, FimTag.SEGMENTS),
        np.array([[rate > 0, max(rate - 1, 0)] for rate in rates], np.uint64),
        np.append(fim_ids(vocabulary), vocabulary.named("pad")),
        (config.train_on_sentinels, config.loss == "middle"),
        frame,
    )
    return dict(frame._asdict())


@kernel
def _transform_rows(
    source: NDArray[np.integer],
    layout: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
    stream_key: NDArray[np.uint64],
    rates: NDArray[np.uint64],
    ids: NDArray[np.int64],
    labelled: tuple[bool, bool],
    frame: _Frame,
) -> None:
    """Fill all columns of all rows.

    Args:
        source: (N, L) ids as stored.
        layout: segment_ptr, segment_length, row numbers.
        stream_key: of the rows' stream.
        rates: (2, 2), of fim and SPM: whether it occurs at all, and the greatest draw at which it does.
        ids: <PRE>, <SUF>, <MID>, EOS, pad.
        labelled: whether the first three have labels; whether middles and what follows them alone have.
        frame: is filled.
    """
    segment_ptr, segment_length, numbers = layout
    input_ids, labels, segment_ids, position_ids = frame
    trained, apart = labelled
    for row in range(len(source)):
        begin = place = 0
        for segment in range(segment_ptr[row], segment_ptr[row + 1]):
            number = segment - segment_ptr[row]
            end = begin + segment_length[segment]
            closed = end > begin and source[row, end - 1] == ids[3]
            body, shown = source[row, begin : end - closed], input_ids[row, place:]
            suffix, middle, hidden = _rearrange(
                body, shown, stream_key, numbers[row], number, rates, ids
            )
            length = end - begin
            if suffix > 0:
                length += GROWTH
            if closed:
                shown[length - 1] = ids[3]
            _copy(shown[:length], labels[row, place:])
            _number(segment_ids[row, place:], position_ids[row, place:], number, length)
            if suffix > 0 and apart:
                for mark in range(hidden):
                    labels[row, place + mark] = IGNORED
            elif suffix > 0 and not trained:
                for mark in (0, suffix, middle):
                    labels[row, place + mark] = IGNORED
            begin, place = end, place + length
        for blank in range(place, input_ids.shape[1]):
            input_ids[row, blank], labels[row, blank] = ids[4], IGNORED
            segment_ids[row, blank], position_ids[row, blank] = -1, 0


@kernel
def _rearrange(
    body: NDArray[np.integer],
    shown: NDArray[np.integer],
    stream_key: NDArray[np.uint64],
    row: int,
    number: int,
    rates: NDArray[np.uint64],
    ids: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Write one body as it is shown; give the places of <SUF>, <MID> and the middle, or -1 if plain."""
    chance, order = draw_block(stream_key, row, 2 * number)
    if not _below(chance, rates[0]) or len(body) == 0 or _holds(body, ids):
        _copy(body, shown)
        return -1, -1, -1
    one, other = draw_block(stream_key, row, 2 * number + 1)
    cut, second = scaled(one, len(body) + 1), scaled(other, len(body) + 1)
    cut, second = min(cut, second), max(cut, second)
    head = 0 if _below(order, rates[1]) else cut  # SPM: all that <MID> is not followed by is C
    suffix = 1 + head
    middle = suffix + 1 + len(body) - second
    shown[0], shown[suffix], shown[middle] = ids[0], ids[1], ids[2]
    _copy(body[:head], shown[1:])
    _copy(body[second:], shown[suffix + 1 :])
    _copy(body[head:second], shown[middle + 1 :])
    return suffix, middle, middle + 1 + cut - head


@kernel
def _copy(source: NDArray[np.integer], target: NDArray[np.integer]) -> None:
    """Copy to the beginning of the target; an assignment to a slice takes seven times as long."""
    for place in range(len(source)):
        target[place] = source[place]


@kernel
def _number(
    segment_ids: NDArray[np.int32], position_ids: NDArray[np.int32], number: int, length: int
) -> None:
    for place in range(length):
        segment_ids[place] = number
    for place in range(length):
        position_ids[place] = place


@kernel
def _below(value: np.uint64, rate: NDArray[np.uint64]) -> bool:
    return bool(rate[0]) and bool(value <= rate[1])


@kernel
def _holds(body: NDArray[np.integer], ids: NDArray[np.int64]) -> bool:
    """Say whether any of the first four ids is among the tokens.

    Counted, without an early end, so that it is done in vectors: three times as fast.
    """
    a, b, c, d = ids[0], ids[1], ids[2], ids[3]
    count = 0
    for place in range(len(body)):
        token = body[place]
        count += (token == a) | (token == b) | (token == c) | (token == d)
    return count > 0


def restore_fim(
    columns: Columns, config: FIM, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return (ids, lengths) of the rows as they were stored, as the plain version does."""
    del config
    input_ids = columns["input_ids"]
    segment_ids = columns["segment_ids"].astype(np.int32, copy=False)
    clean = np.full(input_ids.shape, vocabulary.named("pad"), input_ids.dtype)
    return clean, _restore_rows(input_ids, segment_ids, fim_ids(vocabulary), clean)


@kernel
def _restore_rows(
    input_ids: NDArray[np.integer],
    segment_ids: NDArray[np.int32],
    ids: NDArray[np.int64],
    clean: NDArray[np.integer],
) -> NDArray[np.int64]:
    """Fill the clean rows; give their lengths."""
    lengths = np.zeros(len(input_ids), np.int64)
    for row in range(len(input_ids)):
        begin = place = 0
        while begin < input_ids.shape[1] and segment_ids[row, begin] >= 0:
            end = begin
            while end < input_ids.shape[1] and segment_ids[row, end] == segment_ids[row, begin]:
                end += 1
            place += _reassemble(input_ids[row, begin:end], clean[row, place:], ids)
            begin = end
        lengths[row] = place
    return lengths


@kernel
def _reassemble(tokens: NDArray[np.integer], clean: NDArray[np.integer], ids: NDArray[np.int64]) -> int:
    """Write one segment as it was stored; give its length."""
    counts, places = np.zeros(3, np.int64), np.zeros(3, np.int64)
    for place in range(len(tokens)):
        for which in range(3):
            if tokens[place] == ids[which]:
                counts[which] += 1
                places[which] = place
    prefix, suffix, middle = places
    if counts.min() != 1 or counts.max() != 1 or prefix != 0 or suffix > middle:
        _copy(tokens, clean)
        return len(tokens)
    end = len(tokens) - (tokens[-1] == ids[3])
    _copy(tokens[1:suffix], clean)
    _copy(tokens[middle + 1 : end], clean[suffix - 1 :])
    _copy(tokens[suffix + 1 : middle], clean[suffix - 1 + end - middle - 1 :])
    _copy(tokens[end:], clean[end - GROWTH :])
    return len(tokens) - GROWTH
