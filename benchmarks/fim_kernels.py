"""The contest of fill in the middle: packed rows transformed, against a loop over documents in numpy."""

import numpy as np
from contest_material import MEGA, Material
from contests import Contest, Way
from numpy.typing import NDArray

from stages.kernels import kernel
from stages.objectives.fim import config as plain
from stages.objectives.fim.config import FIM, GROWTH, FimTag, restore_fim
from stages.objectives.fim.kernel import fill_in_middle
from stages.objectives.kernels.noise import draw_block, stream_key_of
from stages.objectives.rows import StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.tokenizer.special import special_ids

ROWS, LENGTH, MEAN_DOCUMENT = 64, 1_024, 300


def infilling(material: Material) -> Contest:
    """Rows of documents of 300 tokens on average; half are transformed, half of those suffix first."""
    rows = packed(material.tokens)
    ids = special_ids()
    vocabulary = vocabulary_of(int(max(rows.input_ids.max(), *ids.values())) + 1, ids)
    widths, config, amount = Widths(LENGTH, LENGTH, LENGTH), FIM(), rows.filled.sum() / MEGA
    words, counts = stream_key_of(rows, FimTag.SEGMENTS), np.diff(rows.segment_ptr)

    def texts(ids: NDArray[np.integer]) -> list[int]:
        ordinary: list[int] = np.sort(ids[~vocabulary.special(ids)]).tolist()
        return ordinary

    first = fill_in_middle(rows, config, vocabulary, widths)
    for name, column in plain.fill_in_middle(rows, config, vocabulary, widths).items():
        assert np.array_equal(column, first[name]), name
    assert np.array_equal(restore_fim(first, config, vocabulary)[0], rows.input_ids)
    assert texts(permute_rows(rows, vocabulary)[0]) == texts(rows.input_ids) == texts(first["input_ids"])

    def blank() -> list[NDArray[np.integer]]:
        dtypes = (rows.input_ids.dtype, np.int32, np.int32, np.int32)
        return [np.full((ROWS, LENGTH), 3, dtype) for dtype in dtypes]

    return Contest(
        "fill in the middle, rows of 1,024",
        "million tokens",
        Way("ours", lambda: fill_in_middle(rows, config, vocabulary, widths), amount),
        [
            Way("a loop in numpy", lambda: permute_rows(rows, vocabulary), amount),
            Way(
                "our plain version",
                lambda: plain.fill_in_middle(rows, config, vocabulary, widths),
                amount,
            ),
            Way("limit: its draws alone", lambda: draw_all(words, rows.numbers, counts), amount),
            Way("limit: filling its four columns", blank, amount),
        ],
    )


def packed(documents: list[NDArray[np.uint16]], *, growth: int = GROWTH) -> StoredRows:
    """Return rows of pieces of real documents, with room to grow.

    Lengths are drawn from an exponential law; pieces of fewer than 4 tokens are left out.
    """
    generator = np.random.default_rng(1)
    stream = np.concatenate(documents)
    ids = special_ids()
    input_ids = np.full((ROWS, LENGTH), ids["pad"], np.uint16)
    lengths: list[int] = []
    ptr, begin = [0], 0
    for row in input_ids:
        place = 0
        while True:
            room = LENGTH - place - growth * (len(lengths) - ptr[-1] + 1)
            if room < 4:  # noqa: PLR2004  # three tokens and an EOS
                break
            length = min(max(4, int(generator.exponential(MEAN_DOCUMENT))), room)
            row[place : place + length - 1] = stream[begin : begin + length - 1]
            row[place + length - 1] = ids["eos"]
            place, begin = place + length, begin + length - 1
            lengths.append(length)
        ptr.append(len(lengths))
    assert begin < len(stream)
    held = np.array(lengths, np.int64)
    return StoredRows(input_ids, np.array(ptr), held, np.arange(ROWS), seed=7, epoch=0, shard=0)


def permute_rows(
    rows: StoredRows, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
    """Return ids and labels in the manner of public loaders: split at EOS, permute, join, pad.

    They give neither segments nor positions, and a generator with a state draws for all rows.
    """
    state = np.random.RandomState(7)  # what these loaders use
    eos, pad = vocabulary.named("eos"), vocabulary.named("pad")
    marks = [vocabulary.named(f"fim_{name}") for name in ("prefix", "suffix", "middle")]
    input_ids = np.full(rows.input_ids.shape, pad, rows.input_ids.dtype)
    labels = np.full(rows.input_ids.shape, -100, np.int32)
    for row, filled in enumerate(rows.filled):
        tokens = rows.input_ids[row, :filled]
        parts, begin = [], 0
        for end in np.flatnonzero(tokens == eos):
            parts += [permute(tokens[begin:end], state, marks), tokens[end : end + 1]]
            begin = int(end) + 1
        parts.append(tokens[begin:])
        joined = np.concatenate(parts)
        input_ids[row, : len(joined)] = joined
        labels[row, : len(joined)] = joined
    return input_ids, labels


def permute(
    tokens: NDArray[np.integer],
    state: np.random.RandomState,
    marks: list[int],
) -> NDArray[np.integer]:
    """Return one document, transformed at a rate of one half, suffix first at a rate of one half."""
    if not state.binomial(1, 0.5):
        return tokens
    cuts = list(state.randint(low=0, high=len(tokens) + 1, size=2))
    cuts.sort()
    before, between, after = tokens[: cuts[0]], tokens[cuts[0] : cuts[1]], tokens[cuts[1] :]
    prefix, suffix, middle = marks
    if state.binomial(1, 0.5):
        return np.concatenate([[prefix, suffix], after, [middle], before, between])
    return np.concatenate([[prefix], before, [suffix], after, [middle], between])


@kernel
def draw_all(
    words: NDArray[np.uint64], numbers: NDArray[np.int64], counts: NDArray[np.int64]
) -> np.uint64:
    """Draw both blocks of every segment."""
    total = np.uint64(0)
    for row in range(len(numbers)):
        for block in range(2 * counts[row]):
            one, other = draw_block(words, numbers[row], block)
            total ^= one ^ other
    return total
