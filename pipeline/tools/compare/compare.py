"""Compare: tiny models of one budget on datasets of one run or several, asked about the same documents.

    run folders -+-> documents held out by all ------------------> questions
                 +-> datasets -> a model for each and each seed -> compare.json, compare.html

In this process, without Ray, one model after the other: on a CPU a function of the datasets, the runs'
texts and the settings, in whatever order they are named.

The runs that are compared: their datasets, and names by which they are told apart.
"""

import json
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from pipeline.engine.progress import BatchProgress, Progress
from pipeline.planning.outputs import require_local
from pipeline.planning.replays import replays_again
from pipeline.run_file.datasets import SPLITS, finished_splits
from pipeline.state.storage import make_folder
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.replayed_runs import replayed_units
from pipeline.steps.run_folder import RunFolder
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Records
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.tokenizer.load import tokenizer_of
from pipeline.steps.units import Unit, open_unit, units_of
from pipeline.system.disk_faults import disk_faults, making
from pipeline.tools.compare.page import (
    ComparedContent,
    ComparisonReport,
    MeanContent,
    render_comparison,
)
from stages.comparing.classes import Classes, classes_of
from stages.comparing.settings import CompareSettings, IdCounts, MemorisedBits
from stages.comparing.texts import TEXT_TOKENS, Beginning, ChosenTexts, RunTexts, choose_texts
from stages.errors import ConfigError, DataError
from stages.loading.arguments import no_rows
from stages.loading.dataset import open_dataset
from stages.objectives.table import read_objective, traits_of
from stages.objectives.traits import PAIRS
from stages.store.manifest import read_manifest
from stages.verify.gates import to_json


def chosen_datasets(folders: Sequence[Path], names: Sequence[str]) -> dict[Path, list[str]]:
    """Return the datasets to compare of each run, in the order of their names.

    Raises:
        ConfigError: no such run or dataset, or nothing to compare.
    """
    there = {folder: RunFolder(folder).datasets for folder in folders}
    for folder in folders:
        _ = RunFolder(folder).plan  # says so of what is no run
    for name in names:
        if not any(name in found for found in there.values()):
            RunFolder(folders[0]).dataset(name)  # says which there are
    chosen = {
        folder: [name for name in found if not names or name in names] for folder, found in there.items()
    }
    if not any(chosen.values()):
        raise ConfigError(f"{folders[0]}: no dataset to compare; finish the run first")
    return chosen


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return names of run folders, of no two the same: their last parts, as many as that takes."""
    parts = 1
    while len({folder.parts[-parts:] for folder in folders}) < len(folders):
        parts += 1
    return ["/".join(folder.parts[-parts:]) for folder in folders]


FOLDER = "compare"
"""Of the results, in the first run's folder unless told otherwise."""
JSON_NAME, PAGE_NAME = "compare.json", "compare.html"


@dataclass(frozen=True, eq=False)
class _Run:
    """A finished run, and the beginnings of its documents."""

    folder: Path
    name: str
    """As datasets of several runs are told apart."""
    ids: IdCounts
    texts: RunTexts
    labels: dict[bytes, tuple[str, str]]
    """Of held-out documents the language and the source."""


