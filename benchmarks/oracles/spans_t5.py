"""Span corruption and prefixes against the code of T5, by chi-square over 100,000 rows each.

    pip install t5 seqio numba xxhash pydantic scipy      in an environment of its own: TensorFlow, 2 GB
    PYTHONPATH=. python benchmarks/oracles/spans_t5.py [--rows 100000]

Compared are, of `t5.data.preprocessors`, the masks of `random_spans_noise_mask` (lengths of the first
and of the last span and text, tokens of noise in each tenth of a row, whole masks of a short row), the
prefixes of `random_prefix_noise_mask`, and the lengths of `random_spans_helper`. Ours are read off the
columns that the compiled functions give. Then faults of that code are shown: sentinels that run into
ordinary ids, which ours refuses, and noise that stands first, which ours has not.
"""

import argparse
import sys
from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import tensorflow as tf
from chi_square import Report
from numpy.typing import NDArray
from t5.data import preprocessors

from stages.errors import ConfigError, FormatError
from stages.objectives.prefix_lm.config import PrefixLM
from stages.objectives.prefix_lm.kernel import split_prefixes
from stages.objectives.rows import StoredRows, Widths, single_segments
from stages.objectives.span_corruption.config import (
    SpanCorruption,
    noise_spans,
    refuse_sentinels,
    span_lengths,
)
from stages.objectives.span_corruption.kernel import corrupt_spans
from stages.objectives.vocabulary import vocabulary_of

IDS = {"unk": 0, "bos": 1, "eos": 2, "pad": 3, **{f"sentinel_{n}": 4 + n for n in range(256)}}
ORDINARY = 300
VOCABULARY = vocabulary_of(8_192, IDS)
T5_IDS, T5_EXTRA = 32_100, 100
LAWS = ((568, 0.15, 3.0), (588, 0.15, 8.0), (766, 0.5, 3.0), (1_000, 0.15, 64.0), (64, 0.3, 2.0))
SHORT, SHORT_MASKS = (12, 0.5, 2.0), 100
"""6 tokens of noise and 6 of text, 3 parts each: comb(5, 2) ** 2 masks."""
PREFIXES = ((12, 0.5), (100, 0.25), (512, 0.25), (300, 0.4))
HELPER = ((0.15, 3.0), (0.15, 8.0), (0.5, 3.0), (0.5, 8.0), (0.15, 64.0), (0.5, 64.0))
FEW = 12
"""Lengths of a thousand that float32 may round otherwise."""
Masks = NDArray[np.bool_]


def stored(rows: int, length: int, seed: int) -> StoredRows:
    """Return rows whose ids say where they stand."""
    ids = np.broadcast_to(np.arange(ORDINARY, ORDINARY + length, dtype=np.uint16), (rows, length))
    ptr, lengths = single_segments(np.full(rows, length))
    return StoredRows(ids, ptr, lengths, np.arange(rows), seed=seed, epoch=0, shard=0)


def our_masks(rows: int, law: tuple[int, float, float]) -> Masks:
    """Return which tokens are noise: those that are found among the labels."""
    length, density, mean = law
    config = SpanCorruption(noise_density=density, mean_noise_span_length=mean)
    widths = Widths(length, 2 * length + 2, 2 * length + 2)
    columns = corrupt_spans(stored(rows, length, 11), config, VOCABULARY, widths)
    row, place = np.nonzero(columns["labels"] >= ORDINARY)
    masks = np.zeros((rows, length), np.bool_)
    masks[row, columns["labels"][row, place] - ORDINARY] = True
    return masks


def their_masks(rows: int, law: tuple[int, float, float], *, roll: bool = False) -> Masks:
    """Return the masks of T5's code, drawn in one graph."""
    length, density, mean = law
    seeds = np.random.default_rng(5).integers(-(2**31), 2**31 - 1, (rows, 2, 2), np.int32)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]  # tensorflow ships no types
    def draw(seeds: object) -> object:
        return tf.map_fn(
            lambda seed: preprocessors.random_spans_noise_mask(
                tf.constant(length, tf.int32),
                density,
                seed,
                mean_noise_span_length=mean,
                random_roll=roll,
            ),
            seeds,
            fn_output_signature=tf.bool,
            parallel_iterations=8,
        )

    masks: Masks = np.concatenate([draw(part).numpy() for part in np.array_split(seeds, 10)])
    return masks


