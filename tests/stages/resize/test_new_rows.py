"""What new rows promise: old rows bit for bit, new ones as the method says, the same ones always."""

import numpy as np
import pytest
import torch

from stages.errors import DataError
from stages.resize.new_rows import ARRAYS, Growth, NewTensor, Raw, from_floats, resized, to_floats
from stages.resize.row_method import RowMethod

OLD, ROWS, AFTER, CHANNELS = 50, 52, 64, 24
TORCH = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def growth(*, rows: int = ROWS) -> Growth:
    """Return 50 old ids of which id 7 is a hole, 8 new ones, and rows up to 64."""
    old = np.setdiff1d(np.arange(OLD), [7])
    new = np.array([7, *range(OLD, OLD + 7)])
    written = [np.array([number, number, 3], np.int32) for number in range(len(new) - 1)]
    return Growth(rows, AFTER, old, new, [*written, np.empty(0, np.int32)])


def stored(dtype: str, *, seed: int = 0, rows: int = ROWS, scale: float = 1.0) -> Raw:
    """Return rows of a mean that is not 0."""
    numbers = np.random.default_rng(seed).normal(0.3, scale, (rows, CHANNELS))
    return from_floats(numbers, dtype)


def made(dtype: str, method: RowMethod, *, seed: int = 5, stream: int = 0) -> tuple[Raw, NewTensor]:
    """Return rows before, and what they become."""
    before = stored(dtype)
    return before, resized(
        before, growth(), dtype=dtype, method=method, seed=seed, stream=stream, name="x"
    )


def whole(before: Raw, changed: NewTensor) -> Raw:
    """Return all rows after."""
    return np.concatenate(list(changed.blocks(before)))


@pytest.mark.parametrize("dtype", ARRAYS)
def test_stored_numbers_are_rounded_as_torch_rounds_them(dtype: str) -> None:
    numbers = np.random.default_rng(1).normal(0, 100, 5_000)
    numbers = np.concatenate([numbers, numbers * 1e-9, [0.0, -0.0, np.inf, -np.inf, 3.4e38, 1.00390625]])
    with np.errstate(over="ignore"):
        found = from_floats(numbers, dtype)
    source = torch.tensor(numbers)
    expected = (source.float() if dtype == "BF16" else source).to(TORCH[dtype])
    bits = expected.view(torch.int16).numpy().view(np.uint16) if dtype == "BF16" else expected.numpy()
    assert found.tobytes() == bits.tobytes()
    assert np.array_equal(to_floats(found, dtype), expected.double().numpy())
    assert np.isnan(to_floats(from_floats(np.array([np.nan]), dtype), dtype)).all()


@pytest.mark.parametrize("dtype", ARRAYS)
@pytest.mark.parametrize("method", RowMethod)
def test_rows_of_old_ids_and_old_padding_are_bit_for_bit_as_before(
    dtype: str, method: RowMethod
) -> None:
    before, changed = made(dtype, method)
    after = whole(before, changed)
    kept = np.setdiff1d(np.arange(ROWS), changed.places)
    assert after.shape == (AFTER, CHANNELS)
    assert after.dtype == before.dtype
    assert len(kept) == 49
    assert after[kept].tobytes() == before[kept].tobytes()


def test_new_ids_take_rows_of_the_padding_and_the_rest_is_padding_again() -> None:
    assert (growth().reused, growth().padding) == (3, 64 - 49 - 8)
    assert growth().places.tolist() == [7, *range(50, 64)]
    wide = growth(rows=AFTER)  # padded to 64 before: no row is added
    assert wide.places.tolist() == [7, *range(50, 57)]
    before = stored("F32", rows=AFTER)
    changed = resized(before, wide, dtype="F32", method=RowMethod.MEAN, seed=0, stream=0, name="x")
    assert whole(before, changed)[57:].tobytes() == before[57:].tobytes()


def test_mean_is_that_of_rows_of_old_ids_and_not_of_padding() -> None:
    before, changed = made("F64", RowMethod.MEAN)
    expected = np.delete(before[:OLD].astype(np.float64), 7, axis=0).mean(axis=0)
    assert np.allclose(to_floats(changed.values, "F64"), expected, rtol=0, atol=1e-15)


