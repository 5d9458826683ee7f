"""The learning check, calibrated: what correct datasets reach, and which faults fail which gate.

    learning_gates.py DIR/datasets/NAME --seeds 20 --fault-seeds 5 --json gates.json

DIR/datasets/NAME is a dataset of a finished run. To a correct one is done all that `shardmill verify`
does by training, isolation and resuming among it, once for each seed. Each fault that its rows can have
is planted into those to train on and those held out alike, as a wrong shard would have it. Exits with 1
if anything fails on a correct dataset.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pipeline.engine.tasks import Workspace
from pipeline.steps.verify.learn import LearningCheck, learn
from stages.loading.dataset import open_dataset
from stages.objectives.learning import LearningConfig
from stages.objectives.table import traits_of
from stages.objectives.traits import PAIRS
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
from stages.verify.slices import learning_slices

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


def fault_checks(dataset: Path) -> dict[str, Callable[[int], Record]]:
    """Give, for each fault that a dataset's rows can have, what finds it: the learning check by seed."""
    settings = settings_of(open_dataset(dataset).objective, LearningConfig())
    slices = learning_slices(dataset, _splits(dataset), settings)
    config = settings.model_copy(update={"max_epochs": settings.max_epochs / slices.passes})

    def check(fault: Fault, seed: int) -> Record:
        training, heldout = fault(slices.training), fault(slices.heldout)
        return check_learning(training, heldout, config=config, seed=seed).result.to_dict()

    return {name: partial(check, fault) for name, fault in faults_for(slices.training).items()}


def _splits(dataset: Path) -> tuple[str, ...]:
    return tuple(sorted(split.name for split in dataset.iterdir() if split.is_dir()))


def measure(dataset: Path, *, seeds: int, fault_seeds: int, full: bool, log: Path | None) -> bool:
    """Print the table of one dataset; say whether correct rows passed every time."""
    objective = open_dataset(dataset).objective
    views = traits_of(objective).label_convention == PAIRS
    table = [LINE.format(f"{dataset.name} ({objective.kind})", *(VIEWS if views else COLUMNS))]
    checks: dict[str, Callable[[int], Record]] = {CORRECT: partial(check_correct, dataset, full=full)}
    if fault_seeds and not views:
        checks |= fault_checks(dataset)
    passed = True
    for name, check in checks.items():
        records, started = [], time.process_time()
        for seed in range(seeds if name == CORRECT else fault_seeds):
            records.append(check(seed))
            if log is not None:
                about = {"dataset": dataset.name, "kind": objective.kind, "rows": name, "seed": seed}
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(about | records[-1]) + "\n")
        if records:
            table.append(describe(name, records, time.process_time() - started))
        if name == CORRECT:
            passed = all(record["passed"] and "reason" not in record for record in records)
    print("\n".join(line.rstrip() for line in table), end="\n\n", flush=True)  # in one piece, for others
    return passed


def main() -> int:
    """Measure each dataset named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("datasets", type=Path, nargs="+", help="folders of datasets")
    parser.add_argument("--seeds", type=int, default=20, help="seeds for correct rows")
    parser.add_argument("--fault-seeds", type=int, default=5, help="seeds for each fault")
    parser.add_argument("--full", action="store_true", help="with a twin, as verify has it with --full")
    parser.add_argument("--json", type=Path, help="file to which every result is appended, a line each")
    given = parser.parse_args()
    passed = [
        measure(
            folder,
            seeds=given.seeds,
            fault_seeds=given.fault_seeds,
            full=given.full,
            log=given.json,
        )
        for folder in given.datasets
    ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
