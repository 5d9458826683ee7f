"""What byte streams promise.

The bytes that were compressed come back, whatever the ending and however many members or frames; a
file that is cut, damaged or missing raises, wherever it was cut, and never gives less in silence.
"""

import gzip
from pathlib import Path

import pytest
import zstandard

from stages.errors import DataError
from stages.reading import decompress
from stages.reading.decompress import stream_chunks

CONTENT = b'{"text": "one"}\n{"text": "two"}\n' * 3
PARTS = [CONTENT[:40], b"", CONTENT[40:]]
ZSTD = zstandard.ZstdCompressor(write_checksum=True)
GZIP = [gzip.compress(part, mtime=0) for part in PARTS]
FRAMES = [ZSTD.compress(part) for part in PARTS]
STREAM = zstandard.ZstdCompressor().compressobj()  # its frame does not tell its size
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\x00\x00\x00note"
FILES = {
    "plain.jsonl": CONTENT,
    "one.jsonl.gz": gzip.compress(CONTENT),
    "members.jsonl.gz": b"".join(GZIP),
    "one.jsonl.zst": ZSTD.compress(CONTENT),
    "frames.jsonl.zst": b"".join(FRAMES),
    "skippable.jsonl.zst": FRAMES[0] + SKIPPABLE + FRAMES[2],
    "stream.jsonl.zst": STREAM.compress(CONTENT) + STREAM.flush(),
}


def read(path: Path) -> bytes:
    """Return all bytes of a file."""
    return b"".join(stream_chunks(path))


def refusal(path: Path) -> str:
    """Return the message with which a file is refused."""
    with pytest.raises(DataError) as error:
        read(path)
    return str(error.value)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("chunk_bytes", [64, 200, 1 << 20])
def test_the_bytes_come_back(
    tmp_path: Path, name: str, chunk_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decompress, "CHUNK_BYTES", chunk_bytes)
    (tmp_path / name).write_bytes(FILES[name])
    assert read(tmp_path / name) == CONTENT


def test_chunks_stay_bounded(tmp_path: Path) -> None:
    content = bytes(range(256)) * 20_000
    for name, data in (
        ("a.jsonl", content),
        ("a.jsonl.gz", gzip.compress(content, 1)),
        ("a.jsonl.zst", zstandard.ZstdCompressor().compress(content)),
    ):
        (tmp_path / name).write_bytes(data)
        chunks = [bytes(chunk) for chunk in stream_chunks(tmp_path / name)]
        assert b"".join(chunks) == content
        assert all(chunks)
    assert max(len(chunk) for chunk in stream_chunks(tmp_path / "a.jsonl")) == 1 << 20


@pytest.mark.parametrize(
    ("name", "borders"),
    [
        ("one.jsonl.gz", []),
        ("members.jsonl.gz", [len(GZIP[0]), len(GZIP[0] + GZIP[1])]),
        ("one.jsonl.zst", []),
        ("frames.jsonl.zst", [len(FRAMES[0]), len(FRAMES[0] + FRAMES[1])]),
        ("skippable.jsonl.zst", [len(FRAMES[0]), len(FRAMES[0] + SKIPPABLE)]),
        ("stream.jsonl.zst", []),
    ],
)
def test_a_file_cut_anywhere_but_between_frames_raises_by_name(
    tmp_path: Path, name: str, borders: list[int]
) -> None:
    data = FILES[name]
    silent = []
    for length in range(len(data)):
        (tmp_path / name).write_bytes(data[:length])
        try:
            read(tmp_path / name)
        except DataError as error:
            assert str(tmp_path / name) in str(error)  # noqa: PT017  # each of a hundred
        else:
            silent.append(length)
    assert len(data) > 30
    assert silent == borders