def edges(masks: Masks) -> NDArray[np.int64]:
    """Return where spans begin and end, in turn: (N, 2 K)."""
    steps = np.diff(masks.astype(np.int8), axis=1, prepend=0, append=0)
    return np.nonzero(steps)[1].reshape(len(masks), -1)


def compare_law(report: Report, rows: int, law: tuple[int, float, float]) -> None:
    """Compare lengths and places of spans."""
    ours, theirs = our_masks(rows, law), their_masks(rows, law)
    name = "spans of {} tokens at {}, mean {:g}".format(*law)
    counts = {int(each) for masks in (ours, theirs) for each in np.count_nonzero(masks, axis=1)}
    report.say(f"{name}, tokens of noise", f"{counts}", holds=len(counts) == 1)
    ends = edges(ours), edges(theirs)
    spans = {each.shape[1] // 2 for each in ends}
    report.say(f"{name}, number of spans", f"{spans}", holds=len(spans) == 1)
    report.compare(f"{name}, first text", ends[0][:, 0], ends[1][:, 0])
    for what, index in (("first span", 1), ("last text", -2), ("last span", -1)):
        lengths = [each[:, index] - each[:, index - 1] for each in ends]
        report.compare(f"{name}, {what}", *lengths)
    for tenth in range(10):
        part = slice(tenth * law[0] // 10, (tenth + 1) * law[0] // 10)
        found = [np.count_nonzero(each[:, part], axis=1) for each in (ours, theirs)]
        report.compare(f"{name}, noise in tenth {tenth + 1}", *found)


def compare_short(report: Report, rows: int) -> None:
    """Compare whole masks of a row so short that all of them occur often."""
    bits = 1 << np.arange(SHORT[0])
    ours, theirs = our_masks(rows, SHORT) @ bits, their_masks(rows, SHORT) @ bits
    counts = {len(np.unique(each)) for each in (ours, theirs)}
    report.say("masks of 12 tokens, all there are", f"{counts}", holds=counts == {SHORT_MASKS})
    report.compare("masks of 12 tokens", ours, theirs)


def compare_prefixes(report: Report, rows: int, length: int, density: float) -> None:
    """Compare lengths of prefixes."""
    config = PrefixLM(target_density=density)
    columns = split_prefixes(
        stored(rows, length, 12), config, VOCABULARY, Widths(length, length, length)
    )
    seeds = np.random.default_rng(6).integers(-(2**31), 2**31 - 1, (rows, 1, 2), np.int32)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]  # tensorflow ships no types
    def draw(seeds: object) -> object:
        return tf.map_fn(
            lambda seed: tf.reduce_sum(
                tf.cast(
                    preprocessors.random_prefix_noise_mask(tf.constant(length, tf.int32), density, seed),
                    tf.int32,
                )
            ),
            seeds,
            fn_output_signature=tf.int32,
        )

    theirs = draw(seeds).numpy()
    report.compare(f"prefixes of {length} tokens at {density}", columns["prefix_length"], theirs)


def compare_counts(report: Report) -> None:
    """Compare tokens of noise and spans of every length, which T5's code rounds in float32."""
    seed = tf.zeros((2, 2), tf.int32)

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]  # tensorflow ships no types
    def draw(length: object, density: float, mean: float) -> object:
        mask = preprocessors.random_spans_noise_mask(length, density, seed, mean_noise_span_length=mean)
        flags = tf.cast(mask, tf.int32)
        return tf.reduce_sum(flags), tf.reduce_sum(tf.nn.relu(flags - tf.pad(flags[:-1], [[1, 0]])))

    for density, mean in HELPER:
        config = SpanCorruption(noise_density=density, mean_noise_span_length=mean)
        n = np.arange(2, 1_200)
        theirs = np.array(
            [[each.numpy() for each in draw(tf.constant(k, tf.int32), density, mean)] for k in n]
        )
        off = np.abs(np.stack(noise_spans(n, config), axis=1) - theirs)
        report.say(
            f"tokens of noise and spans of 2 to 1,199 tokens at {density}, mean {mean:g}",
            f"{np.count_nonzero(off.any(axis=1))} lengths differ, by {off.max()} at most: its float32",
            holds=bool(off.max() <= 1 and np.count_nonzero(off.any(axis=1)) < FEW),
        )


