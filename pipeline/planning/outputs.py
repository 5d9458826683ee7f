"""Outputs: which folder a command may write into or read a run from, and which it refuses by name.

A path that is a URL is refused by every command that takes none. `pathlib` makes one slash of two, so
s3://bucket/x arrives here as s3:/bucket/x, which would be a local folder of an odd name.
"""

import re
from pathlib import Path

from pipeline.state.commit_object import COMMITS
from pipeline.state.commits import PLAN, SCAN
from pipeline.state.journal import LOCK, LOG, METRICS, STATUS
from pipeline.state.storage import TEMPORARY
from stages.errors import ConfigError
from stages.store.folders import files_below
from stages.stores.url import EXTRAS, StoreUrl, shown_url

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(:.*)?")
"""The first part of a URL as a path has it: `s3:`, and `simplecache::s3:` of a chain of URLs."""
_BEFORE_THE_PLAN = {LOCK, LOG, STATUS, TEMPORARY, COMMITS, SCAN, "inputs.json", METRICS}
"""What a run that was stopped early leaves in a folder that holds nothing else."""
_OF_THE_DISK = "lost+found"
_ESCAPED = 0xDC00
"""Python has a byte that is no character as this number and the byte (PEP 383)."""


def require_no_url(path: Path, name: str) -> Path:
    """Return a path if it is no URL.

    Args:
        path: as given.
        name: of the option or argument, for the message.

    Raises:
        ConfigError: it is a URL.
    """
    if path.parts and _SCHEME.fullmatch(path.parts[0]):
        url = shown_url(str(path))
        way = "copy it here, or mount the bucket, and name that path"
        if url.startswith("file://"):
            way = f"write /{url.removeprefix('file://')}"
        raise ConfigError(
            f"{name} {url}: is a URL, but this must be a local path, or a mounted one"
            f" (docs/how-to/stores.md says which commands take s3://BUCKET/PREFIX): {way}"
        )
    return path


def require_local(path: Path, name: str) -> Path:
    """Return a path if it is no URL, and its name is UTF-8.

    Args:
        path: as given.
        name: of the option or argument, for the message.

    Raises:
        ConfigError: it is a URL, or not UTF-8.
    """
    require_no_url(path, name)
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{name} {path}: its path is not UTF-8 (byte"
            f" 0x{ord(error.object[error.start]) - _ESCAPED:02x} of it); reports and tables name files"
            " in UTF-8: rename the folder, or name another"
        ) from None
    return path


def require_place(path: Path, name: str) -> Path:
    """Return a path, or a URL of a store that a run can lie in.

    Args:
        path: as given.
        name: of the option or argument, for the message.

    Raises:
        ConfigError: it is neither.
    """
    if path.parts and path.parts[0].removesuffix(":") in EXTRAS:
        StoreUrl.parse(str(path), key=name)
        return path
    return require_local(path, name)


def require_picture(path: Path) -> None:
    """Refuse a picture that could not be written, before any work.

    Raises:
        ConfigError: a URL, a name that does not end in .svg, or a folder that is not there.
    """
    require_local(path, "--picture")
    if path.suffix.lower() != ".svg":
        raise ConfigError(f"--picture {path}: the picture is SVG; end the name in .svg")
    if path.is_dir():
        raise ConfigError(f"--picture {path}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise ConfigError(
            f"--picture {path}: there is no folder {path.parent}; make it, or name another"
        )


def require_run_folder(output: Path) -> None:
    """Refuse an output that could not become a run's folder, touching nothing.

    Raises:
        ConfigError: a URL, a file, a folder below a file, or a folder that holds something else.
    """
    require_local(output, "--output")
    try:
        _require_folder(output)
        strangers = _strangers(output)
    except OSError as error:
        raise ConfigError(f"--output {output}: cannot be used: {error.strerror}") from error
    if strangers:
        more = f" and {len(strangers) - 1:,} more" if len(strangers) > 1 else ""
        raise ConfigError(
            f"--output {output}: holds {strangers[0]!r}{more}, but no run; name an empty or a new folder"
        )


def _require_folder(output: Path) -> None:
    """Refuse a path at which there is no folder and none can be made."""
    if output.is_symlink() and not output.exists():
        raise ConfigError(f"--output {output}: is a link to nothing; name a folder")
    for place in (output, *output.absolute().parents):
        if place.exists():
            if not place.is_dir():
                raise ConfigError(f"--output {output}: {place} is a file; name an empty or a new folder")
            return


def _strangers(output: Path) -> list[str]:
    """Return the names in a folder that no run put there; none if it holds a run."""
    if not output.exists():
        return []
    names = sorted(path.name for path in output.iterdir())
    if PLAN in names or any(path.suffix == ".json" for path in files_below(output / COMMITS)):
        return []
    known = {_OF_THE_DISK}
    if {LOCK, LOG} & set(names):
        known |= _BEFORE_THE_PLAN
    # hidden files are the system's or the file server's: .nfs0001, .DS_Store, a run.json half written
    return [name for name in names if not name.startswith(".") and name not in known]
