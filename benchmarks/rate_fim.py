"""Laws of `fim`: how many segments are transformed, in which order, cut where.

    PSM   <PRE> A <SUF> C <MID> B </s>
    SPM   <PRE> <SUF> C <MID> A B </s>

The cuts are the lesser and the greater of two uniform numbers on 0 .. n. The greater is n less what
stands between <SUF> and <MID>, in both orders; the lesser is only seen of PSM with an A. One without
looks like SPM, which is 1 - (n / (n + 1))^2 of all PSM. With level = "character" n counts characters; a
segment that had no room stays plain, which `plain` counts by rows, and such rows are left out where it
would matter.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from rate_parts import Part, piece_bytes
from rate_tally import Tally

from stages.loading.dataset import Batch, ShardDataset
from stages.objectives.fim import FIM
from stages.objectives.rows import IGNORED

_GROWTH = {"token": 3, "character": 11}
_CONTINUATION = range(0x80, 0xC0)
_LEADING = (0xC0, 0xE0, 0xF0)
"""The least first bytes of characters of two bytes, of three, of four."""
_LONGEST = 4
"""Bytes of the longest character."""


@dataclass(frozen=True, eq=False)
class Spelling:
    """What ids have to do with characters, each (V,)."""

    pieces: list[bytes]
    characters: NDArray[np.int64]
    """How many characters begin in a piece."""
    continues: NDArray[np.bool_]
    """Which pieces begin within a character."""
    lone: NDArray[np.bool_]
    """Which pieces are a byte of a longer character."""


@dataclass(frozen=True, eq=False)
class Segments:
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
class Shown:
    """The same segments in one epoch; the last three are of those that are transformed, (T,)."""

    transformed: NDArray[np.bool_]
    length: NDArray[np.int64]
    first: NDArray[np.int64]
    """n's unit of A, as it is shown."""
    last: NDArray[np.int64]
    """The same of C."""
    looks_spm: NDArray[np.bool_]


def count_fim(tally: Tally, config: FIM, part: Part) -> None:
    """Count transformed segments."""
    spelling = _spelling(part.shard.dataset) if config.level == "character" else None
    segments = _segments(config, part, spelling)
    plain = np.zeros(len(part.stored.numbers), np.int64)
    epochs = []
    for batch in part.shown:
        plain += batch.get("plain", 0)
        shown = _shown(tally, part, batch, spelling)
        if shown is None:
            continue
        _count_rows(tally, config, part, batch, (segments, shown))
        _count_order(tally, segments, shown)
        _count_cuts(tally, segments, shown)
        epochs.append(shown.transformed)
    roomy = segments.able & (plain == 0)[segments.row]
    fraction = config.document_fraction
    for number, transformed in enumerate(epochs):
        law = "transformed of segments"
        if fraction == 1.0:
            found = int(transformed.sum() + part.shown[number].get("plain", np.zeros(1)).sum())
            tally.events(law, found, segments.rate[segments.able])
        else:
            _by_document(tally, law, part, roomy, transformed, segments.rate * fraction)
    if len(epochs) > 1:
        law, both, rate = "transformed in both epochs", epochs[0] & epochs[1], segments.rate**2
        if fraction == 1.0:
            tally.events(law, int(both[roomy].sum()), rate[roomy])
        else:
            _by_document(tally, law, part, roomy, both, rate * fraction)


def _by_document(
    tally: Tally,
    law: str,
    part: Part,
    chosen: NDArray[np.bool_],
    found: NDArray[np.bool_],
    rate: NDArray[np.float64],
) -> None:
    number = part.shard.whole.documents
    tally.grouped(law, part.documents[chosen], found[chosen], rate[chosen], number=number)


def _segments(config: FIM, part: Part, spelling: Spelling | None) -> Segments:
    """Return the segments as they are stored."""
    stored, vocabulary = part.stored, part.vocabulary
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
        for number in np.flatnonzero((body > 0) & spelling.lone[ids[begin + body - 1]]):
            held = ids[begin[number] : begin[number] + body[number]][-_LONGEST:].tolist()
            tail[number] = _open_end(b"".join(spelling.pieces[token] for token in held))
    size = size - tail
    able &= size > 0
    if config.unit == "document":
        able &= part.shard.whole.segment_counts[part.documents] == 1
    return Segments(row, length, size, able, closed, tail, *_rates(config, part))


def _rates(config: FIM, part: Part) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (fim_rate, fim_spm_rate) of each segment."""
    rates = np.full((2, len(part.documents)), [[config.fim_rate], [config.fim_spm_rate]])
    for source, own in config.sources.items():
        of = part.shard.sources[part.documents] == source
        for values, rate in zip(rates, (own.fim_rate, own.fim_spm_rate), strict=True):
            if rate is not None:
                values[of] = rate
    return rates[0], rates[1]


def _between(
    values: NDArray[np.int64], begin: NDArray[np.int64], end: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the sums of values[begin:end], each (S,)."""
    sums = np.concatenate([[0], np.cumsum(values)])
    found: NDArray[np.int64] = sums[end] - sums[begin]
    return found


