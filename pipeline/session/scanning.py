"""Scanning: which input files must be scanned, by whom, and what is remembered of the others.

The commits of this step are remembered knowledge, not results: each entry stands under a digest of the
file's stamp (place, size, times of change, ETag) and of what decides its slices. An entry that fits no
file any more is dropped without a word and the file is scanned again. Whether that makes later steps
stale depends on the digest of the file's bytes alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import xxhash

from pipeline.engine.tasks import Phase, Task
from pipeline.inputs.files import Blocks, FoundFile, InputFile
from pipeline.inputs.skipped import SkippedFiles
from pipeline.planning.plan import State, StepStatus
from pipeline.session.execution import Execution
from pipeline.state.commits import SCAN, Commits
from pipeline.steps.scan.files import (
    ScannedFile,
    ScanRecord,
    ScanWork,
    first_slices,
    scan_file,
    scan_files,
)
from pipeline.steps.step import StepPlan
from stages.config import canonical_json
from stages.errors import ChangedInputError, FormatError
from stages.reading.reader import TableReader
from stages.reading.slices import Slice

VERSION = 1
"""Raised when what is kept of a file changes."""
TASK_BYTES = 64 << 20
"""Bytes of the files of a task, about: a commit takes 12 ms, as long as 64 MiB take to hash."""
TASK_FILES = 1_000


@dataclass(frozen=True)
class _Entry:
    """What is remembered of a file."""

    unit: str
    scanned: ScannedFile
    blocks: Blocks


def scan_inputs(found: Sequence[FoundFile], execution: Execution) -> list[InputFile]:
    """Return a run's files with what was scanned of them, after scanning those that are not known.

    Raises:
        ShardmillError: as `pipeline.steps.scan.files.scan_file`.
    """
    wanted = {_fingerprint(file, execution.attempt): file for file in found}
    known = _remembered(execution.commits, execution=execution)
    used = {known[name].unit for name in wanted if name in known}
    _drop(execution, {entry.unit for entry in known.values()} - used)
    tasks = [_task(files) for files in _groups({n: f for n, f in wanted.items() if n not in known})]
    if tasks:
        step = StepPlan(SCAN, "", {}, ())
        execution.do_phase(step, Phase("scan the inputs", tasks))
        known = _remembered(execution.commits, execution=execution)
    return [_input_file(file, known[name]) for name, file in wanted.items()]


def planned_inputs(found: Sequence[FoundFile], commits: Commits) -> list[InputFile]:
    """Return a run's files as a plan needs them; nothing is written.

    Where nothing is committed everything is new, whatever is in the files: only tables are looked into,
    for their columns. Otherwise a file that is not known is scanned in memory.
    """
    known = _remembered(commits)
    fresh = next(iter(commits.storage.list("commits")), None) is None
    files = []
    for file in found:
        entry = known.get(_fingerprint(file, ""))
        if entry is not None:
            files.append(_input_file(file, entry))
        elif fresh:
            size, slices = file.status.size or 0, first_slices(file)
            files.append(InputFile(file.source, file.path, file.place, size, "", slices))
        else:
            scanned, _ = scan_file(file, "")
            files.append(_input_file(file, scanned))
    return files


def scan_status(
    found: Sequence[FoundFile], commits: Commits, skipped: Sequence[SkippedFiles] = ()
) -> StepStatus:
    """Say how many of a run's files are known, and which are not read."""
    known = _remembered(commits)
    entries = [known.get(_fingerprint(file, "")) for file in found]
    units = {entry.unit for entry in entries if entry}
    unknown = entries.count(None)
    if not unknown:
        state, why = State.DONE, ""
    elif units:
        state, why = State.PARTIAL, f"{unknown:,} of {len(found):,} files are new or changed"
    else:
        state, why = State.NEW, ""
    warning = "; ".join(files.line for files in skipped) or None
    return StepStatus(StepPlan(SCAN, "", {}, (), warning=warning), state, len(units), why=why)


