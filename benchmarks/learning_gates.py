"""The learning check, calibrated: what correct datasets reach, and which faults fail which gate.

    learning_gates.py DIR --seeds 20 --fault-seeds 5 --json gates.jsonl

DIR is a finished run, or a dataset of one. To a correct one is done all that `shardmill verify` does by
training, isolation and resuming among it, once for each seed. Each fault that its rows can have
is planted into those to train on and those held out alike, as a wrong shard would have it. Exits with 1
if anything fails on a correct dataset. A trial is one seed of one kind of rows of one dataset.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from trial_lines import Trials, add_trial_options, conduct

from pipeline.engine.tasks import Workspace
from pipeline.steps.verify.step import LearningCheck, learn
from stages.loading.dataset import open_dataset
from stages.objectives.learning import LearningConfig, LearningSettings
from stages.objectives.table import traits_of
from stages.objectives.traits import PAIRS
from stages.store.manifest import read_manifest
from stages.verify.gates import settings_of
from stages.verify.learning import check_learning
from stages.verify.rows import (
    NO_LABEL,
    PADDING,
    LabelledRows,
    labels_apart,
    permute_labels,
    shift_labels,
    shuffle_tokens,
)
from stages.verify.slices import Slices, learning_slices

Fault = Callable[[LabelledRows], LabelledRows]
Record = dict[str, Any]
CORRECT = "correct"


def labels_permuted(rows: LabelledRows) -> LabelledRows:
    """Let labels change places over all rows."""
    return permute_labels(rows, np.random.Generator(np.random.Philox(3)))


def tokens_shuffled(rows: LabelledRows) -> LabelledRows:
    """Shuffle tokens within their documents, labels with them."""
    return shuffle_tokens(rows, np.random.Generator(np.random.Philox(3)))


def labels_visible(rows: LabelledRows) -> LabelledRows:
    """Let each position predict what it sees."""
    if rows.decoder_input_ids is not None:
        return replace(rows, decoder_input_ids=np.maximum(rows.labels, 0))
    if rows.causal:
        return replace(rows, labels=np.roll(rows.input_ids, 1, axis=1))
    return replace(rows, input_ids=_restored(rows))


def labels_inverted(rows: LabelledRows) -> LabelledRows:
    """Call replaced what was not, in every second row, so that half of the labels are wrong."""
    inverted = np.where(rows.labels == NO_LABEL, NO_LABEL, 1 - rows.labels)
    second = np.arange(len(rows.labels))[:, None] % 2 == 1
    return replace(rows, labels=np.where(second, inverted, rows.labels))


def sentinels_random(rows: LabelledRows) -> LabelledRows:
    """Let sentinels change places among all targets, so that they name spans of other inputs."""
    own = labels_apart(rows, apart=True)
    moved = permute_labels(replace(own, apart=()), np.random.Generator(np.random.Philox(3)))
    return replace(rows, labels=np.where(own.labels != NO_LABEL, moved.labels, rows.labels))


def labels_everywhere(rows: LabelledRows) -> LabelledRows:
    """Label the positions that were not selected too."""
    silent = rows.segment_ids == PADDING
    return replace(rows, labels=np.where(silent, NO_LABEL, _restored(rows)))


def _restored(rows: LabelledRows) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.where(rows.labels != NO_LABEL, rows.labels, rows.input_ids)


FAULTS: dict[str, Fault] = {
    "labels permuted": labels_permuted,
    "tokens shuffled": tokens_shuffled,
    "inputs show the labels": labels_visible,
    "labels shifted by 1": lambda rows: shift_labels(rows, 1),
    "labels shifted by 2": lambda rows: shift_labels(rows, 2),
}
MASKED_FAULTS: dict[str, Fault] = {**FAULTS, "labels on all tokens": labels_everywhere}
TARGET_FAULTS: dict[str, Fault] = {
    "labels permuted": labels_permuted,
    "inputs shuffled": tokens_shuffled,
    "decoder sees the labels": labels_visible,
    "sentinels random": sentinels_random,
}
CLASS_FAULTS: dict[str, Fault] = {
    "labels permuted": labels_permuted,
    "tokens shuffled": tokens_shuffled,
    "labels inverted in every second row": labels_inverted,
}


def faults_for(rows: LabelledRows) -> dict[str, Fault]:
    """Return the faults that such rows can have."""
    if rows.decoder_input_ids is not None:
        return TARGET_FAULTS
    if rows.classes:
        return CLASS_FAULTS
    return FAULTS if rows.causal else MASKED_FAULTS


LINE = "{:24} {:18} {:18} {:18} {:18} {:18} {:>6}  {}"
COLUMNS = ("entropy", "gain", "control gain", "order ablation", "loss / entropy", "CPU s", "failed")
VIEWS = ("chance", "first loss", "loss", "", "", "CPU s", "failed")
"""The columns where rows are views of texts, which have no labels."""


def spread(values: Sequence[float | None]) -> str:
    """Return the range of some values: 0.21 .. 0.28; None is one that is not finite."""
    numbers = np.array(values, np.float64)
    return f"{numbers.min():.3f} .. {numbers.max():.3f}"


def failures(records: Sequence[Record]) -> str:
    """Return the gates that failed, each with how often; and why a loss was held to none."""
    failed = Counter(
        gate["name"] for record in records for gate in record["gates"] if not gate["passed"]
    )
    failed.update(record["reason"] for record in records if "reason" in record)
    return ", ".join(f"{name} {count}/{len(records)}" for name, count in failed.items()) or "none"


def describe(name: str, records: Sequence[Record], seconds: float) -> str:
    """Return one line of the table."""
    if "contrast" in records[0]:
        found = [record["contrast"] for record in records]
        spreads = [
            *(spread([one[key] for one in found]) for key in ("chance", "first_loss", "loss")),
            "",
            "",
        ]
    else:
        keys = ("unigram_entropy", "gain", "control_gain", "order_ablation")
        spreads = [spread([record[key] for record in records]) for key in keys]
        losses, entropies = ([record[key] for record in records] for key in ("loss", "unigram_entropy"))
        ratios = np.array(losses, np.float64) / np.array(entropies, np.float64)
        spreads.append(spread(ratios.tolist()))
    return LINE.format(name, *spreads, f"{seconds / len(records):.1f}", failures(records))


def check_correct(dataset: Path, seed: int, *, full: bool) -> Record:
    """Do to a dataset as it is all that `shardmill verify` does by training, with any seed."""
    root, splits = dataset.resolve().parent.parent, _splits(dataset)
    check = LearningCheck(dataset.name, splits, LearningConfig(full=full), seed)
    return learn(Workspace(root, root / "tmp"), check).model_dump()


@cache
def _slices(dataset: Path) -> tuple[Slices, LearningSettings]:
    """Return the rows that a fault is planted into, and how a model learns from them."""
    settings = settings_of(open_dataset(dataset).objective, LearningConfig())
    slices = learning_slices(dataset, _splits(dataset), settings)
    return slices, settings.model_copy(update={"max_epochs": settings.max_epochs / slices.passes})


def check_fault(dataset: Path, fault: str, seed: int) -> Record:
    """Plant a fault into a dataset's rows, and return what the learning check finds, with any seed."""
    slices, config = _slices(dataset)
    plant = faults_for(slices.training)[fault]
    training, heldout = plant(slices.training), plant(slices.heldout)
    return check_learning(training, heldout, config=config, seed=seed).result.to_dict()


