"""Given files: what a run file names beside its inputs, found by the settings that name it."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pipeline.inputs.evaluation_sets import local_files
from pipeline.inputs.languages import parallel_files
from pipeline.run_file.config import RunFile
from stages.filtering.table import filter_of
from stages.store.digests import digest_file
from stages.stores.given import GivenFolder


def given_folders(file: RunFile) -> tuple[GivenFolder, ...]:
    """Return the files that tasks of a run read beside its inputs, by the folders that settings name.

    Args:
        file: the run, resolved.
    """
    found: defaultdict[Path, dict[str, Path]] = defaultdict(dict)
    for folder, name in _named(file):
        found[folder][name] = folder / name
    return tuple(
        GivenFolder(folder, {name: digest_file(path) for name, path in sorted(files.items())})
        for folder, files in sorted(found.items())
    )


def _named(file: RunFile) -> Iterator[tuple[Path, str]]:
    """Yield each file: a folder, and the path below it."""
    for wanted in file.decontamination.sets if file.decontamination is not None else ():
        for name, path in local_files(wanted):
            yield path.parents[len(PurePosixPath(name).parts) - 1], name
    tokenizer = file.tokenizer
    balance = tokenizer.train.parity.texts if tokenizer.train.is_balanced else None
    for folder in filter(None, (tokenizer.fairness.parallel, balance)):
        for path in parallel_files(Path(folder)).values():
            yield Path(folder), path.name
    single = [*tokenizer.fairness.others.values()]
    for one in file.filters:
        single += filter_of(one).files(one)
    for path in map(Path, single):
        yield path.parent, path.name
