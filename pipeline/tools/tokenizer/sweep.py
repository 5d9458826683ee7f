"""Tokenizer sweep: the tokenizers of several sizes and alphas, trained on a run's texts, side by side.

    run file  ->  a run until its texts are kept, in a temporary folder, or that of --run
              ->  a sample an alpha  ->  a tokenizer a size and alpha  ->  tokens, parity, cost

Each tokenizer is the one, byte for byte, that the run would train with these settings. Nothing is
written but the picture and the folder of --save.
"""

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import TextIO

from pydantic import ValidationError

from pipeline.engine.memory import WorkerResources
from pipeline.engine.step_run import StepRun
from pipeline.inputs.balanced_text import resolve_balance
from pipeline.inputs.languages import BUNDLED, bundled_declarations, parallel_lines
from pipeline.planning.outputs import require_local, require_picture
from pipeline.run_file.faults import what_must_be
from pipeline.run_file.filters import resolve_chats
from pipeline.session.execution import open_execution
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.steps.selection import last_selecting
from pipeline.steps.step import Job
from pipeline.steps.tokenizer.load import FOLDER
from pipeline.steps.tokenizer.step import TOKENIZER, language_sizes
from pipeline.system.disk_faults import disk_faults
from pipeline.system.printable import printable_json
from pipeline.tools.export.texts import kept_texts
from pipeline.tools.tokenizer.sweep_tables import (
    RefusedSetting,
    SweepContent,
    SweptText,
    SweptTokenizer,
    draw_sweep,
    name_of,
)
from pipeline.tools.tokenizer.sweeping import (
    SWEEP,
    SweptRecord,
    parallel_counts,
    swept,
    with_training,
    write_parallel,
)
from stages.errors import ConfigError
from stages.tokenizer.frontier import dominating
from stages.tokenizer.parity import (
    ParallelTexts,
    compared_rates,
    parallel_texts,
    require_reference,
)
from stages.tokenizer.train import TrainConfig
from stages.tokenizer.train_config import ParityBalance

REPORT = "sweep.json"
_OPTIONS = {"vocab_size": "--sizes", "alpha": "--alphas", "model": "--model"}
_UNIT = {True: "declaration part", False: "sentence"}
"""What a parallel text is: of the bundled ones, and of a folder."""


@dataclass(frozen=True)
class SweptSettings:
    """Which tokenizers to train: each size with each alpha."""

    sizes: tuple[float, ...]
    """Vocabularies, in pieces."""
    alphas: tuple[float, ...]
    """Exponents of the balance over languages."""
    model: str | None = None
    """The algorithm; None is that of the run file."""


def sweep_tokenizers(  # noqa: PLR0913  # one parameter an option
    run: RunRequest,
    settings: SweptSettings,
    *,
    has_texts: bool = False,
    parallel: Path | None = None,
    reference: str = "en",
    picture: Path | None = None,
    save: Path | None = None,
    stream: TextIO | None = None,
) -> SweepContent:
    """Train a tokenizer of each size and alpha, and measure all of them on the same texts.

    Args:
        run: the run file, and how many workers; its output is used only if `has_texts`.
        settings: which tokenizers to train.
        has_texts: whether the run's output holds kept texts; if not, they are made anew.
        parallel: folder of LANG.txt whose lines are the same sentences; None is the bundled one.
        reference: the language that others are compared with.
        picture: file of the picture, as SVG.
        save: folder that keeps the tokenizers and the report.
        stream: where progress is shown.

    Raises:
        ConfigError: a setting or a folder cannot be used, or no tokenizer could be trained.
        ShardmillError: what the run would raise.
    """
    begun = time.monotonic()
    wanted = _settings(run, settings)
    texts, about = _parallel(parallel, reference)
    if picture is not None:
        require_picture(picture)
    if save is not None:
        require_local(save, "--save")
    _require_new(save)
    with tempfile.TemporaryDirectory(prefix="shardmill-sweep-") as name:
        folder = Path(name)
        if not has_texts:
            run = replace(run, output=folder / "run", until=last_selecting(run.file))
            run_session(run, stream=stream)
        job = kept_texts(run)
        records = _trained(job, wanted, texts=texts, folder=folder / SWEEP, stream=stream)
        found = _content(job, records, model=settings.model, reference=reference, about=about, save=save)
        found["seconds"] = round(time.monotonic() - begun, 1)
        if save is not None:
            _save(save, folder / SWEEP, records, found)
    if picture is not None:
        with disk_faults(picture.parent):
            picture.write_text(draw_sweep(found), encoding="utf-8")
    return found


