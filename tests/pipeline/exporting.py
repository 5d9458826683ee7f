"""A run to export, and the call that exports it, for the tests."""

from pathlib import Path
from typing import Any

from pipeline.tools.export import dataset
from tests.stages.export.built_dataset import EOS, build_dataset

TRAIN = [[[10, 11, 12, 13, 14, EOS], [15, EOS]], [], [[EOS], [16, 17, 18, 19, EOS]]]
VALIDATION = [[[20, 21, EOS]]]
SPLITS = {"train": TRAIN, "validation": VALIDATION}
ENDS = {"train": [[[3, 6], [2]], [], [[1], [1, 3, 5]]], "validation": [[[1, 3]]]}


def build_both(run: Path) -> Path:
    """Write a dataset of both splits that stores where sentences end; give the run."""
    build_dataset(run, SPLITS, sentences=ENDS)
    return run


def export(run: Path, to: Path, format_: str = "megatron", **options: Any) -> Any:
    """Export the run's dataset."""
    return dataset.export(run, "tiny", format_, to, **options)


def contents(folder: Path) -> dict[str, bytes]:
    """Return the bytes of all files by name."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
