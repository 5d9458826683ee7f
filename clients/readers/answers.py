"""What a reader says of the files that its client read: counts and digests, printed as JSON.

    [{"what": "train stream", "sequences": null, "documents": 431, "sha256": "5d0c...", "order": null,
      "lengths": [212, 35, ...]}, ...]

Ids are hashed as little-endian int64, whatever dtype the client gives, so that the same numbers give the
same digest everywhere. Needs numpy alone: this runs in the client's environment, without Shardmill.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
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
    lengths: list[int] | None = None
    """Tokens of each document, or of each piece of one in the rows, as the client cuts them."""


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


def stream_answer(
    split: str, parts: Iterable[ArrayLike], lengths: Iterable[int], *, sequences: int | None = None
) -> Answer:
    """Return the answer for all tokens, and for the documents that they are cut into."""
    cut = [int(length) for length in lengths]
    return Answer(f"{split} stream", sequences, len(cut), digest(parts), lengths=cut)


def lengths_by_eos(ids: ArrayLike, eos: int) -> list[int]:
    """Return the tokens up to each EOS, for clients that have no other border of documents."""
    lengths: list[int] = np.diff(np.flatnonzero(np.asarray(ids) == eos), prepend=-1).tolist()
    return lengths


def piece_lengths(segment_ids: ArrayLike) -> list[int]:
    """Return the tokens of each piece of some rows, or of one.

    segment_ids   0 0 0 1 1 -1 -1
    lengths       3 2
    """
    rows = np.atleast_2d(np.asarray(segment_ids))
    begins = np.ones(rows.shape, bool)
    begins[:, 1:] = rows[:, 1:] != rows[:, :-1]
    starts = np.flatnonzero(begins)
    lengths = np.diff(starts, append=rows.size)
    kept: list[int] = lengths[rows.ravel()[starts] >= 0].tolist()
    return kept


def column_answers(
    split: str, rows: int, names: Iterable[str], read: Callable[[str], Iterable[ArrayLike]]
) -> list[Answer]:
    """Return an answer for each column of rows; `read` gives the values of one."""
    answers = [Answer(f"{split} {name}", rows, None, digest(read(name))) for name in sorted(names)]
    return [
        replace(answer, lengths=[n for part in read("segment_ids") for n in piece_lengths(part)])
        if answer.what == f"{split} segment_ids"
        else answer
        for answer in answers
    ]


def tell(answers: Iterable[Answer]) -> None:
    """Print the answers behind whatever the client printed."""
    print("\n" + json.dumps([asdict(answer) for answer in answers]))
