"""Rows for tests of masks, and the masks of a plain loop: by the definition, position by position.

Nothing here is shared with the code under test but single blocks of draws and `ngram_bounds`.
"""

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.objectives.mlm.config import MaskedLM, MaskTag, Selection, ngram_bounds
from stages.objectives.rows import IGNORED, StoredRows
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.seeding import Tag, draw_u64, threshold
from tests.stages.objectives.built_rows import ID_TYPES

SPECIAL = {"unk": 0, "bos": 1, "eos": 2, "pad": 3, "mask": 6, "sentinel": 9}
STARTS = np.arange(40) % 3 != 0
VOCABULARY = vocabulary_of(40, SPECIAL, STARTS)
SCATTERED = vocabulary_of(40, SPECIAL | {f"other_{n}": n for n in range(12, 40, 3)}, STARTS)
"""So many runs of special ids that kernels look each id up."""
VOCABULARIES = [VOCABULARY, SCATTERED]
MASK, PAD = SPECIAL["mask"], SPECIAL["pad"]


def stored(
    input_ids: NDArray[np.int64] | list[list[int]],
    segments: list[list[int]] | None = None,
    dtype: type[np.integer] = np.uint16,
) -> StoredRows:
    """Return rows of shard 0 from row 0 on; one segment up to the pads at the end, if none are given."""
    ids = np.array(input_ids, dtype)
    if segments is None:
        pads = np.logical_and.accumulate(ids[:, ::-1] == PAD, axis=1).sum(axis=1)
        segments = [[length] if length else [] for length in (ids.shape[1] - pads).tolist()]
    lengths = np.array([length for row in segments for length in row], np.int64)
    return StoredRows(
        ids,
        np.cumsum([0, *map(len, segments)]),
        lengths,
        np.arange(len(ids)),
        seed=7,
        epoch=0,
        shard=0,
    )


