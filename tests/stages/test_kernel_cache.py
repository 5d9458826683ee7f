"""Compiled kernels without a lasting place: in a folder of this user alone, or in memory; no fault."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace

import pytest
from numba import config as numba_settings

from stages import kernel_cache, kernels
from stages.kernel_cache import GIVEN, passing_folder
from tests.stages.loading.test_batches import numbered

pytestmark = pytest.mark.slow

ADDS = """
import json, os, sys, warnings
warnings.showwarning = lambda message, kind, *_: print(kind.__name__, file=sys.stderr)
from stages.dedup.survivors import final_clusters, undecided
final_clusters(undecided(3))
from stages.kernel_cache import passing_folder
folder = os.environ.get("SHARDMILL_KERNELS")
kept = [] if not folder else [name for _, _, files in os.walk(folder) for name in files]
mode = None if not folder or not os.path.exists(folder) else os.stat(folder).st_mode
print(json.dumps({"folder": folder, "kept": len(kept), "mode": mode}))
"""
NO_PLACE = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
"""Only the place that a user names, who names none: as where no folder can be written."""
_UNSET = {GIVEN, "XDG_CACHE_HOME", "PYTHONUNBUFFERED"}
"""What this process may have, and would decide where kernels are or when texts are written."""


FORKS = """
import json, os, sys, tempfile
import numba, numpy
numba.njit(lambda: numpy.zeros(3).sum())()  # the first code that is compiled takes longest
for line in sys.stdin:
    code, environment, streams = json.loads(line)
    child = os.fork()
    if not child:
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        for number, stream in enumerate(("/dev/null", *streams)):
            os.dup2(os.open(stream, os.O_RDWR | os.O_CREAT), number)
        exec(code)
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Runs programs, each in a fork of a process that has imported numba and nothing of ours."""


def environment_of(place: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process that keeps kernels nowhere, unless it makes a folder."""
    kept = {name: value for name, value in os.environ.items() if name not in _UNSET}
    return kept | NO_PLACE | {"TMPDIR": str(place)} | more


