"""Rows as a dataset of Hugging Face `datasets`, for trainers that take no other: TRL's, for instance.

Nothing is copied or converted beforehand: rows are read when they are asked for.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from stages.errors import ConfigError
from stages.loading.arguments import whole_number
from stages.loading.dataset import Batch, ShardDataset
from stages.loading.masks import token_mask

if TYPE_CHECKING:
    from datasets import IterableDataset

ATTENTION_MASK = "attention_mask"
TRAINED_ON = ("input_ids", ATTENTION_MASK, "labels")
"""The columns that trainers of transformers read."""
_READ_AHEAD = 256
"""Rows that are read together."""


def to_iterable_dataset(
    rows: ShardDataset, *, columns: Sequence[str] = TRAINED_ON, epochs: int = 1
) -> "IterableDataset":
    """Return the rows of one or several epochs as an IterableDataset of Hugging Face `datasets`.

    >>> trainer = SFTTrainer(model, args=SFTConfig(max_length=rows.seq_len), train_dataset=dataset)

    Args:
        rows: the dataset, whose present epoch is the first one that is given. It stays in this epoch,
            and moving it later changes nothing.
        columns: of each row, lists of int64; `attention_mask` is 1 for a token and 0 for padding.
        epochs: passes over the data, each with its own order and masks. Each iteration of the returned
            dataset gives all of them, so a trainer takes it for one epoch.

    Raises:
        ConfigError: the package `datasets` is missing, or rows have no such column or epoch.
    """
    if whole_number("epochs", epochs) < 1:
        raise ConfigError(f"epochs = {epochs}: must be at least 1")
    try:
        from datasets import Features, IterableDataset, List, Value  # noqa: PLC0415  # an optional package
    except ImportError as error:
        raise ConfigError(f"to_iterable_dataset: needs the package datasets, and {error}") from error
    first = chosen_columns(rows.batch([0] if len(rows) else []), columns)
    shapes = {name: column.shape[1:] for name, column in first.items()}
    kinds = {name: Value("int64") for name in shapes}
    for name, shape in shapes.items():
        for size in reversed(shape):
            kinds[name] = List(kinds[name], length=size)
    return IterableDataset.from_generator(
        read_rows,
        features=Features(kinds),
        gen_kwargs={
            "rows": rows,
            "columns": tuple(columns),
            "begin": rows.epoch,
            "end": rows.sound_epoch(rows.epoch + epochs - 1) + 1,
        },
    )


def read_rows(
    rows: ShardDataset, columns: Sequence[str], begin: int, end: int
) -> Iterator[dict[str, object]]:
    """Yield the rows of the epochs from `begin` to before `end`, each column a list.

    A function of its arguments: the dataset stays in its epoch, so every pass gives the same rows.
    """
    for epoch in range(begin, end):
        for start in range(0, len(rows), _READ_AHEAD):
            batch = rows.at(epoch, np.arange(start, min(start + _READ_AHEAD, len(rows))))
            lists = {name: column.tolist() for name, column in chosen_columns(batch, columns).items()}
            for values in zip(*lists.values(), strict=True):
                yield dict(zip(lists, values, strict=True))


def chosen_columns(batch: Batch, names: Sequence[str]) -> Batch:
    """Return some columns of a batch, among them the mask of padding.

    Raises:
        ConfigError: there is no such column.
    """
    columns = dict(batch)
    if ATTENTION_MASK not in columns:
        mask = token_mask(columns)
        if mask is not None:
            columns[ATTENTION_MASK] = mask.astype(np.int64)
    absent = [name for name in names if name not in columns]
    if absent:
        raise ConfigError(f"columns: rows have no {absent[0]}; they have {', '.join(sorted(columns))}")
    return {name: columns[name] for name in names}
