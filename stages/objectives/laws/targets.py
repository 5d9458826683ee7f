"""Draws of inputs and targets: `prefix_lm`, `span_corruption`, `bart`, and mixtures of them.

    prefix      uniform on s .. n - 1: its mean, its variance; two epochs agree in 1 / (n - s)
    spans       N tokens in K spans, exactly; lengths of the first text and the first span as uniform
                compositions have them; two epochs agree once in all choices of cuts
    infilling   ceil(mask_ratio n) tokens hidden, exactly; as many masks as spans of Poisson's law need

Not counted, for columns do not tell: how often `bart` turns rows or permutes sentences. Of texts and
spans the first ones alone are counted.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stages.objectives.bart.config import BART
from stages.objectives.laws.draws import Draws, Floats
from stages.objectives.laws.shown import ShownRows
from stages.objectives.prefix_lm.config import PrefixLM, prefixes_shown
from stages.objectives.rows import IGNORED, Columns
from stages.objectives.span_corruption.config import SpanCorruption

_SMALLEST = 2
"""Tokens of the shortest text that has two sides."""
_ENDS = 2
"""BOS and EOS."""


def count_prefixes(draws: Draws, config: PrefixLM, rows: ShownRows) -> None:
    """Count how long prefixes are: of rows, or of each document of a packed one."""
    n, prompt = _split_texts(config, rows)
    named = np.zeros(len(n), np.int64) if prompt is None else prompt
    drawn = (n >= _SMALLEST) & (named == 0)
    shortest = np.maximum(np.rint((1.0 - 2.0 * config.target_density) * (n - 1)), 1.0).astype(np.int64)
    choices, prefixes = (n - shortest)[drawn], []
    for columns in rows.epochs:
        prefix = _count_rest(draws, config, rows, columns, n)
        outside = drawn & ((prefix < shortest) | (prefix >= n))
        draws.exact("drawn prefixes within bounds", outside[drawn])
        fixed = np.where(named > 0, np.minimum(named, n), n)
        draws.exact("prefixes as the source has them", (prefix != fixed)[~drawn])
        places = ((prefix - shortest)[drawn] + 0.5) / choices
        _count_uniform(draws, "prefix", places, choices.astype(np.float64))
        prefixes.append(prefix[drawn])
    if len(prefixes) > 1:
        draws.each("the same prefix in both epochs", prefixes[0] == prefixes[1], 1.0 / choices)


def _split_texts(
    config: PrefixLM, rows: ShownRows
) -> tuple[NDArray[np.int64], NDArray[np.int32] | None]:
    """Return the tokens of each text that is split, and the prompts that sources name; (T,) each."""
    if config.pack_documents:
        return rows.stored.segment_length, rows.stored.segment_prompt
    whole = config.architecture == "decoder_only"
    return rows.stored.filled if whole else rows.lengths_without_eos, rows.stored.prompt


def _count_rest(
    draws: Draws, config: PrefixLM, rows: ShownRows, columns: Columns, n: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Count rows with other labels than the rest; return the prefix of each text: (T,)."""
    if config.architecture != "decoder_only":
        mode = config.mode_token is not None
        prefix: NDArray[np.int64] = columns["input_length"].astype(np.int64) - 1 - mode
        rest = np.where(prefix < n, n - prefix + 1, 0)
        draws.exact("labels are as many as the rest", columns["label_length"] != rest)
        return prefix
    if config.pack_documents:
        prefix, said = prefixes_shown(rows.stored, columns), columns["in_prefix"] == 0
        said = said & rows.stored.covered
    else:
        prefix, place = columns["prefix_length"].astype(np.int64), np.arange(columns["labels"].shape[1])
        said = (place >= prefix[:, None]) & (place < n[:, None])
    said[rows.stored.added_ends] = False
    labels = np.where(said, rows.stored.input_ids.astype(np.int64), IGNORED)
    draws.exact("labels are the rest", (columns["labels"] != labels).any(axis=1))
    return prefix


