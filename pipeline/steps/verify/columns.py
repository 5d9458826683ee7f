"""Verify, the part of columns: what the loader gives is what the objective says of the rows."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.tasks import Workspace
from pipeline.steps.draw.step import draw_rows, material_of
from pipeline.steps.verify.files import check_files, check_names
from stages.errors import FormatError
from stages.findings import Finding
from stages.loading.dataset import ShardDataset
from stages.loading.drawn import DrawnEpochs
from stages.loading.split_reader import SplitReader, dense_segments
from stages.objectives.drawing import count_drawn, draw_columns, draw_plainly
from stages.objectives.electra.config import Generator
from stages.objectives.laws.shown import ShardContext, ShownRows
from stages.objectives.material import Material
from stages.objectives.rows import Columns
from stages.pieces import pieces_of
from stages.store.arrays import open_array
from stages.store.drawn import DRAWN_NAME, DrawnManifest, drawn_dtype, read_drawn
from stages.store.manifest import MANIFEST_NAME, Manifest
from stages.verify import drawn as labels
from stages.verify.source_rows import epoch_rows

_ROW_TOKENS = 1 << 20
"""Tokens whose labels are looked at together: 8 MiB a column."""
_TOGETHER = 8
"""Rows of a batch that is asked for as a trainer does: each may stand in another shard."""
_FAR = 1000
"""An epoch that nobody looks at otherwise, and those after it, one for each shard."""


@dataclass(frozen=True)
class DrawnCheck:
    """One shard of one split."""

    folder: str
    """The split's."""
    number: int
    manifest: Manifest
    sound: bool
    """Whether nothing was found of the stored rows and what stands beside them."""


def check_columns(workspace: Workspace, work: DrawnCheck) -> Iterator[tuple[str, Finding]]:
    """Hold the columns of a shard to its stored rows; epochs on disk too.

    Only rows that nothing was found of are drawn: segments that leave their rows would lead anywhere, in
    compiled code even out of an array.
    """
    place = f"{work.folder}/{MANIFEST_NAME}"
    folder = workspace.path(work.folder)
    try:
        drawn = read_drawn(folder, dataset=work.manifest.fingerprint)
        damaged = list(_damaged(workspace, work, drawn))
        yield from damaged
        reader = SplitReader(folder, work.manifest, check="size", drawn=drawn)
        dataset = ShardDataset(reader, shuffle=False)
        if work.manifest.columns["input_ids"].shape != (dataset.widths.stored,):
            message = f"rows are not the {dataset.widths.stored:,} tokens long that the objective needs"
            yield place, Finding("layout", message)
            return
        if damaged or not work.sound:
            return
        material = material_of(workspace, reader, work.folder, number=work.number)
        wrong = None if drawn is None else _misshapen(folder, drawn, reader, work.number, material)
        if wrong:
            yield f"{work.folder}/{DRAWN_NAME}", Finding("columns", wrong)
            return
        found = list(_columns(dataset, work.number, drawn, material))
        if drawn is not None and not dataset.reader.traits.model:
            of_shards = [shard.rows for shard in dataset.manifest.shards]
            written = DrawnEpochs(folder, drawn, rows=of_shards, check=False)
            found += check_drawn(written, reader, work.number, material)
        if not found:
            found += _batches(folder, work, drawn, material)
    except FormatError as error:
        found = [Finding("manifest", str(error))]
    yield from ((place, finding) for finding in found)


def names_every_shard(drawn: DrawnManifest, manifest: Manifest) -> bool:
    """Say whether the epochs on disk have a folder for each shard."""
    return [len(shards) for shards in drawn.shards] == [len(manifest.shards)] * drawn.epochs


def _damaged(
    workspace: Workspace, work: DrawnCheck, drawn: DrawnManifest | None
) -> Iterator[tuple[str, Finding]]:
    if drawn is not None and not names_every_shard(drawn, work.manifest):
        message = f"does not name each of {len(work.manifest.shards)} shards an epoch"
        yield f"{work.folder}/{DRAWN_NAME}", Finding("epochs", message)
        return
    for shards in () if drawn is None else drawn.shards:
        place = f"{work.folder}/{shards[work.number].path}"
        yield from check_files(workspace, place, shards[work.number].files)
        yield from check_names(workspace, place, shards[work.number].files)


def _columns(
    dataset: ShardDataset, number: int, drawn: DrawnManifest | None, material: Material | None
) -> Iterator[Finding]:
    epochs = labels.num_epochs(dataset.objective)
    if material is not None:
        written = 0 if drawn is None else drawn.epochs
        epochs = written if dataset.reader.traits.model else min(epochs, written)
        if not written:
            yield Finding("drawn", "no epoch stands on disk, and none can be drawn")
    yield from labels.label_findings(
        dataset.objective,
        _shown(dataset, number, epochs, material),
        convention=dataset.manifest.label_convention,
        vocabulary=dataset.vocabulary,
        widths=dataset.widths,
        material=material,
    )


