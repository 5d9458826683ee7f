"""Verify, the part of mixes: what the rows of a shard hold of each source and language.

shard     documents, tokens in rows and tokens cut, counted from its segments and its own list of
          documents; of a mix also sums over rows, and what its rows give to windows of the epoch
dataset   the sum over its shards, held to what was planned and asked (`stages.mixing.audit`)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import Field

from pipeline.steps.mix.choose import MixRecord
from pipeline.steps.mix.step import MixFindings
from stages.config import Config
from stages.errors import FormatError
from stages.loading.dataset import ShardDataset
from stages.loading.mapped import MappedShard
from stages.loading.split_reader import SplitReader
from stages.mixing.audit import CountedMix, add_classes
from stages.mixing.audited import PackedClass
from stages.mixing.config import DatasetMix
from stages.mixing.windows import (
    RowSums,
    add_sums,
    add_windows,
    row_entries,
    sum_rows,
    sum_windows,
    window_positions,
    window_size,
    window_starts,
)
from stages.store.manifest import Manifest

_COLUMNS = ("source", "language", "tokens")


class MixCounts(Config):
    """What was counted of a shard."""

    classes: tuple[PackedClass, ...]
    rows: RowSums | None = None
    """Sums over its rows, of datasets with a mix."""
    windows: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """Tokens that its rows have in each window of epoch 0, by source; likewise."""


@dataclass(frozen=True, eq=False)
class _ShardList:
    """What a shard's list says of its documents."""

    sources: tuple[str, ...]
    source: NDArray[np.int64]
    """(D,) its number."""
    languages: tuple[str, ...]
    language: NDArray[np.int64]
    """(D,) its number."""
    tokens: NDArray[np.int64]
    """(D,) its own, whether they are in rows or not."""


def count_shard(
    folder: Path, number: int, mapped: MappedShard, manifest: Manifest, *, mixed: bool
) -> MixCounts:
    """Count what the rows of a shard hold of each source and language.

    Args:
        folder: of the split.
        number: of the shard.
        mapped: its arrays; its segments are sound.
        manifest: of the split.
        mixed: whether to sum up rows and windows too.

    Raises:
        FormatError: segments name documents that the list does not have.
        OSError, pa.ArrowException: the list cannot be read.
    """
    shard, segments = manifest.shards[number], mapped.own_segments
    listed = _read_listed(folder / shard.path / "documents.parquet")
    doc, length = (np.asarray(segments[name], np.int64) for name in ("doc", "length"))
    if doc.max(initial=-1) >= len(listed.tokens):
        raise FormatError(f"{shard.path}: segments name document {int(doc.max())}, which is not listed")
    in_rows = np.bincount(doc, length, minlength=len(listed.tokens))  # exact below 2**53
    classes = _classes(listed, in_rows.astype(np.int64))
    if not mixed:
        return MixCounts(classes=classes)
    row = np.repeat(np.arange(shard.rows), np.diff(segments["row_ptr"]))
    entries = row_entries(shard.rows, row, listed.source[doc], length)
    reader = SplitReader(folder, manifest, check="size")
    first, rows = int(reader.first_rows[number]), int(reader.first_rows[-1])
    order = ShardDataset(reader).stored_rows(0, window_positions(rows))
    size = window_size(rows)
    return MixCounts(
        classes=classes,
        rows=sum_rows(entries, listed.sources),
        windows=sum_windows(entries, listed.sources, order=order, first=first, size=size),
    )


def count_mix(
    counts: Sequence[MixCounts],
    mix: DatasetMix,
    planned: MixRecord,
    checked: Sequence[MixFindings] = (),
) -> CountedMix:
    """Return what is known of a mix, of a dataset whose shards are all counted.

    Args:
        counts: of all shards of its training split.
        mix: of the dataset.
        planned: what it takes of each class.
        checked: what the token store says that it is to hold.
    """
    rows = add_sums(one.rows for one in counts if one.rows is not None)
    return CountedMix(
        mix,
        planned.shares,
        planned.classes,
        packed=add_classes(one.classes for one in counts),
        rows=rows,
        windows=add_windows((one.windows for one in counts), len(window_starts(rows.rows))),
        unweighted=planned.unweighted,
        asked=None if planned.rules is None else [own for one in checked for own in one.drawn],
        largest=max((one.largest for one in checked if one.largest is not None), default=None),
        later=planned.later,
    )


def _read_listed(path: Path) -> _ShardList:
    table = pq.read_table(path, columns=list(_COLUMNS), read_dictionary=list(_COLUMNS[:2]))
    (sources, source), (languages, language) = (_coded(table.column(name)) for name in _COLUMNS[:2])
    return _ShardList(sources, source, languages, language, table.column("tokens").to_numpy())


def _coded(column: pa.ChunkedArray) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the values of a column and the number of each row's value, (D,)."""
    if not column.num_chunks:
        return (), np.empty(0, np.int64)
    coded = column.unify_dictionaries().combine_chunks()
    if not pa.types.is_dictionary(coded.type):
        coded = coded.dictionary_encode()
    numbers = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return tuple(coded.dictionary.to_pylist()), numbers


def _classes(listed: _ShardList, in_rows: NDArray[np.int64]) -> tuple[PackedClass, ...]:
    """Return what each source and language has, from the tokens of each document in rows, (D,)."""
    width = max(len(listed.languages), 1)
    keys, place = np.unique(listed.source * width + listed.language, return_inverse=True)
    tokens, stored = (np.bincount(place, of, minlength=len(keys)) for of in (in_rows, listed.tokens))
    longest = np.zeros(len(keys), np.int64)
    np.maximum.at(longest, place, listed.tokens)
    return tuple(
        PackedClass(
            source=listed.sources[key // width],
            language=listed.languages[key % width],
            documents=documents,
            tokens=int(inside),
            tokens_cut=int(own - inside),
            longest=most,
        )
        for key, documents, inside, own, most in zip(
            keys.tolist(),
            np.bincount(place, minlength=len(keys)).tolist(),
            tokens.tolist(),
            stored.tolist(),
            longest.tolist(),
            strict=True,
        )
    )
