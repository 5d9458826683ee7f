"""Mapped files have their space before anything is written through them."""

import errno
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from stages.store.arrays import write_array
from stages.store.mapped import mapped_npy, mapped_zeros


@pytest.mark.parametrize("dtype", ["<u2", "<i4", "|u1", "<f8"])
@pytest.mark.parametrize("shape", [(0,), (0, 7), (3,), (5, 7), (2, 3, 4)])
def test_a_filled_file_is_that_of_a_whole_array(
    dtype: str, shape: tuple[int, ...], tmp_path: Path
) -> None:
    wanted = np.arange(np.prod(shape, dtype=int), dtype=dtype).reshape(shape)
    write_array(tmp_path / "whole.npy", wanted)
    mapped = mapped_npy(tmp_path / "mapped.npy", dtype, shape)
    assert not mapped.any()
    mapped[...] = wanted
    del mapped
    assert (tmp_path / "mapped.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_a_file_without_a_header_holds_the_array_alone(tmp_path: Path) -> None:
    mapped = mapped_zeros(tmp_path / "a", np.int64, (3, 2))
    mapped[1] = 7
    del mapped
    assert np.fromfile(tmp_path / "a", "<i8").tolist() == [0, 0, 7, 7, 0, 0]


def test_the_space_of_a_file_is_there_before_it_is_filled(tmp_path: Path) -> None:
    mapped = mapped_zeros(tmp_path / "a", np.int64, (1 << 17,))
    assert (tmp_path / "a").stat().st_blocks * 512 >= mapped.nbytes


def test_a_full_disk_is_an_error_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(OSError, match="No space left") as caught:
        mapped_npy(tmp_path / "a.npy", "<u2", (100,))
    assert caught.value.filename == str(tmp_path / "a.npy")


def test_where_the_system_reserves_nothing_the_file_is_written_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fallocate")
    mapped = mapped_npy(tmp_path / "a.npy", "<u2", (3_000_000,))
    mapped[-1] = 5
    assert np.load(tmp_path / "a.npy")[-2:].tolist() == [0, 5]
    header = (tmp_path / "a.npy").stat().st_size - 6_000_000
    assert 0 < header <= 128, "the file is longer than its array"


def test_a_disk_that_is_too_small_is_no_bus_error(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("this user may mount nothing; the campaign of filling disks asks for it")
    try:
        with pytest.raises(OSError, match="No space left"):
            mapped_npy(tmp_path / "a.npy", "<u2", (1 << 20,))
    finally:
        subprocess.run(["/bin/umount", str(tmp_path)], check=True)
