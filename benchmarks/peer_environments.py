"""Environments of the programs that ours is measured beside: their packages, and nothing of ours.

    CACHE/NAME/bin/python        a virtual environment
    CACHE/NAME/installed.json    what was asked for; written when all of it is there

All versions are written here and nowhere else. megatron-core and the packer of trl need torch, which
is large and installed here already, so their environments also see what is installed here. They are
installed without their dependencies, which have nothing to do with writing files or packing.
"""

import json
import shutil
import subprocess
import sys
import sysconfig
import venv
from dataclasses import dataclass
from pathlib import Path

_DONE = "installed.json"


@dataclass(frozen=True)
class PeerEnvironment:
    """What is installed for a peer."""

    name: str
    requirements: tuple[str, ...]
    reported: tuple[str, ...]
    """Packages whose versions the table names."""
    alone: bool = False
    """Whether they come without their dependencies, on top of what is installed here."""


DATATROVE = PeerEnvironment(
    "datatrove",
    (
        "datatrove==0.10.1",
        "orjson==3.13.0",
        "regex==2026.11.15",
        "spacy==3.8.18",
        "tokenizers==0.23.3",
        "xxhash==3.8.2",  # with 4 it cannot hash a shingle
        "zstandard==0.25.0",
    ),
    ("datatrove", "tokenizers", "spacy"),
)
TEXT_DEDUP = PeerEnvironment(
    "text-dedup",
    ("text-dedup==0.4.0", "datasets==5.2.0", "zstandard==0.25.0"),
    ("text-dedup", "datasets"),
)
RENSA = PeerEnvironment("rensa", ("rensa==0.5.0",), ("rensa",))
"""duplicates.py alone makes it."""
MEGATRON = PeerEnvironment(
    "megatron", ("megatron-core==0.16.1", "packaging"), ("megatron-core", "sentencepiece"), alone=True
)
TRL = PeerEnvironment(
    "trl",
    (
        "trl==1.16.0",
        "datasets==4.4.1",  # the last that goes with the transformers that is installed here
        "dill==0.4.0",
        "multiprocess==0.70.18",
        "pandas==3.1.1",
        "python-dateutil==2.9.0.post0",
        "six==1.17.0",
        "httpx==0.28.1",
        "httpcore==1.0.9",
        "anyio==4.16.0",
        "h11==0.16.0",
    ),
    ("trl",),
    alone=True,
)
"""Beside torch and transformers, which are installed here already; packers.py alone makes it."""
PEER_ENVIRONMENTS = (DATATROVE, TEXT_DEDUP, MEGATRON)


class PeerNotInstalledError(Exception):
    """A peer could not be installed here; the reason is pip's own."""


def make_peer_environment(cache: Path, environment: PeerEnvironment) -> Path:
    """Return the python of an environment, made unless it is there.

    Raises:
        PeerNotInstalledError: pip could not install it.
    """
    folder = cache / environment.name
    python = folder / "bin" / "python"
    wanted = json.dumps(environment.requirements)
    if (folder / _DONE).exists() and (folder / _DONE).read_text() == wanted:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=False, symlinks=True)
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    command += ["--disable-pip-version-check", *environment.requirements]
    if environment.alone:
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        shared = folder / "lib" / name / "site-packages" / "shared.pth"
        shared.write_text(sysconfig.get_path("purelib") + "\n")
        command.append("--no-deps")
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # pip
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise PeerNotInstalledError("; ".join(lines or done.stderr.splitlines()[-1:] or ["pip failed"]))
    (folder / _DONE).write_text(wanted)
    return python


def installed_versions(python: Path, environment: PeerEnvironment) -> dict[str, str]:
    """Return the versions that are installed, as the environment itself says."""
    program = (
        "import json; from importlib.metadata import version;"
        f" print(json.dumps({{name: version(name) for name in {environment.reported!r}}}))"
    )
    done = subprocess.run([python, "-c", program], capture_output=True, check=True)  # noqa: S603
    found: dict[str, str] = json.loads(done.stdout)
    return found
