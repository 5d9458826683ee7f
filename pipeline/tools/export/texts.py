"""Export of texts: the documents that a run kept after cleaning, filters, deduplication and cuts.

It needs no dataset and no tokenizer: a run may end at its last step of this kind (`--until dedup`).
Nothing of the run is changed. Documents of earlier runs are not among them, nor copies that a mix makes.

Kept texts: those that a run has cleaned, filtered and deduplicated, for a command that reads them.

Nothing of the run is changed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from typing import TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from pipeline.engine.tasks import Workspace
from pipeline.planning.outputs import require_local
from pipeline.planning.plan import State, StepStatus
from pipeline.session.request import RunRequest, generation_requests, scope_of
from pipeline.session.session import plan_session
from pipeline.state.commit_object import Commit
from pipeline.state.commits import STEP_COMMIT
from pipeline.state.journal import LOCK
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.selection import SelectionRecord, as_kept_by, last_selecting, selecting
from pipeline.steps.step import Job, Records
from pipeline.steps.table import step_of
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.steps.units import (
    Unit,
    fixed_bytes,
    hex_strings,
    kept_groups,
    kept_mask,
    named_table,
    units_of,
)
from pipeline.system.disk_faults import disk_faults
from pipeline.tools.export.folder import (
    PARTS,
    ExportPart,
    Identity,
    read_summary,
    refuse_overlap,
    require_same,
    require_there,
    write_whole,
)
from pipeline.tools.export.terminal import ExportReport
from stages.errors import ConfigError, FormatError
from stages.export.files import ExportFiles
from stages.export.texts import FILE_BYTES, TextFormat, as_texts, text_columns
from stages.identity import ID_BYTES
from stages.store.digests import FileDigest, digest_file

READ_ME = "READ.md"
FOLDER = "EXPORT"
_WAY_OUT = "`shardmill verify {folder}` names what is wrong"


@dataclass(frozen=True)
class TextsRequest:
    """What a call asks for that exports texts."""

    folder: Path
    format: TextFormat
    to: Path


@dataclass(frozen=True)
class KeptUnits:
    """The units of a run as its last step of selection left them."""

    step: str
    """The name of that step."""
    fingerprint: str
    """Of that step."""
    documents: int
    """That were kept."""
    text_bytes: int
    units: tuple[Unit, ...]
    digests: Mapping[str, FileDigest]
    """Of the committed files of both steps, by key."""


def export_texts(request: TextsRequest, *, stream: TextIO | None) -> ExportReport:
    """Export the texts that a run kept, or continue to; return what was written and how it is read.

    Raises:
        ConfigError: the run has not got so far, or the target holds something else.
        FormatError: the run or the export was damaged.
        Stopped: by a signal, by a full disk, or because another process is at it.
    """
    with disk_faults(request.to):
        require_local(request.folder, "DIR")
        to = require_local(request.to, "--to")
        refuse_overlap(to, request.folder)
        run = RunFolder(request.folder)
        run.generations()
        kept = _kept_units(run)
        identity = Identity(
            format=request.format.name, dataset="", epoch=0, splits={"kept": (kept.fingerprint,)}
        )
        summary = read_summary(to)
        already = summary is not None
        if summary is None:
            parts = list(_parts(request, kept))
            summary = write_whole(to, identity, parts, stream=stream)
        else:
            require_same(to, summary.identity, identity)
            require_there(to, summary)
        for name in (PARTS, LOCK):
            (to / name).unlink(missing_ok=True)
        return {
            "dataset": "",
            "format": request.format.name,
            "client": request.format.client,
            "to": str(to),
            "already": already,
            "epoch": None,
            "splits": {},
            "contents": [_content(kept)],
            "bytes": sum(file.bytes for file in summary.files.values()),
            "files": {name: file.model_dump(mode="json") for name, file in summary.files.items()},
            "read": request.format.read(str(to)),
            "notes": list(_notes(request.folder)),
        }


def _kept_units(run: RunFolder) -> KeptUnits:
    """Return the units of a run whose selection is done."""
    last = last_selecting(run.file)
    ingest = _commit(run, INGEST.name).read(INGEST.record)
    selected = _commit(run, last).read(step_of(last).record)
    assert isinstance(selected, SelectionRecord)
    units = tuple(as_kept_by(unit, last) for unit in units_of(ingest.units))
    size = sum(one["bytes"] for one in selected.languages.values())
    digests = {**run.commits.unchecked(INGEST.name), **run.commits.unchecked(last)}
    return KeptUnits(last, run.plan.steps[last].fingerprint, selected.kept, size, units, digests)


def _commit(run: RunFolder, step: str) -> Commit:
    """Return what a step committed as a whole."""
    commit = run.commit(step)
    if commit is None:
        raise ConfigError(
            f"{run.path}: step {step} is not done, so it is not decided which texts are kept; run the"
            f" run file with --output {run.path} --until {step} first"
        )
    return commit


def _parts(request: TextsRequest, kept: KeptUnits) -> Iterator[ExportPart]:
    """Yield the parts in the order in which they are written: files, then what tells about them."""
    for source, units in groupby(kept.units, key=attrgetter("source")):
        for number, group in enumerate(_files(list(units))):
            name = f"{source}/{number:05}{request.format.suffix}"
            yield name, partial(_write_file, request, kept, name, group)
    yield "about", partial(_write_about, request, kept)


def _files(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Yield the units of each file of a source."""
    held: list[Unit] = []
    size = 0
    for unit in units:
        if held and size + unit.text_bytes > FILE_BYTES:
            yield held
            held, size = [], 0
        held.append(unit)
        size += unit.text_bytes
    yield held


