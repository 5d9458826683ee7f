"""Commits of a run in a store: the log is the truth, and a tree on this machine mirrors it.

    worker    puts the files of a unit under their keys, reports digests and tags
    put       an entry of the log, then the commit in the tree
    drop      an entry of the log, then the objects, manifests first, then the tree
    release   likewise

The tree is a folder with the run's keys in which commits lie as in a run's own folder, so that what
reads them there works as it is; of other files it has those that were asked for. It is made anew from
the log when a session begins, and is never truth.
"""

import contextlib
import json
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from pipeline.state.commit_object import COMMITS, Commit, commit_key
from pipeline.state.commits import PLAN, Commits, DroppedUnits
from pipeline.state.log import CommitEntry, DropEntry, LogState, PlanEntry
from pipeline.state.log_writer import LogWriter
from pipeline.state.publishing import Outcome
from pipeline.state.storage import replace_file
from pipeline.state.tree import CommittedFiles, Tree, TreeStorage, put_files
from stages.config import canonical_json
from stages.store.digests import FileDigest
from stages.store.drawn import DRAWN_NAME
from stages.store.manifest import MANIFEST_NAME
from stages.stores.pins import Hold

_MANIFESTS = (f"/{MANIFEST_NAME}", f"/{DRAWN_NAME}")
DELETED_AT_ONCE = 1_000
"""Objects of one batch; each begins with a look at the lease."""


class TreeCommits(Commits):
    """The commits of a run in a store, as its log said when it was opened.

    Args:
        storage: of the tree.
    """

    def __init__(self, storage: TreeStorage) -> None:
        super().__init__(storage)

    def unchecked(self, step: str) -> dict[str, FileDigest]:
        """Return nothing: each file is held to its digest when it is brought."""
        del step
        return {}


class StoredCommits(TreeCommits):
    """The commits of a run in a store, for the process that works on it.

    Args:
        tree: the folder that mirrors the run here.
        files: that are committed; kept up.
        writer: of the run's log.
        hold: that keeps manifests in the tree, by which people see what datasets there are.
    """

    def __init__(self, tree: Tree, files: CommittedFiles, writer: LogWriter, hold: Hold) -> None:
        super().__init__(TreeStorage(tree.root, files))
        self._tree = tree
        self._store = tree.store
        self._files = files
        self._writer = writer
        self._hold = hold

    def _publish(self, commit: Commit, outcome: Outcome) -> None:
        """Put what is not in the store yet, then write the log, then the tree."""
        tags = dict(outcome.published.tags)
        if len(tags) < len(outcome.files):
            self._writer.require()
            left = {key: digest for key, digest in outcome.files.items() if key not in tags}
            tags |= put_files(self._store, outcome.folder, left, self._tree.cache, self._tree.root)
        self._writer.add(CommitEntry(commit=commit, tags=tags))
        self._files.add(outcome.files)
        super()._publish(commit, Outcome(outcome.folder, {}))
        bring_manifests(self._tree, outcome.files, self._hold)

    def _remove(self, step: str, dropped: DroppedUnits) -> None:
        self._writer.add(DropEntry(step=step, units=dropped.units))
        self._writer.flush()
        self.delete_objects(dropped.manifests)
        self.delete_objects(dropped.files)
        self._files.remove(dropped.files)
        super()._remove(step, dropped)

    def release(self, step: str, passing: tuple[str, ...]) -> None:
        """Remove what only the work on a step needed, once the step is whole without it."""
        gone = [unit for unit in self.units(step) if unit.startswith(passing)]
        commits = [self.read(step, unit) for unit in gone]
        if gone:
            self._writer.add(DropEntry(step=step, units=tuple(gone)))
            self._writer.flush()
            keys = [key for one in commits if one is not None for key in one.files]
            self.delete_objects(keys)
            self._files.remove(keys)
        super().release(step, passing)

    def delete_objects(self, keys: Collection[str]) -> None:
        """Remove objects; each batch begins with a look at the lease."""
        some = list(keys)
        for first in range(0, len(some), DELETED_AT_ONCE):
            self._writer.require()
            self._store.delete(some[first : first + DELETED_AT_ONCE])

    def plan(self, content: dict[str, object]) -> None:
        """Say in the log what run.json says."""
        self._writer.add(PlanEntry(plan=content))


def bring_manifests(tree: Tree, files: Mapping[str, FileDigest], hold: Hold) -> None:
    """Have the manifests among some files in a tree, until a hold ends.

    Raises:
        DataError: one is gone, or has other bytes.
    """
    for key, digest in files.items():
        if key.endswith(_MANIFESTS):
            tree.cache.bring(tree.store, key, digest, tree.root / key, hold)


def mirror(state: LogState, tree: Path, *, written: bytes | None = None) -> None:
    """Write the commits and the plan of a log into a tree, and nothing else of either.

    Args:
        state: of the log.
        tree: the folder.
        written: run.json as it is in the store: of the same plan these bytes stay, with their order.
    """
    shutil.rmtree(tree / COMMITS, ignore_errors=True)
    (tree / PLAN).unlink(missing_ok=True)
    for commit in _commits(state):
        place = tree / commit_key(commit.step, commit.unit)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(canonical_json(commit))
    if state.plan is not None:
        tree.mkdir(parents=True, exist_ok=True)
        replace_file(tree / PLAN, _plan_bytes(state.plan, written))


def _plan_bytes(plan: dict[str, object], written: bytes | None) -> bytes:
    with contextlib.suppress(ValueError):
        if written is not None and json.loads(written) == plan:
            return written
    return (json.dumps(plan, indent=1) + "\n").encode()


def _commits(state: LogState) -> Iterable[Commit]:
    for units in state.commits.values():
        for entry in units.values():
            yield entry.commit
