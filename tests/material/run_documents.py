"""The documents of a finished run, found by id or by the user's own id, their texts fetched in blocks.

Holds 32 bytes a document (ids, sizes and order); texts only for the numbers that are asked for. Numbers
here count documents file by file in the order of paths: they are this module's own, not the run's ranks.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

ID_BYTES = 16


@dataclass(frozen=True)
class RowGroup:
    """One row group of one file of documents."""

    path: Path
    group: int
    first: int
    """Number of its first document."""


class RunDocuments:
    """The documents that a run ingested.

    Args:
        run: the run's folder.
        own_ids: the user's own ids that will be asked for.
    """

    def __init__(self, run: Path, own_ids: Collection[str] = ()) -> None:
        self._groups: list[RowGroup] = []
        self.numbers: dict[str, list[int]] = {}
        """Numbers of the documents of each own id that was asked for, if there are any."""
        wanted = pa.array(sorted(own_ids), pa.string())
        ids, sizes, total = [b""], [np.empty(0, np.int64)], 0
        for path in sorted((run / "ingest").glob("*/*/documents.parquet")):
            for group, table in _groups(path):
                self._groups.append(RowGroup(path, group, total))
                found = pc.indices_nonzero(pc.is_in(table.column("own_id"), wanted)).to_pylist()
                for row in found:
                    own = table.column("own_id")[row].as_py()
                    self.numbers.setdefault(own, []).append(total + row)
                ids.append(b"".join(table.column("id").to_pylist()))
                sizes.append(table.column("text_bytes").to_numpy())
                total += table.num_rows
        self._ids = np.frombuffer(b"".join(ids), f"S{ID_BYTES}")
        self.text_bytes: NDArray[np.int64] = np.concatenate(sizes)
        self._order = np.argsort(self._ids)

    def __len__(self) -> int:
        """Documents."""
        return len(self._ids)

    def hex_id(self, number: int) -> str:
        """Return the id of a document as the run's tables write it."""
        return self._ids[number : number + 1].tobytes().hex()  # an item would lose zeros at its end

    def find(self, hex_ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of the document of each id; every id must be there.

        Raises:
            KeyError: one is not.
        """
        wanted = np.frombuffer(bytes.fromhex("".join(hex_ids)), f"S{ID_BYTES}")
        places = np.searchsorted(self._ids, wanted, sorter=self._order)
        numbers = self._order[np.minimum(places, len(self._order) - 1)]
        for hex_id in np.array(hex_ids)[self._ids[numbers] != wanted]:
            raise KeyError(str(hex_id))
        return numbers

    def texts(self, numbers: NDArray[np.int64]) -> Iterator[tuple[int, str]]:
        """Yield the texts of some documents, each once, reading each row group once."""
        wanted = np.unique(numbers)
        firsts = [group.first for group in self._groups] + [len(self._ids)]
        bounds = np.searchsorted(wanted, firsts)
        for group, low, high in zip(self._groups, bounds, bounds[1:], strict=False):
            if low < high:
                with pq.ParquetFile(group.path) as file:
                    texts = file.read_row_group(group.group, columns=["text"]).column("text")
                for number in wanted[low:high]:
                    yield int(number), texts[int(number) - group.first].as_py()


def _groups(path: Path) -> Iterator[tuple[int, pa.Table]]:
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            yield group, file.read_row_group(group, columns=["id", "own_id", "text_bytes"])
