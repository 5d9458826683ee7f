"""Draws of `fim`: how many segments are transformed, in which order, cut where.

    PSM   <PRE> A <SUF> C <MID> B </s>
    SPM   <PRE> <SUF> C <MID> A B </s>

The cuts are the lesser and the greater of two uniform numbers on 0 .. n. The greater is n less what
stands between <SUF> and <MID>, in both orders; the lesser is only seen of PSM with an A. One without
looks like SPM, which is 1 - (n / (n + 1))^2 of all PSM. With loss = "middle" the labels tell where B is,
in both orders: the distance of the cuts. With level = "character" n counts characters; a
segment that had no room stays plain, which `plain` counts by rows, and such rows are left out where it
would matter.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stages.objectives.fim.config import FIM, fim_ids, marked_segments
from stages.objectives.laws.draws import Draws, Floats
from stages.objectives.laws.shown import ShownRows
from stages.objectives.rows import IGNORED, Columns
from stages.pieces import Pieces

_GROWTH = {"token": 3, "character": 11}
_CONTINUATION = range(0x80, 0xC0)
_LEADING = (0xC0, 0xE0, 0xF0)
"""The least first bytes of characters of two bytes, of three, of four."""
_LONGEST = 4
"""Bytes of the longest character."""


@dataclass(frozen=True, eq=False)
class _Characters:
    """What ids have to do with characters, each (V,)."""

    pieces: list[bytes]
    characters: NDArray[np.int64]
    """How many characters begin in a piece."""
    continues: NDArray[np.bool_]
    """Which pieces begin within a character."""
    partial: NDArray[np.bool_]
    """Which pieces end within a character, or are the end of one alone."""


@dataclass(frozen=True, eq=False)
class _StoredSegments:
    """The segments of some rows, as they are stored: (S,) each."""

    row: NDArray[np.int64]
    length: NDArray[np.int64]
    """Tokens, an EOS included."""
    size: NDArray[np.int64]
    """n: tokens or characters that may be cut."""
    able: NDArray[np.bool_]
    """Whether any of it may be transformed."""
    closed: NDArray[np.bool_]
    """Whether it begins within a character, so that its first part is never empty."""
    tail: NDArray[np.int64]
    """1 where it ends within a character, which is not cut."""
    rate: NDArray[np.float64]
    spm_rate: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _ShownSegments:
    """The same segments in one epoch; the last three are of those that are transformed, (T,)."""

    transformed: NDArray[np.bool_]
    length: NDArray[np.int64]
    first: NDArray[np.int64]
    """n's unit of A, as it is shown."""
    last: NDArray[np.int64]
    """The same of C."""
    looks_spm: NDArray[np.bool_]
    labelled: NDArray[np.int64]
    """n's unit of what has labels, the EOS left out."""


def count_fim(draws: Draws, config: FIM, rows: ShownRows) -> None:
    """Count transformed segments."""
    spelling = None
    if config.level == "character":
        assert rows.shard.pieces is not None, "characters are counted"
        spelling = _spelling(rows.shard.pieces)
    segments = _segments(config, rows, spelling)
    plain = np.zeros(len(rows.stored.numbers), np.int64)
    epochs = []
    for columns in rows.epochs:
        plain += columns.get("plain", 0)
        shown = _shown(draws, rows, columns, spelling)
        if shown is None:
            continue
        _count_rows(draws, config, rows, columns, (segments, shown))
        _count_order(draws, segments, shown)
        _count_cuts(draws, segments, shown)
        if config.loss == "middle":
            _count_middles(draws, segments, shown)
        epochs.append(shown.transformed)
    roomy = segments.able & (plain == 0)[segments.row]
    fraction = config.document_fraction
    for number, transformed in enumerate(epochs):
        law = "transformed of segments"
        if fraction == 1.0:
            found = int(transformed.sum() + rows.epochs[number].get("plain", np.zeros(1)).sum())
            draws.events(law, found, segments.rate[segments.able])
        else:
            _by_document(draws, law, rows, (roomy, transformed, segments.rate), fraction)
    if len(epochs) > 1:
        law, both, rate = "transformed in both epochs", epochs[0] & epochs[1], segments.rate**2
        if fraction == 1.0:
            draws.events(law, int(both[roomy].sum()), rate[roomy])
        else:
            _by_document(draws, law, rows, (roomy, both, rate), fraction)


