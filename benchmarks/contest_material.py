"""What contests of kernels work on: real texts, their tokens, and the rows of a run over them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.dedup.shingles import shingle_set
from stages.reading.decompress import stream_chunks
from stages.reading.jsonl import parse_line
from stages.reading.lines import split_lines
from stages.reading.records import FieldMapping, RawDocument
from stages.tokenizer.encode import load_trained

EXAMPLES = Path(__file__).parents[1] / "examples"
SHINGLE, NUM_PERM, ROW_LENGTH = 5, 128, 512
MEGA = 1e6


@dataclass(frozen=True)
class Material:
    """What kernels work on.

    Args:
        run: a run over the bundled corpus that has its shards.
    """

    run: Path

    @cached_property
    def files(self) -> list[Path]:
        """Compressed files of the bundled corpus."""
        return sorted((EXAMPLES / "corpus" / "text").glob("*.jsonl.zst"))

    @cached_property
    def texts(self) -> list[str]:
        """Every fourth text of the bundled corpus."""
        return [document.text for path in self.files for document in read_documents(path)][::4]

    @cached_property
    def megabytes(self) -> float:
        """Size of the texts."""
        return sum(len(text.encode()) for text in self.texts) / MEGA

    @cached_property
    def sets(self) -> list[NDArray[np.uint64]]:
        """The shingle sets of the texts."""
        return [shingle_set(text, size=SHINGLE) for text in self.texts]

    @cached_property
    def model(self) -> Path:
        """The tokenizer's model."""
        return self.run / "tokenizer" / "tokenizer.model"

    @cached_property
    def tokens(self) -> list[NDArray[np.uint16]]:
        """The texts as ids."""
        return [ids.astype(np.uint16) for ids in load_trained(self.model).encode(self.texts)]


def read_documents(path: Path) -> Iterator[RawDocument]:
    """Yield the documents of a file of JSON lines."""
    fields = FieldMapping()
    for line in split_lines(stream_chunks(path), max_bytes=1 << 26):
        document = parse_line(line, fields)
        if isinstance(document, RawDocument):
            yield document
