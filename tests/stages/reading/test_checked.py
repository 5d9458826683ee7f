"""What checked files promise.

What is read is what was scanned, byte for byte, however it is read; whatever happened to the file since,
the first read that touches it says which block. Each block is read once, and few are held.
"""

import copy
import io
import os
from collections.abc import Callable
from typing import BinaryIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.errors import ChangedInputError
from stages.reading import checked
from stages.reading.checked import block_digest, checked_file, read_blocks, read_fully

BLOCK = 16
NAME = "sources.web: /corpus/a.jsonl"
DATA = bytes(range(100, 240))
"""Nine blocks of 16 bytes, the last of 12."""


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked, "BLOCK_BYTES", BLOCK)


class Counted(io.BytesIO):
    """A file that counts the bytes which are read of it."""

    read_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read and count."""
        data = super().read(size)
        self.read_bytes += len(data)
        return data


class Trickle(io.BytesIO):
    """A file that gives three bytes at a time, as a server may."""

    def read(self, size: int | None = -1, /) -> bytes:
        """Read a little."""
        return super().read(min(3, 3 if size is None or size < 0 else size))


def opened(now: BinaryIO, scanned: bytes = DATA) -> BinaryIO:
    """Return a file as it is now, held to what was scanned."""
    blocks = [block_digest(block) for block in read_blocks(io.BytesIO(scanned))]
    return checked_file(now, size=len(scanned), blocks=np.array(blocks, np.uint64), name=NAME)


@given(st.data())
def test_any_reads_give_what_the_file_itself_gives(data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([0, 1, 15, 16, 17, 32, 140]))
    plain, file = io.BytesIO(DATA[:size]), opened(io.BytesIO(DATA[:size]), DATA[:size])
    for _ in range(data.draw(st.integers(1, 12))):
        whence = data.draw(st.sampled_from([None, io.SEEK_SET, io.SEEK_CUR, io.SEEK_END]))
        if whence is not None:
            low = {io.SEEK_SET: 0, io.SEEK_CUR: -plain.tell(), io.SEEK_END: -size}[whence]
            offset = data.draw(st.integers(low, low + 150))
            assert file.seek(offset, whence) == plain.seek(offset, whence)
        count = data.draw(st.integers(-1, 60))
        assert file.read(count) == plain.read(count)
        assert file.tell() == plain.tell()


def flip(place: int) -> Callable[[bytes], bytes]:
    """Return what flips one bit."""
    return lambda data: data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


CHANGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "first bit": (flip(0), "block 0 (bytes 0 to 16) has the XXH3-64 "),
    "a bit within": (flip(37), "block 2 (bytes 32 to 48) has the XXH3-64 "),
    "last bit": (flip(139), "block 8 (bytes 128 to 140) has the XXH3-64 "),
    "emptied": (lambda _: b"", "block 0 (bytes 0 to 16) has 0 bytes; it had 16 when"),
    "cut in a block": (lambda data: data[:40], "block 2 (bytes 32 to 48) has 8 bytes; it had 16 when"),
    "cut between": (lambda data: data[:48], "block 3 (bytes 48 to 64) has 0 bytes; it had 16 when"),
    "one byte less": (lambda data: data[:-1], "block 8 (bytes 128 to 140) has 11 bytes; it had 12 when"),
    "one byte more": (lambda data: data + b"x", "it goes on after 140 bytes, where it ended when"),
    "two blocks exchanged": (
        lambda data: data[16:32] + data[:16] + data[32:],
        "block 0 (bytes 0 to 16) has the XXH3-64 ",
    ),
}


@pytest.mark.parametrize("chunk", [1, 7, 16, 50, -1])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changed_is_refused_by_name_block_and_bytes(change: str, chunk: int) -> None:
    alter, found = CHANGES[change]
    file = opened(io.BytesIO(alter(DATA)))
    pieces: list[bytes] = []
    with pytest.raises(ChangedInputError) as caught:
        pieces.extend(iter(lambda: file.read(chunk), b""))
    given_out = b"".join(pieces)
    assert DATA.startswith(given_out), "no byte that was not scanned is given out"
    message = str(caught.value)
    assert message.startswith(f"{NAME}: {found}")
    assert message.endswith(
        "the file changed while the run was reading it: restore the file and run the same command"
        " again, or, if the change is meant, run again with --replace"
    )
    assert caught.value.file == NAME


def test_an_empty_file_that_is_filled_is_refused() -> None:
    assert opened(io.BytesIO(b""), b"").read() == b""
    with pytest.raises(ChangedInputError, match="it goes on after 0 bytes"):
        opened(io.BytesIO(b"x"), b"").read(1)


def test_a_change_in_what_is_not_read_is_no_fault() -> None:
    file = opened(io.BytesIO(flip(139)(DATA)))
    assert file.read(128) == DATA[:128]
    file.seek(-1, io.SEEK_END)
    with pytest.raises(ChangedInputError, match="block 8"):
        file.read(1)


def test_a_file_is_read_once_however_small_the_reads() -> None:
    file = Counted(DATA)
    checking = opened(file)
    while checking.read(3):
        pass
    assert file.read_bytes == len(DATA)


def test_reads_to_and_fro_between_a_few_blocks_read_each_once() -> None:
    file = Counted(DATA)
    checking = opened(file)
    for place in [130, 0, 50, 70] * 20:
        checking.seek(place)
        assert checking.read(2) == DATA[place : place + 2]
    assert file.read_bytes == 3 * BLOCK + 12


def test_no_more_than_a_few_blocks_are_held() -> None:
    file = Counted(DATA)
    checking = opened(file)
    for _ in range(2):
        checking.seek(0)
        assert checking.read() == DATA
    assert file.read_bytes == 2 * len(DATA), "of nine blocks the first was given up for the later ones"


def test_short_reads_of_a_server_are_no_end() -> None:
    assert read_fully(Trickle(DATA), 50) == DATA[:50]
    assert read_fully(Trickle(b""), 50) == b""
    assert b"".join(read_blocks(Trickle(DATA))) == DATA
    assert opened(Trickle(DATA)).read() == DATA


def test_a_raw_file_that_has_nothing_now_gives_nothing() -> None:
    one, other = os.pipe()
    os.set_blocking(one, False)
    with os.fdopen(one, "rb", buffering=0) as file, os.fdopen(other, "wb", buffering=0):
        assert file.read(1) is None
        assert read_fully(file, 50) == b""


def test_the_error_of_a_worker_reaches_the_driver_whole() -> None:
    error = ChangedInputError("what was found", NAME)
    error = copy.copy(error)  # by `__reduce__`, as pickle does it
    assert isinstance(error, ChangedInputError)
    assert (str(error), error.file) == ("what was found", NAME)


def test_a_stream_that_cannot_seek_is_read_from_front_to_back() -> None:
    class Stream(Trickle):
        def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
            raise OSError(f"a stream cannot go to {offset} from {whence}")

    file = opened(Stream(DATA))
    assert file.read(1) == DATA[:1]
    file.seek(0)
    assert file.read() == DATA, "the first block was held"
