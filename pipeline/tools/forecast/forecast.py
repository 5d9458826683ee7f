"""A forecast: a run over a sample of the real documents, scaled to all of them.

    inputs -> a share of their bytes -> a run of its own, inline, in a temporary folder
           -> its report, times (bytes of the inputs / bytes of the sample)

Duplicates whose other copy is outside of the sample are estimated (`duplicates`, beside this module).
What follows the kept documents, such as tokens, counts them still. How a tokenizer that is trained on
more text would encode is not known either. So there are at most as many tokens.
"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from pydantic import ValidationError

from pipeline.commands.api import RunSource, request_of
from pipeline.inputs.files import find_inputs
from pipeline.report.report import Report
from pipeline.run_file.config import RunFile
from pipeline.run_file.faults import explain
from pipeline.run_file.filters import resolve_chats
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.tools.forecast.duplicates import (
    draw_by_chance,
    draws_anew,
    duplicates_forecast,
    sampled_groups,
)
from pipeline.tools.forecast.notes import (
    BYTES_A_PIECE,
    drawn_fields,
    drawn_roles,
    sample_notes,
    vocabulary_note,
)
from pipeline.tools.forecast.sample import InputSample, draw_sample
from pipeline.tools.forecast.scaled_up import MeasuredSample, library_seconds, scaled_up
from pipeline.tools.forecast.terminal import DuplicatesForecast, Forecast
from stages.errors import ConfigError, VocabularySizeError
from stages.store.folders import files_below
from stages.stores.url import StoreUrl, is_store_url

_FEWEST_PIECES = 2_048
_TRIES = 3
"""To train a tokenizer: with more pieces for the characters, then with fewer for so little text."""
_SHORT = 60.0
"""CPU seconds of a sample's run that is done twice: the first time includes loading compiled code."""
_KEPT = ("ingest", "dedup", "cut", "tokens", "sentences", "datasets", "commits")
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
    for source, named in request.file.replays.items():
        raise ConfigError(
            f"--sample {share}: source {source!r} is a run ({named}), and a sample of files says"
            " nothing of it; forecast a copy of the run file without this source"
        )
    if stream is not None:
        print(
            "a run over a sample, in a temporary folder; its warnings are about the sample", file=stream
        )
    request = replace(request, file=resolve_chats(request.file, request.base))
    with tempfile.TemporaryDirectory(prefix="shardmill-forecast-") as name:
        folder = Path(name)
        sample = draw_sample(request.file, request.base, folder, share=share, output=request.output)
        notes = sample_notes(sample, request.file, share=share)
        known = request.file
        if not sample.is_whole:
            sample.sources, unseen = drawn_roles(sample.sources)
            known, without = drawn_fields(known, sample.sources)
            notes += [*unseen, *without]
        file, report, most = _first_run(replace(request, file=known), sample, folder / "run", stream)
        first, pieces = report, file.tokenizer.train.vocab_size
        if pieces < request.file.tokenizer.train.vocab_size:
            text = round(sum(row.bytes for row in report.languages) * sample.times)
            notes.append(vocabulary_note(sample, request.file, pieces=pieces, most=most, text=text))
        if sum(step.cpu_seconds for step in report.steps) < _SHORT:
            report = _report_of(RunRequest(file, request.base, folder / "again", 0))
        duplicates = _duplicates(request, sample, folder, report=report, share=share)
        disk = {name: _size(folder / "run" / name) for name in _KEPT}
        by_library = library_seconds(folder / ("again" if report is not first else "run"))
    measured = MeasuredSample(sample, report, first, by_library=by_library, disk=disk)
    return scaled_up(
        measured, request.file, notes=notes, duplicates=duplicates, room=room_at(request.output)
    )


def room_at(output: Path) -> tuple[str, int | None]:
    """Return the nearest folder that is there, and the bytes that a run has there for itself.

    A store has no such number; of a URL this is the URL and None.
    """
    if is_store_url(str(output)):
        return str(StoreUrl.parse(str(output), key="--output")), None
    output = output.absolute()
    place = next(folder for folder in (output, *output.parents) if folder.is_dir())
    replaced = _size(output) if place == output else 0
    return str(place), shutil.disk_usage(place).free + replaced