@pytest.mark.parametrize("name", ["one.jsonl.gz", "one.jsonl.zst", "frames.jsonl.zst"])
def test_a_damaged_file_raises_or_gives_the_same_bytes(tmp_path: Path, name: str) -> None:
    raised = 0
    for place in range(len(FILES[name])):
        for bit in (1, 16, 128):
            damaged = bytearray(FILES[name])
            damaged[place] ^= bit
            (tmp_path / name).write_bytes(damaged)
            try:
                content = read(tmp_path / name)
            except DataError as error:
                assert str(tmp_path / name) in str(error)  # noqa: PT017  # each of a hundred
                raised += 1
            else:
                assert content == CONTENT, (place, bit)  # a byte that means nothing
    assert raised > 100


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
@pytest.mark.parametrize("more", [b"\n", b"garbage that is no frame", b"\xff" * 20])
def test_garbage_after_the_end_raises(tmp_path: Path, name: str, more: bytes) -> None:
    data = FILES["one.jsonl.gz" if name.endswith("gz") else "one.jsonl.zst"]
    (tmp_path / name).write_bytes(data + more)
    assert str(tmp_path / name) in refusal(tmp_path / name)


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
def test_a_plain_file_under_a_compressed_name_raises(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(CONTENT)
    assert str(tmp_path / name) in refusal(tmp_path / name)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.jsonl.zst"])
def test_a_missing_file_and_a_folder_raise_by_name(tmp_path: Path, name: str) -> None:
    assert refusal(tmp_path / name) == f"{tmp_path / name}: cannot be read: No such file or directory"
    (tmp_path / name).mkdir()
    assert refusal(tmp_path / name) == f"{tmp_path / name}: cannot be read: Is a directory"


def test_an_empty_plain_file_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    assert list(stream_chunks(tmp_path / "a.jsonl")) == []


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
def test_a_compressed_nothing_is_empty(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"") if name.endswith("gz") else ZSTD.compress(b""))
    assert read(tmp_path / name) == b""


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.jsonl.zst"])
def test_a_file_that_is_a_thousand_times_as_large_inside_is_given_in_chunks(
    tmp_path: Path, name: str
) -> None:
    content = b"x" * (64 << 20)
    compress = gzip.compress if name.endswith("gz") else zstandard.compress
    (tmp_path / name).write_bytes(compress(content))
    assert (tmp_path / name).stat().st_size * 500 < len(content)
    sizes = [len(chunk) for chunk in stream_chunks(tmp_path / name)]
    assert sum(sizes) == len(content)
    assert max(sizes) <= decompress.CHUNK_BYTES


def windowed(log: int) -> bytes:
    """Return the content in a frame with a window of 2^log bytes."""
    parameters = zstandard.ZstdCompressionParameters(window_log=log)
    frame = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return frame.compress(CONTENT) + frame.flush()


def test_a_window_is_bounded_like_that_of_the_formats_own_tools(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(windowed(27))
    assert read(path) == CONTENT
    path.write_bytes(windowed(28))
    assert refusal(path) == (
        f"{path}: its zstd window is over 128 MiB, which decompressing it would hold; compress it again"
        " with --long=27 or less (zstd -d --long=31 reads it)"
    )


SAMPLES = [
    b"<html><p>page %d of the river and %d boats" % (number, number**2) for number in range(2_000)
]
DICTIONARY = zstandard.train_dictionary(2_000, list(SAMPLES))


def with_dictionary(held: bytes, parts: list[bytes]) -> tuple[bytes, bytes]:
    """Return the frame that holds a dictionary, and frames that are compressed with it."""
    packer = zstandard.ZstdCompressor(dict_data=DICTIONARY, write_checksum=True)
    front = b"\x5d\x2a\x4d\x18" + len(held).to_bytes(4, "little") + held
    return front, b"".join(map(packer.compress, parts))


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_with_its_dictionary_in_front_is_read_and_a_cut_is_said(
    packed: bool,  # noqa: FBT001  # a parameter of the test
    tmp_path: Path,
) -> None:
    held = DICTIONARY.as_bytes()
    front, frames = with_dictionary(ZSTD.compress(held) if packed else held, SAMPLES[:50])
    path = tmp_path / "a.warc.zst"
    path.write_bytes(front + frames)
    assert read(path) == b"".join(SAMPLES[:50])
    path.write_bytes(front + SKIPPABLE + frames + SKIPPABLE)
    assert read(path) == b"".join(SAMPLES[:50])
    for size in (9, 11, len(front) - 1, len(front) + 1, len(front) + len(frames) - 1):
        path.write_bytes((front + frames)[:size])
        assert "ends in the middle" in refusal(path), size
    damaged = bytearray(front + frames)
    damaged[len(front) + 12] ^= 0xFF
    path.write_bytes(damaged)
    assert "damaged" in refusal(path)
    path.write_bytes(front[:4] + (40 << 20).to_bytes(4, "little") + front[8:])
    assert "holds no dictionary of at most 32 MiB" in refusal(path)
    path.write_bytes(with_dictionary(ZSTD.compress(b"no dictionary"), [])[0] + frames)
    assert "holds no dictionary" in refusal(path)
    path.write_bytes(SKIPPABLE + frames)
    assert "damaged" in refusal(path)


def test_a_frame_with_a_dictionary_stays_bounded(tmp_path: Path) -> None:
    front, bomb = with_dictionary(DICTIONARY.as_bytes(), [b"a" * (64 << 20)])
    (tmp_path / "a.warc.zst").write_bytes(front + bomb)
    sizes = [len(chunk) for chunk in stream_chunks(tmp_path / "a.warc.zst")]
    assert sum(sizes) == 64 << 20
    assert max(sizes) <= decompress.CHUNK_BYTES
