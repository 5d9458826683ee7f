"""Verify, the part of files: a dataset is the files that its manifests name, whole, and no others.

digests  each named file is there, of the bytes that its manifest vouches for
files    each manifest names the files that the objective has, in the documented folders, and what
         else lies in the dataset's folder is named here
links    no file and no folder is a symbolic link: its target may be changed from anywhere
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path, PurePosixPath

from pipeline.engine.tasks import Workspace
from pipeline.steps.draw.step import DrawWork
from pipeline.steps.shard.make import EPOCH_FOLDER
from stages.errors import FormatError
from stages.findings import Finding
from stages.objectives.traits import Traits
from stages.store.digests import FileDigest, digest_file
from stages.store.drawn import DRAWN_NAME, DrawnManifest, read_drawn
from stages.store.folders import entries, walk
from stages.store.manifest import (
    MANIFEST_NAME,
    SEGMENT_COLUMNS,
    SEGMENT_PROMPT,
    SENTENCES,
    UNIGRAM,
    Manifest,
)

Named = Iterator[tuple[str, Finding]]
"""Findings, each with its file."""
DATA_ENDINGS = frozenset({".npy", ".parquet", ".json", ".model", ".arrow"})
"""Of what steps write: a README that someone puts beside a dataset is no finding."""
_LISTED = 3
"""Files of which the names are listed."""
_LINK = Finding(
    "links", "is a symbolic link; a dataset holds its own files, so put there what it leads to"
)


def check_files(workspace: Workspace, folder: str, files: Mapping[str, FileDigest]) -> Named:
    """Hold the files of a folder to the digests that a manifest has of them."""
    for name, digest in files.items():
        key = f"{folder}/{name}"
        path = workspace.path(key)
        if not path.exists():
            yield key, Finding("digests", "the file is missing")
        elif path.stat().st_size != digest.bytes:
            size = path.stat().st_size
            yield key, Finding("digests", f"{size:,} bytes instead of {digest.bytes:,}")
        elif digest_file(path) != digest:
            yield key, Finding("digests", "its bytes are not those of the manifest")


def check_names(workspace: Workspace, folder: str, files: Collection[str]) -> Named:
    """Hold a manifest to what is in the folder of a shard: what it does not name has no digest."""
    there, links = _files_and_links(workspace.path(folder))
    yield from ((f"{folder}/{name}", _LINK) for name in links)
    unnamed = sorted(set(there) - set(files))
    if unnamed:
        yield folder, Finding("files", f"the manifest does not name {_listed(unnamed)}")


def check_dataset(workspace: Workspace, dataset: str, splits: Collection[str]) -> Named:
    """Hold the folder of a dataset to the splits that it has."""
    folder = f"datasets/{dataset}"
    if workspace.path(folder).is_symlink():
        yield folder, _LINK
    yield from _unknown(workspace, folder, splits)


def check_split_files(workspace: Workspace, folder: str, manifest: Manifest, traits: Traits) -> Named:
    """Hold the manifests of a split to the documented names, and the split to what they name.

    What is in the folder of a shard is left to `check_names`.

    Args:
        workspace: where the run is.
        folder: the split's.
        manifest: its dataset.json.
        traits: of the objective that the run file gives the dataset.
    """
    yield from _documented(folder, manifest, traits)
    try:
        drawn = read_drawn(workspace.path(folder), dataset=manifest.fingerprint)
    except FormatError:  # the check of epochs says so
        known = {DRAWN_NAME, "drawn"}
    else:
        yield from _documented_epochs(folder, drawn)
        known = set()
        if drawn is not None:
            known = {DRAWN_NAME, *(shard.path for shards in drawn.shards for shard in shards)}
    known |= {MANIFEST_NAME, *manifest.tables, *(shard.path for shard in manifest.shards)}
    yield from _unknown(workspace, folder, known)


def _unknown(workspace: Workspace, folder: str, known: Collection[str]) -> Named:
    """Name what lies in a folder and is neither one of the known files or folders nor inside of one."""
    above = {str(parent) for name in known for parent in PurePosixPath(name).parents}
    pending = ["."]
    while pending:
        inside = pending.pop()
        path = workspace.path(folder) / inside
        for entry in entries(path):
            name = entry.name if inside == "." else f"{inside}/{entry.name}"
            if entry.is_symlink():
                yield f"{folder}/{name}", _LINK
            elif name in above and entry.is_dir():
                pending.append(name)
            elif name not in known:
                yield from _stray(workspace.path(folder), folder, name)


def _stray(path: Path, folder: str, name: str) -> Named:
    """Name a file that no manifest does, or a folder with such files; empty folders hold nothing."""
    way_out = "; nothing reads it, so delete it"
    if not (path / name).is_dir():
        if PurePosixPath(name).suffix not in DATA_ENDINGS:
            return
        yield f"{folder}/{name}", Finding("files", f"no manifest names it{way_out}")
        return
    there, links = _files_and_links(path / name)
    if there or links:
        what = f"no manifest names this folder, with {_listed([*there, *links])}{way_out}"
        yield f"{folder}/{name}", Finding("files", what)


def _files_and_links(path: Path) -> tuple[list[str], list[str]]:
    """Return the files below a folder, and the links, which are not followed; relative, sorted."""
    files: list[str] = []
    links: list[str] = []
    for parent, folders, names in walk(path):
        for name in (*folders, *names):
            place = parent / name
            if place.is_symlink():
                links.append(place.relative_to(path).as_posix())
            elif name not in folders:
                files.append(place.relative_to(path).as_posix())
    return sorted(files), sorted(links)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return f"{', '.join(names[:_LISTED])}{more}"


def _documented(folder: str, manifest: Manifest, traits: Traits) -> Named:
    """The shards are the folders of the format, in order, each of the files that the objective has."""
    place, wanted = f"{folder}/{MANIFEST_NAME}", _files_of(manifest, traits)
    for number, shard in enumerate(manifest.shards):
        path = f"{EPOCH_FOLDER}/{number:05d}"
        if shard.path != path:
            yield place, Finding("shards", f"shard {number} is {shard.path}, but the format says {path}")
        if shard.files.keys() != wanted:
            yield place, _other_files(shard.path, shard.files.keys(), wanted)


def _documented_epochs(folder: str, drawn: DrawnManifest | None) -> Named:
    """The epochs are the folders of the format, in order, each with a file for each column."""
    place = f"{folder}/{DRAWN_NAME}"
    wanted = set() if drawn is None else {f"{name}.npy" for name in drawn.columns}
    for epoch, shards in enumerate(() if drawn is None else drawn.shards):
        for number, shard in enumerate(shards):
            path = DrawWork("", "", number, epoch).path
            if shard.path != path:
                said = f"shard {number} of epoch {epoch} is {shard.path}, but the format says {path}"
                yield place, Finding("epochs", said)
            if shard.files.keys() != wanted:
                yield place, _other_files(shard.path, shard.files.keys(), wanted)


def _other_files(path: str, found: Collection[str], wanted: Collection[str]) -> Finding:
    extra, missing = sorted(set(found) - set(wanted)), sorted(set(wanted) - set(found))
    said = [
        f"{verb} {_listed(names)}" for verb, names in (("names", extra), ("lacks", missing)) if names
    ]
    return Finding("files", f"{path}: {' and '.join(said)}, other files than the format has")


def _files_of(manifest: Manifest, traits: Traits) -> set[str]:
    """Return the names of the files of a shard."""
    names = {"documents.parquet", *(f"segments/{name}.npy" for name in SEGMENT_COLUMNS)}
    names |= {f"{name}.npy" for name in manifest.columns}
    names |= {f"{SENTENCES}/ptr.npy", f"{SENTENCES}/ends.npy"} if traits.sentences else set()
    names |= {SEGMENT_PROMPT} if traits.segment_prompts else set()
    return names | ({UNIGRAM} if traits.unigram else set())
