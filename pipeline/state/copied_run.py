"""A run that any tool copied, from a store to a folder or from a folder to a store.

FOLDER/log/...      came along from a store and has all commits
FOLDER/commits/...  are missing; once they are written, the folder is a run like any other. Where nobody
                    may write, the folder is read as a store is
URL/commits/...     came along from a folder; they are what holds, beside a log too, and can only be read

No run writes commits/ into a store. So where they are, the folder was copied there later than all that
the log says, and nobody goes on from that log.
"""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipeline.state.commit_object import COMMITS, Commit, parse_commit, way_out
from pipeline.state.commits import PLAN
from pipeline.state.log import LOG_FOLDER, CommitEntry, LogState, PlanEntry, RunLog, number_key
from pipeline.state.progress_files import join_events
from pipeline.state.state_files import parse_model, parse_object
from pipeline.state.storage import replace_file
from pipeline.state.stored_commits import mirror
from stages.config import Config, canonical_json
from stages.errors import ConfigError, DataError, NoRightError
from stages.store.folders import entries
from stages.store.generations import GENERATIONS
from stages.stores.folder import FolderStore
from stages.stores.store import Store

_WAY_OUT = "copy the run again"
_AT_ONCE = 16
_COPIED = ".copied.json"
"""Says which log the commits of a folder are from."""


class _CopiedLog(Config):
    """The log of which the commits were written into a folder."""

    number: int
    """Of its last object."""


def take_over_copy(folder: Path) -> None:
    """Write the commits of a run, and of its later generations, if it was copied from a store.

    Args:
        folder: of the run.

    Raises:
        NoRightError: nothing may be written there.
        ConfigError: a newer log was copied there later.
        FormatError: the log is damaged.
    """
    for place in (folder, *entries(folder / GENERATIONS)):
        if not (place / LOG_FOLDER).is_dir():
            continue
        if (place / COMMITS).exists():
            _require_same_log(place)
            continue
        if not os.access(place, os.W_OK):
            raise NoRightError(
                f"{place}: was copied from a store, and its commits must be written there once; make"
                " the folder writable"
            )
        state = RunLog(FolderStore(place), way_out=_WAY_OUT).read().state
        with tempfile.TemporaryDirectory(prefix=".copied-", dir=place) as text:
            written = place / PLAN
            mirror(state, Path(text), written=written.read_bytes() if written.exists() else None)
            join_events(place)
            replace_file(place / _COPIED, canonical_json(_CopiedLog(number=state.number)))
            (Path(text) / COMMITS).rename(place / COMMITS)  # whole, or not there
            if state.plan is not None:
                (Path(text) / PLAN).replace(place / PLAN)


def _require_same_log(place: Path) -> None:
    """Refuse a folder to which a newer log was copied than the one that its commits are from.

    Raises:
        ConfigError: it is one.
        FormatError: what says which log they are from is damaged.
    """
    note = place / _COPIED
    if not note.exists():
        return
    number = parse_model(_CopiedLog, note.read_bytes(), note, way_out=_WAY_OUT).number
    if (place / number_key(number + 1)).exists():
        raise ConfigError(
            f"{place}: commits/ is from the first {number:,} objects of log/, and a newer log was copied"
            " there since; remove commits/ to have the run as log/ says, or log/ to have it as the"
            " folder was"
        )


def state_of(store: Store, *, way_out: str) -> LogState:
    """Return what is committed of a run, for who only reads it: as it was copied, or by its log.

    Args:
        store: where the run, or a later generation of it, is.
        way_out: what a user does about a damaged log.

    Raises:
        FormatError: the log or a commit is damaged.
    """
    copied = _state_of_copy(store)
    return copied if copied.number else RunLog(store, way_out=way_out).read().state


def _state_of_copy(store: Store) -> LogState:
    """Return what the log of a run would come to that was copied from a folder; its commits came along.

    Args:
        store: where the run, or a later generation of it, is.

    Raises:
        FormatError: a commit is damaged.
        DataError: one went while they were read.
    """
    state = LogState()
    keys = [one.key for one in store.list(COMMITS)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for commit in pool.map(lambda key: _commit_at(store, key), keys):
            state.add_entries([CommitEntry(commit=commit, tags={})])
    plan = store.get(PLAN) if keys else None
    if plan is not None:
        content = parse_object(plan.data, f"{store.place}/{PLAN}", way_out=_WAY_OUT)
        state.add_entries([PlanEntry(plan=content)])
    state.number = len(keys)
    return state


def _commit_at(store: Store, key: str) -> Commit:
    found = store.get(key)
    if found is None:
        raise DataError(f"{store.place}/{key}: went while the run was read; {_WAY_OUT}")
    step = key.split("/")[1]
    return parse_commit(found.data, Path(f"{store.place}/{key}"), way_out(step))


def require_no_copy(store: Store) -> None:
    """Refuse to work on a run that was copied from a folder.

    Args:
        store: where the run is.

    Raises:
        NoRightError: there is such a run.
    """
    if next(store.list(COMMITS), None) is None or store.get(PLAN) is None:
        return
    log = next(store.list(LOG_FOLDER), None)
    also = "" if log is None else "; what log/ says there is older: remove commits/ to go on from that"
    raise NoRightError(
        f"{store.place}: holds a run that was copied from a folder; it can be read here, and work on it"
        f" goes on in a folder{also}"
    )
