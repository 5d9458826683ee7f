"""An environment for a client: its packages on top of those that are here already.

    CACHE/NAME/bin/python                          a virtual environment of its own
    CACHE/NAME/lib/.../site-packages/shared.pth    makes what is installed here importable there
    CACHE/NAME/installed.json                      what was asked for; written when all of it is there

What the client brings stands before what is shared, so it gets the versions that it asks for; torch is
not installed again.
"""

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

_DONE = "installed.json"


class NotInstalledError(Exception):
    """A client could not be installed here; the reason is pip's own."""


def make_environment(
    folder: Path, alone: Sequence[str], requirements: Sequence[str], *, constraints: Path
) -> Path:
    """Return the python of a client's environment, made unless it is there.

    Args:
        folder: of the environment.
        alone: what is installed without dependencies, and for whatever Python it asks.
        requirements: what is installed with them.
        constraints: names the torch that is shared.

    Raises:
        NotInstalledError: pip could not install it.
    """
    if not alone and not requirements:
        return Path(sys.executable)
    python = folder / "bin" / "python"
    wanted = json.dumps([alone, requirements])
    if (folder / _DONE).exists() and (folder / _DONE).read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False, symlinks=True)
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / name / "site-packages"
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if alone:
        _install(python, ["--no-deps", "--ignore-requires-python", *alone])
    if requirements:
        _install(python, ["--constraint", str(constraints), *requirements])
    (folder / _DONE).write_text(wanted)
    return python


def _install(python: Path, packages: list[str]) -> None:
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    command += ["--disable-pip-version-check", "--no-cache-dir", *packages]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstalledError("; ".join(lines or done.stderr.splitlines()[-1:] or ["pip failed"]))
