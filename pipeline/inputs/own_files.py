"""Own files: what a run wrote is no input of it, though patterns of its sources match it.

paths = ["**/*.md"], --output run-output      run-output/report/card.md is not read by the next call
"""

import os
from collections.abc import Sequence
from pathlib import Path

from pipeline.inputs.places import Place
from stages.store.generations import GENERATIONS

TRIAL = ".inputs"
"""Behind the name of a run's folder: the folder of what is read in a trial."""
REPLACEMENT = ".replacement"
"""In a run's folder, the folder of the run that is to take its place and that of its generations."""
COMMITS, LOG = "commits", "log.jsonl"
"""What the folder of every run has."""


def own_folders(output: Path | None) -> tuple[Path, ...]:
    """Return the folders that a run writes into, whichever of its generations is meant."""
    if output is None:
        return ()
    place = Path(os.path.realpath(output))
    place = place.parent if place.name == REPLACEMENT else place
    top = place.parent.parent if place.parent.name == GENERATIONS else place
    return top, Path(f"{top}{TRIAL}")


def is_own(place: Place, folders: Sequence[Path]) -> bool:
    """Say whether a file lies in one of these folders."""
    real = Path(os.path.realpath(place)) if folders and isinstance(place, Path) else None
    return real is not None and any(real.is_relative_to(folder) for folder in folders)