def many(rows: int = 2_000, length: int = 100) -> StoredRows:
    """Rows of every id but pad, special ones included, in two segments."""
    ids = np.random.default_rng(5).choice(np.delete(np.arange(40), PAD), (rows, length))
    return stored(ids, [[length // 3, length - length // 3]] * rows)


def maskable(rows: StoredRows, vocabulary: Vocabulary = VOCABULARY) -> NDArray[np.bool_]:
    able: NDArray[np.bool_] = rows.covered & ~vocabulary.is_special[rows.input_ids]
    return able


def selecting_draw(rows: StoredRows, number: int, place: int) -> int:
    """Return U of the definition, from single blocks."""

    def block(tag: Tag, which: int) -> list[int]:
        found = draw_u64(rows.key(tag), np.array([number], np.uint64), block=which)[0]
        return [int(value) for value in found]

    q = place // 4 % 16
    lanes = block(MaskTag.LEADING, 8 * (place // 64) + q % 8)[q // 8]
    leading = lanes >> 16 * (place % 4) & 0xFFFF
    return leading << 48 | block(MaskTag.REST, place)[0] >> 16


def single_draws(rows: StoredRows, tag: Tag, number: int, place: int) -> tuple[int, int]:
    first, second = draw_u64(rows.key(tag), np.array([number], np.uint64), block=place)[0].tolist()
    return first, second


def plain_words(rows: StoredRows, row: int, vocabulary: Vocabulary) -> list[list[list[int]]]:
    """Return the words of a row as lists of positions, in chains that n-grams do not leave."""
    chains: list[list[list[int]]] = []
    end = 0
    for length in rows.segment_length[rows.segment_ptr[row] : rows.segment_ptr[row + 1]].tolist():
        chains.append([])
        for place in range(end, end + length):
            id_ = int(rows.input_ids[row, place])
            if vocabulary.is_special[id_]:
                chains.append([])
            elif not chains[-1] or STARTS[id_]:
                chains[-1].append([place])
            else:
                chains[-1][-1].append(place)
        end += length
    return chains


def plain_selection(
    rows: StoredRows, row: int, config: MaskedLM, vocabulary: Vocabulary
) -> tuple[list[int], dict[int, int]]:
    """Return the positions selected in a row, and U of each position."""
    places = np.flatnonzero(maskable(rows, vocabulary)[row]).tolist()
    draws = {place: selecting_draw(rows, int(rows.numbers[row]), place) for place in places}
    bound = threshold(config.mask_probability)
    budget = min(len(places), max(1, math.floor(config.mask_probability * len(places) + 0.5)))
    chains = plain_words(rows, row, vocabulary)
    match config.selection:
        case Selection.BERNOULLI:
            return [place for place in places if draws[place] < bound], draws
        case Selection.EXACT:
            return sorted(sorted(places, key=lambda place: (draws[place], place))[:budget]), draws
        case Selection.WHOLE_WORD:
            words = [word for chain in chains for word in chain if draws[word[0]] < bound]
            return [place for word in words for place in word], draws
    selected: set[int] = set()
    starts = [(draws[chain[n][0]], chain[n][0], n, chain) for chain in chains for n in range(len(chain))]
    for _, first, n, chain in sorted(starts, key=lambda start: start[:2]):
        drawn = single_draws(rows, MaskTag.NGRAM, int(rows.numbers[row]), first)[0]
        wanted = next(m for m, b in enumerate(ngram_bounds(config.max_ngram), 1) if drawn < b)
        for size in range(wanted, 0, -1):
            held = [place for word in chain[n : n + size] for place in word]
            inside = n + size <= len(chain) and not selected & set(held)
            if inside and len(selected) + len(held) <= budget:
                selected |= set(held)
                break
    if starts and not selected:
        _, _, n, chain = min(starts, key=lambda start: start[:2])
        selected = set(chain[n][:budget])
    return sorted(selected), draws


def plain_masks(
    rows: StoredRows, config: MaskedLM, vocabulary: Vocabulary
) -> tuple[list[list[int]], list[list[int]]]:
    """The slow plain masks: one position after the other, numbers of any size."""
    input_ids, labels = rows.input_ids.tolist(), np.full(rows.input_ids.shape, IGNORED).tolist()
    to_mask = threshold(config.mask_share)
    to_random = threshold(config.mask_share + config.random_share)
    ordinary = vocabulary.ordinary.tolist()
    for row, number in enumerate(rows.numbers.tolist()):
        selected, draws = plain_selection(rows, row, config, vocabulary)
        for place in selected:
            action, drawn = single_draws(rows, MaskTag.REPLACEMENT, number, place)
            bounds = to_mask, to_random
            if config.selection is Selection.BERNOULLI:
                chance = threshold(config.mask_probability)
                action, bounds = draws[place], (chance * to_mask >> 64, chance * to_random >> 64)
            labels[row][place] = input_ids[row][place]
            if action < bounds[0]:
                input_ids[row][place] = MASK
            elif action < bounds[1]:
                input_ids[row][place] = ordinary[drawn * len(ordinary) >> 64]
    return input_ids, labels


configs = st.builds(
    MaskedLM,
    mask_probability=st.sampled_from([0.15, 0.01, 0.5, 1.0, 1e-300]),
    selection=st.sampled_from(Selection),
    mask_share=st.sampled_from([0.8, 0.0, 0.5]),
    random_share=st.sampled_from([0.1, 0.0, 0.2]),
    max_ngram=st.sampled_from([1, 2, 3]),
)


@st.composite
def any_rows(draw: st.DrawFn) -> StoredRows:
    """Rows of any ids, segments and keys, as short as nothing and of either dtype."""
    length = draw(st.sampled_from([1, 2, 7, 12, 64, 70]))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    special = draw(st.sampled_from([0.0, 0.3, 1.0]))
    ids, segments = [], []
    for _ in range(draw(st.integers(1, 4))):
        held = generator.choice(VOCABULARY.ordinary, length)
        held = np.where(generator.random(length) < special, generator.choice([0, 1, 2, 6, 9]), held)
        filled = int(generator.integers(0, length + 1))
        cuts = np.unique(generator.integers(1, max(filled, 2), 3))
        ends = np.array([0, *cuts[cuts < filled], filled]) if filled else np.array([0])
        ids.append(np.where(np.arange(length) < filled, held, PAD).tolist())
        segments.append(np.diff(ends).tolist())
    return replace(
        stored(ids, segments, draw(st.sampled_from(ID_TYPES))),
        numbers=generator.integers(0, 2**32, len(ids)),
        seed=draw(st.sampled_from([0, 7, 2**64 - 1])),
        epoch=draw(st.sampled_from([0, 1, 2**32 - 1])),
        shard=draw(st.sampled_from([0, 2**24 - 1])),
    )
