"""Verify, the part of the run: manifests, tables and lists say what the run's settings say.

What this part holds a file to is never another file that may be as wrong: it is the run file and the
tokenizer, and the token store, which `decode` has looked through.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.steps.adopt import special_ids_of
from pipeline.steps.merge import MergedGroup
from pipeline.steps.shard import ManifestWork, documents_of, manifest_of
from pipeline.steps.split import load_tokenizer
from pipeline.steps.tokenizer import SPECIAL_IDS
from pipeline.steps.units import Unit
from pipeline.tasks import Workspace
from stages.errors import FormatError
from stages.objectives.table import Objective, read_objective, traits_of
from stages.packing.layout import PackingConfig
from stages.store.arrays import open_array
from stages.store.drawn import DRAWN_NAME, read_drawn
from stages.store.manifest import MANIFEST_NAME, WORD_STARTS, Manifest
from stages.verify.mechanics import Finding

_OF_THE_FILES = {"shards", "totals", "tables", "fingerprint"}
"""What a manifest says that no setting does."""
_OF_THE_KIND = {"attention", "label_convention"}
"""What is held to the objective that the manifest names."""


@dataclass(frozen=True)
class Settings:
    """What the run file says of a dataset."""

    objective: Objective
    packing: PackingConfig
    seed: int
    epochs: int
    """That are to stand on disk."""
    special_ids: Mapping[str, int] | None = None
    """Of the tokenizer that the run trains, or as they were found in an existing one; None if the file
    with them is all there is."""


def check_settings(
    workspace: Workspace, folder: str, manifest: Manifest, settings: Settings
) -> Iterator[tuple[str, Finding]]:
    """The manifest of a split declares what the run says, and its tables and epochs stand."""
    yield from check_declared(workspace, folder, manifest, settings)
    if settings.special_ids is not None:
        yield from _special_ids(special_ids_of(workspace.root), settings.special_ids)
    yield from _tables(workspace, folder, manifest, settings)
    yield from _epochs(workspace, folder, manifest, settings)


def _special_ids(found: Mapping[str, int], wanted: Mapping[str, int]) -> Iterator[tuple[str, Finding]]:
    """The file beside the tokenizer names the special ids that the run has."""
    differ = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    if differ:
        first = f"{differ[0]} is {found.get(differ[0])}, but the run has {wanted.get(differ[0])}"
        yield SPECIAL_IDS, Finding("special_ids", f"{len(differ):,} names are of other ids; {first}")


def check_declared(
    workspace: Workspace, folder: str, manifest: Manifest, settings: Settings
) -> Iterator[tuple[str, Finding]]:
    """The manifest of a split declares what the run file and the tokenizer say.

    Settings are compared, not how they are spelled: an option that came after the dataset was made is at
    its default in both.
    """
    dataset, split = folder.split("/")[-2:]
    work = ManifestWork(
        dataset,
        split,
        (),
        settings.objective,
        settings.packing,
        settings.seed,
        load_tokenizer(workspace).vocab_size,
    )
    wanted = manifest_of(workspace, work)
    if settings.special_ids is not None:  # those of the file may be as wrong
        wanted = wanted.model_copy(update={"special_ids": dict(settings.special_ids)})
    pairs = {
        key: (getattr(manifest, key), getattr(wanted, key))
        for key in Manifest.model_fields.keys() - _OF_THE_FILES - _OF_THE_KIND
    }
    pairs["objective"] = _objectives(manifest, wanted)
    for key, (found, right) in sorted(pairs.items()):
        if found != right:
            message = f"{key} = {_shown(found)}, but the run has {_shown(right)}"
            yield f"{folder}/{MANIFEST_NAME}", Finding("settings", message)


def _objectives(manifest: Manifest, wanted: Manifest) -> tuple[object, object]:
    """Return what differs between the objectives of two manifests, each setting as it is read.

    If the first names no objective, both are returned as they are spelled.
    """
    try:
        read = [read_objective(content.objective) for content in (manifest, wanted)]
    except FormatError:
        return manifest.objective, wanted.objective
    found, right = (
        {**objective.model_dump(mode="json"), "form": content.objective.get("form")}
        for objective, content in zip(read, (manifest, wanted), strict=True)
    )
    differ = sorted(key for key in found.keys() | right.keys() if found.get(key) != right.get(key))
    return {key: found.get(key) for key in differ}, {key: right.get(key) for key in differ}


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) < 100 else f"{text[:100]}..."  # noqa: PLR2004  # as long as a line


def _tables(
    workspace: Workspace, folder: str, manifest: Manifest, settings: Settings
) -> Iterator[tuple[str, Finding]]:
    wanted = {WORD_STARTS} if traits_of(settings.objective).words else set()
    if manifest.tables.keys() != wanted:
        message = f"names {sorted(manifest.tables)}, but the objective needs {sorted(wanted)}"
        yield f"{folder}/{MANIFEST_NAME}", Finding("tables", message)
    elif wanted:
        place = f"{folder}/{WORD_STARTS}"
        try:
            found = open_array(workspace.path(place), dtype="|b1")
        except FormatError as error:
            yield place, Finding("tables", str(error))
            return
        if not np.array_equal(found, load_tokenizer(workspace).word_starts()):
            yield place, Finding("tables", "says of other ids than the tokenizer that they begin a word")


def _epochs(
    workspace: Workspace, folder: str, manifest: Manifest, settings: Settings
) -> Iterator[tuple[str, Finding]]:
    place = f"{folder}/{DRAWN_NAME}"
    try:
        drawn = read_drawn(workspace.path(folder), dataset=manifest.fingerprint)
    except FormatError as error:
        yield place, Finding("manifest", str(error))
        return
    found = 0 if drawn is None else drawn.epochs
    if found != settings.epochs:
        message = f"{found} epochs stand on disk, but the run has {settings.epochs}"
        yield place, Finding("epochs", message)


def check_documents(table: pa.Table, group: MergedGroup, units: tuple[Unit, ...]) -> Iterator[Finding]:
    """The list of a shard's documents says of each what the run does."""
    wanted = documents_of(group, units)
    if "id" not in table.column_names or not table.column("id").equals(wanted.column("id")):
        found, belong = (part.to_pydict().get("id", []) for part in (table, wanted))
        message = (
            f"lists {len(found):,} documents, but {len(belong):,} belong here; the first that differs"
            f" is document {_first_difference(found, belong)}"
        )
        yield Finding("documents", message)
        return
    wrong = [
        name
        for name in wanted.column_names
        if name not in table.column_names or not table.column(name).equals(wanted.column(name))
    ]
    if wrong:
        yield Finding("documents", f"says another {', '.join(wrong)} of some documents than the run")


def _first_difference(a: list[str], b: list[str]) -> int:
    same = [x == y for x, y in zip(a, b, strict=False)]
    return same.index(False) if False in same else len(same)