def _count_uniform(draws: Draws, what: str, places: Floats, choices: Floats) -> None:
    """Count the mean and the variance of (k + 1/2) / m, k uniform on 0 .. m - 1."""
    second = (1.0 - choices**-2) / 12.0
    fourth = (1.0 - choices**-2) * (3.0 - 7.0 * choices**-2) / 240.0
    draws.each(f"{what}, mean within its bounds", places, 0.5, second)
    draws.each(f"{what}, variance within them", (places - 0.5) ** 2, second, fourth - second**2)


def count_spans(draws: Draws, config: SpanCorruption, rows: ShownRows) -> None:
    """Count how many tokens are in how many spans."""
    n = rows.lengths_without_eos
    noise = np.minimum(np.maximum(np.rint(n * config.noise_density), 1.0), n - 1.0).astype(np.int64)
    noise = np.maximum(noise, 0)
    spans = np.maximum(np.rint(noise / config.mean_noise_span_length), 1.0).astype(np.int64)
    spans = np.minimum(np.minimum(spans, noise), n - noise)
    mode = int(config.mode_token is not None)
    several = np.flatnonzero(spans > 1)
    sentinels = rows.vocabulary.sentinels
    is_sentinel = np.zeros(rows.vocabulary.size, np.bool_)
    is_sentinel[sentinels] = True
    for columns in rows.epochs:
        wrong = columns["input_length"] != n - noise + spans + 1 + mode
        draws.exact("tokens of inputs", wrong)
        draws.exact("tokens of targets", columns["label_length"] != noise + spans + (noise > 0))
        wrong = np.zeros(len(n), np.bool_)
        for ids in (columns["input_ids"], np.maximum(columns["labels"], 0)):
            wrong |= is_sentinel[ids].sum(axis=1) != spans
        draws.exact("sentinels", wrong)
        first = np.argmax(columns["input_ids"][several] == sentinels[0], axis=1) - mode
        second = np.argmax(columns["labels"][several] == sentinels[1], axis=1) - 1
        _count_part(draws, "first text", first, (n - noise)[several], spans[several])
        _count_part(draws, "first span", second, noise[several], spans[several])
    if len(rows.epochs) > 1:
        one, two = rows.epochs[:2]
        same = (one["input_ids"] == two["input_ids"]).all(axis=1)
        same &= (one["labels"] == two["labels"]).all(axis=1)
        rate = np.exp(-_log_choices(noise, spans) - _log_choices(n - noise, spans))
        draws.each("the same spans in both epochs", same, np.minimum(rate, 1.0))


def _count_part(
    draws: Draws, what: str, found: NDArray[np.int64], total: NDArray[np.int64], parts: NDArray[np.int64]
) -> None:
    """Count one part of a uniform composition of so many tokens into so many parts."""
    mean = total / parts
    free = (total > parts) & (parts > 1)
    draws.exact(f"{what} where there is no choice", (found != mean)[~free])
    found, total, parts, mean = found[free], total[free], parts[free], mean[free]
    second, fourth = _part_moments((total - parts).astype(np.float64), parts.astype(np.float64))
    draws.each(f"{what} of all its tokens, mean", found / total, 1.0 / parts, second / total**2)
    most = np.maximum(mean - 1.0, total - parts + 1.0 - mean) ** 2
    squares, spread = (found - mean) ** 2 / most, (fourth - second**2) / most**2
    draws.each(f"{what}, squared distance from it", squares, second / most, spread)


def _part_moments(spare: Floats, parts: Floats) -> tuple[Floats, Floats]:
    """Return the second and the fourth central moment of one part of a uniform composition.

    A part is one more than a number of the beta-binomial law of `spare` trials with a = 1 and
    b = parts - 1, whose factorial moments are spare (spare - 1) .. r! / (parts (parts + 1) ..).
    """
    factorial, moment = [np.ones_like(spare)], np.ones_like(spare)
    for r in range(1, 5):
        moment = moment * (spare - r + 1.0) * r / (parts + r - 1.0)
        factorial.append(moment)
    _, f1, f2, f3, f4 = factorial
    m1, m2, m3, m4 = f1, f2 + f1, f3 + 3.0 * f2 + f1, f4 + 6.0 * f3 + 7.0 * f2 + f1
    return m2 - m1**2, m4 - 4.0 * m1 * m3 + 6.0 * m1**2 * m2 - 3.0 * m1**4


