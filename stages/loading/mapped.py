"""Shards mapped into memory, and which of them the rows of a batch stand in."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.objectives.rows import StoredRows
from stages.objectives.table import read_objective, traits_of
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.packing.row_frames import begins_of, own_parts
from stages.ragged import Ragged
from stages.store.arrays import open_array
from stages.store.digests import FileDigest
from stages.store.manifest import (
    ADDED_END,
    LOSS_MASK,
    OBJECTIVE_ID,
    PROMPT,
    ROOM,
    SEGMENT_COLUMNS,
    SEGMENT_PROMPT,
    SENTENCES,
    UNIGRAM,
    WORD_STARTS,
    Manifest,
    Shard,
)
from stages.stores.mounts import here

_NO_SEGMENTS = np.empty(0, np.int32)
SPLITTING = ("row_ptr", "length")
"""The columns of segments that say which tokens of a row belong together."""
_BESIDE = {
    "documents.parquet",
    *(f"segments/{name}.npy" for name in SEGMENT_COLUMNS if name not in SPLITTING),
}
"""Files of a shard that say which documents its rows are of; no row is made of them."""


@dataclass(frozen=True)
class MappedShard:
    """The arrays of one shard."""

    columns: dict[str, NDArray[np.integer]]
    """Of the rows, by name; `input_ids` among them."""
    segments: dict[str, NDArray[np.integer]]
    unigram: NDArray[np.int64] | None = None
    """The shard's ordinary ids counted up, if the objective draws by frequency."""
    sentences: Ragged | None = None
    """Where the sentences of each document end, if the objective asks."""
    segment_prompt: NDArray[np.int32] | None = None
    """Of each segment, its tokens before the target that its source names, if rows hold several."""
    begins: int = 0
    """Ids that stand before each row and are no document's: 0 or 1."""

    @cached_property
    def packed(self) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.integer]]:
        """Rows and where documents lie in them: input_ids, row_ptr, length."""
        return self.columns["input_ids"], self.segments["row_ptr"], self.segments["length"]

    @cached_property
    def own_segments(self) -> dict[str, NDArray[np.integer]]:
        """The segments without the ids that frame their rows: what is a document's own."""
        added = self.columns.get(ADDED_END)
        return self.segments if added is None else own_parts(self.segments, added, begins=self.begins)


class ShardRows(NamedTuple):
    """The rows of a batch that stand in one shard."""

    shard: int
    places: NDArray[np.int64]
    """(n,): where they stand in the batch."""
    rows: NDArray[np.int64]
    """(n,): their numbers in the shard."""


def map_shard(
    folder: Path, shard: Shard, manifest: Manifest, *, segments: Collection[str] = SEGMENT_COLUMNS
) -> MappedShard:
    """Map the arrays of a shard, their headers checked against the manifest."""
    path = here(folder / shard.path)
    columns = {
        name: open_array(path / f"{name}.npy", shape=(shard.rows, *column.shape), dtype=column.dtype)
        for name, column in manifest.columns.items()
    }
    lengths = dict.fromkeys(SEGMENT_COLUMNS, shard.segments) | {"row_ptr": shard.rows + 1}
    mapped = {
        name: open_array(
            path / "segments" / f"{name}.npy", shape=(lengths[name],), dtype=SEGMENT_COLUMNS[name]
        )
        for name in segments
    }
    traits, unigram = traits_of(read_objective(manifest.objective)), None
    if traits.unigram:
        unigram = open_array(path / UNIGRAM, shape=(manifest.vocab_size,), dtype="<i8")
    sentences = None
    if traits.sentences:
        parts = {"ptr": shard.documents + 1, "ends": None}
        ptr, ends = (
            open_array(path / SENTENCES / f"{name}.npy", shape=None if n is None else (n,), dtype="<i8")
            for name, n in parts.items()
        )
        sentences = Ragged(ptr.astype(np.int64), ends.astype(np.int64))
    prompt = None
    if traits.segment_prompts:
        prompt = open_array(path / SEGMENT_PROMPT, shape=(shard.segments,), dtype="<i4")
    begins = begins_of(manifest.row_frame)
    return MappedShard(columns, mapped, unigram, sentences, prompt, begins)  # type: ignore[arg-type]


def vocabulary_for(folder: Path, manifest: Manifest) -> Vocabulary:
    """Return the tokenizer's ids as a split's manifest and the tables beside it describe them."""
    starts_word = None
    if WORD_STARTS in manifest.tables:
        path = folder / WORD_STARTS
        starts_word = open_array(path, shape=(manifest.vocab_size,), dtype="|b1").astype(np.bool_)
    return vocabulary_of(manifest.vocab_size, manifest.special_ids, starts_word)


