"""Replacing: what `--replace` makes again of a folder with later generations, and what it deletes.

Other settings or files that change what is read or kept decide every generation anew: then all files
become one run. Other changes make the same steps again in each generation.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.planning.plan import State, StepStatus
from pipeline.state.commits import Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.selection import SELECTING
from stages.errors import FormatError
from stages.store.folders import entries
from stages.store.generations import GENERATIONS

DECIDING = frozenset({INGEST.name, *SELECTING})
"""Steps that decide what is read, and which documents are kept."""


def decides_again(statuses: Sequence[StepStatus]) -> bool:
    """Say whether a step is stale that decides what generation 0 reads or keeps."""
    return any(one.state is State.STALE and one.step.name in DECIDING for one in statuses)


def deleted_generations(output: Path) -> str | None:
    """Say which generations go if all files become one run; None if there are none.

    "generations 0001 to 0003 (1,204 documents, 3 datasets) are deleted and all files become one run"
    """
    folders = _generations(output)
    if not folders:
        return None
    documents = sum(map(_documents, folders))
    datasets = sum(len(entries(folder / "datasets")) for folder in folders)
    first, last = folders[0].name, folders[-1].name
    one = first == last
    which = f"generation {first}" if one else f"generations {first} to {last}"
    held = f"{documents:,} documents, {datasets:,} {'dataset' if datasets == 1 else 'datasets'}"
    return f"{which} ({held}) {'is' if one else 'are'} deleted and all files become one run"


def with_replacement(output: Path, statuses: Sequence[StepStatus]) -> list[StepStatus]:
    """Return statuses that say what `--replace` does to a folder with later generations.

    Args:
        output: the run's folder.
        statuses: of generation 0.
    """
    deleted = deleted_generations(output) if any(one.state is State.STALE for one in statuses) else None
    if deleted is None:
        return list(statuses)
    if not decides_again(statuses):
        again = ", ".join(one.step.name for one in statuses if one.state is State.STALE)
        deleted = f"{again} and what reads it are made again in each generation; all else stays"
    return [replace(one, replaced=deleted) if one.state is State.STALE else one for one in statuses]


def _generations(output: Path) -> list[Path]:
    """Return what lies in the folder of generations, whether it is whole or not."""
    return [path for path in entries(output / GENERATIONS) if path.is_dir() and path.name.isdecimal()]


def _documents(folder: Path) -> int:
    """Return how many documents a generation read and did not drop; 0 if that is not known."""
    try:
        whole = Commits(LocalStorage(folder)).whole(INGEST.name)
    except FormatError:
        return 0
    return 0 if whole is None else sum(unit.documents for unit in whole.read(INGEST.record).units)
