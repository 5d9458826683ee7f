"""Learn: one task a dataset: rows from the loader, as a trainer gets them, to the checks.

dataset -+-> learning   labels against permuted ones, on held-out rows
         +-> isolation  documents of one row do not see each other
         +-> resume     a training that stops and goes on; on the way, how fast the loader is
         +-> pairs      nsp, sop: whether two texts belong together      reported
         +-> contrast   simcse: views told from those of other texts     reported
         +-> twin       `full`: labels put together anew
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipeline.tasks import Workspace
from stages.errors import TooFewLabelsError
from stages.loading.batches import Batches
from stages.loading.dataset import Batch, ShardDataset, open_dataset
from stages.objectives.table import PAIRS, traits_of
from stages.verify.examples import PAIR_LABELS, classified_pairs, labelled_rows
from stages.verify.gates import Gate, LearningConfig, LearningSettings, settings_of, to_json
from stages.verify.rows import LabelledRows, compact_ids, cut_windows, take_rows
from stages.verify.slices import learning_slices, own_labels

if TYPE_CHECKING:
    from stages.verify.learning import Learned
    from stages.verify.resume import ResumeResult
    from stages.verify.training import Machine, Trainer

_ROWS = 256
"""Rows that are searched for ends of documents."""
_VIEWS = 32
"""Texts of a batch of views."""
_LEAST_VIEWS = 8
"""Fewest texts of which half are learned and half held out."""


_ANY_LABELS = {"gated": False, "min_labelled_tokens": 1, "min_heldout_tokens": 0}
"""Settings that a corpus of any size meets."""


@dataclass(frozen=True)
class LearningCheck:
    """One dataset to learn from."""

    dataset: str
    splits: tuple[str, ...]
    config: LearningConfig
    seed: int


@dataclass(frozen=True)
class _Work:
    """What the checks of one dataset share."""

    folder: Path
    splits: tuple[str, ...]
    settings: LearningSettings
    seed: int
    machine: "Machine"


def learn(workspace: Workspace, work: LearningCheck) -> dict[str, Any]:
    """Train on a dataset, check what can be checked by training, and say what came out."""
    import torch  # noqa: PLC0415  # seconds to import, and only this task needs it

    from stages.verify.training import Machine  # noqa: PLC0415  # likewise

    folder = workspace.path(f"datasets/{work.dataset}")
    train = open_dataset(folder, split="train")
    settings = settings_of(train.objective, work.config)
    cuda = torch.cuda.is_available()
    machine = Machine("cuda" if cuda else "cpu", bfloat16=cuda)
    shared = _Work(folder, work.splits, settings, work.seed, machine)
    about = {
        "device": machine.device,
        "gated": settings.gated,
        "settings": settings.model_dump(),
        "fingerprint": train.manifest.fingerprint,
    }
    if traits_of(train.objective).label_convention == PAIRS:
        if len(train) < _LEAST_VIEWS:
            return {**about, "passed": True, "gates": [], "reason": f"{len(train)} rows of views"}
        return {**about, "passed": True, "gates": [], "contrast": _contrast(shared, train)}
    try:
        record = _learn_labels(shared, train)
    except TooFewLabelsError as error:  # no row at all
        record = {"gates": [], "reason": str(error)}
    proven = not (settings.gated and "reason" in record)  # if not, the report says why
    return {**about, **record, "passed": proven and all(gate["passed"] for gate in record["gates"])}


def _learn_labels(work: _Work, dataset: ShardDataset) -> dict[str, Any]:
    """Do every check of a dataset that has labels."""
    from stages.verify.isolation import check_isolation  # noqa: PLC0415  # brings torch
    from stages.verify.learning import check_learning, make_windows  # noqa: PLC0415  # likewise
    from stages.verify.model import reproducible  # noqa: PLC0415  # likewise
    from stages.verify.twin import check_twin, has_twin, twin_rows  # noqa: PLC0415  # likewise

    settings, seed, machine = work.settings, work.seed, work.machine
    length = settings.row_length
    slices = learning_slices(work.folder, work.splits, settings)
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
    whole = own_labels(length)(dataset, np.arange(min(_ROWS, len(dataset))))
    eos = dataset.vocabulary.named("eos")
    with reproducible(machine.device):
        isolation = check_isolation(learned.model, whole, kept=learned.windows.kept, eos=eos)
    resume = _resume(work, learned)
    held: list[Gate] = [*learned.result.gates, *resume.gates]
    held += isolation.gates if isolation else ()
    record: dict[str, Any] = {
        **reason,
        **learned.result.to_dict(),
        "heldout_split": slices.heldout_split,
        "isolation": None if isolation is None else asdict(isolation),
        "resume": asdict(resume),
        "pairs": _pairs(work),
    }
    if settings.full and not reason and has_twin(traits_of(dataset.objective)):
        anew = learning_slices(
            work.folder,
            work.splits,
            settings,
            take=lambda source, chosen: twin_rows(source, chosen, length=length),
        )
        twin = make_windows(anew.training, anew.heldout, config=config, seed=seed)
        compared = check_twin(learned, twin, config=config, seed=seed, machine=machine)
        held += compared.gates
        record["twin"] = asdict(compared)
    return to_json({**record, "gates": [asdict(gate) for gate in held]})


def _resume(work: _Work, learned: "Learned") -> "ResumeResult":
    """Train from the loader, with a stop and without."""
    from stages.verify.model import reproducible  # noqa: PLC0415  # brings torch
    from stages.verify.resume import STEPS, check_resume  # noqa: PLC0415  # likewise
    from stages.verify.training import Trainer  # noqa: PLC0415  # likewise

    settings, windows = work.settings, learned.windows
    dataset = open_dataset(work.folder, split="train", check="size")

    def prepare(batch: Batch) -> LabelledRows:
        rows = labelled_rows(batch, dataset.objective, dataset.vocabulary, length=settings.row_length)
        cut = compact_ids(cut_windows(rows, settings.row_length), windows.kept)
        return take_rows(cut, np.arange(min(len(cut.labels), settings.batch_rows)))

    def trainer() -> "Trainer":
        return Trainer(
            windows.training,
            learned.log_probabilities,
            num_ids=windows.num_ids,
            seed=work.seed,
            machine=work.machine,
        )

    num_rows = max(1, settings.batch_rows * settings.row_length // dataset.manifest.seq_len)
    steps = min(STEPS, len(dataset))
    with reproducible(work.machine.device):
        return check_resume(
            lambda: walk_of(work.folder, num_rows, steps=steps),
            prepare,
            trainer,
            config=settings,
            steps=steps,
        )


def walk_of(folder: Path, num_rows: int, *, steps: int) -> Batches:
    """Open a dataset anew, for a walk of so many steps within an epoch: there may be no other one."""
    dataset = open_dataset(folder, split="train", check="size")
    return Batches(dataset, min(num_rows, len(dataset) // steps))


def _pairs(work: _Work) -> dict[str, object] | None:
    """Learn which texts belong together, where rows say so; None where they do not."""
    from stages.verify.learning import check_learning  # noqa: PLC0415  # brings torch

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


def _contrast(work: _Work, dataset: ShardDataset) -> dict[str, object]:
    """Learn to tell views from those of other texts."""
    from stages.verify.contrast import STEPS, Views, check_contrast  # noqa: PLC0415  # brings torch

    count = min(_VIEWS, len(dataset) // 2)
    most = max((len(dataset) - count) // max(count, 1), 1)

    def views(start: int) -> Views:
        batch = dataset.batch(np.arange(start, start + count))
        return batch["input_ids"], batch["input_length"]

    result = check_contrast(
        lambda step: views((step % min(most, STEPS)) * count),
        views(len(dataset) - count),
        config=work.settings,
        seed=work.seed,
        machine=work.machine,
    )
    return to_json(asdict(result))
