"""Verify, the part of the run: manifests, tables and lists say what the run's settings say.

What this part holds a file to is never another file that may be as wrong: it is the run file and the
tokenizer, and the token store, which `decode` has looked through.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.steps.names import read_rows
from pipeline.steps.shard.make import ManifestWork, manifest_of
from pipeline.steps.shard.merge import Copies, MergedGroup
from pipeline.steps.shard.rows import RowSettings
from pipeline.steps.tokenizer.load import (
    SPECIAL_IDS,
    SPELLED_OUT,
    load_tokenizer,
    special_ids_of,
    spelled_out_of,
)
from stages.errors import FormatError
from stages.findings import Finding
from stages.objectives.table import read_objective, resolve, traits_of
from stages.store.arrays import open_array
from stages.store.drawn import DRAWN_NAME, read_drawn
from stages.store.manifest import MANIFEST_NAME, WORD_STARTS, Manifest
from stages.tokenizer.markup import SpelledOut

_OF_THE_FILES = {"shards", "totals", "tables", "fingerprint"}
"""What a manifest says that no setting does."""
_OF_THE_KIND = {"attention", "label_convention"}
"""What is held to the objective that the manifest names."""


@dataclass(frozen=True)
class Settings:
    """What the run file says of a dataset."""

    rows: RowSettings
    """Of its training split; those held out have no mix."""
    epochs: int
    """That are to stand on disk."""
    special_ids: Mapping[str, int] | None = None
    """Of the tokenizer that the run trains, or as they were found in an existing one; None if the file
    with them is all there is."""
    spelled_out: Mapping[str, SpelledOut] = field(default_factory=dict)
    """By source, what contents of its dialogues spell out."""
    copies: Copies | None = None
    """Of a dataset with a mix, which copies of documents its training split has."""


def check_settings(
    workspace: Workspace, folder: str, manifest: Manifest, settings: Settings
) -> Iterator[tuple[str, Finding]]:
    """The manifest of a split declares what the run says, and its tables and epochs stand."""
    yield from check_declared(workspace, folder, manifest, settings)
    if settings.special_ids is not None:
        yield from _special_ids(special_ids_of(workspace.root), settings.special_ids)
    yield from _spelled_out(spelled_out_of(workspace.root), settings.spelled_out)
    yield from _tables(workspace, folder, manifest, settings)
    yield from _epochs(workspace, folder, manifest, settings)


def _special_ids(found: Mapping[str, int], wanted: Mapping[str, int]) -> Iterator[tuple[str, Finding]]:
    """The file beside the tokenizer names the special ids that the run has."""
    differ = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    if differ:
        first = f"{differ[0]} is {found.get(differ[0])}, but the run has {wanted.get(differ[0])}"
        yield SPECIAL_IDS, Finding("special_ids", f"{len(differ):,} names are of other ids; {first}")


def _spelled_out(
    found: Mapping[str, SpelledOut], wanted: Mapping[str, SpelledOut]
) -> Iterator[tuple[str, Finding]]:
    """The file beside the tokenizer says what contents spell out, as the run does."""
    for source in sorted(found.keys() | wanted.keys()):
        if found.get(source) != wanted.get(source):
            message = f"{source} has {found.get(source)}, but the run has {wanted.get(source)}"
            yield SPELLED_OUT, Finding("spelled_out", message)


def check_declared(
    workspace: Workspace, folder: str, manifest: Manifest, settings: Settings
) -> Iterator[tuple[str, Finding]]:
    """The manifest of a split declares what the run file and the tokenizer say.

    Settings are compared, not how they are spelled: an option that came after the dataset was made is at
    its default in both.
    """
    dataset, split = folder.split("/")[-2:]
    rows = settings.rows if split == "train" else replace(settings.rows, interleave="shuffle")
    generation = None if manifest.lineage is None else manifest.lineage.number
    vocab_size = load_tokenizer(workspace).vocab_size
    work = ManifestWork(dataset, split, (), rows, vocab_size, generation)
    known = resolve(rows.objective, rows.packing.seq_len)
    wanted = manifest_of(workspace, work, known)
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
    wanted = {WORD_STARTS} if traits_of(settings.rows.objective).words else set()
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
        if not np.array_equal(found, load_tokenizer(workspace).codec.word_starts()):
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


def check_documents(
    path: Path, schema: pa.Schema, group: MergedGroup, *, scratch: Path
) -> Iterator[Finding]:
    """The list of a shard's documents says of each what the run does."""
    every = group.schema.names
    belong, names = len(group.lengths), [name for name in every if name in schema.names]
    wrong = set(every) ^ set(schema.names)
    listed = pq.read_metadata(path).num_rows
    first = 0
    for wanted in group.documents(scratch):
        for found in read_rows(path, names, first, first + wanted.num_rows):
            part = wanted.slice(first - wanted["doc"][0].as_py(), found.num_rows)
            if "id" in wrong or not found.column("id").equals(part.column("id")):
                same = (
                    [] if "id" in wrong else pc.equal(found.column("id"), part.column("id")).to_pylist()
                )
                yield _other_documents(listed, belong, first + _first(same))
                return
            wrong |= {name for name in names if not found.column(name).equals(part.column(name))}
            first += found.num_rows
        if first != wanted["doc"][-1].as_py() + 1:
            break
    if listed != belong or first != belong:
        yield _other_documents(listed, belong, min(listed, belong))
    elif wrong:
        columns = ", ".join(name for name in dict.fromkeys([*every, *schema.names]) if name in wrong)
        yield Finding("documents", f"says another {columns} of some documents than the run")


def _other_documents(listed: int, belong: int, first: int) -> Finding:
    return Finding(
        "documents",
        f"lists {listed:,} documents, but {belong:,} belong here; the first that differs is document"
        f" {first}",
    )


def _first(same: list[bool]) -> int:
    return same.index(False) if False in same else len(same)