def _batches(
    folder: Path, work: DrawnCheck, drawn: DrawnManifest | None, material: Material | None
) -> Iterator[Finding]:
    """Batches of an epoch hold the rows of its order, each as it is when drawn alone and plainly."""
    written = 0 if drawn is None else drawn.epochs
    if material is not None and not written:
        return
    epoch = _FAR + work.number if material is None else work.number % written
    reader = SplitReader(folder, work.manifest, check="size", drawn=drawn)
    trained = ShardDataset(reader, epoch=epoch)
    first = sum(shard.rows for shard in work.manifest.shards[: work.number])
    positions = np.arange(first, first + min(_TOGETHER, work.manifest.shards[work.number].rows))
    rows = epoch_rows(work.manifest, positions.tolist(), epoch=epoch)
    batches = [trained.batch(positions) for _ in range(2)]  # the order is looked up anew, and then held
    wrong = 0
    for place, row in enumerate(rows):
        shard, number = trained.locate(row)
        single = _single_row(reader, shard, np.array([number]), epoch, plainly=material is None)
        wrong += any(
            batch.keys() != single.keys()
            or any(not np.array_equal(column[0], batch[name][place]) for name, column in single.items())
            for batch in batches
        )
    if wrong:
        rows_said = (
            f"of {len(rows)} rows of a batch of epoch {epoch} {wrong:,} are not those of its order, or"
        )
        yield Finding("batches", f"{rows_said} not what they are alone")


def _single_row(
    reader: SplitReader, shard: int, rows: NDArray[np.int64], epoch: int, *, plainly: bool
) -> Columns:
    """Return rows of one shard as a trainer should get them."""
    if not plainly:
        return reader.read(shard, rows, epoch)
    stored = reader.stored(shard, rows, epoch)
    columns = draw_plainly(stored, reader.objective, reader.vocabulary, reader.widths)
    if not reader.adds_segments or "segment_ids" in columns:
        return columns
    segment_ids, position_ids = dense_segments(
        stored.segment_ptr, stored.segment_length, row_length=reader.widths.stored
    )
    return {**columns, "position_ids": position_ids, "segment_ids": segment_ids}


def _shown(
    dataset: ShardDataset, number: int, num_epochs: int, material: Material | None
) -> Iterator[ShownRows]:
    """Yield the rows of a shard as the loader gives them, beside what is stored of them."""
    shards, shard = dataset.manifest.shards, _shard(dataset.reader, number, material)
    first = sum(shard.rows for shard in shards[:number])
    step = max(2, _ROW_TOKENS // dataset.widths.stored // 2 * 2)
    for start in range(0, shards[number].rows, step):
        part = np.arange(start, min(start + step, shards[number].rows))
        epochs = []
        for epoch in reversed(range(num_epochs)):
            dataset.set_epoch(epoch)
            epochs.append(dataset.batch(first + part))
        stored = dataset.reader.stored(number, part, 0)
        yield ShownRows(stored, tuple(reversed(epochs)), dataset.vocabulary, shard)


def _shard(reader: SplitReader, number: int, material: Material | None) -> ShardContext:
    """Return a shard as laws ask for it."""
    whole = reader.whole_shard(number) if material is None else material.shard
    spelling = None if material is None else material.spelling
    pieces = None if spelling is None else pieces_of(spelling.pieces)
    return ShardContext(whole, reader.mapped(number).columns.get("objective_id"), pieces)


def _misshapen(
    folder: Path,
    drawn: DrawnManifest,
    reader: SplitReader,
    number: int,
    material: Material | None,
) -> str | None:
    """Say which epoch on disk is not a row for each stored one, of the columns that are drawn."""
    rows, columns = reader.manifest.shards[number].rows, drawn.columns
    try:
        for shards in drawn.shards:
            for name, column in columns.items():
                path = folder / shards[number].path / f"{name}.npy"
                open_array(path, shape=(rows, *column.shape), dtype=column.dtype)
    except FormatError as error:
        return str(error)
    none, ids = _no_rows(reader, number, material), reader.manifest.columns["input_ids"].dtype
    wanted = {name: (drawn_dtype(name, ids), column.shape[1:]) for name, column in none.items()}
    found = {name: (column.dtype, column.shape) for name, column in columns.items()}
    if found == wanted:
        return None
    differ = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    first = differ[0]
    return f"{first} is {_form(found.get(first))}, but the objective makes {_form(wanted.get(first))}"


def _form(column: tuple[str, tuple[int, ...]] | None) -> str:
    """Say of what dtype and shape the rows of a column are."""
    return "missing" if column is None else f"{column[0]} {column[1]}"


def _no_rows(reader: SplitReader, number: int, material: Material | None) -> Columns:
    """Return the columns of no row; those that a model draws are the same without it."""
    objective, nothing = reader.objective, np.arange(0)
    if not reader.traits.model:
        return draw_rows(reader, number, nothing, 0, material)
    drawn_objective = objective.model_copy(update={"generator": Generator.UNIFORM, "model": None})
    stored = reader.stored(number, nothing, 0)
    return draw_columns(stored, drawn_objective, reader.vocabulary, reader.widths)


def check_drawn(
    drawn: DrawnEpochs, reader: SplitReader, number: int, material: Material | None = None
) -> list[Finding]:
    """The epochs on disk are, bit by bit, what is drawn of the rows."""
    rows = reader.manifest.shards[number].rows
    step = max(1, _ROW_TOKENS // reader.widths.stored)
    wrong, findings = 0, []
    for epoch in range(drawn.epochs):
        counts: Counter[str] = Counter()
        for start in range(0, max(rows, 1), step):
            part = np.arange(start, min(start + step, rows))
            found = drawn.read(epoch, number, part)
            expected = draw_rows(reader, number, part, epoch, material)
            same = found.keys() == expected.keys() and all(
                np.array_equal(column, found[name]) for name, column in expected.items()
            )
            wrong += not same
            counts.update(count_drawn(found, reader.objective))
        declared = drawn.counts(epoch, number)
        if declared != dict(counts):
            message = f"epoch {epoch} counts {declared} apart, but its rows {dict(counts)}"
            findings.append(Finding("counts", message))
    if not wrong:
        return findings
    return [*findings, Finding("drawn", f"{wrong:,} parts of the epochs on disk are not what is drawn")]
