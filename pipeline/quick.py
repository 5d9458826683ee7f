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

from pipeline import export, session
from pipeline.config import RunFile, explain
from pipeline.existing import find_tokenizer
from stages.errors import ConfigError, VerificationError
from stages.export.format import Format, Holds

DATASET = "documents"
SOURCE = "texts"
VALIDATION = 0.01


@dataclass(frozen=True)
class Request:
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
    work: Path | None = None
    workers: int = 0
    replace: bool = False

    @property
    def folder(self) -> Path:
        """Folder of the run."""
        return self.work or self.to.with_name(f"{self.to.name}.work")


def quick_export(request: Request, *, stream: TextIO | None) -> dict[str, Any]:
    """Tokenize texts and export them, or go on with it; give the reports of both halves.

    Raises:
        ShardmillError: as its message says; what is done stays.
    """
    format_ = export.find_format(request.format)
    _refuse_format(request, format_)
    if not request.to.name or export.read_summary(request.to) is None:
        export.refuse_target(request.to)
    file, base = run_file(request), Path.cwd()
    adopted = find_tokenizer(file, base)
    assert adopted is not None
    format_.refuse_vocabulary(adopted.vocab_size, name=request.tokenizer.name)
    run = session.Request(file, base, request.folder, request.workers, replace=request.replace)
    report = session.run_session(run, stream=stream)
    if not report["passed"]:
        findings = report["verify"][DATASET]["findings"]
        first = ": ".join(findings[0][key] for key in ("file", "check", "message"))
        raise VerificationError(
            f"{request.folder}: verify: FAIL: {len(findings):,} findings; the first: {first}; nothing"
            " is exported"
        )
    asked = export.Request(request.folder, DATASET, request.format, request.to)
    exported = export.export_dataset(asked, stream=stream)
    return {"work": str(request.folder), "run": report, "export": exported}


def run_file(request: Request) -> RunFile:
    """Give the run file that one would write for it.

    Raises:
        ConfigError: a value out of bounds, or no such special id.
    """
    content: dict[str, Any] = {
        "name": "quick",
        "sources": [{"name": SOURCE, "paths": list(request.paths), "text_column": request.text_column}],
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": str(request.tokenizer), "special": _special(request.special)},
        "validation": {"fraction": request.validation},
        "datasets": [{"name": DATASET}],
        "verify": {"learning": False},
    }
    if request.seq_len is not None:
        content["packing"] = {"seq_len": request.seq_len}
    try:
        return RunFile.model_validate(content)
    except ValidationError as error:
        raise ConfigError("quick: " + "; ".join(explain(error))) from error


def _special(given: Sequence[str]) -> dict[str, str | int]:
    """Read special ids: "eos=</s>" -> {"eos": "</s>"}, "pad=0" -> {"pad": 0}."""
    found: dict[str, str | int] = {}
    for item in given:
        role, equals, value = item.partition("=")
        if not equals or not role or not value:
            raise ConfigError(f"--special {item}: must be ROLE=PIECE or ROLE=ID, such as eos=</s>")
        found[role] = int(value) if value.isdecimal() else value
    return found


def _refuse_format(request: Request, format_: Format) -> None:
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