def _by_document(
    draws: Draws,
    law: str,
    rows: ShownRows,
    segments: tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.float64]],
    fraction: float,
) -> None:
    """Count segments that count, what happened and at which rate, where some documents are eligible."""
    chosen, found, rate = segments
    draws.grouped(
        law,
        rows.documents[chosen],
        found[chosen],
        rate[chosen],
        number=rows.shard.whole.documents,
        chance=fraction,
    )


def _segments(config: FIM, rows: ShownRows, spelling: _Characters | None) -> _StoredSegments:
    """Return the segments as they are stored."""
    stored, vocabulary = rows.stored, rows.vocabulary
    row = np.repeat(np.arange(len(stored.numbers)), np.diff(stored.segment_ptr))
    length, width = stored.segment_length, stored.input_ids.shape[1]
    ends = np.cumsum(length)
    before = np.concatenate([[0], ends])[stored.segment_ptr[:-1]]
    begin = ends - length - before[row] + row * width
    ids = stored.input_ids.ravel()
    eos = vocabulary.named("eos")
    body = length - (ids[begin + length - 1] == eos)
    barred = np.zeros(vocabulary.size, np.int64)
    barred[[vocabulary.named(name) for name in ("fim_prefix", "fim_suffix", "fim_middle", "eos")]] = 1
    able = _between(barred[ids], begin, begin + body) == 0
    size, closed, tail = body, np.zeros(len(row), np.bool_), np.zeros(len(row), np.int64)
    if spelling is not None:
        size = _between(spelling.characters[ids], begin, begin + body)
        closed = spelling.continues[ids[begin]]
        for number in np.flatnonzero((body > 0) & spelling.partial[ids[begin + body - 1]]):
            last = ids[begin[number] : begin[number] + body[number]][-_LONGEST:].tolist()
            tail[number] = _open_end(b"".join(spelling.pieces[token] for token in last))
    size = size - tail
    able &= size > 0
    if config.unit == "document":
        able &= rows.shard.whole.segment_counts[rows.documents] == 1
    return _StoredSegments(row, length, size, able, closed, tail, *_rates(config, rows, len(row)))


