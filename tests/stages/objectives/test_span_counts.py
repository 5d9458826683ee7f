"""What span corruption promises of how many tokens and spans rows have, and of how long they may be.

Both are those of the formula for any length; a run is refused where a row may have more spans than there
are sentinels, and nowhere else; rows of every denoiser fit whatever the length of inputs.
"""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stages.errors import ConfigError
from stages.objectives.prefix_lm.config import PrefixLM, shortest_prefixes
from stages.objectives.span_corruption.config import (
    SpanCorruption,
    noise_spans,
    refuse_sentinels,
    span_lengths,
)
from stages.objectives.table import resolve
from stages.objectives.ul2.kind import UL2, denoisers
from tests.campaign import examples

configs = st.builds(
    SpanCorruption,
    noise_density=st.sampled_from([0.15, 0.01, 0.3, 0.5]) | st.floats(0.001, 0.5),
    mean_noise_span_length=st.sampled_from([1.0, 3.0, 8.0, 64.0]) | st.floats(1.0, 70.0),
    mode_token=st.sampled_from([None, "mode_x"]),
)


def counts(n: int, config: SpanCorruption) -> tuple[int, int]:
    """Return (N, K) of a body by the words of the definition; Python rounds halves to the even one."""
    if n <= 1:
        return 0, 0
    noise = min(max(round(n * config.noise_density), 1), n - 1)
    return noise, min(max(round(noise / config.mean_noise_span_length), 1), noise, n - noise)


def longest_body(config: SpanCorruption, seq_len: int) -> int:
    """Return the longest body whose inputs and targets fit, one length after the other."""
    n, closing = 1, 2 if config.mode_token else 1
    while True:
        noise, spans = counts(n + 1, config)
        if max(n + 1 - noise + spans + closing, noise + spans + 1) > seq_len:
            return n
        n += 1


@settings(deadline=None, max_examples=examples(200))
@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=30), configs)
@example([0, 1, 2, 3, 10, 30], SpanCorruption(noise_density=0.5, mean_noise_span_length=1.0))
@example([1, 2, 9, 10, 11, 20], SpanCorruption(noise_density=0.9, mean_noise_span_length=9.0))
def test_tokens_and_spans_of_any_body_are_those_of_the_formula(
    lengths: list[int], config: SpanCorruption
) -> None:
    noise, spans = noise_spans(np.array(lengths), config)
    assert list(zip(noise.tolist(), spans.tolist(), strict=True)) == [counts(n, config) for n in lengths]
    parted = np.array(lengths) >= 2
    assert ((spans > 0) & (spans <= noise) & (spans <= np.array(lengths) - noise))[parted].all()


@settings(deadline=None, max_examples=examples(100))
@given(configs, st.integers(4, 700), st.integers(1, 60))
def test_a_run_is_refused_where_a_row_may_have_more_spans_than_sentinels_and_nowhere_else(
    config: SpanCorruption, seq_len: int, sentinels: int
) -> None:
    longest = longest_body(config, seq_len)
    assert span_lengths(config, seq_len).stored == longest
    needed = max(counts(n, config)[1] for n in range(longest + 1))
    if needed <= sentinels:
        refuse_sentinels(config, seq_len, sentinels)
        return
    message = f"up to {needed:,} spans, the tokenizer has {sentinels:,} sentinels"
    with pytest.raises(ConfigError, match=message) as refused:
        refuse_sentinels(config, seq_len, sentinels)
    fits = re.search(r"lower it to ([\d,]+)", str(refused.value))
    assert fits
    most = int(fits[1].replace(",", ""))
    refuse_sentinels(config, most, sentinels)
    with pytest.raises(ConfigError, match="sentinels"):
        refuse_sentinels(config, most + 1, sentinels)


@settings(deadline=None, max_examples=examples(60))
@given(
    st.builds(
        UL2,
        preset=st.sampled_from(["ul2", "ul2r"]),
        mode_tokens=st.booleans(),
        s_density=st.sampled_from([0.25, 0.5, 0.1]),
    ),
    st.integers(5, 600),
)
def test_rows_of_every_denoiser_fit_inputs_of_any_length_with_the_mode_token(
    config: UL2, seq_len: int
) -> None:
    for each, part in zip(denoisers(config), resolve(config, seq_len).parts, strict=True):
        widths = part.widths
        assert widths.inputs == seq_len
        assert isinstance(each.objective, PrefixLM | SpanCorruption)
        assert bool(each.objective.mode_token) == config.mode_tokens
        if isinstance(each.objective, PrefixLM):
            prefix = int(shortest_prefixes(np.array([widths.stored]), each.objective)[0])
            assert widths.stored + config.mode_tokens == seq_len
            assert widths.stored - prefix + 1 <= widths.labels <= seq_len
        else:
            noise, spans = counts(widths.stored, each.objective)
            assert widths.stored == longest_body(each.objective, seq_len)
            assert widths.labels == noise + spans + 1 <= seq_len
            assert widths.stored - noise + spans + 1 + config.mode_tokens <= seq_len
