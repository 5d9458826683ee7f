"""Verify, the part of the run: manifests, tables and the token store say what the run's settings say.

What this part holds a file to is never another file that may be as wrong: it is the run file, the
tokenizer, the documents that ingest wrote and the clusters that split held out.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.steps.merge import MergedGroup
from pipeline.steps.shard import ManifestWork, documents_of, manifest_of
from pipeline.steps.split import load_pieces, load_tokenizer
from pipeline.steps.tokenize import COPY, TokenizeUnit, groups_of
from pipeline.steps.units import Unit, kept_mask
from pipeline.tasks import Workspace
from stages.errors import FormatError
from stages.loading.dataset import MappedShard
from stages.mixing.placement import order_of
from stages.objectives.table import Objective, traits_of
from stages.packing.layout import PackingConfig
from stages.store.arrays import open_array
from stages.store.drawn import DRAWN_NAME, read_drawn
from stages.store.manifest import MANIFEST_NAME, SENTENCES, WORD_STARTS, Manifest
from stages.store.token_store import TokenUnit
from stages.tokenizer.sentences import split_sentences
from stages.verify.mechanics import Finding

_SPLIT_TOKENS = 1 << 18
"""Tokens of documents that are split into sentences together."""
_OF_THE_FILES = {"shards", "totals", "tables", "fingerprint"}
"""What a manifest says that no setting does."""
_OF_THE_KIND = {"attention", "label_convention"}
"""What is held to the objective that the manifest names."""
_INGESTED = ("own_id", "language", "position")
"""Columns of the token store's documents that are ingest's."""


@dataclass(frozen=True)
class Settings:
    """What the run file says of a dataset."""

    objective: Objective
    packing: PackingConfig
    seed: int
    epochs: int
    """That are to stand on disk."""


def check_settings(
    workspace: Workspace, folder: str, manifest: Manifest, settings: Settings
) -> Iterator[tuple[str, Finding]]:
    """The manifest of a split declares what the run file and the tokenizer say, and its epochs stand."""
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
    wanted, found = (m.model_dump(mode="json") for m in (manifest_of(workspace, work), manifest))
    for key in sorted(wanted.keys() - _OF_THE_FILES - _OF_THE_KIND):
        if found[key] != wanted[key]:
            message = f"{key} = {_shown(found[key])}, but the run has {_shown(wanted[key])}"
            yield f"{folder}/{MANIFEST_NAME}", Finding("settings", message)
    yield from _tables(workspace, folder, manifest, settings)
    yield from _epochs(workspace, folder, manifest, settings)


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


def check_sentences(
    workspace: Workspace, place: str, mapped: MappedShard, group: MergedGroup
) -> Iterator[tuple[str, Finding]]:
    """Sentences end where the unit's do, and these where the documents are split once more."""
    found, wanted = mapped.sentences, group.sentences
    if found is None or wanted is None:
        return
    same = np.array_equal(found.ptr, wanted.ptr) and np.array_equal(found.values, wanted.values)
    if not same:
        yield f"{place}/{SENTENCES}", Finding("sentences", "they end elsewhere than in the units")
        return
    pieces, languages = load_pieces(workspace), group.table.column("language").to_pylist()
    for first, last in group.batches(_SPLIT_TOKENS):
        ids = np.split(group.tokens(first, last), np.cumsum(group.lengths[first:last])[:-1])
        for number, document in enumerate(ids, first):
            ends = wanted.values[wanted.ptr[number] : wanted.ptr[number + 1]]
            if not np.array_equal(ends, split_sentences(document, languages[number], pieces)):
                message = f"those of document {number} end elsewhere than where its text is split"
                yield f"{place}/{SENTENCES}", Finding("sentences", message)
                return


def check_stored(
    workspace: Workspace, work: TokenizeUnit, store: TokenUnit, table: pa.Table
) -> Iterator[tuple[str, Finding]]:
    """A unit's documents stand in the groups they hash to, in order, and are described as ingested.

    A document that is held out stands in a group of validation, and so do those of its cluster; all
    others stand in a group of training.
    """
    place, unit = f"{work.unit.tokens}/documents.parquet", work.unit
    identities = table.column("id").to_pylist()
    groups = np.repeat(np.arange(len(store.group_ptr) - 1), np.diff(store.group_ptr))
    strangers = np.flatnonzero(groups != groups_of(workspace, work, identities))
    if len(strangers):
        held = f"the first is document {identities[strangers[0]].hex()}"
        message = f"{len(strangers):,} documents stand in the group of another shard or split; {held}"
        yield place, Finding("placement", message)
    orders = [order_of(identity, work.seed, copy=COPY) for identity in identities]
    if not np.array_equal(table.column("order").to_numpy(), np.array(orders, np.uint64)):
        yield place, Finding("order", "says other order hashes than those of its documents")
    if not np.array_equal(table.column("tokens").to_numpy(), np.diff(store.offsets)):
        yield place, Finding("token_conservation", "says other numbers of tokens than the offsets")
    ingested = pq.read_table(workspace.path(unit.table), columns=["id", *_INGESTED])
    kept = ingested.filter(pa.array(kept_mask(workspace, unit))).sort_by("id")
    stored = table.select(kept.column_names).sort_by("id")
    wrong = [n for n in _INGESTED if stored.column(n).to_pylist() != kept.column(n).to_pylist()]
    if wrong:
        message = f"says another {', '.join(wrong)} of some documents than ingest"
        yield place, Finding("documents", message)
