"""The replacement: one run in place of a folder and its generations, made beside them until it is whole.

    DIR/.replacement/          the new run; what it keeps of generation 0 are hard links
    DIR/.replacement/.whole    it is whole: what moves into DIR, and what goes there

A run may be refused as late as its last step, for a text column that no record has or a limit of
deduplication. Until `.whole` is there, nothing in DIR has changed. Once it is, every `run` goes on with
the exchange, wherever a kill has left it.

Replacing: what `--replace` makes again of a folder with later generations, and what it deletes.

Other settings or files that change what is read or kept decide every generation anew: then all files
become one run. Other changes make the same steps again in each generation.
"""

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pipeline.inputs.own_files import REPLACEMENT
from pipeline.planning.plan import State, StepStatus
from pipeline.session.damage import FOLDERS
from pipeline.state.commit_object import COMMITS
from pipeline.state.journal import LOCK, LOG, METRICS, STATUS
from pipeline.state.storage import TEMPORARY, replace_file
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.selection import SELECTING
from stages.errors import FormatError
from stages.store.digests import sync_path
from stages.store.folders import entries
from stages.store.generations import GENERATIONS

_WHOLE = ".whole"
_PART = f"{REPLACEMENT}.part"
_OF_THE_FOLDER = {GENERATIONS, LOCK, LOG, STATUS, METRICS, TEMPORARY}
"""What is not taken along: it is of the folder, not of its run."""
_WRITTEN_IN_PLACE = {"report", "verify"}
"""Folders with files that are written again without a new name: a link would change the old run's."""
_OF_A_RUN = {COMMITS, *FOLDERS, *_WRITTEN_IN_PLACE}


def begin_replacement(output: Path) -> Path:
    """Return the folder of the new run, begun with what generation 0 has if there is none yet.

    Args:
        output: the folder of the run and of its generations, which the caller holds.
    """
    beside = output / REPLACEMENT
    if beside.exists():
        return beside
    part = output / _PART
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    for path in entries(output):
        if path.name in _OF_THE_FOLDER or path.name.startswith("."):
            continue
        copy = shutil.copy2 if path.name in _WRITTEN_IN_PLACE else _link
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, part / path.name, copy_function=copy, symlinks=True)
        else:
            copy(path, part / path.name)
    part.rename(beside)
    return beside


def _link(source: Path | str, target: Path | str) -> None:
    """Link a file, or copy it where the file system has no hard links."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


def mark_whole(output: Path) -> None:
    """Note that the new run is whole, and what the exchange is to do, which only goes on from now."""
    beside = output / REPLACEMENT
    new = {path.name for path in entries(beside) if path.name not in _OF_THE_FOLDER}
    old = {path.name for path in entries(output)}
    content = {"move": sorted(new), "remove": sorted(old & _OF_A_RUN - new)}
    replace_file(beside / _WHOLE, json.dumps(content).encode())


def finish_replacement(output: Path) -> None:
    """Put a whole new run in the place of the old one and of its generations, the last of these first.

    A kill between two of these steps leaves the rest to the next call.
    """
    beside = output / REPLACEMENT
    content = json.loads((beside / _WHOLE).read_bytes())
    for folder in reversed(entries(output / GENERATIONS)):
        _remove(folder)
    _remove(output / GENERATIONS)
    for name in content["remove"]:
        _remove(output / name)
    for name in content["move"]:
        if os.path.lexists(beside / name):
            _remove(output / name)
            (beside / name).rename(output / name)
    sync_path(output)
    if (beside / LOG).exists():
        with (output / LOG).open("ab") as log:
            log.write((beside / LOG).read_bytes())
        (beside / LOG).unlink()
    (beside / _WHOLE).unlink()
    shutil.rmtree(beside)


def waits_for_exchange(output: Path) -> bool:
    """Say whether a new run is whole that a kill kept from its place."""
    return (output / REPLACEMENT / _WHOLE).exists()


def _remove(path: Path) -> None:
    """Remove what is there, under a name that nobody reads: never does half of it look whole."""
    if not os.path.lexists(path):
        return
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    hidden = path.with_name(f".{path.name.removeprefix('.')}.removed")
    shutil.rmtree(hidden, ignore_errors=True)
    path.rename(hidden)
    shutil.rmtree(hidden)


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
    contents = f"{documents:,} documents, {datasets:,} {'dataset' if datasets == 1 else 'datasets'}"
    return f"{which} ({contents}) {'is' if one else 'are'} deleted and all files become one run"


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
        whole = RunFolder(folder).commits.whole(INGEST.name)
    except FormatError:
        return 0
    return 0 if whole is None else sum(unit.documents for unit in whole.read(INGEST.record).units)
