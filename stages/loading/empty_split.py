"""A split that was not written: an earlier version wrote no validation split if nothing was held out."""

from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError

from stages.loading.dataset import Batch, ShardDataset
from stages.loading.split_reader import SplitReader

_RUN = "run.json"


class _Validation(BaseModel):
    fraction: float = 0.0


class _Settings(BaseModel):
    validation: _Validation = _Validation()


class _KeptRun(BaseModel):
    run: _Settings = _Settings()


class EmptySplit(ShardDataset):
    """0 rows, with the columns that the rows of another split of the dataset have.

    Args:
        other: the split that there is.
        split: the name of this one.
        epoch: the pass over the data.
        shuffle: as of `open_dataset`.
    """

    def __init__(self, other: ShardDataset, split: str, *, epoch: int, shuffle: bool) -> None:
        super().__init__(other.reader, epoch=epoch, shuffle=shuffle)
        self._other = other
        none = type(other.manifest.totals)(**dict.fromkeys(type(other.manifest.totals).model_fields, 0))
        self.manifest = other.manifest.model_copy(
            update={"split": split, "shards": (), "totals": none}
        ).signed()

    @property
    def folder(self) -> Path:
        """Where the split would be."""
        return self._other.folder.with_name(self.manifest.split)

    def __len__(self) -> int:
        """No row."""
        return 0

    @property
    def readers(self) -> tuple[SplitReader, ...]:
        """None: it has no rows."""
        return ()

    def keep(self, columns: Collection[str]) -> None:
        """Return these columns alone from now on.

        Raises:
            ConfigError: rows have no such column.
        """
        self._other.keep(columns)

    def _at(self, epoch: int, rows: NDArray[np.int64]) -> Batch:
        """Return no row, with its columns."""
        if len(rows):
            raise IndexError(f"row {rows[0]} of 0")
        return self._other.at(epoch, rows)


def holds_out(run: Path) -> bool:
    """Say whether a run may hold documents out; a run without a run.json that can be read does not."""
    try:
        return _KeptRun.model_validate_json((run / _RUN).read_bytes()).run.validation.fraction > 0
    except (OSError, ValidationError):
        return False
