"""The packages the bundled corpus is made of: pinned, fetched and opened.

Only the registries' ordinary clients are used (`npm pack`, `pip download`, `apt-get download`);
nothing is installed and no package code is run. Every archive is checked against its digest, so
the same archives always come in, whether the clients fetched them or the cache had them.
"""

import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal


class PackageError(RuntimeError):
    """A package that could not be fetched, or that is not the pinned one."""


@dataclass(frozen=True)
class Package:
    """One release of one package, as its registry hands it out.

    `archive` is the file name under which the client leaves it.
    """

    registry: Literal["npm", "pypi", "debian"]
    name: str
    version: str
    archive: str
    sha256: str

    @property
    def label(self) -> str:
        """The prefix of the ids of all documents made from this package."""
        return f"{self.name}={self.version}"


def _client(package: Package, cache: Path) -> list[str]:
    """The command that leaves the package's archive in `cache`, its working directory."""
    if package.registry == "pypi":
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        wanted = f"{package.name}=={package.version}"
        return [*pip, "--only-binary", ":all:", "--dest", str(cache), wanted]
    if package.registry == "npm":
        return ["npm", "pack", "--silent", "--ignore-scripts", f"{package.name}@{package.version}"]
    return ["apt-get", "-qq", "download", f"{package.name}={package.version}"]


def fetch(package: Package, cache: Path) -> Path:
    """The package's archive, from `cache` or else from its registry.

    Raises:
        PackageError: the client failed, or the archive's digest is not the pinned one.

    """
    archive = cache / package.archive
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        command = _client(package, cache.resolve())
        program = shutil.which(command[0])
        if program is None:
            raise PackageError(f"{package.label}: {command[0]} is not installed")
        done = subprocess.run(  # noqa: S603  (a fixed client and the pins of this project)
            [program, *command[1:]], cwd=cache, capture_output=True, text=True, check=False
        )
        if done.returncode or not archive.exists():
            raise PackageError(f"{package.label}: {command[0]} failed: {done.stderr[-500:]}")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != package.sha256:
        raise PackageError(f"{archive}: its sha256 is {digest}, not {package.sha256}")
    return archive


def _open_deb(archive: Path) -> tarfile.TarFile:
    """The file tree inside a Debian package."""
    program = shutil.which("dpkg-deb")
    if program is None:
        raise PackageError(f"{archive}: dpkg-deb is not installed")
    done = subprocess.run(  # noqa: S603  (a fixed program and a file whose digest was checked)
        [program, "--fsys-tarfile", str(archive)], capture_output=True, check=True
    )
    return tarfile.open(fileobj=io.BytesIO(done.stdout))


def read_files(package: Package, cache: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """The package's files whose path matches all of `pattern`, with their bytes, by path.

    Paths are relative to the package: npm's `package/` and Debian's `./` are left out.
    """
    wanted = re.compile(pattern)
    archive = fetch(package, cache)
    if package.registry == "pypi":
        with zipfile.ZipFile(archive) as wheel:
            for path in sorted(wheel.namelist()):
                if wanted.fullmatch(path):
                    yield path, wheel.read(path)
        return
    with _open_deb(archive) if package.registry == "debian" else tarfile.open(archive) as tree:
        members = {re.sub(r"^(package/|\./)", "", m.name): m for m in tree if m.isfile()}
        for path in sorted(members):
            if wanted.fullmatch(path) and (file := tree.extractfile(members[path])) is not None:
                yield path, file.read()