def compare_helper(report: Report) -> None:
    """Compare the longest bodies and their targets."""
    for length in (512, 1_024):
        for density, mean in HELPER:
            theirs = preprocessors.random_spans_helper(
                inputs_length=length,
                noise_density=density,
                mean_noise_span_length=mean,
                extra_tokens_per_span_inputs=1,
                extra_tokens_per_span_targets=1,
            )
            ours = span_lengths(
                SpanCorruption(noise_density=density, mean_noise_span_length=mean), length
            )
            report.say(
                f"lengths for inputs of {length} at {density}, mean {mean:g}",
                f"ours {(ours.stored, ours.labels)}, T5's {tuple(theirs)}",
                holds=(ours.stored, ours.labels) == tuple(theirs),
            )


def sentinels_of(ids: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the ids that T5's code put in the place of spans; ours are all below 1,100."""
    return ids[ids >= ORDINARY + 1_000]


def show_faults(report: Report) -> None:
    """Show what T5's code does where ours refuses or cannot."""
    vocabulary = SimpleNamespace(vocab_size=T5_IDS)
    tokens = tf.range(ORDINARY, ORDINARY + 766)
    mask = their_masks(10, (766, 0.5, 3.0))[0]
    inputs = preprocessors.noise_span_to_unique_sentinel(tokens, mask, vocabulary, None).numpy()
    ordinary = int(np.count_nonzero(sentinels_of(inputs) < T5_IDS - T5_EXTRA))
    report.say(
        "fault of T5's code: sentinels run into ordinary ids",
        f"{ordinary} of {len(sentinels_of(inputs))} at 766 tokens, density 0.5, {T5_EXTRA} sentinels",
        holds=ordinary > 0,
    )
    few = vocabulary_of(8_192, {k: v for k, v in IDS.items() if v < 4 + T5_EXTRA})
    config = SpanCorruption(noise_density=0.5)
    planned = _refusal(lambda: refuse_sentinels(config, 512, T5_EXTRA))
    drawn = _refusal(lambda: corrupt_spans(stored(1, 766, 1), config, few, Widths(766, 512, 513)))
    report.say("ours refuses them, planned", planned, holds=bool(planned))
    report.say("ours refuses them, drawn", drawn, holds=bool(drawn))
    rolled = their_masks(300, (100, 0.15, 3.0), roll=True)
    malformed = 0
    for each in rolled[rolled[:, 0]]:
        targets = preprocessors.nonnoise_span_to_unique_sentinel(
            tf.range(ORDINARY, ORDINARY + 100), each, vocabulary, None
        ).numpy()
        malformed += len(sentinels_of(targets[:1])) == 0
    report.say(
        "fault of T5's code: with random_roll, targets begin without a sentinel",
        f"{malformed} of 300 rows",
        holds=malformed > 0,
    )
    first = our_masks(10_000, (100, 0.15, 3.0))
    holds = not first[:, 0].any() and bool(first[:, -1].all())
    report.say("ours begins with text and ends in noise", "10,000 rows", holds=holds)


def _refusal(call: Callable[[], object]) -> str:
    """Return the message of a refusal, nothing if there was none."""
    try:
        call()
    except (ConfigError, FormatError) as error:
        return str(error)
    return ""


def main() -> int:
    """Compare, show, and give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--rows", type=int, default=100_000, metavar="N", help="of a law [default: 100,000]"
    )
    arguments = parser.parse_args()
    report = Report()
    compare_helper(report)
    compare_counts(report)
    compare_short(report, arguments.rows)
    for law in LAWS:
        compare_law(report, arguments.rows, law)
    for length, density in PREFIXES:
        compare_prefixes(report, arguments.rows, length, density)
    show_faults(report)
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
