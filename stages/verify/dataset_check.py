"""Check a dataset by training: rows from the loader, as a trainer gets them, to the checks.

dataset -+-> learning   labels against permuted ones, on held-out rows
         +-> isolation  documents of one row do not see each other
         +-> resume     a training that stops and goes on; on the way, how fast the loader is
         +-> pairs      nsp, sop: whether two texts belong together      reported
         +-> contrast   simcse: views told from those of other texts     reported
         +-> twin       `full`: labels put together anew
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from stages.errors import TooFewLabelsError
from stages.loading.batches import Batches
from stages.loading.dataset import Batch, ShardDataset, open_dataset
from stages.objectives.learning import LearningConfig, LearningSettings
from stages.objectives.traits import PAIRS
from stages.verify.contrast import STEPS as CONTRAST_STEPS
from stages.verify.contrast import ContrastTrainer, Views, check_contrast
from stages.verify.examples import PAIR_LABELS, classified_pairs, labelled_rows
from stages.verify.gates import Gate, settings_of, to_json
from stages.verify.isolation import check_isolation
from stages.verify.learning import LearnedModel, check_learning, make_windows
from stages.verify.model import reproducible
from stages.verify.resume import STEPS, check_resume
from stages.verify.rows import LabelledRows, compact_ids, cut_windows, take_rows
from stages.verify.slices import Take, learning_slices, own_labels
from stages.verify.training import CPU, Machine, Trainer
from stages.verify.twin import check_twin, has_twin, twin_rows

_ROWS = 256
"""Rows that are searched for ends of documents."""
_VIEWS = 32
"""Texts of a batch of views."""
_LEAST_VIEWS = 8
"""Fewest texts of which half are learned and half held out."""

_ANY_LABELS = {"gated": False, "min_labelled_tokens": 1, "min_heldout_tokens": 0}
"""Settings that a corpus of any size meets."""

Numbers = dict[str, object]


@dataclass(frozen=True)
class LabelPractice:
    """A tiny model's training on the labels of batches that come straight from the loader."""

    batch_rows: int
    """Rows that hold a training step's tokens; a dataset may have fewer."""
    settings: LearningSettings
    learned: LearnedModel
    dataset: ShardDataset
    seed: int
    machine: Machine

    def prepare(self, batch: Batch) -> LabelledRows:
        """Return the windows of a batch with compact ids, as many as a step takes."""
        settings, length = self.settings, self.settings.row_length
        rows = labelled_rows(batch, self.dataset.objective, self.dataset.vocabulary, length=length)
        cut = compact_ids(cut_windows(rows, length), self.learned.windows.kept)
        return take_rows(cut, np.arange(min(len(cut.labels), settings.batch_rows)))

    def trainer(self) -> Trainer:
        """Return a model with fresh weights and its optimizer."""
        windows = self.learned.windows
        return Trainer(
            windows.training,
            self.learned.log_probabilities,
            num_ids=windows.num_ids,
            seed=self.seed,
            machine=self.machine,
        )


@dataclass(frozen=True)
class ViewPractice:
    """A tiny encoder's training on the views of batches that come straight from the loader."""

    batch_rows: int
    settings: LearningSettings
    first: Views
    """Of the first batch."""
    seed: int
    machine: Machine

    def trainer(self) -> ContrastTrainer:
        """Return an encoder with fresh weights and its optimizer."""
        return ContrastTrainer(self.first, config=self.settings, seed=self.seed, machine=self.machine)


@dataclass(frozen=True)
class DatasetCheckResult:
    """What the checks of one dataset found."""

    record: Numbers
    """Every number, in the types of JSON."""
    practice: LabelPractice | ViewPractice | None
    """The training that was checked, for who measures its speed; None if there are too few rows."""


@dataclass(frozen=True)
class _Work:
    """What the checks of one dataset share."""

    folder: Path
    splits: Sequence[str]
    settings: LearningSettings
    seed: int
    machine: Machine
    take: Take
    inside: bool


def check_dataset(  # of which four have defaults
    folder: Path,
    *,
    splits: Sequence[str],
    config: LearningConfig,
    seed: int,
    machine: Machine = CPU,
    take: Take | None = None,
    inside: bool = False,
) -> DatasetCheckResult:
    """Train on a dataset and check what can be checked by training.

    Args:
        folder: `DIR/datasets/NAME`.
        splits: those that the dataset has.
        config: what a run file sets under `[verify]`.
        seed: decides every draw.
        machine: where to train.
        take: makes rows to learn from of the loader's; None: rows with the objective's own labels.
        inside: whether EOS stands inside of documents, as it closes answers of dialogues.
    """
    train = open_dataset(folder, split="train")
    settings = settings_of(train.objective, config)
    take = own_labels(settings.row_length) if take is None else take
    work = _Work(folder, splits, settings, seed, machine, take, inside)
    about = {
        "device": machine.device,
        "gated": settings.gated,
        "settings": settings.model_dump(),
        "fingerprint": train.manifest.fingerprint,
    }
    if train.reader.traits.label_convention == PAIRS:
        if len(train) < _LEAST_VIEWS:
            reason = f"{len(train)} rows of views"
            return DatasetCheckResult({**about, "passed": True, "gates": [], "reason": reason}, None)
        contrast, views = _contrast(work, train)
        return DatasetCheckResult({**about, "passed": True, "gates": [], "contrast": contrast}, views)
    practice = None
    all_gates: list[Gate] = []
    try:
        record, all_gates, practice = _learn_labels(work, train)
    except TooFewLabelsError as error:  # no row at all
        record = {"reason": str(error)}
    passed = all(
        gate.passed for gate in all_gates
    )  # a reason beside it says why the loss proves nothing
    gates = to_json({"gates": [asdict(gate) for gate in all_gates]})
    return DatasetCheckResult({**about, **record, **gates, "passed": passed}, practice)


