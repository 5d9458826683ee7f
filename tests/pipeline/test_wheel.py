"""What sdist and wheel promise: all code and data and nothing else, a command and a loader that work."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pydantic
import pytest

from release.distributions import build, expected_files, faults_of_sdist, faults_of_wheel

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


def test_a_wheel_installed_elsewhere_runs_the_command_and_the_loader(
    reference: Path, tmp_path: Path
) -> None:
    sdist, wheel = build(tmp_path, isolated=False)
    assert faults_of_sdist(sdist) + faults_of_wheel(wheel) == []
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    subprocess.run([*pip, "--target", str(site), str(wheel)], check=True, capture_output=True)
    code = (
        "import runpy, sys, shardmill, stages\n"
        "run, site = sys.argv[1:]\n"
        "assert stages.__file__.startswith(site), stages\n"
        "rows = shardmill.open_dataset(run + '/datasets/clm')\n"
        "print(len(rows), rows[0]['labels'].dtype, flush=True)\n"
        "sys.argv = [site + '/bin/shardmill', 'status', run]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(reference), str(site)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
        check=True,
        capture_output=True,
        text=True,
    )
    loaded, _, status = done.stdout.partition("\n")
    assert loaded.split()[1] == "int64"
    assert "shard-clm" in status


def test_what_a_wheel_lacks_or_has_too_much_is_named(tmp_path: Path) -> None:
    wheel = tmp_path / "shardmill.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in sorted(expected_files() - {"stages/py.typed"} | {"tests/test_wheel.py"}):
            archive.writestr(name, "")
        archive.writestr(
            "shardmill-0.dist-info/METADATA", "Requires-Dist: numpy>=1.26\nRequires-Dist: ray\n"
        )
    assert faults_of_wheel(wheel) == [
        "the wheel lacks stages/py.typed",
        "the wheel has tests/test_wheel.py",
        "the wheel lacks LICENSE",
        "the wheel asks for ['numpy', 'ray'] at the base",
    ]


BASE = ("numpy", "pydantic", "xxhash")


def _bare_site(tmp_path: Path) -> Path:
    """Return a folder with this program and its base dependencies alone, as from a bare install."""
    site = tmp_path / "bare"
    site.mkdir()
    for name in ("pipeline", "stages", "shardmill"):
        (site / name).symlink_to(ROOT / name)
    home = Path(pydantic.__file__).parents[1]
    for requirement in _with_dependencies(BASE):
        for top in {Path(str(path)).parts[0] for path in distribution(requirement).files or ()}:
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(home / top)
    return site


def _with_dependencies(names: Iterable[str]) -> set[str]:
    """Return distributions and all that they need, extras left out."""
    pending, found = list(names), set[str]()
    while pending:
        name = pending.pop()
        if name not in found:
            found.add(name)
            needed = (line for line in distribution(name).requires or () if "extra ==" not in line)
            pending += [re.split(r"[^A-Za-z0-9_.-]", line, maxsplit=1)[0] for line in needed]
    return found


@pytest.mark.parametrize("words", [["--help"], ["run", "run.toml", "-o", "out"], []])
def test_a_bare_install_says_in_one_line_what_the_command_line_needs(
    words: list[str], tmp_path: Path
) -> None:
    site = _bare_site(tmp_path)
    program = f"import sys; sys.path.insert(0, {str(site)!r}); from pipeline.main import main; main()"
    command = [sys.executable, "-I", "-S", "-c", program, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "shardmill: the module 'typer' is not installed; the command line needs all of the pipeline:"
        " pip install 'shardmill[run]'\n"
    )


def test_a_bare_install_has_the_loader(tmp_path: Path) -> None:
    site = _bare_site(tmp_path)
    loader = f"import sys; sys.path.insert(0, {str(site)!r}); import shardmill; shardmill.open_dataset"
    subprocess.run([sys.executable, "-I", "-S", "-c", loader], cwd=tmp_path, check=True)


def test_a_stranger_named_stages_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages" / "__init__.py").write_text('"""Someone else\'s stages."""')
    shutil.copytree(ROOT / "shardmill", tmp_path / "shardmill")
    result = subprocess.run(
        [sys.executable, "-c", "import shardmill"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "another package named 'stages' shadows Shardmill's" in result.stderr