def _shown(tally: Tally, part: Part, batch: Batch, spelling: Spelling | None) -> Shown | None:
    """Return the segments as they are shown, or nothing of rows that cannot be taken apart."""
    vocabulary, width = part.vocabulary, batch["input_ids"].shape[1]
    ids = batch["input_ids"].ravel()
    covered = batch["segment_ids"] >= 0
    starts = np.flatnonzero((batch["position_ids"] == 0) & covered)
    number = np.diff(part.stored.segment_ptr)
    found = np.bincount(starts // width, minlength=len(number))
    tally.exact("segments of a row", found != number)
    if (found != number).any():
        return None
    filled = covered.sum(axis=1)
    ends = np.append(starts[1:], 0)
    last = part.stored.segment_ptr[1:] - 1
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
    tally.exact("special ids of a row", wrong)
    if wrong.any():
        return None
    first, behind = (begin + 1, suffix), (suffix + 1, middle)
    units = np.ones_like(ids) if spelling is None else spelling.characters[ids]
    return Shown(
        transformed,
        ends - starts,
        _between(units, *first),
        _between(units, *behind),
        suffix == begin + 1,
    )


def _count_rows(
    tally: Tally, config: FIM, part: Part, batch: Batch, segments: tuple[Segments, Shown]
) -> None:
    """Count rows with a segment of another length, and with other labels."""
    stored, shown = segments
    growth = shown.length - stored.length
    most = _GROWTH[config.level]
    wrong = np.where(shown.transformed, growth > most, growth != 0)
    if config.level == "token":
        wrong |= shown.transformed & (growth != most)
    rows = np.zeros(len(part.stored.numbers), np.bool_)
    rows[stored.row[wrong | (shown.transformed & ~stored.able)]] = True
    tally.exact("tokens of a segment", rows)
    said = batch["segment_ids"] >= 0
    if not config.train_on_sentinels:
        for name in ("fim_prefix", "fim_suffix", "fim_middle"):
            said &= batch["input_ids"] != part.vocabulary.named(name)
    labels = np.where(said, batch["input_ids"], IGNORED)
    tally.exact("labels are the inputs", (batch["labels"] != labels).any(axis=1))


def _count_order(tally: Tally, segments: Segments, shown: Shown) -> None:
    """Count segments that show the suffix first."""
    size, spm = segments.size[shown.transformed], segments.spm_rate[shown.transformed]
    empty = 1.0 - (size / (size + 1.0)) ** 2
    empty[segments.closed[shown.transformed]] = 0.0
    tally.draws("suffix first of transformed", shown.looks_spm, spm + (1.0 - spm) * empty)


def _count_cuts(tally: Tally, segments: Segments, shown: Shown) -> None:
    """Count where the cuts are, as shares of n, and the squares of the greater one's."""
    n = segments.size[shown.transformed].astype(np.float64)
    mean, second = _greater(n)
    found = (n - shown.last + segments.tail[shown.transformed]) / n
    tally.draws("greater cut of n", found, mean / n, (second - mean**2) / n**2)
    tally.squares("its square", found**2, second / n**2)
    seen = ~shown.looks_spm & ~segments.closed[shown.transformed]
    n, mean, second = n[seen], mean[seen], second[seen]
    lesser, square = n - mean, n**2 - 2.0 * n * mean + second
    positive = (n / (n + 1.0)) ** 2
    lesser, square = lesser / positive, square / positive
    cut = shown.first[seen] / n
    tally.draws("lesser cut of n, above 0", cut, lesser / n, (square - lesser**2) / n**2)
    tally.squares("its square, above 0", cut**2, square / n**2)


def _greater(n: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the mean and the mean square of the greater of two uniform numbers on 0 .. n."""
    rest = n * (2.0 * n + 1.0) / (6.0 * (n + 1.0))
    return n - rest, n**2 / 2.0 + rest


@lru_cache(maxsize=1)
def _spelling(dataset: ShardDataset) -> Spelling:
    """Return what the ids of a dataset's tokenizer decode to."""
    pieces = piece_bytes(dataset)
    begun = [sum(byte not in _CONTINUATION for byte in piece) for piece in pieces]
    continues = [piece[:1] != b"" and piece[0] in _CONTINUATION for piece in pieces]
    lone = [len(piece) == 1 and not piece.isascii() for piece in pieces]
    return Spelling(pieces, np.array(begun, np.int64), np.array(continues), np.array(lone))


def _open_end(data: bytes) -> bool:
    """Say whether a text ends within a character.

    61 E2 82 -> True; E2 82 AC -> False
    """
    for behind, byte in enumerate(reversed(data), 1):
        if byte not in _CONTINUATION:
            return 1 + sum(byte >= least for least in _LEADING) > behind
    return False
