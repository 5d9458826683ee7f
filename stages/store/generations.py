"""Generations: the folders of a run's later generations, numbered without a gap.

    DIR/                    generation 0
    DIR/generations/0001/   generation 1, decided against generation 0
    DIR/generations/0002/   generation 2, decided against both

What a generation removed as a copy may stand in an earlier one alone. So none may be missing but the
last ones: without these the folder is what it was before it grew.
"""

from collections.abc import Mapping
from pathlib import Path

from stages.errors import FormatError
from stages.store.folders import entries

GENERATIONS = "generations"
"""Folder in a run's folder of the runs over files that came later."""
_OF_THE_DISK = "lost+found"


def numbered_generations(root: Path) -> dict[int, Path]:
    """Return what lies in a run's folder of generations, by number, whether it is whole or not.

    Hidden files are the system's or the file server's.

    Args:
        root: the run's folder.

    Raises:
        FormatError: something there has no number of a generation.
    """
    found = {}
    for path in entries(root / GENERATIONS):
        if path.name.startswith(".") or path.name == _OF_THE_DISK:
            continue
        number = int(path.name) if path.name.isdecimal() and path.name.isascii() else 0
        if path.name != generation_name(number) or not number:
            raise FormatError(
                f"{path}: is no generation: their folders are called 0001, 0002 and so on. Give it back"
                " its name, or move it elsewhere"
            )
        found[number] = path
    return dict(sorted(found.items()))


def generation_name(number: int) -> str:
    """Return the name of a generation's folder: 7 -> 0007."""
    return f"{number:04d}"


def require_no_gap(root: Path, found: Mapping[int, Path], *, until: int | None = None) -> None:
    """Refuse a folder in which a generation is missing before the last.

    Args:
        root: the run's folder.
        found: its later generations by number.
        until: the last generation that is asked for; by default all that are there.

    Raises:
        FormatError: names the first that is missing, and the ways out.
    """
    last = max(found, default=0)
    for number in range(1, last if until is None else until + 1):
        if number not in found:
            raise missing_generation(root, number, last=last)


def missing_generation(root: Path, number: int, *, last: int, why: str = "is missing") -> FormatError:
    """Return the error of a generation that later ones rest on, and that is not what they rest on.

    Args:
        root: the run's folder.
        number: of the generation.
        last: the number of the last generation.
        why: what is wrong with it.
    """
    name = generation_name(number)
    until = f"{name} to {generation_name(last)}" if last > number else name
    return FormatError(
        f"{root / GENERATIONS / name}: generation {name} {why}, and later ones rest on it: what they"
        " removed as copies of its documents is nowhere else. Put the folder back as it was. If it is"
        f" lost, run with --replace: this deletes the generations and their datasets ({until} among"
        " them), and makes one run of all input files that are there, with other rows"
    )