def _settings(run: RunRequest, wanted: SweptSettings) -> list[TrainConfig]:
    """Return the settings to train, by size and then by alpha.

    Raises:
        ConfigError: one is out of bounds, or the run file trains no tokenizer.
    """
    tokenizer = resolve_chats(run.file, run.base).tokenizer
    if tokenizer.path is not None:
        raise ConfigError(
            "tokenizer.path: the run file takes an existing tokenizer, so there is nothing to train;"
            " remove it from a copy of the run file"
        )
    given = tokenizer.train.model_dump()
    if wanted.model is not None:
        given["model"] = wanted.model
    given["parity"] = _balance(run, given)
    settings = [
        _setting(given | {"vocab_size": size, "alpha": alpha})
        for size in sorted(set(wanted.sizes))
        for alpha in sorted(set(wanted.alphas))
    ]
    if not settings:
        raise ConfigError("--sizes, --alphas: give at least one of each, such as 16000,32000 and 0.3,1")
    return settings


def _balance(run: RunRequest, given: Mapping[str, object]) -> ParityBalance:
    """Return where the text is that languages are balanced by, if the algorithm balances them."""
    file = with_training(run.file, _setting(given))
    return resolve_balance(file, run.base).tokenizer.train.parity


def _setting(content: Mapping[str, object]) -> TrainConfig:
    try:
        return TrainConfig.model_validate(content)
    except ValidationError as error:
        fault = error.errors()[0]
        key = str(fault["loc"][0]) if fault["loc"] else ""
        said = f"{_OPTIONS.get(key, key)} {content[key]}: " if key else "--model: "
        raise ConfigError(f"{said}{what_must_be(fault)}") from error


def _parallel(folder: Path | None, reference: str) -> tuple[ParallelTexts, SweptText]:
    lines = bundled_declarations() if folder is None else parallel_lines(folder)
    name = str(BUNDLED) if folder is None else f"--parallel {folder}"
    require_reference(lines, reference, name=name)
    found = parallel_texts(lines, name=name)
    return found, {
        "source": str(folder or BUNDLED),
        "unit": _UNIT[folder is None],
        "sentences": found.sentences,
        "left_out": found.left_out,
        "languages": len(found.texts),
    }


def _trained(
    job: Job,
    settings: Sequence[TrainConfig],
    *,
    texts: ParallelTexts,
    folder: Path,
    stream: TextIO | None,
) -> list[SweptRecord]:
    """Train and measure each setting in a folder, in as many processes as fit into the memory.

    Raises:
        ConfigError: not one of them could be trained.
    """
    folder.mkdir()
    write_parallel(folder, texts.texts)
    resources = WorkerResources(job.workers, None, job.file.resources.memory)
    records: list[SweptRecord] = []
    need = TOKENIZER.need(job.scope)
    work = StepRun(SWEEP, need, swept(job, settings), records.extend)
    with open_execution(folder, resources, needs={SWEEP: need}, stream=stream) as execution:
        execution.do([work])
    if all(one.refused for one in records):
        raise ConfigError(f"--sizes: no tokenizer could be trained: {records[0].refused}")
    return records


