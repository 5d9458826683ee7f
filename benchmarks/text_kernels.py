"""Contests of the kernels that read text: JSON lines, shingles, signatures, ids."""

import numpy as np
import orjson
import sentencepiece
import xxhash
import zstandard
from contest_material import MEGA, NUM_PERM, SHINGLE, Material, read_documents
from contests import Contest, Way
from datasketch import MinHash
from numpy.typing import NDArray

from stages.dedup.minhash import signatures
from stages.dedup.shingles import shingle_hashes
from stages.kernels import kernel
from stages.reading.decompress import stream_chunks
from stages.tokenizer.encode import load_trained
from stages.tokenizer.texts import joined_texts


def reading(material: Material) -> Contest:
    """Compressed JSON lines to documents."""
    size = sum(len(chunk) for path in material.files for chunk in stream_chunks(path))

    def ours() -> int:
        return sum(1 for path in material.files for _ in read_documents(path))

    def bare() -> int:
        return sum(
            isinstance(orjson.loads(line), dict)
            for path in material.files
            for line in zstandard.ZstdDecompressor()
            .stream_reader(path.read_bytes(), read_across_frames=True)
            .read()
            .splitlines()
        )

    def decompress() -> int:
        return sum(len(chunk) for path in material.files for chunk in stream_chunks(path))

    assert ours() == bare()
    return Contest(
        "zstd JSON lines to documents",
        "MB of JSON",
        Way("ours", ours, size / MEGA),
        [
            Way("zstandard and orjson alone", bare, size / MEGA),
            Way("limit: decompression", decompress, size / MEGA),
        ],
    )


def _python_shingles(text: str) -> list[bytes]:
    """Shingles as most programs make them."""
    words = text.split()
    return [" ".join(words[n : n + SHINGLE]).encode() for n in range(max(1, len(words) - SHINGLE + 1))]


@kernel
def _multiply_adds(hashes: NDArray[np.uint32], a: NDArray[np.uint32], out: NDArray[np.uint32]) -> None:
    """Multiply and add for every hash and lane, eight hashes a pass; no minimum, no hashing."""
    for first in range(0, len(hashes) - 7, 8):
        h0, h1, h2, h3 = hashes[first], hashes[first + 1], hashes[first + 2], hashes[first + 3]
        h4, h5, h6, h7 = hashes[first + 4], hashes[first + 5], hashes[first + 6], hashes[first + 7]
        for lane in range(len(a)):
            value = out[lane]
            value ^= np.uint32(a[lane] * h0) ^ np.uint32(a[lane] * h1)
            value ^= np.uint32(a[lane] * h2) ^ np.uint32(a[lane] * h3)
            value ^= np.uint32(a[lane] * h4) ^ np.uint32(a[lane] * h5)
            value ^= np.uint32(a[lane] * h6) ^ np.uint32(a[lane] * h7)
            out[lane] = value


def minhash(material: Material) -> Contest:
    """Text to MinHash signature."""
    texts, amount = material.texts, material.megabytes
    hashes = np.concatenate([shingle_hashes(text, size=SHINGLE) for text in texts]).astype(np.uint32)
    a, out = np.arange(1, 2 * NUM_PERM, 2, dtype=np.uint32), np.zeros(NUM_PERM, np.uint32)

    together = joined_texts([text.encode() for text in texts])

    def ours() -> object:
        return signatures(together.data, together.offsets, size=SHINGLE, num_perm=NUM_PERM)

    def plain() -> None:
        for text in texts:
            MinHash(num_perm=NUM_PERM, scheme="affine32").update_batch(_python_shingles(text))

    def tuned() -> None:
        for text in texts:
            found = MinHash(num_perm=NUM_PERM, scheme="affine32", hashfunc=xxhash.xxh32_intdigest)
            found.update_batch(set(_python_shingles(text)))

    return Contest(
        "text to MinHash signature, 128",
        "MB of text",
        Way("ours", ours, amount),
        [
            Way("datasketch", plain, amount),
            Way("datasketch, xxh32 and set()", tuned, amount),
            Way("limit: multiplications alone", lambda: _multiply_adds(hashes, a, out), amount),
        ],
    )


def shingling(material: Material) -> Contest:
    """Text to shingle hashes."""
    texts, amount = material.texts, material.megabytes
    raw = [text.encode() for text in texts]
    return Contest(
        "text to 5-gram hashes",
        "MB of text",
        Way("ours", lambda: [shingle_hashes(text, size=SHINGLE) for text in texts], amount),
        [
            Way(
                "Python split and join, xxh3",
                lambda: [[xxhash.xxh3_64_intdigest(s) for s in _python_shingles(t)] for t in texts],
                amount,
            ),
            Way("limit: xxh3 of the bytes", lambda: [xxhash.xxh3_64_intdigest(b) for b in raw], amount),
        ],
    )


def encoding(material: Material) -> Contest:
    """Text to ids."""
    tokenizer = load_trained(material.model)
    bare = sentencepiece.SentencePieceProcessor(model_file=str(material.model))
    texts = [text for text in material.texts if "\u2581" not in text][::4]
    amount = sum(len(text.encode()) for text in texts) / MEGA
    ids = [row.tolist() for row in tokenizer.encode(texts)]
    assert ids == bare.encode(texts, num_threads=1)
    return Contest(
        "text to ids",
        "MB of text",
        Way("ours", lambda: tokenizer.encode(texts), amount),
        [
            Way("SentencePiece, lists", lambda: bare.encode(texts, num_threads=1), amount),
            Way(
                "SentencePiece, a call a text, int32 arrays",
                lambda: [np.array(bare.encode(text), np.int32) for text in texts],
                amount,
            ),
        ],
    )