def _log_choices(total: NDArray[np.int64], parts: NDArray[np.int64]) -> Floats:
    """Return the logarithm of how many compositions there are, 0 without tokens."""
    table = np.concatenate(
        [[0.0], np.cumsum(np.log(np.arange(1, max(2, int(total.max(initial=0)) + 1))))]
    )
    n, k = np.maximum(total - 1, 0), np.maximum(parts - 1, 0)
    found: Floats = table[n] - table[k] - table[np.maximum(n - k, 0)]
    return found


def count_bart(draws: Draws, config: BART, rows: ShownRows) -> None:
    """Count what is hidden and deleted, by how many masks."""
    n, mask = rows.lengths_without_eos, rows.vocabulary.named("mask")
    every = np.arange(len(n))
    hidden = np.ceil(config.mask_ratio * n).astype(np.int64)
    lost = np.minimum(np.ceil(config.delete_ratio * n).astype(np.int64), n - hidden)
    some, both = hidden > 0, []
    for columns in rows.epochs:
        ids, items = columns["input_ids"], columns["input_length"] - _ENDS
        masks = np.asarray((ids == mask).sum(axis=1), np.int64)
        draws.exact("tokens hidden and deleted", items - masks != n - hidden - lost)
        draws.exact("masks only where anything is hidden", (masks > 0) != some)
        width = min(columns["labels"].shape[1], rows.stored.input_ids.shape[1])
        differ = columns["labels"][:, :width] != rows.stored.input_ids[:, :width]
        differ = (differ & (np.arange(width) < n[:, None])).any(axis=1)
        draws.exact("labels are the row", differ | (columns["label_length"] != n + (n > 0)))
        room = ids.shape[1] - _ENDS - (n - hidden)
        _count_masks(draws, config.poisson_lambda, masks[some], hidden[some], room[some])
        share = masks[some] / items[some]
        begins, closes = (ids[every, at][some] == mask for at in (np.ones_like(n), items))
        draws.each("a mask comes first", begins, share)
        draws.each("a mask comes last", closes, share)
        both.append((begins, share))
    if len(both) > 1:
        (one, p), (two, q) = both[:2]
        draws.each("a mask comes first in both epochs", one & two, p * q)


def _count_masks(
    draws: Draws,
    mean: float,
    masks: NDArray[np.int64],
    hidden: NDArray[np.int64],
    room: NDArray[np.int64],
) -> None:
    """Count the masks of rows that hide so many tokens, as shares of those there is room for."""
    step = 256  # parts of a dataset share a table
    sizes = (-(-int(each.max(initial=1)) // step) * step for each in (room, hidden))
    first, second = _tables(mean, *sizes)
    expected = first[room, hidden]
    spread = second[room, hidden] - expected**2
    draws.each("masks of what there is room for", masks / room, expected / room, spread / room**2)


@lru_cache(maxsize=4)
def _tables(mean: float, room: int, hidden: int) -> tuple[Floats, Floats]:
    """Return the mean and the mean square of min(T, R), (R + 1, B + 1).

    T is how many numbers of Poisson's law are drawn until their sum reaches B. P(T > i) is the chance
    that i of them, a number of Poisson's law with i times the mean, stay below B; the moments are the
    sums of it over i, once and 2 i + 1 times.
    """
    drawn, below = np.arange(1, max(room, 1)), np.arange(hidden)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, max(hidden, 1))))])[:hidden]
    rates = drawn * mean
    chances = np.exp(-rates[:, None] + np.log(rates)[:, None] * below - logs)
    tail = np.zeros((max(room, 1), hidden + 1))
    tail[0, 1:] = 1.0
    tail[1:, 1:] = np.minimum(np.cumsum(chances, axis=1), 1.0)
    zero = np.zeros((1, hidden + 1))
    weights = 2.0 * np.arange(len(tail)) + 1.0
    return (
        np.concatenate([zero, np.cumsum(tail, axis=0)]),
        np.concatenate([zero, np.cumsum(tail * weights[:, None], axis=0)]),
    )