def _duplicates(
    request: RunRequest, sample: InputSample, folder: Path, *, report: Report, share: float
) -> DuplicatesForecast | None:
    """Return what is expected to be removed as duplicates; None without deduplication."""
    file = request.file
    if not file.dedup.exact:
        return None
    run = folder / "run"
    files = find_inputs(file, request.base, output=request.output).files
    by_chance = sample.is_whole or draws_anew(files)
    if sample.is_whole or not by_chance:
        share = 1 / sample.times
    else:
        run, place = folder / "duplicates", folder / "chances"
        place.mkdir()
        sources, _ = drawn_roles(draw_by_chance(file, files, place, share=share))
        if not sources:
            return None
        content = replace(sample, sources=sources)
        drawn = _run_of(drawn_fields(file, sources)[0], content, file.tokenizer.train.vocab_size)
        report = _report_of(RunRequest(drawn, request.base, run, 0, until="dedup"))
    groups = sampled_groups(run, report, file)
    if groups is None:
        return None
    return duplicates_forecast(groups, file, share=share, by_chance=by_chance)


def _first_run(
    request: RunRequest, sample: InputSample, output: Path, stream: TextIO | None
) -> tuple[RunFile, Report, int | None]:
    """Run over a sample with as many pieces as it can train.

    Returns:
        that run; its report; and how many pieces its text gives at the most, if that was found out.
    """
    most = None
    wanted = request.file.tokenizer.train.vocab_size
    pieces = min(wanted, max(_FEWEST_PIECES, sample.text_bytes // BYTES_A_PIECE))
    tries = 0
    while True:
        file, tries = _run_of(request.file, sample, pieces), tries + 1
        try:
            again = RunRequest(file, request.base, output, 0, replace=True)
            return file, _report_of(again, stream), most
        except VocabularySizeError as error:
            possible = min(wanted, error.possible)
            if tries == _TRIES or possible == pieces or sample.is_whole:
                raise
            most = error.possible if error.possible < pieces else most
            pieces = possible


def _report_of(request: RunRequest, stream: TextIO | None = None) -> Report:
    return Report.model_validate(run_session(request, stream=stream))


def _run_of(run: RunFile, sample: InputSample, pieces: int) -> RunFile:
    """Return the run over a sample; a tokenizer that it trains has so many pieces.

    Raises:
        ConfigError: the sample gives less than the run needs.
    """
    content = run.model_dump(mode="json")
    content["sources"] = [source.model_dump(mode="json") for source in sample.sources]
    content["verify"]["learning"] = False
    for mix in (content["mix"], *(one["mix"] for one in content["datasets"])):
        if mix is not None and mix["total_tokens"] is not None:  # of the sample, its part
            mix["total_tokens"] = max(1, round(mix["total_tokens"] / sample.times))
    content["dedup"] |= {"max_removed_fraction": 1.0, "max_cluster_size": None}
    if run.tokenizer.path is None:
        content["tokenizer"]["train"]["vocab_size"] = pieces
    try:
        return RunFile.model_validate(content)
    except ValidationError as error:
        said = "; ".join(explain(error, content))
        raise ConfigError(
            f"--sample: the sample cannot be run: {said}; give a larger --sample"
        ) from error


def _size(folder: Path) -> int:
    """Return the bytes of the files below a folder."""
    return sum(path.stat().st_size for path in files_below(folder)) if folder.exists() else 0


def forecast(
    run_file: RunSource,
    output: str | Path,
    *,
    share: float = 0.01,
    settings: Sequence[str] = (),
    stream: TextIO | None = None,
) -> Forecast:
    """Return what a run would keep, give and cost, from a run over a sample of its real documents.

    Args:
        run_file: a TOML file, or what one holds: a mapping, with paths relative to the current folder.
        output: folder of the run; nothing is written there.
        share: of the bytes of the inputs that are read, in (0, 1].
        settings: keys of the run file to change, such as "packing.seq_len=1024".
        stream: where the progress of the sample's run is shown.

    Raises:
        ShardmillError: a setting or an input cannot be used, or no document was drawn.
    """
    request = request_of(run_file, output, settings, workers=0)
    return forecast_run(request, share=share, stream=stream)