def _write_file(
    request: TextsRequest, kept: KeptUnits, name: str, units: Sequence[Unit], files: ExportFiles
) -> None:
    """Write the kept documents of some units of one source; no file if there are none.

    Raises:
        FormatError: other documents were written than those that the units' masks keep.
    """
    written = 0

    def counted() -> Iterator[pa.Table]:
        nonlocal written
        for table in _texts(request.folder, kept, units):
            written += table.num_rows
            yield table

    tables = counted()
    first = next(tables, None)
    if first is not None:
        request.format.write(name, chain([first], tables), files)
    if written != (masked := sum(_count(request, units))):
        raise FormatError(
            f"{request.folder}: {written:,} documents were written to {name}, but step {kept.step} kept"
            f" {masked:,} of its units; {_WAY_OUT.format(folder=request.folder)}"
        )


def _texts(folder: Path, kept: KeptUnits, units: Sequence[Unit]) -> Iterator[pa.Table]:
    """Yield the kept documents of units, some at a time; their files are what was committed."""
    workspace = Workspace(folder, folder)
    for unit in units:
        for key in (unit.table, unit.keep, *([unit.cuts] if unit.cut else [])):
            _require_committed(workspace.path(key), kept.digests.get(key))
        place = workspace.path(unit.table)
        with named_table(place), pq.ParquetFile(place) as file:
            columns = text_columns(file.schema_arrow.names)
        for table in kept_groups(workspace, unit, columns):
            ids = hex_strings(fixed_bytes(table.column("id"), ID_BYTES))
            yield as_texts(table, source=unit.source, ids=ids)


def _require_committed(place: Path, digest: FileDigest | None) -> None:
    """Refuse a file that is not the one that was committed."""
    if digest is None or digest_file(place) != digest:
        raise FormatError(
            f"{place}: is not the file that the run committed; put it back, or run the run file again"
            " with --replace"
        )


def _write_about(request: TextsRequest, kept: KeptUnits, files: ExportFiles) -> None:
    """Compare the masks, to which each file was held, with the step's record; write how it is read."""
    masked = sum(_count(request, kept.units))
    if masked != kept.documents:
        raise FormatError(
            f"{request.folder}: the masks of the units keep {masked:,} documents, but step {kept.step}"
            f" kept {kept.documents:,}; {_WAY_OUT.format(folder=request.folder)}"
        )
    lines = [
        f"# Texts for {request.format.client}",
        "",
        f"- {_content(kept)}",
        *(f"- {note}" for note in _notes(request.folder)),
        "",
        f"{FOLDER} stands for this folder:",
        "",
        "```python",
        request.format.read(FOLDER),
        "```",
    ]
    files.write(READ_ME, ("\n".join(lines) + "\n").encode())


def _count(request: TextsRequest, units: Sequence[Unit]) -> Iterator[int]:
    """Yield how many documents of each unit its mask keeps."""
    workspace = Workspace(request.folder, request.folder)
    return (int(kept_mask(workspace, unit).sum()) for unit in units)


def _content(kept: KeptUnits) -> str:
    """Say how much there is."""
    return (
        f"{kept.documents:,} documents, {kept.text_bytes:,} bytes of text, as step {kept.step} kept them"
    )


def _notes(folder: Path) -> Iterator[str]:
    """Say what a user must know of the texts."""
    yield (
        "These are texts before the validation split, the tokenizer and the mix: each kept document is"
        " here once, in the order of the input."
    )
    yield "Columns: text, id, own_id, source, language, path, position, and the fields of keep_columns."
    for later in RunFolder(folder).generations():
        yield f"Without the documents that {later} added; export them from there, to another folder."


def kept_texts(request: RunRequest) -> Job:
    """Return the step `tokenizer` of a run, ready to read what was kept.

    Args:
        request: whose output is the run's folder.

    Raises:
        ConfigError: the folder has no texts of this run file, or not all of them yet.
    """
    own = generation_requests(request)[0]
    needed = (INGEST.name, *selecting(own.file))
    status = {one.step.name: one for one in plan_session(own)}
    _require_done([status[name] for name in needed], own)
    records, commits = Records(), RunFolder(own.output).commits
    for name in needed:
        commit = commits.get(name, STEP_COMMIT, status[name].step.fingerprint)
        assert commit is not None, "the step is done"
        records.put(name, commit.read(step_of(name).record))
    scope = scope_of(own, ())
    return Job(status[TOKENIZER.name].step, scope, records, own.output.resolve(), own.workers)


def _require_done(needed: Sequence[StepStatus], request: RunRequest) -> None:
    open_steps = [one for one in needed if one.state is not State.DONE]
    if not open_steps:
        return
    first = open_steps[0]
    why = f" ({first.why})" if first.why else ""
    last = needed[-1].step.name
    raise ConfigError(
        f"{request.output}: has no kept texts of this run file: step {first.step.name} is"
        f" {first.state.value}{why}; run `shardmill run RUN.toml --output {request.output} --until"
        f" {last}` first, or give no folder: the texts are then made in a temporary one"
    )
