"""The clusters of a unit's documents, as deduplication found them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.units import NAME, Unit, from_hex, named_table
from stages.identity import ID_BYTES


class Clusters:
    """The clusters of the documents that have a duplicate: 32 bytes each.

    Args:
        identities: (M, 16) uint8, ids of documents.
        clusters: (M, 16) uint8, the id of each cluster's root.
    """

    def __init__(self, identities: NDArray[np.uint8], clusters: NDArray[np.uint8]) -> None:
        names = np.ascontiguousarray(identities).view(NAME).reshape(-1)
        order = np.argsort(names)
        self._identities, self._clusters = names[order], clusters[order]

    def of(self, identities: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the cluster of each document, (N, 16) uint8: its duplicates' root, or itself."""
        found = np.array(identities)
        if not len(self._identities) or not len(found):
            return found
        names = np.ascontiguousarray(identities).view(NAME).reshape(-1)
        places = np.searchsorted(self._identities, names)
        places[places == len(self._identities)] = 0
        members = np.flatnonzero(self._identities[places] == names)
        found[members] = self._clusters[places[members]]
        return found


def clusters_of(workspace: Workspace, unit: Unit) -> Clusters:
    """Return the clusters of a unit's documents."""
    parts = [(np.empty((0, ID_BYTES), np.uint8),) * 2]
    path = workspace.path(unit.clusters)
    with named_table(path), pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups):
            number = file.metadata.row_group(group).column(0).statistics
            if number.max < unit.first or number.min >= unit.last:
                continue
            table = file.read_row_group(group, columns=["number", "id", "cluster"], use_threads=False)
            numbers = table.column("number").to_numpy()
            table = table.filter(pa.array((numbers >= unit.first) & (numbers < unit.last)))
            parts.append((from_hex(table.column("id")), from_hex(table.column("cluster"))))
    identities, clusters = zip(*parts, strict=True)
    return Clusters(np.concatenate(identities), np.concatenate(clusters))
