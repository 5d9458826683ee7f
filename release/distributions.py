"""Build the sdist and the wheel, look into both, and use the wheel in clean environments.

    PYTHONPATH=. python release/distributions.py dist

The wheel is built from the sdist. It is installed into two new environments that see nothing of this
repository. One has all of the pipeline, in the versions of constraints.txt: it runs the command line and
makes datasets. The other has the base dependencies alone, in their newest versions: it opens one.
Each line says what was done, its size and its seconds.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from release.changelog import ROOT, declared_version

PACKAGES = ("pipeline", "shardmill", "stages")
"""What the wheel has at its top level, beside its metadata."""
DATA = {
    "pipeline/inputs/declarations.jsonl.zst",
    "pipeline/inputs/declarations.txt",
    "stages/filtering/top_level_domains.txt",
    "stages/reading/web_encodings.json",
    "shardmill/py.typed",
    "stages/py.typed",
}
"""Files of the wheel that are no code; templates of pages are listed where they lie."""
MAX_WHEEL, MAX_SDIST = 2 << 20, 2 << 20
"""Bytes; the bundled corpus alone has 3 MB."""
OPEN = """
import sys, shardmill
rows = shardmill.open_dataset(sys.argv[1], split="train")
strangers = {"ray", "numba", "pyarrow", "torch", "typer"} & set(sys.modules)
assert len(rows) > 0 and not strangers, (len(rows), strangers)
print(len(rows), "rows,", rows[0]["input_ids"].dtype, end="")
"""


def build(folder: Path, *, isolated: bool = True) -> tuple[Path, Path]:
    """Build the sdist from the repository and the wheel from the sdist.

    Without `isolated`, setuptools comes from this environment, which takes no network.
    """
    options = [] if isolated else ["--no-isolation"]
    _call([sys.executable, "-m", "build", *options, "--outdir", folder, ROOT])
    version = declared_version((ROOT / "pyproject.toml").read_text("utf-8"))
    return folder / f"shardmill-{version}.tar.gz", folder / f"shardmill-{version}-py3-none-any.whl"


def expected_files(root: Path = ROOT) -> set[str]:
    """Return the files that the wheel must have beside its metadata: all code, and the data it reads."""
    code = (path for name in PACKAGES for path in (root / name).rglob("*.py"))
    templates = (root / "pipeline").rglob("templates/*.j2")
    return {path.relative_to(root).as_posix() for path in (*code, *templates)} | DATA


def faults_of_wheel(wheel: Path) -> list[str]:
    """Say what is wrong with the contents of a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        declared = archive.read(metadata).decode()
    files = {name for name in names if ".dist-info/" not in name}
    faults = _differences(files, expected_files(), "the wheel")
    if not any(name.endswith("/licenses/LICENSE") for name in names):
        faults.append("the wheel lacks LICENSE")
    if (size := wheel.stat().st_size) > MAX_WHEEL:
        faults.append(f"the wheel has {size:,} bytes, more than {MAX_WHEEL:,}")
    base = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*$", declared, re.MULTILINE)
    if sorted(base) != ["numpy", "pydantic", "xxhash"]:
        faults.append(f"the wheel asks for {sorted(base)} at the base")
    return faults


def faults_of_sdist(sdist: Path) -> list[str]:
    """Say what is wrong with the contents of an sdist."""
    with tarfile.open(sdist) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    written = {name for name in names if name in ("PKG-INFO", "setup.cfg") or ".egg-info/" in name}
    outside = {"CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml"}
    faults = _differences(names - written, expected_files() | outside, "the sdist")
    if (size := sdist.stat().st_size) > MAX_SDIST:
        faults.append(f"the sdist has {size:,} bytes, more than {MAX_SDIST:,}")
    return faults


def _differences(found: set[str], expected: set[str], where: str) -> list[str]:
    missing = [f"{where} lacks {name}" for name in sorted(expected - found)]
    return missing + [f"{where} has {name}" for name in sorted(found - expected)]


def _call(command: Sequence[str | Path], cwd: Path | None = None) -> str:
    """Run a command that sees nothing of this environment; give what it prints, or stop with it."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, env=kept, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def _timed(said: str) -> Iterator[list[str]]:
    """Print a line of what was done, with its seconds and what it adds to the list."""
    begun, added = time.monotonic(), list[str]()
    yield added
    print(f"{time.monotonic() - begun:6.1f} s  {said}: {' '.join(added)}", flush=True)


def _environment(folder: Path, wheel: Path, extra: str, constraints: Path | None) -> Path:
    """Make an environment with the wheel and one of its extras; return its folder of programs."""
    with _timed(f"installed {wheel.name}{extra}") as added:
        _call([sys.executable, "-m", "venv", folder])
        python = folder / "bin" / "python"
        pip = [str(python), "-m", "pip", "--disable-pip-version-check"]
        chosen = [] if constraints is None else ["--constraint", str(constraints)]
        _call([*pip, "install", "--quiet", "--no-compile", *chosen, f"{wheel}{extra}"])
        _call([*pip, "check"])
        packages = [line for line in _call([*pip, "list", "--format", "freeze"]).splitlines() if line]
        size = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())
        added += [f"{len(packages)} packages,", f"{size / 1e6:,.0f} MB"]
    return folder / "bin"


def use(wheel: Path, folder: Path) -> None:
    """Make a dataset with all of the pipeline, and open it with the base dependencies alone."""
    shutil.copytree(ROOT / "examples" / "corpus", folder / "examples" / "corpus")
    (folder / "benchmarks").mkdir()
    for name in ("compiled.toml", "compiled.json"):
        shutil.copy(ROOT / "benchmarks" / name, folder / "benchmarks")
    base = _environment(folder / "base", wheel, "", None)
    full = _environment(folder / "full", wheel, "[run]", ROOT / "constraints.txt")
    with _timed("shardmill --version, --help") as added:
        added.append(_call([full / "shardmill", "--version"], folder).strip())
        assert "verify" in _call([full / "shardmill", "--help"], folder)
    with _timed("shardmill run, which compiles its kernels") as added:
        run = ["run", "benchmarks/compiled.toml", "--workers=0", "--output=out"]
        _call([full / "shardmill", *run], folder)
        added.append("two datasets")
    with _timed("opened with numpy, pydantic and xxhash") as added:
        added.append(_call([base / "python", "-c", OPEN, "out/datasets/clm"], folder))


def main() -> None:
    """Build into a folder, check the contents, and use the wheel."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="where both go; old ones are removed")
    folder: Path = parser.parse_args().folder.resolve()
    for old in [*folder.glob("shardmill-*.tar.gz"), *folder.glob("shardmill-*.whl")]:
        old.unlink()
    with _timed("built") as added:
        sdist, wheel = build(folder)
        added += [f"{path.name} {path.stat().st_size:,} bytes" for path in (sdist, wheel)]
    if faults := faults_of_sdist(sdist) + faults_of_wheel(wheel):
        raise SystemExit("\n".join(faults))
    print(f"          the contents are right: {len(expected_files())} files of code and data")
    with tempfile.TemporaryDirectory(prefix="shardmill-package-") as work:
        use(wheel, Path(work))


if __name__ == "__main__":
    main()