def compare_datasets(
    runs: Sequence[Path],
    settings: CompareSettings,
    *,
    datasets: Sequence[str] = (),
    output: Path | None = None,
    stream: TextIO | None = None,
) -> ComparisonReport:
    """Train and ask a model for each dataset and seed; write what came out, and give it.

    Args:
        runs: folders of runs.
        settings: what each model reads, and how many there are.
        datasets: names; all of every run if there are none.
        output: folder of the results; None is a folder of the first run.
        stream: where progress is shown.

    Raises:
        ConfigError: no such run or dataset, nothing to compare, or no document held out by all runs.
        DataError: files that are not what was committed.
    """
    if output is not None:
        require_local(output, "--output")
    folders = sorted({require_local(folder, "DIR").resolve() for folder in runs})
    chosen = chosen_datasets(folders, datasets)
    opened = [_open_run(folder, name) for folder, name in zip(folders, run_names(folders), strict=True)]
    texts = choose_texts([run.texts for run in opened], most=settings.documents)
    for run in opened:
        if not run.texts.heldout:
            raise ConfigError(no_rows(run.folder, SPLITS[1]))
    if not texts.fresh:
        raise ConfigError(
            "no document is held out by every run, of at least 8 tokens and like no document of"
            " training: set validation.fraction, the same sources and the same seed in all run files"
        )
    folder = output or folders[0] / FOLDER
    with making(folder, "--output"):  # before hours of training, not after
        make_folder(folder.absolute())
    progress = Progress(None, stream)
    records: list[ComparedContent] = []
    for run in opened:
        for name in chosen[run.folder]:
            shown = name if len(opened) == 1 else f"{run.name}/{name}"
            batch = progress.start("compare", shown, total=settings.seeds)
            records.append(_measured(run, name, shown, texts, settings, batch))
            batch.end()
    progress.close()
    report = _report(settings, opened, texts, records)
    with disk_faults(folder):
        write_comparison(folder, report, render_comparison(report))
    return {**report, "output": str(folder)}


def _open_run(folder: Path, name: str) -> _Run:
    earlier, records = RunFolder(folder), Records()
    for step in (INGEST, SPLIT, TOKENIZE):
        commit = earlier.commit(step.name)
        if commit is None:
            raise ConfigError(f"{folder}: step {step.name} is not done; finish the run first")
        records.put(step.name, commit.read(step.record))
    num_bytes = np.array([len(piece) for piece in tokenizer_of(folder).codec.piece_bytes()], np.int64)
    run = _Run(folder, name, IdCounts(num_bytes, np.zeros_like(num_bytes)), RunTexts({}, {}), {})
    replayed = replayed_units(replays_again(earlier.file, earlier.plan))
    for unit in (*units_of(records.of(INGEST).units), *replayed):
        _add_unit(run, unit, train_groups=records.of(SPLIT).shards["train"])
    return run


def _add_unit(run: _Run, unit: Unit, *, train_groups: int) -> None:
    """Add the beginnings of a unit's documents, and how often ids stand in those trained on."""
    store = open_unit(run.folder, unit)
    for group in range(len(store.group_ptr) - 1):
        ids, lengths = store.group(group)
        table = store.documents(group)
        identities = table.column("id").to_pylist()
        beginnings = zip(identities, _beginnings(ids, lengths, run.ids.num_bytes), strict=True)
        if group < train_groups:
            run.texts.training.update(beginnings)
            run.ids.counts[:] += np.bincount(ids, minlength=len(run.ids.counts))
        else:
            run.texts.heldout.update(beginnings)
            for identity, language in zip(identities, table.column("language").to_pylist(), strict=True):
                run.labels[identity] = (language, unit.source)


def _beginnings(
    ids: NDArray[np.integer], lengths: NDArray[np.int64], num_bytes: NDArray[np.int64]
) -> Iterator[Beginning]:
    """Yield the first tokens of each document, those that stand for text alone."""
    start = 0
    for length in lengths.tolist():
        # the ends of sections stand for no text, and of these a document has few
        first = ids[start : start + min(length, 2 * TEXT_TOKENS)]
        yield first[num_bytes[first] > 0][:TEXT_TOKENS]
        start += length