def fingerprints(dataset: Path) -> list[str]:
    """Return the fingerprints of a dataset's splits: what its rows are."""
    return [read_manifest(dataset / split).fingerprint for split in _splits(dataset)]


def _splits(dataset: Path) -> tuple[str, ...]:
    return tuple(sorted(split.name for split in dataset.iterdir() if split.is_dir()))


def checked(dataset: Path, rows: str, seed: int, *, full: bool) -> tuple[Record, float]:
    """Do one check; return what it finds and its CPU seconds."""
    began = time.process_time()
    if rows == CORRECT:
        record = check_correct(dataset, seed, full=full)
    else:
        record = check_fault(dataset, rows, seed)
    return record, time.process_time() - began


def names_of(dataset: Path, fault_seeds: int) -> list[str]:
    """Return what is done to a dataset's rows: nothing, and each of its faults."""
    views = traits_of(open_dataset(dataset).objective).label_convention == PAIRS
    return [CORRECT, *(() if views or not fault_seeds else faults_for(_slices(dataset)[0].training))]


def check_all(trials: Trials, datasets: Mapping[Path, Sequence[str]], given: argparse.Namespace) -> None:
    """Do the checks that have no line yet, several at a time."""
    missing = {
        _key(dataset, rows, seed): (dataset, rows, seed)
        for dataset, names in datasets.items()
        for rows in names
        for seed in range(given.seeds if rows == CORRECT else given.fault_seeds)
        if _key(dataset, rows, seed) not in trials.lines
    }
    if given.jobs == 1:
        for key, one in missing.items():
            _keep(trials, key, one, checked(*one, full=given.full))
        return
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        try:
            waiting = {pool.submit(checked, *one, full=given.full): key for key, one in missing.items()}
            for done in as_completed(waiting):
                key = waiting[done]
                _keep(trials, key, missing[key], done.result())
        except BaseException:
            for process in list(pool._processes.values()):  # noqa: SLF001  # Python 3.14 has a method
                process.terminate()
            raise