def _content(
    job: Job,
    records: Sequence[SweptRecord],
    *,
    model: str | None,
    reference: str,
    about: SweptText,
    save: Path | None,
) -> SweepContent:
    """Return what the settings came to, and which are worse than another."""
    sizes = language_sizes(job)
    refused: list[RefusedSetting] = [
        {"vocab_size": one.vocab_size, "alpha": one.alpha, "why": one.refused}
        for one in records
        if one.refused
    ]
    trained = [one for one in records if not one.refused]
    points = [_point(one, reference, sizes, save) for one in trained]
    costs = [_costs(one) for one in points]
    for point, better in zip(points, dominating(costs), strict=True):
        point["dominated_by"] = None if better is None else _name(points[better])
    at_one = {one["vocab_size"]: one["reference_tokens"] for one in points if one["alpha"] == 1}
    for point in points:
        if point["vocab_size"] in at_one:
            increase = point["reference_tokens"] / max(at_one[point["vocab_size"]], 1) - 1
            point["reference_increase"] = round(increase, 4)
    measured = sum(sizes[name] for name in trained[0].held_out) if trained else 0
    wanted = job.file.tokenizer.train.vocab_size
    return {
        "format_version": 1,
        "model": model or job.file.tokenizer.train.model,
        "reference": reference,
        "parallel": about,
        "corpus_bytes": sum(sizes.values()),
        "measured_share": round(measured / max(sum(sizes.values()), 1), 4),
        "tokenizers": points,
        "refused": refused,
        "chosen": _name(_chosen(points, wanted)),
        "seconds": 0.0,
    }


def _name(point: SweptTokenizer) -> str:
    return name_of(point["vocab_size"], point["alpha"])


def _chosen(points: Sequence[SweptTokenizer], wanted: int) -> SweptTokenizer:
    """Return the setting with the fewest tokens, of the run file's size or the one nearest to it."""
    nearest = min({one["vocab_size"] for one in points}, key=lambda size: (abs(size - wanted), size))
    own = [one for one in points if one["vocab_size"] == nearest]
    return min(own, key=lambda one: (one["tokens"], -one["alpha"]))


def _costs(point: SweptTokenizer) -> tuple[float, ...]:
    """Return what settings are compared by. Not parity: it gets better if the reference pays more."""
    most = max(rates["tokens"] for rates in point["languages"].values())
    return point["vocab_size"], point["tokens"], point["reference_tokens"], most


def _point(
    record: SweptRecord, reference: str, sizes: Mapping[str, int], save: Path | None
) -> SweptTokenizer:
    counts = parallel_counts(record)
    languages = {name: compared_rates(one, counts[reference]) for name, one in counts.items()}
    parity = {name: one["parity"] for name, one in languages.items() if name != reference}
    worst = max(parity, key=lambda name: (parity[name], name))
    measured = record.held_out
    most = max(measured, key=lambda name: (measured[name]["byte_fallback"], name), default=None)
    return {
        "vocab_size": record.vocab_size,
        "alpha": record.alpha,
        "tokens": sum(one.tokens for one in counts.values()),
        "parity": round(mean(parity.values()), 4),
        "worst_parity": parity[worst],
        "worst_language": worst,
        "reference_tokens": counts[reference].tokens,
        "reference_increase": None,
        "corpus_tokens": round(sum(_tokens(measured, sizes))) if measured else None,
        "byte_fallback": None if most is None else measured[most]["byte_fallback"],
        "byte_fallback_language": most,
        "character_coverage": record.character_coverage,
        "sample_bytes": record.sample_bytes,
        "cpu_seconds": record.cpu_seconds,
        "memory": record.memory,
        "dominated_by": None,
        "languages": languages,
        "held_out": measured,
        "folder": None if save is None else str(save / _folder(record)),
    }


def _tokens(measured: Mapping[str, Mapping[str, float]], sizes: Mapping[str, int]) -> Iterator[float]:
    """Yield the tokens of each language's kept text, from the rate of its held-out text."""
    for name, rates in measured.items():
        yield sizes[name] * rates["tokens"] / max(rates["bytes"], 1)


def _folder(record: SweptRecord) -> str:
    return name_of(record.vocab_size, record.alpha)


def _require_new(save: Path | None) -> None:
    """Refuse a folder that holds something.

    Raises:
        ConfigError: it does, or is a file.
    """
    if save is None or not save.exists():
        return
    if not save.is_dir() or any(save.iterdir()):
        raise ConfigError(f"--save {save}: is there already; name an empty or a new folder")


def _save(target: Path, folder: Path, records: Sequence[SweptRecord], found: SweepContent) -> None:
    """Keep each tokenizer as a run keeps its own, and the report beside them."""
    with disk_faults(target):
        target.mkdir(parents=True, exist_ok=True)
        for one in records:
            if not one.refused:
                shutil.copytree(folder / one.folder / FOLDER, target / _folder(one) / FOLDER)
        (target / REPORT).write_text(printable_json(found) + "\n", encoding="utf-8")
