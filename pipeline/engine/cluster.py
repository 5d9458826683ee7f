"""The Ray cluster: started on loopback for a run, or joined by address; stopped with the run.

Ray puts the driver's current folder first on its workers' import path; an empty `working_dir` keeps
strangers named `stages` or `pipeline` out. The code itself comes from each node's installation and is
checked by digest.
"""

import contextlib
import errno
import os
import secrets
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import ray
import xxhash
from ray.exceptions import RayError

from pipeline.engine.memory import process_tree
from pipeline.engine.ray_guard import guard
from pipeline.engine.ray_room import ray_folder, require_ports, sessions_in
from pipeline.system.limits import limit_of
from pipeline.system.stopping import ends_process, install_again
from stages.errors import ConfigError, Stopped
from stages.kernel_cache import GIVEN
from stages.store.folders import files_below

OBJECT_STORE_SHARE = 16
"""Part of `memory` that Ray's object store gets: tasks pass through files, messages are small."""
_MIN_OBJECT_STORE = 80 << 20
_MAX_OBJECT_STORE = 1 << 30
_LEAN = {"MALLOC_ARENA_MAX": "2", "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
"""Workers give memory back: one heap for all libraries, which is trimmed after each task."""
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_prestart_worker_first_driver": "0"}
"""What Ray reads as it starts: it sends nothing home, and starts no process that no actor asked for. By
default it starts one for each core, in half a CPU second each, and without our environment, so that no
actor can use it."""
_RAY_ERRORS = (RayError, ConnectionError, RuntimeError, TimeoutError, OSError)
"""What `ray.init` raises where Ray does not start; and a bare `Exception` on too busy a machine."""

MAX_STARTS = 3
"""How often Ray is tried to start on a machine that may be busy."""

_DAEMONS = ("gcs_server", "raylet")
"""Without one of these Ray does nothing more."""
ANSWER_SECONDS = 30.0
"""Longest wait for Ray's control service: after 60 s without it, Ray ends this process unasked."""


class _StartError(Exception):
    """Ray did not start; its cause says how."""

    @property
    def is_of_time(self) -> bool:
        """Whether it may start at the next try: the system refused nothing, it took too long."""
        cause = self.__cause__
        return not isinstance(cause, OSError) or isinstance(cause, ConnectionError | TimeoutError)


@dataclass(frozen=True)
class ClusterConfig:
    """Where to run."""

    workers: int
    address: str | None
    memory: int


@contextlib.contextmanager
def ray_cluster(config: ClusterConfig, note: Callable[[str], None]) -> Iterator[None]:
    """Start or join Ray, and leave it again; a Ray that this process is in already is left alone.

    Args:
        config: where to run.
        note: tells people that a start is tried again.

    Raises:
        ConfigError: no cluster answers at the address; or this machine has neither a folder nor ports
            for a Ray of its own.
        Stopped: Ray does not start here.
    """
    if ray.is_initialized():
        yield
        return
    for setting, value in _SETTINGS.items():
        os.environ.setdefault(setting, value)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shardmill-")))
        if not config.address:
            stack.enter_context(guard(folder))
        stack.enter_context(_own_token(config, folder))
        empty = folder / "empty"
        empty.mkdir()
        known = set(process_tree(os.getpid()))
        if config.address:
            _join(config.address, empty, known)
        else:
            require_ports()
            _start(config, empty, known, stack.enter_context(ray_folder()), note)
        try:
            yield
        finally:
            _leave(known, joined=config.address is not None)
            shutil.rmtree(empty, ignore_errors=True)


def _leave(known: set[int], *, joined: bool) -> None:
    """Leave Ray, and end it if it is our own.

    `ray.shutdown` gives SIGTERM back to the system, so that the next one would kill this process
    without a word. Where one came already, others may follow: then Ray is left by ending this process.
    """
    if lost_daemon() is not None or (ends_process() and not joined):  # Ray would wait for what is lost
        _kill_below(known)
    if not ends_process():
        ray.shutdown()
        install_again()


@contextlib.contextmanager
def _all_or_nothing(known: set[int]) -> Iterator[None]:
    """Have Ray start with our signals; if it does not, end what it had started.

    Raises:
        _StartError: Ray did not start; everything else is raised as it is.
    """
    try:
        with _own_signals():
            yield
    except BaseException as error:
        _kill_below(known)
        if isinstance(error, _RAY_ERRORS) or type(error) is Exception:
            raise _StartError(str(error)) from error
        raise


def _kill_below(known: set[int]) -> None:
    """Kill the processes below this one that were not there before: Ray's, and what they started."""
    for pid in process_tree(os.getpid()):
        if pid not in known:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Put back our SIGTERM handler: Ray installs one that exits without tidying up."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _own_token(config: ClusterConfig, folder: Path) -> Iterator[None]:
    """Guard a Ray that starts here by a token in a private file (Ray's own is readable by all)."""
    if config.address or not os.environ.keys().isdisjoint(("RAY_AUTH_TOKEN_PATH", "RAY_AUTH_TOKEN")):
        yield
        return
    file = folder / "token"
    file.touch(mode=0o600)
    file.write_text(_token())
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(file)
    try:
        yield
    finally:
        os.environ.pop("RAY_AUTH_TOKEN_PATH", None)


@cache
def _token() -> str:
    """Draw the token of this process: Ray reads one once, and keeps it for every later start."""
    return secrets.token_hex(32)


def _start(
    config: ClusterConfig, empty: Path, known: set[int], folder: Path, note: Callable[[str], None]
) -> None:
    """Start Ray on this machine, and try it again if that takes too long.

    Raises:
        Stopped: it did not start.
    """
    for tries in range(1, MAX_STARTS + 1):
        sessions = sessions_in(folder)
        try:
            with _all_or_nothing(known):
                _init(config, empty, folder)
        except _StartError as error:
            ray.shutdown()
            for session in sessions_in(folder) - sessions:
                shutil.rmtree(session, ignore_errors=True)
            if tries == MAX_STARTS or not error.is_of_time:
                raise Stopped(_why_not(error)) from error
            note(f"Ray did not start: {error}; trying it again")
        else:
            return


def _why_not(error: Exception) -> str:
    """Say why Ray did not start, and what to do."""
    limit = limit_of(errno.EAGAIN)
    also = "" if limit is None else f"; it takes some hundred threads, and {limit}"
    return (
        f"Ray did not start: {error}{also}. A busy machine may be the cause, too: run again to"
        " resume, or with --workers 0, which needs no Ray"
    )


def _init(config: ClusterConfig, empty: Path, folder: Path) -> None:
    """Start Ray on this machine once, with its sessions in a folder."""
    store = min(max(config.memory // OBJECT_STORE_SHARE, _MIN_OBJECT_STORE), _MAX_OBJECT_STORE)
    ray.init(
        address="local",
        num_cpus=config.workers,
        object_store_memory=store,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"working_dir": str(empty), "env_vars": _worker_variables()},
        _node_ip_address="127.0.0.1",
        _temp_dir=str(folder),
    )


def _join(address: str, empty: Path, known: set[int]) -> None:
    """Join the Ray at an address.

    Raises:
        ConfigError: none answers.
    """
    try:
        with _all_or_nothing(known):
            ray.init(
                address=address,
                log_to_driver=False,
                logging_level="ERROR",
                runtime_env={"working_dir": str(empty), "env_vars": _worker_variables()},
            )
    except _StartError as error:
        raise ConfigError(
            f"--address {address}: no cluster: {error}; a node of it must run on this machine (ray start"
            " --address), and if it asks for a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
        ) from error


def _worker_variables() -> dict[str, str]:
    """Return the environment of workers: lean, and with the folder of kernels that this process made.

    They make none of their own, which they would leave behind: Ray kills them.
    """
    return _LEAN | {GIVEN: os.environ.get(GIVEN, "")}


def num_gpus() -> int:
    """Return how many GPUs the cluster has."""
    return int(ray.cluster_resources().get("GPU", 0))


def lost_daemon() -> str | None:
    """Return the name of a daemon of our own Ray that ended, or None if all live."""
    node = ray._private.worker._global_node  # noqa: SLF001  # nothing public tells
    for name in _DAEMONS:
        for daemon in node.all_processes.get(name, ()) if node is not None else ():
            if daemon.process.poll() is not None:
                return name
    return None


def check_daemons() -> None:
    """Stop the run if a daemon of our own Ray ended; its clients would wait a minute and then exit.

    Raises:
        Stopped: one did.
    """
    name = lost_daemon()
    if name is not None:
        raise Stopped(f"Ray's {name} ended (killed, or out of memory); run again to resume")


@cache
def code_digest() -> str:
    """Return the digest of this program's modules, as this process would import them."""
    home = Path(__file__).resolve().parent.parent.parent
    digest = xxhash.xxh3_128()
    for folder in ("pipeline", "stages"):
        for path in sorted(path for path in files_below(home / folder) if path.suffix == ".py"):
            digest.update(path.relative_to(home).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()
