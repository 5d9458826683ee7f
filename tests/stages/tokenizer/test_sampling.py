"""What the training sample promises.

Shares follow n^alpha up to a cap on repeats; pieces join to their text and are short enough to be
learned from; each piece is taken as often as asked for on average, by its document's id alone.
"""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ByteSize

from stages.tokenizer.sampling import (
    MAX_PART_BYTES,
    SamplingConfig,
    balanced_targets,
    cut_parts,
    sample_parts,
)
from stages.tokenizer.special import FIRST_CONTROL, control_symbols, num_reserved, special_ids
from tests.campaign import examples

QUICK = settings(deadline=None, derandomize=True, max_examples=examples(50))
SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10**9), max_size=8)
PIECES = st.lists(st.sampled_from(["a", " ", "\n", "é", "猫", "👍", "word"]), max_size=40).map("".join)


def sampling(alpha: float, size: int, max_repeats: int = 4) -> SamplingConfig:
    """Return a config."""
    return SamplingConfig(alpha=alpha, sample_size=ByteSize(size), max_repeats=max_repeats)


@pytest.mark.parametrize(
    ("sizes", "config", "targets"),
    [
        ({"en": 9000, "th": 1000}, sampling(0.0, 4000), {"en": 2000.0, "th": 2000.0}),
        ({"en": 9000, "th": 1000}, sampling(1.0, 4000), {"en": 3600.0, "th": 400.0}),
        ({"en": 6400, "th": 400}, sampling(0.5, 5000), {"en": 4000.0, "th": 1000.0}),
        ({"en": 9000, "th": 100}, sampling(0.0, 4000, 4), {"en": 3600.0, "th": 400.0}),
        ({"en": 9000, "th": 100}, sampling(0.0, 4000, 1), {"en": 3900.0, "th": 100.0}),
        ({"en": 900, "th": 300}, sampling(0.0, 4000), {"en": 600.0, "th": 600.0}),
        ({"en": 9000, "th": 0}, sampling(0.3, 4000), {"en": 4000.0}),
        ({}, sampling(0.3, 4000), {}),
    ],
)
def test_targets_are_as_written_out(
    sizes: dict[str, int], config: SamplingConfig, targets: dict[str, float]
) -> None:
    assert balanced_targets(sizes, config) == pytest.approx(targets)


@QUICK
@given(SIZES, st.floats(0, 1), st.integers(1 << 10, 10**9), st.integers(1, 5))
def test_targets_fill_the_sample_and_share_by_the_power_of_size(
    sizes: dict[str, int], alpha: float, size: int, max_repeats: int
) -> None:
    targets = balanced_targets(sizes, sampling(alpha, size, max_repeats))
    assert set(targets) == {language for language, count in sizes.items() if count}
    assert sum(targets.values()) == pytest.approx(min(size, sum(sizes.values())))
    capped = {n: t for n, t in targets.items() if t >= sizes[n] * max_repeats * (1 - 1e-9)}
    assert all(target <= sizes[n] * max_repeats * (1 + 1e-9) for n, target in targets.items())
    units = [targets[name] / sizes[name] ** alpha for name in targets.keys() - capped.keys()]
    assert units == pytest.approx(units[:1] * len(units))
    for name, target in capped.items():
        assert not units or target / sizes[name] ** alpha <= units[0] * (1 + 1e-9)


def test_targets_do_not_depend_on_the_order_of_languages() -> None:
    sizes = {"en": 9_000, "th": 77, "no": 1_234}
    backwards = dict(reversed(list(sizes.items())))
    found = balanced_targets(backwards, sampling(0.3, 4000))
    assert list(found.items()) == list(balanced_targets(sizes, sampling(0.3, 4000)).items())


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("ab\ncd\nef", ["ab\ncd\n", "ef"]),
        ("ab cd ef", ["ab cd ", "ef"]),
        ("abcdefghij", ["abcdefg", "hij"]),
        ("a b\ncdefgh", ["a b\n", "cdefgh"]),
        ("ééééé", ["ééé", "éé"]),
        ("👍👍👍", ["👍", "👍", "👍"]),
        ("abcdefg", ["abcdefg"]),
        ("\n" * 8, ["\n" * 7, "\n"]),
        ("", []),
    ],
)
def test_pieces_are_as_written_out(text: str, pieces: list[str]) -> None:
    assert list(cut_parts(text, max_bytes=7)) == pieces


@QUICK
@given(st.text(max_size=60) | PIECES, st.integers(4, 20))
def test_pieces_join_to_the_text_and_are_short_enough(text: str, max_bytes: int) -> None:
    pieces = list(cut_parts(text, max_bytes=max_bytes))
    assert "".join(pieces) == text
    assert all(0 < len(piece.encode()) <= max_bytes for piece in pieces)
    for piece, following in pairwise(pieces):
        rest = (piece + following).encode()[:max_bytes]
        assert piece.endswith("\n") or b"\n" not in rest
        assert piece.endswith(("\n", " ")) or b" " not in rest


def test_pieces_stay_below_the_trainers_limit() -> None:
    text = "long line " * 2_000 + "\n" + "x" * 10_000
    sizes = [len(piece.encode()) for piece in cut_parts(text)]
    assert max(sizes) == MAX_PART_BYTES < 4_192
    assert sum(sizes) == len(text)


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(1, 10), Fraction(1), Fraction(9, 4)])
def test_pieces_are_taken_at_their_rate(rate: Fraction) -> None:
    text = "".join(f"{number:07}" + "x" * 4_088 + "\n" for number in range(4))
    assert len(list(cut_parts(text))) == 4
    copies = [
        count
        for document in range(1_000)
        for _, count in sample_parts(text, document.to_bytes(16, "big"), rate=rate, seed=7)
    ]
    fraction = float(rate % 1)
    deviation = (4_000 * fraction * (1 - fraction)) ** 0.5
    assert abs(sum(copies) - 4_000 * float(rate)) <= 4 * deviation
    assert set(copies) <= {int(rate), int(rate) + 1} - {0}


def test_a_sample_is_a_function_of_seed_id_and_text() -> None:
    text = "".join(f"{number:07}" + "x" * 4_088 + "\n" for number in range(40))
    samples = [
        tuple(sample_parts(text, identity, rate=Fraction(1, 2), seed=seed))
        for identity, seed in ((b"a" * 16, 7), (b"a" * 16, 7), (b"b" * 16, 7), (b"a" * 16, 8))
    ]
    assert samples[0] == samples[1]
    assert len(set(samples)) == 3


def test_a_larger_rate_only_adds() -> None:
    text = "".join(f"{number:07}" + "x" * 4_088 + "\n" for number in range(100))
    samples = [
        dict(sample_parts(text, b"a" * 16, rate=Fraction(tenths, 10), seed=7)) for tenths in range(25)
    ]
    assert len(samples[0]) == 0
    assert len(samples[-1]) == 100
    for small, large in pairwise(samples):
        assert all(copies <= large[piece] for piece, copies in small.items())


def test_special_ids_are_numbered_as_written_out() -> None:
    ids = special_ids()
    assert list(ids)[:16] == [
        *("unk", "bos", "eos", "pad", "cls", "sep", "mask", "fim_prefix", "fim_middle", "fim_suffix"),
        *("mode_r", "mode_x", "mode_s", "sentinel_0", "sentinel_1", "sentinel_2"),
    ]
    assert list(ids.values()) == list(range(269))
    assert ids["sentinel_255"] == 268
    assert num_reserved() == 269
    assert len(control_symbols()) == 269 - FIRST_CONTROL
