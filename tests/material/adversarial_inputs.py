"""Inputs that are small on disk and large in memory, or have more of something than anyone expects.

Each writes a folder of files, and says what of the run file goes with them. Sizes follow one number, so
that a test can make them small.
"""

import gzip
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

MIB = 1 << 20
DOCUMENT = 32 * MIB
"""`ingest.max_document_bytes` as it is unless set."""
_LONG_PATH = 3_600
"""Bytes; Linux opens no path of more than 4,095."""


@dataclass(frozen=True)
class Adversary:
    """One input."""

    name: str
    about: str
    write: Callable[[Path, float], None]
    """Writes the files into a folder; a scale of 1 is the size of the campaign."""
    source: dict[str, Any] = field(default_factory=dict)
    """Keys of its source beside name and paths."""


def _words(seed: int, count: int) -> str:
    """Return words that no other seed has."""
    rng = np.random.default_rng(seed)
    return " ".join(f"{value:x}" for value in rng.integers(0, 1 << 40, count))


def _lines(path: Path, records: Iterable[Mapping[str, object]]) -> None:
    """Write records as compressed JSON lines."""
    with zstandard.open(path, "wb", zstandard.ZstdCompressor(3)) as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")


def _ordinary(count: int = 200) -> Iterator[dict[str, object]]:
    """Return documents of which something is left, whatever becomes of the others."""
    return ({"text": _words(number, 60), "id": str(number), "lang": "en"} for number in range(count))


def _long_ids(folder: Path, scale: float) -> None:
    _lines(folder / "a.jsonl.zst", _ordinary())
    most = ({"text": _words(n, 8), "id": f"{n:x}" + "x" * 4_000} for n in range(int(80_000 * scale)))
    _lines(folder / "b.jsonl.zst", most)
    wrong = ({"text": _words(n, 8), "id": f"{n:x}" + "x" * 20_000} for n in range(int(2_000 * scale)))
    _lines(folder / "c.jsonl.zst", wrong)


def _long_path(folder: Path, scale: float) -> None:
    """Write many short documents into a file whose path is nearly as long as a path may be."""
    _lines(folder / "a.jsonl.zst", _ordinary())
    while len(str(folder)) < _LONG_PATH:
        folder /= "f" * 200
    folder.mkdir(parents=True)
    _lines(folder / "b.jsonl.zst", ({"text": _words(n, 8)} for n in range(int(300_000 * scale))))


def _zstd_line(folder: Path, scale: float) -> None:
    _lines(folder / "a.jsonl.zst", _ordinary())
    with zstandard.open(folder / "b.jsonl.zst", "wb") as file:
        file.write(b'{"text": "')
        for _ in range(int(2_000 * scale)):
            file.write(b"x" * MIB)
        file.write(b'"}\n')


