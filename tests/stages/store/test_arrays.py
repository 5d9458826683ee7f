"""What arrays on disk promise.

An array comes back as it was written, from a file that is the same bytes everywhere; a file that is
not exactly what its header or its reader says is refused by name, wherever it was cut or changed.
"""

import hashlib
import math
import resource
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.store.arrays import array_writer, as_integers, id_dtype, open_array, write_array
from tests.campaign import examples

TWO_ROWS = np.array([[5, 6, 7, 2], [8, 2, 3, 3]], "<u2")
HEADER = b"\x93NUMPY\x01\x00v\x00{'descr': '<u2', 'fortran_order': False, 'shape': (2, 4), }"
GOLDEN = HEADER.ljust(127) + b"\n" + bytes.fromhex("0500060007000200 0800020003000300")
DTYPES = ["<u2", "<i4", "<i8", "<u4", "<u8", "<f8", "|b1"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the path of an array that is not there yet."""
    return tmp_path / "folder" / "input_ids.npy"


def refusal(place: Path, *, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(FormatError) as error:
        open_array(place, shape=shape, dtype=dtype)
    return str(error.value)


@pytest.mark.parametrize("shape", [(0,), (7,), (0, 4), (12, 4), (1_003, 2, 3)])
@pytest.mark.parametrize("block", [1, 5, 2_000])
def test_an_array_written_in_blocks_is_the_same_file(
    place: Path, shape: tuple[int, ...], block: int
) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype("<i8")
    write_array(place, array)
    whole = place.read_bytes()
    with array_writer(place, dtype="<i8", shape=shape[1:]) as append:
        for start in range(0, len(array), block):
            append(array[start : start + block])
    assert place.read_bytes() == whole


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (1,), (7,), (0, 4), (3, 4), (2, 3, 4)])
def test_arrays_come_back_as_they_were_written(place: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    write_array(place, array)
    found = open_array(place, shape=shape, dtype=dtype)
    assert np.array_equal(found, array)
    assert found.dtype == np.dtype(dtype)
    assert np.array_equal(np.load(place, mmap_mode="r"), array)


@settings(deadline=None, derandomize=True, max_examples=examples(25))
@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_every_integer_comes_back(tmp_path_factory: pytest.TempPathFactory, values: list[int]) -> None:
    place = tmp_path_factory.mktemp("array") / "values.npy"
    write_array(place, np.array(values, np.int64))
    assert open_array(place).tolist() == values


def test_the_bytes_of_two_rows_are_golden(place: Path) -> None:
    write_array(place, TWO_ROWS)
    assert place.read_bytes() == GOLDEN
    digest = "847e5b25093d3b095835684a783f5b8f"
    assert hashlib.sha256(GOLDEN).hexdigest().startswith(digest)


@pytest.mark.parametrize(
    "array",
    [
        TWO_ROWS.astype(">u2"),
        np.asfortranarray(TWO_ROWS),
        np.repeat(TWO_ROWS, 2, axis=1)[:, ::2],
    ],
)
def test_order_and_byte_order_in_memory_leave_no_trace(place: Path, array: NDArray[np.uint16]) -> None:
    write_array(place, array)
    assert place.read_bytes() == GOLDEN


@pytest.mark.parametrize("expected", [{}, {"shape": (2, 4), "dtype": "<u2"}])
def test_a_mapped_array_cannot_be_written(place: Path, expected: Any) -> None:
    write_array(place, TWO_ROWS)
    array = open_array(place, **expected)
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = np.uint16(1)
    assert place.read_bytes() == GOLDEN


def test_a_missing_file_is_refused_by_name(place: Path) -> None:
    assert str(place) in refusal(place)


def test_a_file_cut_anywhere_is_refused_by_name(place: Path) -> None:
    write_array(place, TWO_ROWS)
    assert len(GOLDEN) == 144
    for length in range(len(GOLDEN)):
        place.write_bytes(GOLDEN[:length])
        assert str(place) in refusal(place), length


@pytest.mark.parametrize("more", [b"\0", b"\0\0", bytes(8), GOLDEN])
def test_a_file_with_more_than_its_header_says_is_refused(place: Path, more: bytes) -> None:
    write_array(place, TWO_ROWS)
    place.write_bytes(GOLDEN + more)
    assert str(place) in refusal(place)


def test_a_changed_header_gives_the_array_or_a_refusal_and_nothing_else(place: Path) -> None:
    write_array(place, TWO_ROWS)
    unread: list[tuple[int, int, str]] = []
    refused = 0
    for byte in range(128):
        for bit in range(8):
            damaged = bytearray(GOLDEN)
            damaged[byte] ^= 1 << bit
            place.write_bytes(damaged)
            try:
                array = open_array(place, shape=(2, 4), dtype="<u2")
            except FormatError as error:
                assert str(place) in str(error)  # noqa: PT017  # each of a thousand
                refused += 1
            except Exception as error:  # noqa: BLE001  # what must not come
                unread.append((byte, bit, repr(error)))
            else:
                if not np.array_equal(array, TWO_ROWS):
                    unread.append((byte, bit, f"opened as {array.tolist()}"))
    assert refused > 500
    assert unread == []


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"PK\x03\x04" + bytes(200), b"\x80\x04K\x01."])
def test_what_is_no_npy_file_is_refused(place: Path, content: bytes) -> None:
    write_array(place, TWO_ROWS)
    place.write_bytes(content)
    assert str(place) in refusal(place)


def test_a_pickled_array_is_never_loaded(place: Path) -> None:
    write_array(place, TWO_ROWS)
    np.save(place, np.array([{"a": 1}], object), allow_pickle=True)
    assert str(place) in refusal(place)


def test_another_dtype_or_shape_than_expected_is_refused(place: Path) -> None:
    write_array(place, TWO_ROWS)
    assert "dtype <u2, but the manifest says <i4" in refusal(place, dtype="<i4")
    assert "shape (2, 4), but the manifest says (4, 2)" in refusal(place, shape=(4, 2))
    assert "(2, 4)" in refusal(place, shape=(8,))
    assert open_array(place, shape=(2, 4), dtype="<u2").shape == (2, 4)


@pytest.mark.parametrize(
    ("vocab_size", "dtype"),
    [(270, "<u2"), (65_535, "<u2"), (65_536, "<u2"), (65_537, "<i4"), (1 << 20, "<i4")],
)
def test_ids_take_two_bytes_while_the_largest_fits(vocab_size: int, dtype: str) -> None:
    assert id_dtype(vocab_size) == np.dtype(dtype)
    assert np.array([vocab_size - 1]).astype(id_dtype(vocab_size))[0] == vocab_size - 1


def test_an_array_in_fortran_order_is_refused(place: Path) -> None:
    place.parent.mkdir()
    np.save(place, np.asfortranarray(TWO_ROWS))
    assert "in Fortran order, but the format says C order" in refusal(place)
    assert "in Fortran order" in refusal(place, shape=(2, 4), dtype="<u2")


def test_a_file_of_the_expected_header_and_another_length_is_refused(place: Path) -> None:
    write_array(place, TWO_ROWS)
    assert open_array(place, shape=(2, 4), dtype="<u2").tolist() == TWO_ROWS.tolist()
    whole = place.read_bytes()
    for content in (whole + b"\0", whole[:-1]):
        place.write_bytes(content)
        assert str(place) in refusal(place, shape=(2, 4), dtype="<u2")


@pytest.mark.parametrize("dtype", ["<f8", "|b1"])
def test_integers_are_no_other_numbers(place: Path, dtype: str) -> None:
    assert as_integers(TWO_ROWS, place).dtype == np.dtype("<u2")
    with pytest.raises(FormatError, match="where integers were expected"):
        as_integers(TWO_ROWS.astype(dtype), place)


def test_a_process_without_descriptors_says_so_and_blames_no_file(place: Path) -> None:
    write_array(place, TWO_ROWS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        with pytest.raises(OSError, match="no file descriptor left: raise the limit"):
            open_array(place)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert open_array(place).tolist() == TWO_ROWS.tolist()


@pytest.mark.parametrize("dtype", ["|b1", "<u4", "<i8", "<f8", "|u1", "|S3"])
@pytest.mark.parametrize("shape", [(3,), (0,), (2, 5), (0, 4), (12, 1, 2)])
def test_an_array_of_any_shape_is_opened_as_numpy_opens_it(
    dtype: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    written = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    write_array(tmp_path / "a.npy", written)
    found, expected = open_array(tmp_path / "a.npy"), np.load(tmp_path / "a.npy")
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tolist() == expected.tolist() == written.tolist()
    assert not found.flags.writeable or not found.size