def test_pieces_are_the_mean_of_the_ids_that_write_them_each_as_often_as_it_stands_there() -> None:
    before, changed = made("F64", RowMethod.PIECES)
    after = to_floats(whole(before, changed), "F64")
    mean = np.delete(to_floats(before, "F64")[:OLD], 7, axis=0).mean(axis=0)
    for number, written in zip(growth().new.tolist(), growth().old_ids, strict=True):
        expected = to_floats(before[written], "F64").mean(axis=0) if len(written) else mean
        assert np.allclose(after[number], expected, rtol=0, atol=1e-15)
    assert np.allclose(after[57:], mean, rtol=0, atol=1e-15)


def test_normal_has_the_mean_and_the_covariance_of_the_old_rows() -> None:
    mixing = np.random.default_rng(3).normal(0, 1, (4, 4))
    before = np.random.default_rng(4).normal(0, 1, (500, 4)) @ mixing + 2.0
    count = 3_000
    many = Growth(
        500, 500 + count, np.arange(500), np.arange(500, 500 + count), [np.empty(0, np.int32)] * count
    )
    changed = resized(before, many, dtype="F64", method=RowMethod.NORMAL, seed=1, stream=0, name="x")
    drawn = to_floats(changed.values, "F64")
    expected = np.cov(before.T, bias=True)
    assert np.abs(drawn.mean(axis=0) - before.mean(axis=0)).max() < 0.2
    assert np.abs(np.cov(drawn.T, bias=True) - expected).max() < 0.08 * np.abs(expected).max()
    normed = (drawn - drawn.mean(axis=0)) / drawn.std(axis=0)
    assert np.abs((normed**4).mean(axis=0) - 3).max() < 0.4  # as of a normal distribution


def test_random_has_mean_0_and_a_deviation_of_002() -> None:
    before = np.ones((2, 20_000))
    one = Growth(2, 3, np.arange(2), np.array([2]), [np.empty(0, np.int32)])
    changed = resized(before, one, dtype="F64", method=RowMethod.RANDOM, seed=1, stream=0, name="x")
    drawn = to_floats(changed.values, "F64")[0]
    assert abs(drawn.mean()) < 0.0005
    assert abs(drawn.std() - 0.02) < 0.0005
    assert abs((drawn**4).mean() / drawn.var() ** 2 - 2.9) < 0.15


def test_draws_depend_on_seed_and_id_and_those_of_random_on_the_tensor() -> None:
    def bits(method: RowMethod, **keys: int) -> bytes:
        return made("BF16", method, **keys)[1].values.tobytes()

    for method in (RowMethod.NORMAL, RowMethod.RANDOM):
        assert bits(method) == bits(method)
        assert bits(method, seed=6) != bits(method)
        assert bits(method, seed=5 + (1 << 40)) != bits(method)
    assert bits(RowMethod.RANDOM, stream=1) != bits(RowMethod.RANDOM)
    assert bits(RowMethod.NORMAL, stream=1) == bits(RowMethod.NORMAL)


def test_drawn_bits_are_those_that_were_drawn_before() -> None:
    """They are a function of the seed on every machine; the bits of a release are those of the next."""
    before = from_floats(np.arange(12.0).reshape(6, 2), "F32")
    two = Growth(6, 8, np.arange(6), np.array([6, 7]), [np.empty(0, np.int32)] * 2)
    found = {
        method: resized(before, two, dtype="F32", method=method, seed=7, stream=0, name="x")
        .values.tobytes()
        .hex()
        for method in (RowMethod.NORMAL, RowMethod.RANDOM)
    }
    assert found == GOLDEN


GOLDEN = {
    RowMethod.NORMAL: "00005e4100006e410000a4400000c440",
    RowMethod.RANDOM: "7b14253c140eeabc3dfab3bc29ec993c",
}


def test_rows_that_are_no_numbers_are_refused() -> None:
    before = stored("F32")
    before[9, 1] = np.nan
    with pytest.raises(DataError, match=r"lm_head.weight: its rows hold NaN or infinity"):
        resized(
            before,
            growth(),
            dtype="F32",
            method=RowMethod.MEAN,
            seed=0,
            stream=0,
            name="lm_head.weight",
        )
