"""Where trees lie on a machine: one for who works on a run, and one for each who reads it.

CACHE/trees/DIGEST/NAME        of a run that this machine works on; locked by the process that does
CACHE/trees/reading-.../NAME   of one reader; gone when it ends
"""

import contextlib
import fcntl
import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from stages.errors import Stopped
from stages.store.folders import entries
from stages.stores.cache import NodeCache
from stages.stores.store import Store

TREES = "trees"
_READING = "reading-"


def tree_of(store: Store, cache: NodeCache) -> Path:
    """Return where the tree of a run lies on this machine; its name is the run's."""
    digest = hashlib.sha256(store.place.encode()).hexdigest()[:24]
    tree = cache.folder.resolve() / TREES / digest / store.place.rpartition("/")[2]
    tree.mkdir(parents=True, exist_ok=True)
    return tree


@contextlib.contextmanager
def passing_folder(trees: Path) -> Iterator[Path]:
    """Yield a folder for the tree of one reader; those of readers that were killed go."""
    trees.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with (trees / ".lock").open("a") as making:  # nobody takes a new one for one that was left
            fcntl.flock(making, fcntl.LOCK_EX)
            for folder in entries(trees):
                if not folder.name.startswith(_READING):
                    continue
                with contextlib.suppress(OSError), (folder / "lock").open("a") as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            folder = Path(tempfile.mkdtemp(prefix=_READING, dir=trees))
            lock = stack.enter_context((folder / "lock").open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            fcntl.flock(making, fcntl.LOCK_UN)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def lock_tree(tree: Path, place: str) -> Iterator[None]:
    """Hold a tree on this machine.

    Args:
        tree: the folder.
        place: the URL of its run, for messages.

    Raises:
        Stopped: another process here works on the same run.
    """
    with (tree.parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Stopped(
                f"{place}: in use by another process of this machine; wait for it, then run again"
            ) from error
        yield
