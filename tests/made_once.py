"""Folders that many tests read and none changes, made once for all processes of a test run.

pytest-xdist gives each of its processes fixtures of its own: what costs seconds would be made in each.
"""

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

LOCK = "lock"
"""Name of the file that reading a run may touch."""


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    """Return the size and the time of the last change of each file."""
    found = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {
        path.relative_to(folder).as_posix(): (of.st_size, of.st_mtime_ns)
        for path, of in found.items()
        if path.name != LOCK
    }


@dataclass
class MadeOnce:
    """Makes folders, or finds those that another process of the same test run has made.

    Args:
        place: a folder that all processes of the test run share.
    """

    place: Path
    _looked: dict[Path, dict[str, tuple[int, int]]] = field(default_factory=dict)

    def __call__(self, make: Callable[[Path], Any]) -> Path:
        """Return the folder that `make` fills.

        Args:
            make: a function of a module, or a `partial` of one whose arguments have a `repr` of their
                content. It gets a path at which nothing is.
        """
        called = make if isinstance(make, partial) else partial(make)
        function, keywords = called.func, sorted(called.keywords.items())
        key = f"{function.__module__}.{function.__qualname__} {called.args!r} {keywords!r}"
        folder = self.place / hashlib.sha256(key.encode()).hexdigest()[:12]
        folder.mkdir(parents=True, exist_ok=True)
        made, whole = folder / "made", folder / "whole"
        with (folder / "waiting").open("w") as waiting:
            fcntl.flock(waiting, fcntl.LOCK_EX)
            if not whole.exists():
                shutil.rmtree(made, ignore_errors=True)  # of a test that failed while it made it
                make(made)
                whole.write_text(key)
        if made not in self._looked:
            self._looked[made] = files_of(made)
        return made

    def changed(self) -> list[str]:
        """Return the files that are not as they were: tests that change a run copy it first."""
        return [
            f"{made / name} of {(made.parent / 'whole').read_text()}"
            for made, looked in self._looked.items()
            for name in sorted({name for name, _ in looked.items() ^ files_of(made).items()})
        ]
