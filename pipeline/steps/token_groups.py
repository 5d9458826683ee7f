"""Token groups: the ids of one group of every unit of the token store, which a shard is made of.

A shard reads a part of every unit. So of a large unit in a store, only the ids of the group are brought.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pipeline.engine.tasks import Workspace
from pipeline.steps.partitions import sums_at
from pipeline.steps.units import Unit, open_unit
from stages.store.arrays import as_integers
from stages.store.token_store import TokenUnit
from stages.stores.ranges import ArrayRows, rows_here


def open_group(
    workspace: Workspace, units: Sequence[Unit], group: int, *, dtype: np.dtype[np.generic]
) -> list[TokenUnit]:
    """Return units of the token store, of whose own ids only those of one group are here.

    Args:
        workspace: where they are.
        units: of the token store.
        group: its number.
        dtype: of ids.

    Raises:
        FormatError: a file is missing, or the arrays contradict each other.
    """
    found, wanted, own = [], [], []
    for number, unit in enumerate(units):
        if unit.lender:
            found.append(open_unit(workspace.root, unit, groups=group + 1))
            continue
        for name in ("offsets.npy", "group_ptr.npy", "documents.parquet", "sections"):
            folder = workspace.path(f"{unit.tokens}/{name}").parent
        store = TokenUnit.open_without_ids(folder, groups=group + 1, dtype=dtype)
        begin, end = store.id_range(group)
        (xxh3,) = sums_at(workspace, unit.tokens, (group,), arrays=1)
        wanted.append(ArrayRows(f"{unit.tokens}/ids.npy", dtype.str, (), begin, end, xxh3))
        own.append(number)
        found.append(store)
    for number, rows, part in zip(own, wanted, rows_here(workspace.root, wanted), strict=True):
        ids = as_integers(part(), found[number].folder)
        found[number] = replace(found[number], ids=ids, begin=rows.first)
    return found
