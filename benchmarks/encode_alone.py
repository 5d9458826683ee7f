"""The least that any program does: read every document, and encode its text once by SentencePiece.

    encode_alone.py CORPUS OUTPUT                 read and decode the JSON alone
    encode_alone.py CORPUS OUTPUT --model MODEL   and encode

CORPUS is a folder of .jsonl.zst files. Nothing is kept but the counts, OUTPUT/counts.json. They include
one token more for each document, its EOS. One thread.
"""

import argparse
import io
import json
from collections.abc import Iterator
from pathlib import Path

import orjson
import zstandard
from sentencepiece import SentencePieceProcessor

COUNTS = "counts.json"
_BATCH = 1 << 20
"""Characters that are encoded in one call."""


def batches(corpus: Path) -> Iterator[list[str]]:
    """Yield the texts of all documents, some megabytes at a time."""
    held, size = [], 0
    for path in sorted(corpus.glob("*.jsonl.zst")):
        with path.open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as stream:
            for line in io.BufferedReader(stream, _BATCH):
                text = orjson.loads(line)["text"]
                held.append(text)
                size += len(text)
                if size >= _BATCH:
                    yield held
                    held, size = [], 0
    yield held


def main() -> None:
    """Read, encode if there is a model, and write the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--model", type=Path)
    arguments = parser.parse_args()
    processor = SentencePieceProcessor(model_file=str(arguments.model)) if arguments.model else None
    documents = tokens = 0
    for texts in batches(arguments.corpus):
        documents += len(texts)
        if processor is not None and texts:
            encoded = processor.encode(texts, return_type="numpy", num_threads=1)
            tokens += sum(map(len, encoded)) + len(texts)
    counts = {"documents": documents, "tokens": tokens if processor else None}
    (arguments.output / COUNTS).write_text(json.dumps(counts), encoding="utf-8")


if __name__ == "__main__":
    main()
