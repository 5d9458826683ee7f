"""Files for benchmarks/changing_inputs.py: one corpus in every format, and what can happen to a file.

Texts are random letters, so that compressed files have several blocks of 4 MiB too.
"""

import gzip
import io
import json
import random
import string
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

TEXT_CHARACTERS = 4_000
_ALPHABET = string.ascii_letters + string.digits


def make_texts(size: int, seed: int) -> list[str]:
    """Return random texts of so many characters together, about."""
    generator = random.Random(seed)  # noqa: S311  # a corpus, no secret
    count = max(4, size // TEXT_CHARACTERS)
    return [
        f"text {n} " + "".join(generator.choices(_ALPHABET, k=TEXT_CHARACTERS)) for n in range(count)
    ]


def _lines(texts: Sequence[str]) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def _parquet(texts: Sequence[str]) -> bytes:
    file = io.BytesIO()
    table = pa.table({"text": list(texts), "more": ["unread " * 9] * len(texts)})
    pq.write_table(table, file, row_group_size=200, compression="none", use_dictionary=False)
    return file.getvalue()


def _arrow(texts: Sequence[str]) -> bytes:
    file = io.BytesIO()
    table = pa.table({"text": list(texts)})
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=200)
    return file.getvalue()


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, compresslevel=1, mtime=0)


def _zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(data)


FORMATS: dict[str, Callable[[Sequence[str]], bytes]] = {
    "jsonl": _lines,
    "jsonl.gz": lambda texts: _gzip(_lines(texts)),
    "jsonl.zst": lambda texts: _zstd(_lines(texts)),
    "txt": lambda texts: "\n\n".join(texts).encode(),
    "txt.gz": lambda texts: _gzip("\n\n".join(texts).encode()),
    "txt.zst": lambda texts: _zstd("\n\n".join(texts).encode()),
    "parquet": _parquet,
    "arrow": _arrow,
}
"""How a file of each format is written."""


def _flipped(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[len(data) * 3 // 4] ^= 1
    return bytes(changed)


def _replaced(kind: str, texts: Sequence[str]) -> bytes:
    """Write other texts of the same lengths; where nothing compresses them the file is as long."""
    return FORMATS[kind]([text.swapcase() for text in texts])


CHANGES: dict[str, Callable[[str, Sequence[str], bytes], bytes | None]] = {
    "truncated": lambda _kind, _texts, data: data[: len(data) // 2],
    "emptied": lambda _kind, _texts, _data: b"",
    "shrunk": lambda kind, texts, _data: FORMATS[kind](texts[: len(texts) // 2]),
    "replaced": lambda kind, texts, _data: _replaced(kind, texts),
    "flipped": lambda _kind, _texts, data: _flipped(data),
    "appended": lambda kind, texts, data: data + FORMATS[kind](texts[:3]),
    "deleted": lambda _kind, _texts, _data: None,
}
"""What happens to a file: from its format, its texts and its bytes to its new bytes, or to no file."""