@pytest.fixture(scope="module")
def forking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[subprocess.Popen[str]]:
    """A process that runs programs in forks of its own, because importing numba takes seconds."""
    command, place = [sys.executable, "-c", FORKS], tmp_path_factory.mktemp("forking")
    with subprocess.Popen(
        command,
        env=environment_of(place),
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


Called = Callable[..., tuple[dict[str, object], str]]


@pytest.fixture
def called(forking: subprocess.Popen[str], tmp_path: Path) -> Called:
    """Return what uses a kernel in a new process: what it says of its folder, and what it warns of."""
    streams = tmp_path.with_name(f"{tmp_path.name}-out"), tmp_path.with_name(f"{tmp_path.name}-err")

    def call(place: Path, *, code: str = ADDS, **more: str) -> tuple[dict[str, object], str]:
        assert forking.stdin is not None
        assert forking.stdout is not None
        for stream in streams:
            stream.write_text("")
        task = (code, environment_of(place, **more), [str(stream) for stream in streams])
        forking.stdin.write(json.dumps(task) + "\n")
        forking.stdin.flush()
        said, warned = forking.stdout.readline(), streams[1].read_text()
        assert said == "0\n", warned
        return json.loads(streams[0].read_text()), warned

    return call


def test_kernels_are_kept_in_a_folder_of_this_user_and_it_goes_with_the_process(
    called: Called, tmp_path: Path
) -> None:
    said, warned = called(tmp_path)
    assert warned == "ShardmillWarning\n"
    assert Path(str(said["folder"])).parent == tmp_path
    assert isinstance(said["mode"], int)
    assert stat.S_IMODE(said["mode"]) == 0o700
    assert said["kept"]
    assert list(tmp_path.iterdir()) == []
    leaves = f"{ADDS}\nfrom pipeline.main import _leave\n_leave(0)\n"
    other, _ = called(tmp_path, code=leaves)
    assert other["kept"]
    assert list(tmp_path.iterdir()) == [], "a command leaves without the exit handlers"
    assert other["folder"] != said["folder"], "the name of a folder can be foreseen"


def test_a_process_uses_the_folder_of_the_one_that_started_it_and_leaves_it(
    called: Called, tmp_path: Path
) -> None:
    given = tmp_path / "given"
    given.mkdir(mode=0o700)
    said, warned = called(tmp_path, **{GIVEN: str(given)})
    assert (said["folder"], warned) == (str(given), "")
    assert list(given.iterdir())


def test_a_process_that_is_given_an_open_folder_compiles_in_memory(
    called: Called, tmp_path: Path
) -> None:
    (given := tmp_path / "given").mkdir()
    given.chmod(0o777)
    said, warned = called(tmp_path, **{GIVEN: str(given)})
    assert (said["kept"], warned) == (0, "")


@pytest.mark.parametrize(
    "wrong", ["open", "of a group", "readable", "of another user", "link", "missing"]
)
def test_machine_code_is_never_read_from_a_folder_that_others_can_change(
    wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "given"
    if wrong == "open":
        given.mkdir()
        given.chmod(0o777)
    elif wrong == "of a group":
        given.mkdir()
        given.chmod(0o770)
    elif wrong == "readable":
        given.mkdir()
        given.chmod(0o744)
    elif wrong == "of another user":
        if os.geteuid():
            pytest.skip("only root gives a folder to another user")
        given.mkdir(mode=0o700)
        os.chown(given, 12345, 12345)
    elif wrong == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        given.symlink_to(tmp_path / "theirs")
    monkeypatch.setenv(GIVEN, str(given))
    assert passing_folder.__wrapped__() is None


def test_without_any_folder_each_process_compiles_in_memory(called: Called, tmp_path: Path) -> None:
    refuse = "import tempfile\ntempfile.mkdtemp = lambda **_: open('/proc/none/x')\n"
    said, warned = called(tmp_path, code=refuse + ADDS)
    assert said == {"folder": "", "kept": 0, "mode": None}
    assert warned == "ShardmillWarning\n"


HOMELESS = ("no/absolute/path", "", "UserProvidedCacheLocator,InTreeCacheLocator")


@pytest.mark.parametrize(
    ("home", "named", "wanted"),
    [
        HOMELESS,
        ("no/absolute/path", "UserProvidedCacheLocator", "UserProvidedCacheLocator"),
        ("/", "", ""),
    ],
)
def test_without_a_home_numba_is_told_where_else_to_look_unless_a_user_names_a_place(
    home: str, named: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(numba_settings, "CACHE_LOCATOR_CLASSES", named)
    compiled = SimpleNamespace(enable_caching=lambda: None)
    assert kernels._enable_cache(compiled)  # noqa: SLF001  # as for each kernel
    assert wanted == numba_settings.CACHE_LOCATOR_CLASSES


def test_without_a_home_code_is_kept_where_the_user_says(tmp_path: Path) -> None:
    (kept := tmp_path / "kept").mkdir()
    home, named, wanted = HOMELESS
    asks = f"""{ADDS.rsplit("print", 1)[0]}
from numba import config
print(json.dumps({{"classes": config.CACHE_LOCATOR_CLASSES}}))
"""
    more = {"HOME": home, "NUMBA_CACHE_LOCATOR_CLASSES": named, "NUMBA_CACHE_DIR": str(kept)}
    done = subprocess.run(
        [sys.executable, "-c", asks],
        env=environment_of(tmp_path, **more),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (json.loads(done.stdout), done.stderr) == ({"classes": wanted}, "")
    assert any(path.suffix == ".nbi" for path in kept.rglob("*"))


def test_what_cannot_be_said_at_the_end_changes_no_code() -> None:
    with Path("/dev/full").open("w") as full:
        code = "from pipeline.main import _leave\nprint('x')\n_leave(3)"
        held = {**os.environ, "PYTHONUNBUFFERED": ""}
        done = subprocess.run([sys.executable, "-c", code], stdout=full, env=held, check=False)
        assert done.returncode == 3


def test_a_worker_makes_no_folder_which_nobody_would_use_or_remove(
    called: Called, tmp_path: Path
) -> None:
    forks = f"""
import multiprocessing
worker = multiprocessing.get_context("fork").Process(target=exec, args=({ADDS!r}, {{}}))
worker.start()
worker.join()
"""
    said, warned = called(tmp_path, code=forks)
    assert said == {"folder": "", "kept": 0, "mode": None}
    assert warned == "ShardmillWarning\n"
    assert list(tmp_path.iterdir()) == []


def test_a_loader_says_once_for_all_its_workers_where_kernels_are(
    called: Called, tmp_path: Path
) -> None:
    numbered(tmp_path, 8)
    reads = f"""
import json, sys, warnings
warnings.showwarning = lambda message, kind, *_: print(kind.__name__, file=sys.stderr)
from shardmill import Batches, Loader, open_dataset
rows = open_dataset({str(tmp_path / "clm")!r}, columns=["input_ids"])  # others take seconds to compile
loader = Loader(Batches(rows, 2), num_workers=2, start="fork")
print(json.dumps({{"batches": len(list(loader))}}))
"""
    with TemporaryDirectory() as place:  # a folder of a test has too long a name for sockets
        assert called(Path(place), code=reads) == ({"batches": 4}, "ShardmillWarning\n")
        assert not list(Path(place).glob("shardmill-*"))


def test_a_process_whose_parent_found_no_place_keeps_kernels_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(GIVEN, "")
    assert passing_folder.__wrapped__() is None


def test_a_fork_leaves_the_folder_of_its_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    own.mkdir()
    other.mkdir()
    monkeypatch.setattr(kernel_cache, "_made", {1: other})
    kernel_cache.remove_passing_folder()
    assert other.exists()
    monkeypatch.setattr(kernel_cache, "_made", {1: other, os.getpid(): own})
    kernel_cache.remove_passing_folder()
    assert (own.exists(), other.exists()) == (False, True)
