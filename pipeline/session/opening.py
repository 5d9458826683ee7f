"""Opening: a run's folder is held by one process, which leaves it in order however it ends."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from pipeline.engine.memory import Need
from pipeline.engine.progress import Progress
from pipeline.engine.resources import WorkerResources
from pipeline.engine.watch import MemoryWatch
from pipeline.session.execution import Execution
from pipeline.state.commits import Commits
from pipeline.state.journal import Journal, end_last_line, read_lock, run_lock
from pipeline.state.read_only import ReadOnlyCommits
from pipeline.state.storage import LocalStorage, new_attempt, sweep
from pipeline.system.disk_faults import disk_faults
from pipeline.system.limits import require_address_space
from pipeline.system.stopping import reason_of, signals_stop, tidying


def new_watch(resources: WorkerResources, note: Callable[[str], None]) -> MemoryWatch:
    """Return a watch of what a run with these resources holds; tests put a cheaper one in its place."""
    return MemoryWatch(resources.memory, note)


@contextmanager
def open_execution(
    output: Path,
    resources: WorkerResources,
    *,
    needs: Mapping[str, Need],
    stream: TextIO | None,
    verbose: bool = False,
    own: Path | None = None,
) -> Iterator[Execution]:
    """Hold a run's folder and give the means to work in it; leave both in order.

    Args:
        output: folder of the run.
        resources: workers and memory.
        needs: the memory that a worker of each step may take.
        stream: where progress is shown.
        verbose: whether each unit of work is told.
        own: where this session writes, if the folder of the run is only read.

    Raises:
        Stopped: the libraries could not work here; nothing is written.
    """
    require_address_space()
    attempt = new_attempt()
    lock = run_lock if own is None else read_lock
    written = output if own is None else own
    with disk_faults(output), lock(output), signals_stop():
        sweep(written)
        end_last_line(written)
        journal = Journal(written, attempt)
        journal.log("start", workers=resources.workers)
        progress = Progress(journal, stream, verbose=verbose)
        root = output.resolve()
        commits = Commits(LocalStorage(root)) if own is None else ReadOnlyCommits(root, own)
        watch = new_watch(resources, progress.note)
        progress.watch_memory(lambda: watch.held, resources.memory)
        execution = Execution(root, attempt, resources, commits, journal, progress, watch, needs)
        try:
            with watch:
                yield execution
        except BaseException as error:
            with tidying():
                journal.log("stop", error=f"{type(error).__name__}: {error}")
                journal.status("stopped", error=reason_of(error))
            raise
        finally:
            with tidying():
                progress.close()
                execution.close()
                sweep(written)
                with suppress(OSError):  # a full disk has ended the run, and that is told
                    progress.keep_metrics(running=False)
        journal.log("stop")
