"""Quick: texts in, a trainer's files out, in one call: a run and an export that anyone could write.

    WORK/        an ordinary run: no deduplication, an existing tokenizer, one dataset of whole documents
    TO/          its export

The run has its verification, all that is exact of it; no model is trained. Both halves go on where they
were stopped, and do nothing when they are done.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from pydantic import ValidationError

from pipeline.planning.existing import find_tokenizer
from pipeline.planning.outputs import require_local
from pipeline.planning.plan import State
from pipeline.run_file.config import RunFile
from pipeline.run_file.faults import explain
from pipeline.session import session
from pipeline.session.request import RunRequest, generation_requests
from pipeline.steps.shard.step import SHARD
from pipeline.system.disk_faults import disk_faults
from pipeline.tools.export.dataset import export, find_format
from pipeline.tools.export.folder import (
    read_summary,
    refuse_overlap,
    refuse_target,
    require_same,
    require_there,
)
from pipeline.tools.export.terminal import QuickReport
from stages.errors import ConfigError, VerificationError
from stages.export.format import Format, FormatContents
from stages.export.table import refuse_vocabulary

DATASET = "documents"
SOURCE = "texts"


def quick_run_file(
    paths: Sequence[str],
    tokenizer: Path,
    *,
    text_column: str = "text",
    seq_len: int | None = None,
    validation: float = 0.01,
    special: Sequence[str] = (),
    framing: str | None = None,
) -> RunFile:
    """Return the run file that one would write to tokenize some texts.

    Args:
        paths: files or globs of texts, or URLs.
        tokenizer: an existing one.
        text_column: the field of the text.
        seq_len: tokens in a row, of formats that hold rows.
        validation: share of the documents that is held out.
        special: special ids, as ROLE=PIECE or ROLE=ID.
        framing: a preset of `[framing]`.

    Raises:
        ConfigError: a value out of bounds, or no such special id.
    """
    content: dict[str, Any] = {
        "name": "quick",
        "sources": [{"name": SOURCE, "paths": list(paths), "text_column": text_column}],
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": str(tokenizer), "special": special_pieces(special)},
        "validation": {"fraction": validation},
        "datasets": [{"name": DATASET}],
        "verify": {"learning": False},
    }
    if framing is not None:
        content["framing"] = {"preset": framing}
    if seq_len is not None:
        content["packing"] = {"seq_len": seq_len}
    try:
        return RunFile.model_validate(content)
    except ValidationError as error:
        raise ConfigError("quick: " + "; ".join(explain(error, content))) from error


def special_pieces(given: Sequence[str]) -> dict[str, str | int]:
    """Read special ids: "eos=</s>" -> {"eos": "</s>"}, "pad=0" -> {"pad": 0}."""
    found: dict[str, str | int] = {}
    for item in given:
        role, equals, value = item.partition("=")
        if not equals or not role or not value:
            raise ConfigError(f"--special {item}: must be ROLE=PIECE or ROLE=ID, such as eos=</s>")
        if role in found:
            raise ConfigError(f"--special {item}: {role} is given twice; give it once")
        found[role] = int(value) if value.isdecimal() else value
    return found


def quick_export(
    file: RunFile,
    to: Path,
    *,
    format: str,  # noqa: A002  # as the command has it
    work: Path | None = None,
    workers: int = 0,
    replace: bool = False,
    stream: TextIO | None = None,
) -> QuickReport:
    """Tokenize texts and export them, or go on with it; give the reports of both halves.

    Args:
        file: what `quick_run_file` returns.
        to: folder of the export.
        format: one of docs/exports.md.
        work: folder of the run; None is that of the export with `.work` behind its name.
        workers: Ray actors; 0 runs in this process.
        replace: whether to make again what other texts or options made.
        stream: where progress is shown.

    Raises:
        ShardmillError: as its message says; what is done stays.
    """
    format_, folder, base = find_format(format), work or Path(f"{to}.work"), Path.cwd()
    _refuse_format(file, format_)
    with disk_faults(to):
        finished = _refuse_target(to, folder, format)
    adopted = find_tokenizer(file, base)
    assert adopted is not None
    refuse_vocabulary(format_, adopted.vocab_size, name=Path(file.tokenizer.path or "").name)
    run = RunRequest(file, base, folder, workers, replace=replace, as_one=True)
    _refuse_new_files(run, to)
    if finished and replace:
        _refuse_redoing(run, to)
    report = session.run_session(run, stream=stream)
    if not report["passed"]:
        findings = report["verify"][DATASET]["findings"]
        first = ": ".join(findings[0][key] for key in ("file", "check", "message"))
        raise VerificationError(
            f"{folder}: verify: FAIL: {len(findings):,} findings; the first: {first}; nothing is"
            " exported"
        )
    exported = export(folder, DATASET, format, to, stream=stream)
    return {"work": str(folder), "run": report, "export": exported}


def _refuse_format(file: RunFile, format_: Format) -> None:
    """Refuse what quick has not, and options that would do nothing."""
    if format_.needs_sentences:
        raise ConfigError(
            f"--format {format_.name}: needs to know where sentences end, which this does not ask; write"
            " a run file with an objective that does, such as nsp, and export its dataset"
        )
    if "packing" in file.model_fields_set and format_.holds is FormatContents.DOCUMENTS:
        raise ConfigError(
            f"--seq-len {file.packing.seq_len}: {format_.name} holds whole documents, of which the"
            " trainer cuts its own rows; leave --seq-len out"
        )


def _refuse_target(to: Path, folder: Path, name: str) -> bool:
    """Refuse a target that the export could not take; say whether it is finished there already."""
    require_local(to, "--to")
    require_local(folder, "--work")
    finished = read_summary(to)
    if finished is None or not to.name:
        refuse_target(to)
    refuse_overlap(to, folder)
    if finished is not None:
        known = finished.identity  # its splits and columns are those of a run that is done
        wanted = known.model_copy(update={"format": name, "dataset": DATASET, "epoch": 0})
        require_same(to, known, wanted)
        require_there(to, finished)
    return finished is not None


def _refuse_new_files(run: RunRequest, to: Path) -> None:
    """Refuse files that came later: they would be a generation, whose rows no export has.

    With --replace there is none: all files become one run.
    """
    with disk_faults(run.output):
        later = generation_requests(run)[1:]
    if later:
        new = sorted(key for one in later for key in one.files or ())
        raise ConfigError(
            f"{run.output}: was made without {len(new):,} of the files (the first is {new[0]}), and"
            f" the export would not hold their rows. To export all rows, delete {to} and run the"
            " same command with --replace; or name another --to for the new files alone"
        )


def _refuse_redoing(run: RunRequest, to: Path) -> None:
    """Refuse to make a dataset anew of which a finished export stands at the target."""
    stale = [step.step.name for step in session.plan_session(run) if step.state is State.STALE]
    if f"{SHARD.name}-{DATASET}" in stale:
        raise ConfigError(
            f"--to {to}: holds a finished export of what --replace would make anew; delete it, or"
            " choose another --to"
        )