def _gzip_bomb(folder: Path, scale: float) -> None:
    _lines(folder / "a.jsonl.zst", _ordinary())
    with gzip.open(folder / "b.txt.gz", "wb", 6) as file:
        for _ in range(int(1_000 * scale)):
            file.write(b"word " * (MIB // 5))


def _zstd_window(folder: Path, scale: float) -> None:
    """Write a window of 128 MiB, the largest that is read, and documents as long as may be."""
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    with zstandard.open(
        folder / "a.jsonl.zst", "wb", zstandard.ZstdCompressor(compression_params=parameters)
    ) as file:
        for record in _ordinary():
            file.write(json.dumps(record).encode() + b"\n")
        for number in range(max(1, int(6 * scale))):
            text = _words(number, 1_000) * int(DOCUMENT * 0.9 * scale / 10_000)
            file.write(json.dumps({"text": text}).encode() + b"\n")


def _nested(folder: Path, scale: float) -> None:
    _lines(folder / "a.jsonl.zst", _ordinary())
    size = int(DOCUMENT * scale)
    with (folder / "b.jsonl").open("wb") as file:
        for filler in (b"[]", b"300", b'{"":0}', b'"ab"'):
            file.write(b'{"text": "a line like any other", "unread": [')
            file.write((filler + b",") * ((size - 100) // (len(filler) + 1)))
            file.write(b"0]}\n")


def _longest(folder: Path, scale: float) -> None:
    """Write documents as long as may be, of which Python makes four bytes a character."""
    _lines(folder / "a.jsonl.zst", _ordinary())
    size = int(DOCUMENT * scale) - 200
    for name, unit, tail in (
        ("words", "ab cd ", "\U0001f600"),
        ("four", "\U00020000", ""),
        ("ends", "a\u2028", "\U0001f600"),
        ("marks", "e\u0301x ", "\U0001f600"),
    ):
        text = unit * ((size - 4) // len(unit.encode())) + tail
        (folder / f"{name}.txt").write_text(text, encoding="utf-8", newline="")


def _languages(folder: Path, scale: float) -> None:
    count = int(200_000 * scale)
    records = ({"text": _words(n, 8), "id": str(n), "lang": f"language-{n:x}"} for n in range(count))
    _lines(folder / "a.jsonl.zst", records)


def _tiny(folder: Path, scale: float) -> None:
    count = int(1_000_000 * scale)
    _lines(folder / "a.jsonl.zst", ({"text": f"{n:x}", "id": str(n)} for n in range(count)))
    empty = ({"text": "", "id": str(n)} for n in range(count // 4))
    _lines(folder / "b.jsonl.zst", empty)


def _row_group(folder: Path, scale: float) -> None:
    """Write one row group of a gigabyte, and one of a value whose dictionary stands for as much."""
    count = int(1_000 * scale)
    block = _words(1, 90_000)
    schema = pa.schema([("text", pa.string()), ("unread", pa.int64())])
    options = {"compression": "zstd", "use_dictionary": False, "write_batch_size": 16}
    with pq.ParquetWriter(folder / "a.parquet", schema, **options) as writer:
        for n in range(count):  # all of them in one row group
            rows = {"text": [f"{block[n:]} {n}"], "unread": [n]}
            writer.write_batch(pa.RecordBatch.from_pydict(rows, schema), row_group_size=count)
    repeated = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [_words(2, 90_000)])
    pq.write_table(pa.table({"text": repeated}), folder / "b.parquet", store_schema=False)


def _one_page(folder: Path, scale: float) -> None:
    """Write a row group whose texts are one page, as pyarrow does of a thousand long ones."""
    _lines(folder / "a.jsonl.zst", _ordinary())
    block = _words(1, 90_000)
    table = pa.table({"text": [f"{block[n:]} {n}" for n in range(int(300 * scale))]})
    pq.write_table(table, folder / "b.parquet", compression="zstd")


def _duplicates(folder: Path, scale: float) -> None:
    text = _words(1, 100)
    count = int(400_000 * scale)
    _lines(folder / "a.jsonl.zst", _ordinary())
    _lines(folder / "b.jsonl.zst", ({"text": text, "id": f"{n:x}" * 8} for n in range(count)))


def _star(folder: Path, scale: float) -> None:
    """Write near-duplicates of one document, and three of nearly 32 MiB, of one-letter tokens."""
    words = _words(1, 200).split()
    count = int(10_000 * scale)
    _lines(folder / "a.jsonl.zst", _ordinary())
    near = (" ".join([*words[: n % 199], f"{n:x}", *words[n % 199 + 1 :]]) for n in range(count))
    _lines(folder / "b.jsonl.zst", ({"text": text, "id": str(n)} for n, text in enumerate(near)))
    tokens = int(15.9 * MIB * scale)
    letters = np.random.default_rng(3).integers(ord("a"), ord("z") + 1, tokens, np.uint8)
    spaced = np.full(2 * len(letters), ord(" "), np.uint8)
    spaced[::2] = letters
    body = spaced.tobytes().decode()
    _lines(folder / "c.jsonl.zst", ({"text": f"{body}{n}"} for n in range(3)))


def _one_word(folder: Path, scale: float) -> None:
    _lines(folder / "a.jsonl.zst", _ordinary())
    text = "word " * int(200_000 * scale)
    _lines(folder / "b.jsonl.zst", ({"text": text + str(n)} for n in range(int(60 * scale) + 1)))


_NAMES = {"id_column": "id", "language": {"column": "lang"}}
ADVERSARIES = (
    Adversary("long_ids", "80,000 short texts with ids of 4 kB, 2,000 of 20 kB", _long_ids, _NAMES),
    Adversary(
        "long_path",
        "300,000 short texts in a file whose path has 3,700 bytes",
        _long_path,
    ),
    Adversary("zstd_line", "one line of 2 GB in a .zst of 82 kB", _zstd_line),
    Adversary("gzip_bomb", "a text of 1 GB in a .gz of 1 MB", _gzip_bomb),
    Adversary("zstd_window", "a window of 128 MiB, documents of 29 MiB", _zstd_window),
    Adversary("nested", "lines of 32 MiB of lists, numbers, objects, strings", _nested),
    Adversary("longest", "documents of 32 MiB, four bytes a character in Python", _longest),
    Adversary("languages", "200,000 languages", _languages, _NAMES),
    Adversary(
        "tiny",
        "1,000,000 documents of a few letters, 250,000 empty ones",
        _tiny,
        {"id_column": "id"},
    ),
    Adversary(
        "row_group", "a row group of 1 GB; one value that a dictionary gives 1,000 times", _row_group
    ),
    Adversary("one_page", "a row group of 300 MB in one dictionary page", _one_page),
    Adversary("duplicates", "400,000 times the same text", _duplicates, _NAMES),
    Adversary("star", "10,000 near-duplicates of one text; three of 31.8 MiB alike", _star, _NAMES),
    Adversary("one_word", "60 texts of 200,000 times one word", _one_word),
)
