"""A run that any tool copied from a store to a folder: its log has all commits, so they are written.

FOLDER/log/...      came along
FOLDER/commits/...  are missing; once they are written, the folder is a run like any other
"""

import os
import tempfile
from pathlib import Path

from pipeline.state.commit_object import COMMITS
from pipeline.state.commits import PLAN
from pipeline.state.log import LOG_FOLDER, RunLog
from pipeline.state.progress_files import join_events
from pipeline.state.stored_commits import mirror
from stages.errors import ConfigError
from stages.store.folders import entries
from stages.store.generations import GENERATIONS
from stages.stores.folder import FolderStore

_WAY_OUT = "copy the run again"


def take_over_copy(folder: Path) -> None:
    """Write the commits of a run, and of its later generations, if it was copied from a store.

    Args:
        folder: of the run.

    Raises:
        ConfigError: nothing may be written there.
        FormatError: the log is damaged.
    """
    for place in (folder, *entries(folder / GENERATIONS)):
        if (place / LOG_FOLDER).is_dir() and not (place / COMMITS).exists():
            if not os.access(place, os.W_OK):
                raise ConfigError(
                    f"{place}: was copied from a store, and its commits must be written there once; make"
                    " the folder writable"
                )
            state = RunLog(FolderStore(place), way_out=_WAY_OUT).read().state
            with tempfile.TemporaryDirectory(prefix=".copied-", dir=place) as text:
                mirror(state, Path(text))
                join_events(place)
                (Path(text) / COMMITS).rename(place / COMMITS)  # whole, or not there
                if state.plan is not None:
                    (Path(text) / PLAN).replace(place / PLAN)
