"""The finished datasets of a run, by name."""

from pathlib import Path

from stages.errors import ConfigError
from stages.store.folders import entries
from stages.store.manifest import MANIFEST_NAME

SPLITS = ("train", "validation")


def find_dataset(folder: Path, name: str) -> Path:
    """Return the folder of a run's dataset.

    Raises:
        ConfigError: no such dataset.
    """
    there = {path.name: path for path in entries(folder / "datasets") if path.is_dir()}
    if name not in there:
        found = [dataset for dataset, path in there.items() if finished_splits(path)]
        what = f"datasets here: {', '.join(found)}" if found else "no dataset here"
        raise ConfigError(f"{folder}: no dataset {name!r}; {what}")
    return there[name]


def finished_splits(dataset: Path) -> tuple[str, ...]:
    """Return the splits of a dataset that have a manifest, training first."""
    return tuple(split for split in SPLITS if (dataset / split / MANIFEST_NAME).exists())
