"""The tables of files that the driver puts for its workers."""

from dataclasses import dataclass, field
from pathlib import Path

from pipeline.state.commits import Commits
from pipeline.state.file_tables import FILES, FileTable, write_files
from stages.store.digests import digest_file
from stages.stores.cache import NodeCache
from stages.stores.store import Store


@dataclass(eq=False)
class PutTables:
    """The tables of a run, or of one later generation of it.

    Args:
        store: where the whole run is.
        cache: of this machine.
        run: the tree of the whole run.
        key: of the generation; empty for the run's own.
        is_writable: whether the run is held; else only workers of this machine have the tables.
    """

    store: Store
    cache: NodeCache
    run: Path
    key: str
    is_writable: bool
    changed: set[str] = field(default_factory=set)
    """Steps of which a new table is wanted."""
    _there: dict[str, FileTable] = field(default_factory=dict)
    """By step."""

    def put(self, commits: Commits) -> list[FileTable]:
        """Put the tables that are wanted; return all.

        Args:
            commits: of the run or generation.
        """
        if self.changed or not self._there:
            steps, first = commits.steps(), not self._there
            for step in steps:
                if step in self.changed or first:
                    self._put(step, commits)
            self._there = {step: self._there[step] for step in steps if step in self._there}
            self.changed.clear()
        return list(self._there.values())

    def _put(self, step: str, commits: Commits) -> None:
        begin = f"{self.key}/" if self.key else ""
        path = self.run / f"{begin}{FILES}" / f".{step}.parquet"
        files = {key: digest for _, one in commits.all(step) for key, digest in one.files.items()}
        before = self._there.pop(step, None)
        if not files:
            return
        write_files(path, files)
        digest = digest_file(path)
        key = f"{begin}{FILES}/{step}-{digest.sha256[:16]}.parquet"
        if before is not None and before.key == key:
            path.unlink()
            self._there[step] = before
            return
        if self.is_writable:
            self.store.put(key, path)
        self.cache.add(path, digest, self.run / key)
        self._there[step] = FileTable(key, digest, begin)
