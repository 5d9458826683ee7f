"""Quick: texts in, a trainer's files out, in one call: a run and an export that anyone could write.

    WORK/        an ordinary run: no deduplication, an existing tokenizer, one dataset of whole documents
    TO/          its export

The run has its verification, all that is exact of it; no model is trained. Both halves go on where they
were stopped, and do nothing when they are done.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
from stages.export.format import Format, Holds

DATASET = "documents"
SOURCE = "texts"
VALIDATION = 0.01


@dataclass(frozen=True)
class QuickRequest:
    """What a call of `shardmill quick` asks for."""

    paths: tuple[str, ...]
    tokenizer: Path
    format: str
    to: Path
    text_column: str = "text"
    seq_len: int | None = None
    validation: float = VALIDATION
    special: tuple[str, ...] = ()
    """Special ids as ROLE=PIECE or ROLE=ID."""
    framing: str | None = None
    """A preset of `[framing]`."""
    work: Path | None = None
    workers: int = 0
    replace: bool = False

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.work or self.to.with_name(f"{self.to.name}.work")


def quick_export(request: QuickRequest, *, stream: TextIO | None) -> QuickReport:
    """Tokenize texts and export them, or go on with it; give the reports of both halves.

    Raises:
        ShardmillError: as its message says; what is done stays.
    """
    format_ = find_format(request.format)
    _refuse_format(request, format_)
    with disk_faults(request.to):
        finished = _refuse_target(request)
    file, base = run_file(request), Path.cwd()
    adopted = find_tokenizer(file, base)
    assert adopted is not None
    format_.refuse_vocabulary(adopted.vocab_size, name=request.tokenizer.name)
    run = RunRequest(file, base, request.folder, request.workers, replace=request.replace, as_one=True)
    _refuse_new_files(request, run)
    if finished and request.replace:
        _refuse_redoing(request, run)
    report = session.run_session(run, stream=stream)
    if not report["passed"]:
        findings = report["verify"][DATASET]["findings"]
        first = ": ".join(findings[0][key] for key in ("file", "check", "message"))
        raise VerificationError(
            f"{request.folder}: verify: FAIL: {len(findings):,} findings; the first: {first}; nothing"
            " is exported"
        )
    exported = export(request.folder, DATASET, request.format, request.to, stream=stream)
    return {"work": str(request.folder), "run": report, "export": exported}


def _refuse_target(request: QuickRequest) -> bool:
    """Refuse a target that the export could not take; say whether it is finished there already."""
    to = require_local(request.to, "--to")
    if request.work is not None:
        require_local(request.work, "--work")
    finished = read_summary(to)
    if finished is None or not to.name:
        refuse_target(to)
    refuse_overlap(to, request.folder)
    if finished is not None:
        known = finished.identity  # its splits and columns are those of a run that is done
        wanted = known.model_copy(update={"format": request.format, "dataset": DATASET, "epoch": 0})
        require_same(to, finished.identity, wanted)
        require_there(to, finished)
    return finished is not None


def _refuse_new_files(request: QuickRequest, run: RunRequest) -> None:
    """Refuse files that came later: they would be a generation, whose rows no export has.

    With --replace there is none: all files become one run.
    """
    with disk_faults(request.folder):
        later = generation_requests(run)[1:]
    if later:
        new = sorted(key for one in later for key in one.files or ())
        raise ConfigError(
            f"{request.folder}: was made without {len(new):,} of the files (the first is {new[0]}), and"
            f" the export would not hold their rows. To export all rows, delete {request.to} and run the"
            " same command with --replace; or name another --to for the new files alone"
        )


def _refuse_redoing(request: QuickRequest, run: RunRequest) -> None:
    """Refuse to make a dataset anew of which a finished export stands at the target."""
    stale = [step.step.name for step in session.plan_session(run) if step.state is State.STALE]
    if f"{SHARD.name}-{DATASET}" in stale:
        raise ConfigError(
            f"--to {request.to}: holds a finished export of what --replace would make anew; delete it,"
            " or choose another --to"
        )


def run_file(request: QuickRequest) -> RunFile:
    """Return the run file that one would write for it.

    Raises:
        ConfigError: a value out of bounds, or no such special id.
    """
    content: dict[str, Any] = {
        "name": "quick",
        "sources": [{"name": SOURCE, "paths": list(request.paths), "text_column": request.text_column}],
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": str(request.tokenizer), "special": special_pieces(request.special)},
        "validation": {"fraction": request.validation},
        "datasets": [{"name": DATASET}],
        "verify": {"learning": False},
    }
    if request.framing is not None:
        content["framing"] = {"preset": request.framing}
    if request.seq_len is not None:
        content["packing"] = {"seq_len": request.seq_len}
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


def _refuse_format(request: QuickRequest, format_: Format) -> None:
    """Refuse what quick has not, and options that would do nothing."""
    if format_.needs_sentences:
        raise ConfigError(
            f"--format {format_.name}: needs to know where sentences end, which this does not ask; write"
            " a run file with an objective that does, such as nsp, and export its dataset"
        )
    if request.seq_len is not None and format_.holds is Holds.DOCUMENTS:
        raise ConfigError(
            f"--seq-len {request.seq_len}: {format_.name} holds whole documents, of which the trainer"
            " cuts its own rows; leave --seq-len out"
        )
