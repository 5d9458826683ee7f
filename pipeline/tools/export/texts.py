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
from pipeline.planning.plan import State, StepStatus
from pipeline.session.request import RunRequest, generation_requests, scope_of
from pipeline.session.session import plan_session
from pipeline.state.commit_object import Commit
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.places import reading, writing
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
from pipeline.system.printable import as_known
from pipeline.tools.export.folder import (
    LAST,
    ExportPart,
    Identity,
    exported,
    read_from,
    refuse_overlap,
)
from pipeline.tools.export.terminal import ExportReport
from stages.errors import ConfigError, FormatError
from stages.export.files import ExportFiles
from stages.export.texts import FILE_BYTES, TEXT_FORMATS, TextFormat, as_texts, text_columns
from stages.identity import ID_BYTES
from stages.store.digests import FileDigest, digest_file

READ_ME = "READ.md"
FOLDER = "EXPORT"
_WAY_OUT = "`shardmill verify {folder}` names what is wrong"


@dataclass(frozen=True)
class KeptUnits:
    """The units of a run as its last step of selection left them."""

    folder: Path
    """Of the run."""
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


def export_texts(
    folder: str | Path,
    format: str,  # noqa: A002  # as the command has it
    to: str | Path,
    *,
    stream: TextIO | None = None,
) -> ExportReport:
    """Write the texts that a run kept, and return what was written and how it is read.

    The run must have got to the end of deduplication; it needs no tokenizer and no dataset.

    Args:
        folder: of the run.
        format: "text-parquet" or "text-jsonl".
        to: folder of the export.
        stream: where progress is shown.

    Raises:
        ShardmillError: no such format, or the run has not got so far.
    """
    if format not in TEXT_FORMATS:
        raise ConfigError(f"--format {format}: no format of texts; formats: {', '.join(TEXT_FORMATS)}")
    with (
        reading(Path(folder), key="folder") as place,
        writing(Path(to), key="to", markers=LAST) as target,
        disk_faults(target),
    ):
        format_, run = TEXT_FORMATS[format], RunFolder(place)
        refuse_overlap(target, run.path)
        run.generations()
        kept = _kept_units(run)
        identity = Identity(format=format, dataset="", epoch=0, splits={"kept": (kept.fingerprint,)})
        summary, already = exported(target, identity, _parts(kept, format_), stream=stream)
        return {
            "dataset": "",
            "format": format,
            "client": format_.client,
            "to": as_known(str(target)),
            "already": already,
            "epoch": None,
            "splits": {},
            "contents": [_content(kept)],
            "bytes": sum(file.bytes for file in summary.files.values()),
            "files": {name: file.model_dump(mode="json") for name, file in summary.files.items()},
            "read": format_.read(read_from(target)),
            "notes": list(_notes(run.path)),
        }


def _kept_units(run: RunFolder) -> KeptUnits:
    """Return the units of a run whose selection is done."""
    last = last_selecting(run.file)
    ingest = _commit(run, INGEST.name).read(INGEST.record)
    selected = _commit(run, last).read(step_of(last).record)
    assert isinstance(selected, SelectionRecord)
    units = tuple(as_kept_by(unit, last) for unit in units_of(ingest.units))
    size = sum(one["bytes"] for one in selected.languages.values())
    digests = {**_digests(run.commits, INGEST.name), **_digests(run.commits, last)}
    return KeptUnits(
        run.path, last, run.plan.steps[last].fingerprint, selected.kept, size, units, digests
    )


def _digests(commits: Commits, step: str) -> dict[str, FileDigest]:
    """Return what the files of a step must be, by key, in a folder and in the tree of a store."""
    found = [commits.read(step, unit) for unit in commits.units(step)]
    return {key: digest for one in found if one is not None for key, digest in one.files.items()}


def _commit(run: RunFolder, step: str) -> Commit:
    """Return what a step committed as a whole."""
    commit = run.commit(step)
    if commit is None:
        raise ConfigError(
            f"{run.path}: step {step} is not done, so it is not decided which texts are kept; run the"
            f" run file with --output {run.path} --until {step} first"
        )
    return commit


def _parts(kept: KeptUnits, format_: TextFormat) -> Iterator[ExportPart]:
    """Yield the parts in the order in which they are written: files, then what tells about them."""
    for source, units in groupby(kept.units, key=attrgetter("source")):
        for number, group in enumerate(_files(list(units))):
            name = f"{source}/{number:05}{format_.suffix}"
            yield name, partial(_write_file, kept, format_, name, group)
    yield "about", partial(_write_about, kept, format_)


def _files(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Yield the units of each file of a source."""
    group: list[Unit] = []
    size = 0
    for unit in units:
        if group and size + unit.text_bytes > FILE_BYTES:
            yield group
            group, size = [], 0
        group.append(unit)
        size += unit.text_bytes
    yield group


def _write_file(
    kept: KeptUnits, format_: TextFormat, name: str, units: Sequence[Unit], files: ExportFiles
) -> None:
    """Write the kept documents of some units of one source; no file if there are none.

    Raises:
        FormatError: other documents were written than those that the units' masks keep.
    """
    written = 0

    def counted() -> Iterator[pa.Table]:
        nonlocal written
        for table in _texts(kept, units):
            written += table.num_rows
            yield table

    tables = counted()
    first = next(tables, None)
    if first is not None:
        format_.write(name, chain([first], tables), files)
    if written != (masked := sum(_count(kept, units))):
        raise FormatError(
            f"{kept.folder}: {written:,} documents were written to {name}, but step {kept.step} kept"
            f" {masked:,} of its units; {_WAY_OUT.format(folder=kept.folder)}"
        )


def _texts(kept: KeptUnits, units: Sequence[Unit]) -> Iterator[pa.Table]:
    """Yield the kept documents of units, some at a time; their files are what was committed."""
    workspace = Workspace(kept.folder, kept.folder)
    for unit in units:
        for key in (unit.table, unit.keep_mask, *([unit.cuts] if unit.cut else [])):
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


def _write_about(kept: KeptUnits, format_: TextFormat, files: ExportFiles) -> None:
    """Compare the masks, to which each file was held, with the record; write how it is read."""
    masked = sum(_count(kept, kept.units))
    if masked != kept.documents:
        raise FormatError(
            f"{kept.folder}: the masks of the units keep {masked:,} documents, but step {kept.step}"
            f" kept {kept.documents:,}; {_WAY_OUT.format(folder=kept.folder)}"
        )
    lines = [
        f"# Texts for {format_.client}",
        "",
        f"- {_content(kept)}",
        *(f"- {note}" for note in _notes(kept.folder)),
        "",
        f"{FOLDER} stands for this folder:",
        "",
        "```python",
        format_.read(FOLDER),
        "```",
    ]
    files.write(READ_ME, ("\n".join(lines) + "\n").encode())


def _count(kept: KeptUnits, units: Sequence[Unit]) -> Iterator[int]:
    """Yield how many documents of each unit its mask keeps."""
    workspace = Workspace(kept.folder, kept.folder)
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