@contextmanager
def forgetting_changed(execution: Execution, files: Sequence[InputFile]) -> Iterator[None]:
    """Forget what was scanned of a file that turns out to have changed.

    Its stamp may be the same as before; the next run must not believe it.
    """
    try:
        yield
    except ChangedInputError as error:
        changed = {(file.source, file.path) for file in files if file.label == error.file}
        entries = _remembered(execution.commits).values()
        _drop(execution, {e.unit for e in entries if (e.scanned.source, e.scanned.path) in changed})
        raise


def _fingerprint(file: FoundFile, attempt: str) -> str:
    """Name what is known of a file by all that decides it; of one attempt if its stamp says nothing."""
    cut: list[object] = []
    if isinstance(file.reader, TableReader):
        unset = {name for name in ("keep_columns", "chat") if not getattr(file.fields, name)}
        idle = {"html_text", "delimiter", "quoting", *unset}
        cut = [file.unit_size, file.fields.model_dump(mode="json", exclude=idle)]
    elif file.is_cut_by_bytes:
        cut = [file.unit_size]
    elif file.is_transcoded:
        cut = [file.encoding]
    session = "" if file.status.lasting else f"attempt {attempt}"
    parts = [VERSION, file.source, file.path, file.status.stamp, session, cut]
    return xxhash.xxh3_128_hexdigest(canonical_json(parts))


def _groups(files: Mapping[str, FoundFile]) -> list[dict[str, FoundFile]]:
    """Put files together that one task scans; tables first, since they may lack a column."""
    groups: list[dict[str, FoundFile]] = []
    group_bytes = 0
    for name, file in sorted(
        files.items(), key=lambda item: not isinstance(item[1].reader, TableReader)
    ):
        size = TASK_BYTES if file.status.size is None else file.status.size
        if not groups or group_bytes + size > TASK_BYTES or len(groups[-1]) == TASK_FILES:
            groups.append({})
            group_bytes = 0
        groups[-1][name] = file
        group_bytes += size
    return groups


def _task(files: Mapping[str, FoundFile]) -> Task:
    digest = xxhash.xxh3_128_hexdigest(canonical_json(list(files)))
    work = ScanWork(digest[:16], list(files.values()), list(files))
    return Task(SCAN, work.name, scan_files, work, digest)


def _remembered(commits: Commits, *, execution: Execution | None = None) -> dict[str, _Entry]:
    """Return what the commits say, by fingerprint; a commit whose file is gone says nothing."""
    entries = {}
    survey = commits.survey(SCAN)
    faults = dict(survey.damaged)
    for unit, commit in survey.commits.items():
        if unit in faults:
            continue
        try:
            record = commit.read(ScanRecord)
            ((key, digest),) = commit.files.items()
        except (FormatError, ValueError) as error:
            faults[unit] = str(error)
            continue
        for file in record.files:
            blocks = Blocks(key, digest.xxh3, file.first_block, file.blocks)
            entries[file.fingerprint] = _Entry(unit, file, blocks)
    if execution is not None:
        for unit, fault in faults.items():
            execution.progress.note(f"scan: {unit} is not whole ({fault}); its files are scanned again")
            _drop(execution, {unit})
    return entries


def _drop(execution: Execution, units: set[str]) -> None:
    if units:
        execution.commits.drop(SCAN, units)
        execution.journal.log("replace", step=SCAN, units=sorted(units))


def _input_file(file: FoundFile, known: _Entry | ScannedFile) -> InputFile:
    scanned = known.scanned if isinstance(known, _Entry) else known
    slices = scanned.slices
    return InputFile(
        file.source,
        file.path,
        file.place,
        scanned.size,
        scanned.digest,
        slices=None if slices is None else tuple(Slice(*part) for part in slices),
        end=scanned.end,
        blocks=known.blocks if isinstance(known, _Entry) else Blocks("", "", 0, 0),
    )
