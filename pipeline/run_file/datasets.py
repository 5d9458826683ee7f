"""The splits of a dataset that are finished."""

from pathlib import Path

from stages.store.manifest import MANIFEST_NAME

SPLITS = ("train", "validation")


def finished_splits(dataset: Path) -> tuple[str, ...]:
    """Return the splits of a dataset that have a manifest, training first."""
    return tuple(split for split in SPLITS if (dataset / split / MANIFEST_NAME).exists())
