"""Files of an ingest unit that are written as records come: drops and signatures.

Neither is held: drops go out by the thousand, and a signature goes to a raw file beside, one row a
document, which is turned at the end into the array that later steps read, one column a document.
"""

from collections import Counter, defaultdict
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.steps.ingest.reading import InputPart
from stages.columns import DROPS, UNREADABLE, Drop, utf8_of
from stages.dedup.compared import compared_signatures
from stages.dedup.lsh import MinHashConfig
from stages.identity import document_id
from stages.ledger import IdSum, Tally

NAMED_DROPS = 3
"""Drops that a unit's record names; all of them stand in its drops.parquet."""
_OWN_ID = 4_096
"""Characters of an own id that stand in drops.parquet: one that is too long to be one is a drop."""
DROPS_HELD = 8_192
"""Drops in a row group: some 4 MiB while they are Python objects."""
ROWS_TURNED = 8_192
"""Signatures turned at a time: 4 MiB of 128 minima each."""


class DropsFile:
    """The drops of a unit, on their way to drops.parquet.

    Args:
        path: the file to write.
        part: what the unit reads.
    """

    def __init__(self, path: Path, part: InputPart) -> None:
        self._part = part
        self._held: list[tuple[str, Drop, str | None]] = []
        self._writer = pq.ParquetWriter(path, DROPS, compression="zstd")
        self._sums: defaultdict[str, IdSum] = defaultdict(IdSum)
        self.counts: Counter[str] = Counter()
        self.named: list[str] = []
        """The first drops."""
        self.unreadable: list[str] = []
        """The first of them that no filter made."""
        self.further_unreadable = 0
        """Lines that drops take beyond one each that no filter made."""

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what is held, and the one empty row group of a unit without drops."""
        if kind is None and (self._held or not self.counts):
            self._write()
        self._writer.close()

    def add(self, drop: Drop, path: str, own_id: str | None) -> None:
        """Count one drop of a file and take it to drops.parquet.

        Args:
            drop: the drop.
            path: of the file.
            own_id: of its document, if it was read so far.
        """
        self._name(drop, path, self.named)
        if drop.reason in UNREADABLE:
            self._name(drop, path, self.unreadable)
            self.further_unreadable += drop.lines - 1
        self.counts[str(drop.reason)] += 1
        self._sums[str(drop.reason)].add(document_id(self._part.source, path, drop.position))
        self._held.append((path, drop, None if own_id is None else own_id[:_OWN_ID]))
        if len(self._held) >= DROPS_HELD:
            self._write()

    def tallies(self) -> dict[str, Tally]:
        """Return the tally of what was dropped, by reason."""
        return {reason: total.tally() for reason, total in sorted(self._sums.items())}

    def _name(self, drop: Drop, path: str, named: list[str]) -> None:
        """Add where a drop stands, and why, to the first drops of their sort."""
        if len(named) < NAMED_DROPS:
            place = self._part.place_of(path, drop.line, drop.position)
            named.append(f"{place}: {drop.reason}: {drop.detail}")

    def _write(self) -> None:
        rows = [
            {
                "source": self._part.source,
                "path": path,
                "line": drop.line,
                "position": drop.position,
                "reason": str(drop.reason),
                "detail": drop.detail,
                "own_id": own_id,
            }
            for path, drop, own_id in self._held
        ]
        self._writer.write_table(pa.Table.from_pylist(rows, schema=DROPS))
        self._held = []


class SignaturesFile:
    """The signatures of a unit, on their way to signatures.npy, (num_perm, documents) uint32.

    Args:
        path: the file to write.
        config: shape of the signatures.
    """

    def __init__(self, path: Path, config: MinHashConfig) -> None:
        self._path = path
        self._beside = path.with_suffix(".rows")
        self._config = config
        self._rows = self._beside.open("w+b")
        self._count = 0

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Turn rows into columns, and leave nothing beside."""
        with self._rows:
            if kind is None:
                self._turn()
        self._beside.unlink()

    def add(self, texts: pa.ChunkedArray) -> None:
        """Sign some texts, a column of large strings."""
        num_perm = self._config.num_perm
        data, offsets = utf8_of(texts)
        for first in range(0, len(texts), ROWS_TURNED):
            part = offsets[first : first + ROWS_TURNED + 1]
            found = compared_signatures(data, part, self._config, num_perm=num_perm)
            self._rows.write(found.astype("<u4", copy=False).data)
        self._count += len(texts)

    def _turn(self) -> None:
        """Write the array block by block: N documents, P minima each."""
        lanes = self._config.num_perm
        shape = {"descr": "<u4", "fortran_order": False, "shape": (lanes, self._count)}
        self._rows.seek(0)
        with self._path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, shape)
            start = file.tell()
            for first in range(0, self._count, ROWS_TURNED):
                rows = np.frombuffer(self._rows.read(ROWS_TURNED * lanes * 4), "<u4").reshape(-1, lanes)
                for lane, column in enumerate(np.ascontiguousarray(rows.T)):
                    file.seek(start + 4 * (lane * self._count + first))
                    file.write(column.tobytes())
