"""A forecast: a run over a sample of the real documents, scaled to all of them.

    inputs -> a share of their bytes -> a run of its own, inline, in a temporary folder
           -> its report, times (bytes of the inputs / bytes of the sample)

What a sample cannot tell: duplicates whose other copy is outside of it, so fewer documents stay than it
says; and how a tokenizer that is trained on more text would encode, so there are at most as many tokens.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from pipeline.commands.scaled_up import MeasuredSample, library_seconds, scaled_up
from pipeline.inputs.sample import InputSample, draw_sample
from pipeline.report.content import Forecast
from pipeline.run_file.chats import resolve_chats
from pipeline.run_file.config import RunFile
from pipeline.session.session import RunRequest, run_session
from stages.errors import ConfigError
from stages.store.folders import files_below

_BYTES_A_PIECE = 128
"""Text that is taken for each piece of a trained vocabulary: of less, so many may not be found."""
_FEWEST_PIECES = 2_048
_SHORT = 60.0
"""CPU seconds of a sample's run that is done twice: the first time includes loading compiled code."""
_KEPT = ("ingest", "dedup", "tokens", "sentences", "datasets", "commits")
"""Folders of a run whose size follows that of the corpus."""


def forecast_run(request: RunRequest, *, share: float, stream: TextIO | None = None) -> Forecast:
    """Run over a sample in a temporary folder, and scale what it reports; change nothing else.

    Args:
        request: the run; its output and its workers are not used.
        share: of the bytes of the inputs, in (0, 1].
        stream: where the progress of the sample's run is shown.

    Raises:
        ShardmillError: what the run would raise; or no document was drawn.
    """
    if not 0 < share <= 1:
        raise ConfigError(f"--sample {share}: must be above 0 and at most 1, such as 0.01")
    request = replace(request, file=resolve_chats(request.file, request.base))
    with tempfile.TemporaryDirectory(prefix="shardmill-forecast-") as name:
        folder = Path(name)
        sample = draw_sample(request.file, request.base, folder, share=share)
        file, notes = _run_of(request.file, sample)
        report = first = run_session(RunRequest(file, request.base, folder / "run", 0), stream=stream)
        if sum(step["cpu_seconds"] for step in report["steps"]) < _SHORT:
            report = run_session(RunRequest(file, request.base, folder / "again", 0), stream=None)
        disk = {name: _size(folder / "run" / name) for name in _KEPT}
        by_library = library_seconds(folder / ("again" if report is not first else "run"))
    measured = MeasuredSample(sample, report, first, by_library=by_library, disk=disk)
    return scaled_up(measured, request.file, notes=notes)


def _run_of(run: RunFile, sample: InputSample) -> tuple[RunFile, list[str]]:
    """Return the run over a sample, and what it cannot tell."""
    notes = [
        "duplicates are those within the sample; the whole corpus has more, so fewer documents stay",
        "the learning check is not part of the sample's run: it takes minutes; its memory is counted",
        "memory is that of one node whose workers all hold at once what the step with the most takes",
    ]
    content = run.model_dump(mode="json")
    content["sources"] = [source.model_dump(mode="json") for source in sample.sources]
    content["verify"]["learning"] = False
    if run.tokenizer.path is None:
        wanted = run.tokenizer.train.vocab_size
        pieces = min(wanted, max(_FEWEST_PIECES, sample.text_bytes // _BYTES_A_PIECE))
        content["tokenizer"]["train"]["vocab_size"] = pieces
        if pieces < wanted:
            notes.append(
                f"the sample is too small to train {wanted:,} pieces: its tokenizer has {pieces:,}, so"
                " there will be fewer tokens; a larger --sample says more"
            )
    return RunFile.model_validate(content), notes


def _size(folder: Path) -> int:
    """Return the bytes of the files below a folder."""
    return sum(path.stat().st_size for path in files_below(folder)) if folder.exists() else 0