def row_files(shard: Shard) -> dict[str, FileDigest]:
    """Return the files of a shard that its rows are made of."""
    return {name: digest for name, digest in shard.files.items() if name not in _BESIDE}


def check_segments(shard: MappedShard, place: Path) -> None:
    """Refuse segments that do not lie in their rows: what reads them trusts their numbers.

    Args:
        shard: its row_ptr (R + 1,) must ascend from 0 to the segments, of which no row has more tokens
            than it is long.
        place: its folder, for messages.

    Raises:
        FormatError: they do not.
    """
    input_ids, row_ptr, length = shard.packed
    if row_ptr[0] != 0 or row_ptr[-1] != len(length) or (row_ptr[1:] < row_ptr[:-1]).any():
        raise FormatError(
            f"{place}: row_ptr must ascend from 0 to the {len(length):,} segments, and does not; the"
            " dataset was changed, so make it anew"
        )
    ends = np.concatenate([[0], np.cumsum(length, dtype=np.int64)])
    filled = ends[row_ptr[1:]] - ends[row_ptr[:-1]]
    if length.min(initial=0) < 0 or filled.max(initial=0) > input_ids.shape[1]:
        raise FormatError(
            f"{place}: row {int(filled.argmax())} has segments of {int(filled.max()):,} tokens, but rows"
            f" are of {input_ids.shape[1]:,}, or a length is below 0; the dataset was changed, so make"
            " it anew"
        )


def by_shard(shards: NDArray[np.int64], rows: NDArray[np.int64]) -> list[ShardRows]:
    """Return the parts of a batch, whose rows stand in these shards at these numbers: (N,) each."""
    order = shards.argsort(kind="stable")
    ends = {shard: end for end, shard in enumerate(shards[order].tolist(), 1)}  # its last entry stays
    begins, rows = [0, *ends.values()], rows[order]
    return [
        ShardRows(shard, order[begin:end], rows[begin:end])
        for begin, (shard, end) in zip(begins, ends.items(), strict=False)
    ]


def num_rows(parts: Sequence[ShardRows]) -> int:
    """Return how many rows a batch of these parts has."""
    return sum(len(part.rows) for part in parts)


def gather_rows(
    parts: Sequence[ShardRows], shard_at: Callable[[int], MappedShard], manifest: Manifest, *, epoch: int
) -> StoredRows:
    """Return the rows of a batch as they are stored.

    They may be of several shards, so what is a shard's own is left out: its number and counts of ids.

    Args:
        parts: the rows, by shard.
        shard_at: gives a shard by its number.
        manifest: of the split.
        epoch: the pass over the data.
    """
    rows = np.empty(num_rows(parts), np.int64)
    columns = {
        name: np.empty((len(rows), *column.shape), column.dtype)
        for name, column in manifest.columns.items()
    }
    ptr, lengths = np.zeros(len(rows) + 1, np.int64), [_NO_SEGMENTS] * len(rows)
    prompts: list[NDArray[np.integer]] = []
    for number, places, within in parts:
        shard = shard_at(number)
        if shard.segment_prompt is not None and not prompts:  # of one shard, of all
            prompts = [*lengths]
        rows[places] = within
        for name, column in columns.items():
            column[places] = shard.columns[name][within]
        row_ptr, length = shard.segments["row_ptr"], shard.segments["length"]
        first, last = row_ptr[within], row_ptr[within + 1]
        ptr[places + 1] = last - first
        for place, a, b in zip(places.tolist(), first.tolist(), last.tolist(), strict=True):
            lengths[place] = length[a:b]
            if shard.segment_prompt is not None:
                prompts[place] = shard.segment_prompt[a:b]
    return StoredRows(
        columns["input_ids"],
        ptr.cumsum(),
        np.concatenate([_NO_SEGMENTS, *lengths]).astype(np.int64),
        rows,
        seed=manifest.seed,
        epoch=epoch,
        shard=0,
        components=columns.get(OBJECTIVE_ID),
        room=columns.get(ROOM),
        prompt=columns.get(PROMPT),
        segment_prompt=np.concatenate([_NO_SEGMENTS, *prompts]) if prompts else None,
        loss_mask=columns.get(LOSS_MASK),
        added_end=columns.get(ADDED_END),
    )