def batches_of(folder: Path, num_rows: int, *, steps: int) -> Batches:
    """Return the batches of so many steps, within an epoch of a dataset that is opened again."""
    dataset = open_dataset(folder, split="train", check="size")
    return Batches(dataset, min(num_rows, len(dataset) // steps))


def _learn_labels(work: _Work, dataset: ShardDataset) -> tuple[Numbers, list[Gate], LabelPractice]:
    """Do every check of a dataset that has labels."""
    settings, seed, machine = work.settings, work.seed, work.machine
    length = settings.row_length
    slices = learning_slices(work.folder, work.splits, settings, take=work.take)
    config = settings.model_copy(update={"max_epochs": settings.max_epochs / slices.passes})
    reason = {}
    try:
        learned = check_learning(
            slices.training, slices.heldout, config=config, seed=seed, machine=machine
        )
    except TooFewLabelsError as error:  # too few for a gate of the loss, but not for those of the rest
        reason = {"reason": str(error)}
        config = config.model_copy(update=_ANY_LABELS)
        learned = check_learning(
            slices.training, slices.heldout, config=config, seed=seed, machine=machine
        )
    whole = work.take(dataset, np.arange(min(_ROWS, len(dataset))))
    eos = dataset.vocabulary.named("eos")
    with reproducible(machine.device):
        isolation = check_isolation(
            learned.model, whole, kept=learned.windows.kept, eos=eos, inside=work.inside
        )
    batch_rows = max(1, settings.batch_rows * length // dataset.manifest.seq_len)
    again = open_dataset(work.folder, split="train", check="size")
    practice = LabelPractice(batch_rows, settings, learned, again, seed, machine)
    steps = min(STEPS, len(dataset))
    with reproducible(machine.device):
        resume = check_resume(
            lambda: batches_of(work.folder, batch_rows, steps=steps),
            practice.prepare,
            practice.trainer,
            config=settings,
            steps=steps,
        )
    found_gates: list[Gate] = [*learned.result.gates, *resume.gates]
    found_gates += isolation.gates if isolation else ()
    record: Numbers = {
        **reason,
        **learned.result.to_dict(),
        "heldout_split": slices.heldout_split,
        "isolation": None if isolation is None else asdict(isolation),
        "resume": asdict(resume),
        "pairs": _pairs(work),
    }
    if settings.full and not reason and has_twin(dataset.reader.traits):
        record["twin"], gates = _twin(work, learned, config)
        found_gates += gates
    return to_json(record), found_gates, practice


def _twin(
    work: _Work, learned: LearnedModel, config: LearningSettings
) -> tuple[dict[str, object], tuple[Gate, ...]]:
    """Learn labels that are put together anew; return what was measured, and its gates."""
    anew = learning_slices(
        work.folder,
        work.splits,
        work.settings,
        take=lambda source, chosen: twin_rows(source, chosen, length=work.settings.row_length),
    )
    twin = make_windows(anew.training, anew.heldout, config=config, seed=work.seed)
    compared = check_twin(learned, twin, config=config, seed=work.seed, machine=work.machine)
    return asdict(compared), compared.gates


def _pairs(work: _Work) -> Numbers | None:
    """Learn which texts belong together, where rows say so; None where they do not."""
    first = open_dataset(work.folder, split="train", shuffle=False).batch(np.arange(1))
    if not any(name in first for name in PAIR_LABELS):
        return None
    settings = work.settings.model_copy(
        update={
            "gated": False,
            "label_share": 1.0,
            "labelled_tokens": 3_000,
            "min_labelled_tokens": 64,
            "min_heldout_tokens": 16,
        }
    )
    try:
        slices = learning_slices(
            work.folder,
            work.splits,
            settings,
            take=lambda source, chosen: classified_pairs(
                source.batch(chosen), length=settings.row_length
            ),
        )
        learned = check_learning(
            slices.training, slices.heldout, config=settings, seed=work.seed, machine=work.machine
        )
    except TooFewLabelsError as error:
        return {"reason": str(error)}
    return learned.result.to_dict()


def views_of(batch: Batch) -> Views:
    """Return the views of a batch with their lengths."""
    return batch["input_ids"], batch["input_length"]


def _contrast(work: _Work, dataset: ShardDataset) -> tuple[Numbers, ViewPractice]:
    """Learn to tell views from those of other texts."""
    count = min(_VIEWS, len(dataset) // 2)
    most = max((len(dataset) - count) // max(count, 1), 1)

    def views(start: int) -> Views:
        return views_of(dataset.batch(np.arange(start, start + count)))

    result = check_contrast(
        lambda step: views((step % min(most, CONTRAST_STEPS)) * count),
        views(len(dataset) - count),
        config=work.settings,
        seed=work.seed,
        machine=work.machine,
    )
    practice = ViewPractice(count, work.settings, views(0), work.seed, work.machine)
    return to_json(asdict(result)), practice
