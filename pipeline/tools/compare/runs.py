"""The runs that are compared: their datasets, and names by which they are told apart."""

from collections.abc import Sequence
from pathlib import Path

from pipeline.run_file.datasets import find_dataset, finished_splits
from pipeline.session.session import read_plan
from stages.errors import ConfigError
from stages.store.folders import entries


def chosen_datasets(folders: Sequence[Path], names: Sequence[str]) -> dict[Path, list[str]]:
    """Return the datasets to compare of each run, in the order of their names.

    Raises:
        ConfigError: no such run or dataset, or nothing to compare.
    """
    there = {
        folder: [path.name for path in entries(folder / "datasets") if finished_splits(path)]
        for folder in folders
    }
    for folder in folders:
        read_plan(folder)  # says so of what is no run
    for name in names:
        if not any(name in found for found in there.values()):
            find_dataset(folders[0], name)  # says which there are
    chosen = {
        folder: [name for name in found if not names or name in names] for folder, found in there.items()
    }
    if not any(chosen.values()):
        raise ConfigError(f"{folders[0]}: no dataset to compare; finish the run first")
    return chosen


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return names of run folders, of no two the same: their last parts, as many as that takes."""
    parts = 1
    while len({folder.parts[-parts:] for folder in folders}) < len(folders):
        parts += 1
    return ["/".join(folder.parts[-parts:]) for folder in folders]
