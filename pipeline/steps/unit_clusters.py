"""The clusters of a unit's documents, as deduplication found them."""

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.evidence import rows_of_unit
from pipeline.steps.units import Unit, as_names, from_hex, places_of_names


class Clusters:
    """The clusters of the documents that have a duplicate: 32 bytes each.

    Args:
        identities: (M, 16) uint8, ids of documents.
        clusters: (M, 16) uint8, the id of each cluster's root.
    """

    def __init__(self, identities: NDArray[np.uint8], clusters: NDArray[np.uint8]) -> None:
        names = as_names(identities)
        order = np.argsort(names)
        self._identities, self._clusters = names[order], clusters[order]

    def of(self, identities: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return the cluster of each document, (N, 16) uint8: its duplicates' root, or itself."""
        found = np.array(identities)
        places, members = places_of_names(self._identities, as_names(identities))
        found[members] = self._clusters[places[members]]
        return found


def clusters_of(workspace: Workspace, unit: Unit) -> Clusters:
    """Return the clusters of a unit's documents."""
    found = rows_of_unit(workspace, unit.clusters, unit, ["number", "id", "cluster"])
    return Clusters(from_hex(found.column("id")), from_hex(found.column("cluster")))