def _rates(config: FIM, rows: ShownRows, number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (fim_rate, fim_spm_rate) of each segment."""
    rates = np.full((2, number), [[config.fim_rate], [config.fim_spm_rate]])
    for source, own in config.sources.items():
        of = rows.shard.sources[rows.documents] == source
        for values, rate in zip(rates, (own.fim_rate, own.fim_spm_rate), strict=True):
            if rate is not None:
                values[of] = rate
    return rates[0], rates[1]


def _between(
    values: NDArray[np.integer], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sums of values[begin:end], each (S,)."""
    sums = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    found: NDArray[np.int64] = sums[end] - sums[begin]
    return found


def _shown(
    draws: Draws, rows: ShownRows, columns: Columns, spelling: _Characters | None
) -> _ShownSegments | None:
    """Return the segments as they are shown, or nothing of rows that cannot be taken apart."""
    vocabulary, width = rows.vocabulary, columns["input_ids"].shape[1]
    eos = vocabulary.named("eos")
    ids = columns["input_ids"].ravel()
    covered = columns["segment_ids"] >= 0
    starts = np.flatnonzero((columns["position_ids"] == 0) & covered)
    number = np.diff(rows.stored.segment_ptr)
    found = np.bincount(starts // width, minlength=len(number))
    draws.exact("segments of a row", found != number)
    if (found != number).any():
        return None
    filled = covered.sum(axis=1)
    ends = np.append(starts[1:], 0)
    last = rows.stored.segment_ptr[1:] - 1
    ends[last] = np.arange(len(number)) * width + filled
    marks = [
        np.flatnonzero(ids == vocabulary.named(name))
        for name in ("fim_prefix", "fim_suffix", "fim_middle")
    ]
    transformed = ids[starts] == vocabulary.named("fim_prefix")
    begin, end = starts[transformed], ends[transformed]
    if any(len(mark) != len(begin) for mark in marks):
        wrong = np.ones(len(number), np.bool_)
    else:
        wrong = np.zeros(len(number), np.bool_)
        prefix, suffix, middle = marks
        bad = (prefix != begin) | (suffix <= begin) | (middle <= suffix) | (middle >= end)
        wrong[begin[bad] // width] = True
    draws.exact("special ids of a row", wrong)
    if wrong.any():
        return None
    first, behind = (begin + 1, suffix), (suffix + 1, middle)
    units = np.ones_like(ids) if spelling is None else spelling.characters[ids]
    return _ShownSegments(
        transformed,
        ends - starts,
        _between(units, *first),
        _between(units, *behind),
        suffix == begin + 1,
        _between(units * (columns["labels"].ravel() != IGNORED), begin, end - (ids[end - 1] == eos)),
    )


def _count_rows(
    draws: Draws,
    config: FIM,
    rows: ShownRows,
    columns: Columns,
    segments: tuple[_StoredSegments, _ShownSegments],
) -> None:
    """Count rows with a segment of another length, and with other labels."""
    stored, shown = segments
    growth = shown.length - stored.length
    most = _GROWTH[config.level]
    wrong = np.where(shown.transformed, growth > most, growth != 0)
    if config.level == "token":
        wrong |= shown.transformed & (growth != most)
    faulty = np.zeros(len(rows.stored.numbers), np.bool_)
    faulty[stored.row[wrong | (shown.transformed & ~stored.able)]] = True
    draws.exact("tokens of a segment", faulty)
    said = columns["segment_ids"] >= 0
    if config.loss == "middle":
        wrong_rows = wrong_middles(columns, fim_ids(rows.vocabulary))
        draws.exact("labels are those of the middle", wrong_rows)
        said &= columns["labels"] != IGNORED
    elif not config.train_on_sentinels:
        for name in ("fim_prefix", "fim_suffix", "fim_middle"):
            said &= columns["input_ids"] != rows.vocabulary.named(name)
    labels = np.where(said, columns["input_ids"], IGNORED)
    draws.exact("labels are the inputs", (columns["labels"] != labels).any(axis=1))


def wrong_middles(columns: Columns, ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Say of which rows a transformed segment has other labels than from the middle on: (N,) bool.

    Of a segment that shows nothing before the suffix the middle may begin anywhere behind <MID>. A plain
    segment has all of its labels.
    """
    found = marked_segments(columns["input_ids"], columns["segment_ids"], ids)
    covered = np.count_nonzero(columns["segment_ids"] >= 0, axis=1)
    inside = np.arange(columns["labels"].shape[1]) < covered[:, None]
    labelled = columns["labels"][inside] != IGNORED
    owner = np.repeat(np.arange(len(found.length)), found.length)
    start = found.length - np.bincount(owner, labelled, minlength=len(found.length)).astype(np.int64)
    _, suffix, middle = found.marks
    least = np.where(found.changed, middle + 1, 0)
    most = found.length - (found.tokens[found.begin + found.length - 1] == ids[3])
    free = found.changed & (suffix == 1)
    wrong = (start < least) | (start > np.where(free, most, least))
    place = np.arange(len(owner)) - found.begin[owner]
    wrong |= np.bincount(owner[labelled != (place >= start[owner])], minlength=len(wrong)) > 0
    return np.bincount(found.row[wrong], minlength=len(covered)) > 0


def _count_middles(draws: Draws, segments: _StoredSegments, shown: _ShownSegments) -> None:
    """Count how long middles are, as shares of n: how far two uniform numbers on 0 .. n are apart."""
    n = segments.size[shown.transformed].astype(np.float64)
    mean, square = n * (n + 2.0) / (3.0 * (n + 1.0)), n * (n + 2.0) / 6.0
    draws.each("middle of n", shown.labelled / n, mean / n, (square - mean**2) / n**2)


def _count_order(draws: Draws, segments: _StoredSegments, shown: _ShownSegments) -> None:
    """Count segments that show the suffix first."""
    size, spm = segments.size[shown.transformed], segments.spm_rate[shown.transformed]
    empty = 1.0 - (size / (size + 1.0)) ** 2
    empty[segments.closed[shown.transformed]] = 0.0
    draws.each("suffix first of transformed", shown.looks_spm, spm + (1.0 - spm) * empty)


def _count_cuts(draws: Draws, segments: _StoredSegments, shown: _ShownSegments) -> None:
    """Count where the cuts are, as shares of n, and the squares of the greater one's."""
    n = segments.size[shown.transformed].astype(np.float64)
    moments = _greater(n)
    _count_cut(draws, "greater cut of n", n - shown.last + segments.tail[shown.transformed], n, moments)
    seen = ~shown.looks_spm & ~segments.closed[shown.transformed]
    n, (one, two, three, four) = n[seen], (moment[seen] for moment in moments)
    positive = (n / (n + 1.0)) ** 2
    lesser = (  # n less a number of the greater's law
        n - one,
        n**2 - 2.0 * n * one + two,
        n**3 - 3.0 * n**2 * one + 3.0 * n * two - three,
        n**4 - 4.0 * n**3 * one + 6.0 * n**2 * two - 4.0 * n * three + four,
    )
    above = tuple(moment / positive for moment in lesser)
    first = shown.first[seen].astype(np.float64)
    _count_cut(draws, "lesser cut of n, above 0", first, n, above)


def _count_cut(draws: Draws, what: str, place: Floats, n: Floats, moments: tuple[Floats, ...]) -> None:
    """Count places and their squares, as shares of n, of a law with these moments."""
    first, second, _, fourth = (moment / n**power for power, moment in enumerate(moments, 1))
    share = place / n
    draws.each(what, share, first, second - first**2)
    draws.each(f"{what}, squared", share**2, second, fourth - second**2)


def _greater(n: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the first four moments of the greater of two uniform numbers on 0 .. n.

    It is k with the chance (2 k + 1) / (n + 1)^2, so sums of powers up to the fifth give them.
    """
    m = n + 1.0
    one = n * m / 2.0
    two = n * m * (2.0 * n + 1.0) / 6.0
    three = one**2
    four = two * (3.0 * n**2 + 3.0 * n - 1.0) / 5.0
    five = three * (2.0 * n**2 + 2.0 * n - 1.0) / 3.0
    return (
        (2.0 * two + one) / m**2,
        (2.0 * three + two) / m**2,
        (2.0 * four + three) / m**2,
        (2.0 * five + four) / m**2,
    )


@lru_cache(maxsize=1)
def _spelling(pieces: Pieces) -> _Characters:
    """Return what ids have to do with characters."""
    begun = [sum(byte not in _CONTINUATION for byte in piece) for piece in pieces]
    continues = [piece[:1] != b"" and piece[0] in _CONTINUATION for piece in pieces]
    partial = [
        _open_end(piece) or (piece != b"" and all(byte in _CONTINUATION for byte in piece))
        for piece in pieces
    ]
    return _Characters(list(pieces), np.array(begun, np.int64), np.array(continues), np.array(partial))


def _open_end(data: bytes) -> bool:
    """Say whether a text ends within a character.

    61 E2 82 -> True; E2 82 AC -> False
    """
    for behind, byte in enumerate(reversed(data), 1):
        if byte not in _CONTINUATION:
            return 1 + sum(byte >= least for least in _LEADING) > behind
    return False