def _measured(  # a dataset of a run, under its name, and how it is measured
    run: _Run, name: str, shown: str, texts: ChosenTexts, settings: CompareSettings, batch: BatchProgress
) -> ComparedContent:
    """Measure the models of one dataset, or say why there are none."""
    import torch  # noqa: PLC0415  # seconds to import, and only this command needs it here

    from stages.comparing.measuring import ModelQuestions, measure, prepare  # noqa: PLC0415  # likewise
    from stages.verify.training import Machine  # noqa: PLC0415  # likewise

    folder = RunFolder(run.folder).dataset(name)
    manifest = read_manifest(folder / finished_splits(folder)[0])
    about: ComparedContent = {
        "name": shown,
        "run": str(run.folder),
        "dataset": name,
        "objective": manifest.objective,
        "fingerprint": manifest.fingerprint,
    }
    if traits_of(read_objective(manifest.objective)).label_convention == PAIRS:
        return {**about, "reason": "its rows have no labels: views are told from those of other texts"}
    if len(finished_splits(folder)) < len(SPLITS):
        return {**about, "reason": "it has no validation split to measure on"}
    training, heldout = (open_dataset(folder, split=split) for split in SPLITS)
    for split, rows in zip(SPLITS, (training, heldout), strict=True):
        if not len(rows):
            return {**about, "reason": no_rows(folder, split)}
    examination = ModelQuestions(_texts(run, texts), texts, _classes(run, texts), run.ids)
    try:
        prepared = prepare(training, heldout, examination, settings=settings)
    except (ConfigError, DataError) as error:  # of another dataset there may be much to say
        return {**about, "reason": str(error)}
    cuda = torch.cuda.is_available()
    machine = Machine("cuda" if cuda else "cpu", bfloat16=cuda)
    models: list[dict[str, Any]] = []
    for seed in range(1, settings.seeds + 1):
        measured = measure(prepared, settings, seed=seed, machine=machine)
        models.append(to_json(asdict(measured)))
        batch.advance(more=False)
    return {**about, "device": machine.device, "mean": _means(models), "models": models}


def _texts(run: _Run, texts: ChosenTexts) -> dict[bytes, Beginning]:
    training, heldout = run.texts.training, run.texts.heldout
    known = {name: training[name] for name in (*texts.repeated, *texts.once)}
    return known | {name: heldout[name] for name in texts.fresh}


def _classes(run: _Run, texts: ChosenTexts) -> Classes | None:
    """Return the languages of the fresh texts, or their sources where there are no two languages."""
    languages, sources = zip(*(run.labels[name] for name in texts.fresh), strict=True)
    return classes_of(languages) or classes_of(sources)


_NUMBERS = (
    "labelled_tokens",
    "passes",
    "unigram_entropy",
    "loss",
    "gain",
    "frequencies",
    "going_on",
    "filling_in",
    "accuracy",
    "untrained_accuracy",
)


def _means(models: Sequence[dict[str, Any]]) -> dict[str, MeanContent | None]:
    """Return the mean and the standard deviation of each number over the seeds; None if it has none."""
    flat = [{**one, **(one["memorised"] or {})} for one in models]
    means: dict[str, MeanContent | None] = {}
    for name in (*_NUMBERS, *(kind.name for kind in fields(MemorisedBits))):
        values = [model.get(name) for model in flat]
        known = [value for value in values if value is not None]
        means[name] = (
            {"mean": statistics.fmean(known), "deviation": statistics.pstdev(known)}
            if len(known) == len(values)
            else None
        )
    return means


def _report(
    settings: CompareSettings,
    runs: Sequence[_Run],
    texts: ChosenTexts,
    records: Sequence[ComparedContent],
) -> ComparisonReport:
    """Return what came out, with what all models have in common."""
    classes = _classes(runs[0], texts)
    return {
        "format_version": 1,
        "settings": settings.model_dump(),
        "runs": {run.name: str(run.folder) for run in runs},
        "texts": {kind: len(names) for kind, names in asdict(texts).items()},
        "classes": None if classes is None else list(classes.names),
        "majority": None if classes is None else classes.majority,
        "datasets": list(records),
    }


def write_comparison(folder: Path, report: object, page: str) -> None:
    """Write what came out, for programs and for people."""
    text = json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / JSON_NAME).write_text(text + "\n", encoding="utf-8")
    (folder / PAGE_NAME).write_text(page, encoding="utf-8")
