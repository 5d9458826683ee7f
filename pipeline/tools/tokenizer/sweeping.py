"""Sweeping: the tokenizers that a run would train with other settings, each trained and measured.

    unit, alpha        -> sweep/ALPHA/...                   as the run samples it
    alpha, vocab_size  -> sweep/ALPHA/SIZE/tokenizer/...    as the run trains it
                       -> what held-out text and parallel text come to

The tasks are the run's own, `sample_unit` and `train_tokenizer`, with folders of their own. So the
tokenizer of a setting is the one, byte for byte, that a run with this setting would train.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from pipeline.engine.memory import Need
from pipeline.engine.tasks import Function, Phase, Phases, Task, Workspace
from pipeline.run_file.config import RunFile
from pipeline.run_file.fingerprints import fingerprint_of
from pipeline.steps.records import UnitRecord
from pipeline.steps.step import Job
from pipeline.steps.tokenizer.load import tokenizer_of
from pipeline.steps.tokenizer.step import language_sizes, sample_works, training_need, training_work
from pipeline.steps.tokenizer.training import (
    FAIRNESS,
    SampleRecord,
    SampleUnit,
    TokenizerTraining,
    sample_unit,
    train_tokenizer,
)
from pipeline.system.memory import watched_memory
from stages.errors import VocabularySizeError
from stages.tokenizer.fairness import LanguageCounts, TextCounter
from stages.tokenizer.parity import count_languages
from stages.tokenizer.train import TrainConfig

SWEEP = "sweep"
"""Names the work, and begins its keys."""
PARALLEL = "parallel.json"
"""The texts that parity is measured on, by language."""
_COUNTED_TEXTS = 256
"""Parallel texts that are encoded together."""


@dataclass(frozen=True)
class SweptSample:
    """A sample to draw."""

    made: SampleUnit
    texts: Path
    """The folder of the run that the texts are of."""
    folder: str
    """Where it goes."""


@dataclass(frozen=True)
class SweptTraining:
    """A tokenizer to train and measure."""

    training: TokenizerTraining
    sample: str
    """The folder of its sample."""

    @property
    def folder(self) -> str:
        """Where it goes."""
        return f"{self.sample}/{self.training.train.vocab_size}"


class SweptRecord(UnitRecord):
    """What came of one setting."""

    vocab_size: int
    alpha: float
    refused: str | None = None
    """Why there is no tokenizer: the sample gives fewer pieces, or too few for its characters."""
    folder: str = ""
    sample_bytes: int = 0
    character_coverage: float | None = None
    cpu_seconds: float = 0.0
    """Of training and of measuring it on the sample and on held-out text."""
    memory: int | None = None
    """Bytes that this took beyond what the process held before."""
    held_out: dict[str, dict[str, float]] = {}  # noqa: RUF012  # pydantic copies it
    """Rates of each language on text that was held out."""
    parallel: dict[str, dict[str, int]] = {}  # noqa: RUF012
    """Counts of each language on the parallel text."""


def sample_for_sweep(workspace: Workspace, work: SweptSample) -> SampleRecord:
    """Draw one unit's share of the sample of one alpha, from the texts of a run elsewhere."""
    return sample_unit(Workspace(work.texts, workspace.folder / work.folder), work.made)


def train_for_sweep(workspace: Workspace, work: SweptTraining) -> SweptRecord:
    """Train the tokenizer of one setting, and measure it."""
    config = work.training.train
    own = Workspace(workspace.root / work.sample, workspace.folder / work.folder)
    taken, begun = watched_memory(), time.process_time()
    try:
        record = train_tokenizer(own, work.training)
    except VocabularySizeError as error:
        return SweptRecord(vocab_size=config.vocab_size, alpha=config.alpha, refused=str(error))
    seconds, memory = time.process_time() - begun, taken()
    counter = TextCounter(tokenizer_of(own.folder).codec)
    counts = count_languages(counter, _parallel(workspace))
    fairness = json.loads((own.folder / FAIRNESS).read_text(encoding="utf-8"))
    return SweptRecord(
        vocab_size=config.vocab_size,
        alpha=config.alpha,
        folder=work.folder,
        sample_bytes=record.sample_bytes or 0,
        character_coverage=record.character_coverage,
        cpu_seconds=round(seconds, 2),
        memory=memory,
        held_out={name: one["held_out"] for name, one in fairness.items() if one["held_out"]},
        parallel={name: vars(one) for name, one in sorted(counts.items())},
    )


def parallel_counts(record: SweptRecord) -> dict[str, LanguageCounts]:
    """Return what the parallel text of each language came to."""
    return {name: LanguageCounts(**one) for name, one in record.parallel.items()}


def write_parallel(root: Path, texts: Mapping[str, Sequence[str]]) -> None:
    """Put the parallel texts where the trainings read them."""
    (root / PARALLEL).write_bytes(orjson.dumps(texts))


def _parallel(workspace: Workspace) -> Iterator[tuple[str, Sequence[str]]]:
    texts = orjson.loads((workspace.root / PARALLEL).read_bytes())
    for language, own in texts.items():
        for first in range(0, len(own), _COUNTED_TEXTS):
            yield language, own[first : first + _COUNTED_TEXTS]


def swept(job: Job, settings: Sequence[TrainConfig]) -> Phases[list[SweptRecord]]:
    """Draw a sample for each alpha, and train and measure the tokenizer of each setting.

    Args:
        job: the step `tokenizer` of a run whose texts are kept; its root is the run's folder.
        settings: vocabulary and alpha differ, everything else is the run file's.
    """
    by_alpha = {one.alpha: one for one in settings}
    yield Phase(
        "sample for each alpha",
        [task for config in by_alpha.values() for task in _samples(job, config)],
    )
    works = [SweptTraining(training_work(job, one), _sample_of(one)) for one in settings]
    tasks = [_task(work.folder, train_for_sweep, work) for work in works]
    trained = yield Phase("train each tokenizer", tasks, need=_need(job, settings))
    return [trained[task.unit].read(SweptRecord) for task in tasks]


def _samples(job: Job, config: TrainConfig) -> Iterator[Task]:
    """Yield the tasks that draw the sample of one alpha, unit by unit."""
    folder = _sample_of(config)
    for made in sample_works(job, config):
        work = SweptSample(made, job.root, folder)
        yield _task(f"{folder}/{made.unit.commit_name}", sample_for_sweep, work)


def _task(name: str, function: Function, work: object) -> Task:
    return Task(SWEEP, name.replace("/", "."), function, work, fingerprint_of([SWEEP, name]))


def _sample_of(config: TrainConfig) -> str:
    return f"{SWEEP}/{config.alpha}"


def _need(job: Job, settings: Sequence[TrainConfig]) -> Need:
    """Return the memory of the training that needs most."""
    sizes = language_sizes(job)
    return max(
        (
            training_need(
                with_training(job.file, config),
                sum(sizes.values()),
                workers=job.workers,
                languages=len(sizes),
            )
            for config in settings
        ),
        key=lambda need: need.bytes,
    )


def with_training(file: RunFile, config: TrainConfig) -> RunFile:
    """Return a run file that trains its tokenizer so."""
    tokenizer = file.tokenizer.model_copy(update={"train": config})
    return file.model_copy(update={"tokenizer": tokenizer})