def _keep(trials: Trials, key: str, about: tuple[Path, str, int], found: tuple[Record, float]) -> None:
    """Keep a check that was done; a fault that is not found is shown, and is no failure."""
    record, seconds = found
    failed = about[1] == CORRECT and not _is_sound(record)
    trials.add(key, record | {"cpu": seconds}, failed=failed, seconds=seconds)


def _key(dataset: Path, rows: str, seed: int) -> str:
    return f"{dataset.name}, {rows}, seed {seed}"


def _is_sound(record: Record) -> bool:
    return bool(record["passed"] and "reason" not in record)


def table_of(dataset: Path, found: Mapping[str, Sequence[Record]]) -> str:
    """Return the table of one dataset.

    Args:
        dataset: its folder.
        found: the records of each kind of rows.
    """
    objective = open_dataset(dataset).objective
    views = traits_of(objective).label_convention == PAIRS
    table = [LINE.format(f"{dataset.name} ({objective.kind})", *(VIEWS if views else COLUMNS))]
    table += [
        describe(name, records, sum(record["cpu"] for record in records))
        for name, records in found.items()
        if records
    ]
    return "\n".join(line.rstrip() for line in table)


def campaign(trials: Trials, given: argparse.Namespace) -> int:
    """Check all datasets, print a table of each, and return the exit code: 1 if correct rows failed."""
    of_all = {
        folder: trials.fact(f"rows of {folder.name}", partial(names_of, folder, given.fault_seeds))
        for folder in given.datasets
    }
    check_all(trials, of_all, given)
    passed = True
    for folder, names in of_all.items():
        found = {
            name: [
                trials.lines[_key(folder, name, seed)].result
                for seed in range(given.seeds if name == CORRECT else given.fault_seeds)
            ]
            for name in names
        }
        print(table_of(folder, found), end="\n\n", flush=True)
        passed = passed and all(map(_is_sound, found[CORRECT]))
    return 0 if passed else 1


def main() -> int:
    """Measure each dataset named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("datasets", type=Path, nargs="+", help="runs, or datasets of them")
    parser.add_argument("--seeds", type=int, default=20, help="seeds for correct rows")
    parser.add_argument("--fault-seeds", type=int, default=5, help="seeds for each fault")
    parser.add_argument("--full", action="store_true", help="with a twin, as verify has it with --full")
    parser.add_argument("--jobs", type=int, default=1, help="checks at a time [default: 1]")
    add_trial_options(parser)
    given = parser.parse_args()
    given.datasets = [one for at in given.datasets for one in sorted(at.glob("datasets/*")) or [at]]
    settings = {name: getattr(given, name) for name in ("seeds", "fault_seeds", "full")}
    settings["datasets"] = {folder.name: fingerprints(folder) for folder in given.datasets}
    return conduct(lambda trials: campaign(trials, given), given, settings)


if __name__ == "__main__":
    sys.exit(main())
