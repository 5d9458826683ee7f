"""What is chosen where an option is left out: the only dataset of a run."""

from pathlib import Path

from pipeline.planning.kept_plan import read_kept_plan
from pipeline.run_file.datasets import finished_splits
from pipeline.system.disk_faults import disk_faults
from stages.errors import ConfigError
from stages.export.table import FORMATS
from stages.export.texts import TEXT_FORMATS
from stages.store.folders import entries


def only_dataset(folder: Path, *, also: str = "") -> str:
    """Return the name of a run's dataset, if it has one alone.

    Args:
        folder: of the run.
        also: what else may be given, for the message.

    Raises:
        ConfigError: there is no run, or it has no finished dataset, or several.
    """
    with disk_faults(folder):
        names = [path.name for path in entries(folder / "datasets") if finished_splits(path)]
        if not names:
            read_kept_plan(folder)
    if not names:
        raise ConfigError(f"--dataset: {folder} has no finished dataset yet; run it to its end{also}")
    if len(names) > 1:
        raise ConfigError(f"--dataset: {folder} has {', '.join(sorted(names))}; name one{also}")
    return names[0]


def no_format() -> ConfigError:
    """Return the error of an export without a format: it lists them."""
    names = ", ".join((*FORMATS, *TEXT_FORMATS))
    return ConfigError(f"--format: name the trainer's, one of {names}; docs/exports.md")


def refuse_with_texts(name: str, **given: object) -> None:
    """Refuse options about a dataset, where texts are exported.

    Raises:
        ConfigError: one was given.
    """
    for option, value in given.items():
        if value:
            raise ConfigError(
                f"--{option}: {name} holds the texts that the run kept, not a dataset; leave it out"
            )
