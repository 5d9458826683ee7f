"""What a reader says of the files that its client read: counts and digests, printed as JSON.

    [{"what": "train stream", "sequences": null, "documents": 431, "sha256": "5d0c..."}, ...]

Ids are hashed as little-endian int64, whatever dtype the client gives, so that the same numbers give the
same digest everywhere. Needs numpy alone: this runs in the client's environment, without Shardmill.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Answer:
    """What was found of one part of an export."""

    what: str
    sequences: int | None
    documents: int | None
    sha256: str
    order: list[int] | None = None
    """What the client drew: the documents in its order, or first, last and length of each sample."""


@dataclass(frozen=True)
class Facts:
    """What a reader is told: where the files are, and what a trainer's config would say."""

    folder: Path
    format: str
    splits: tuple[str, ...]
    seq_len: int
    id_bytes: int
    special_ids: dict[str, int]
    vocab_size: int


def read_facts() -> Facts:
    """Return the facts from the command line."""
    content: dict[str, Any] = json.loads(sys.argv[1])
    folder, splits = Path(content.pop("folder")), tuple(content.pop("splits"))
    return Facts(folder=folder, splits=splits, **content)


def digest(parts: Iterable[ArrayLike]) -> str:
    """Return the SHA-256 of all numbers in order."""
    sha256 = hashlib.sha256()
    for part in parts:
        sha256.update(np.ascontiguousarray(np.asarray(part), "<i8").data)
    return sha256.hexdigest()


def column_answers(
    split: str, rows: int, names: Iterable[str], read: Callable[[str], Iterable[ArrayLike]]
) -> list[Answer]:
    """Return an answer for each column of rows; `read` gives the values of one."""
    return [Answer(f"{split} {name}", rows, None, digest(read(name))) for name in sorted(names)]


def tell(answers: Iterable[Answer]) -> None:
    """Print the answers behind whatever the client printed."""
    print("\n" + json.dumps([asdict(answer) for answer in answers]))
