"""The gates of the learning check, calibrated: what correct rows reach, which faults fail which gate.

    learning_gates.py DIR/datasets/NAME --seeds 20 --fault-seeds 5 --json gates.json

DIR/datasets/NAME is a dataset of a finished run; its objective decides which faults are planted. Each
fault is planted into the rows to train on and the rows held out alike, as a wrong shard would have it.
The table goes into the docstring of stages/verify/learning.py. Exits with 1 if correct rows fail a gate.
"""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from stages.loading.dataset import open_dataset
from stages.verify.gates import LearningConfig, LearningResult, settings_for
from stages.verify.learning import check_learning
from stages.verify.rows import (
    NO_LABEL,
    PADDING,
    LabelledRows,
    labels_apart,
    permute_labels,
    shuffle_tokens,
)
from stages.verify.slices import learning_slices

Fault = Callable[[LabelledRows], LabelledRows]


def correct(rows: LabelledRows) -> LabelledRows:
    """Give the rows as they are."""
    return rows


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


def labels_shifted(rows: LabelledRows, by: int) -> LabelledRows:
    """Move labels to the left: the position that predicts token t is held to token t + by."""
    labels = np.full_like(rows.labels, NO_LABEL)
    labels[:, :-by] = rows.labels[:, by:]
    return replace(rows, labels=np.where(rows.segment_ids == PADDING, NO_LABEL, labels))


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
    "correct": correct,
    "labels permuted": labels_permuted,
    "tokens shuffled": tokens_shuffled,
    "inputs show the labels": labels_visible,
    "labels shifted by 1": lambda rows: labels_shifted(rows, 1),
    "labels shifted by 2": lambda rows: labels_shifted(rows, 2),
}
MASKED_FAULTS: dict[str, Fault] = {**FAULTS, "labels on all tokens": labels_everywhere}
TARGET_FAULTS: dict[str, Fault] = {
    "correct": correct,
    "labels permuted": labels_permuted,
    "inputs shuffled": tokens_shuffled,
    "decoder sees the labels": labels_visible,
    "sentinels random": sentinels_random,
}
CLASS_FAULTS: dict[str, Fault] = {
    "correct": correct,
    "labels permuted": labels_permuted,
    "tokens shuffled": tokens_shuffled,
    "labels inverted in every second row": labels_inverted,
}


def faults_for(rows: LabelledRows) -> dict[str, Fault]:
    """Give the faults that such rows can have, none of them first."""
    if rows.decoder_input_ids is not None:
        return TARGET_FAULTS
    if rows.classes:
        return CLASS_FAULTS
    return FAULTS if rows.causal else MASKED_FAULTS


LINE = "{:24} {:18} {:18} {:18} {:18} {:>5}  {}"


def spread(values: Sequence[float]) -> str:
    """Give the range of some values: 0.21 .. 0.28."""
    return f"{min(values):.3f} .. {max(values):.3f}"


def failures(results: Sequence[LearningResult]) -> str:
    """Give the gates that failed, each with how often."""
    failed = Counter(gate.name for result in results for gate in result.gates if not gate.passed)
    return ", ".join(f"{name} {count}/{len(results)}" for name, count in failed.items()) or "none"


def describe(name: str, results: Sequence[LearningResult], seconds: float) -> str:
    """Give one line of the table."""
    spreads = (
        spread([result.gain for result in results]),
        spread([result.control_gain for result in results]),
        spread([result.order_ablation for result in results]),
        spread([result.loss / result.unigram_entropy for result in results]),
    )
    return LINE.format(name, *spreads, f"{seconds / len(results):.1f}", failures(results))


def measure(dataset: Path, *, seeds: int, fault_seeds: int, log: Path | None) -> bool:
    """Print the table of one dataset; say whether correct rows passed every time."""
    rows = open_dataset(dataset)
    kind, generator = rows.objective.kind, getattr(rows.objective, "generator", "uniform")
    attention = rows.manifest.attention
    settings = settings_for(kind, LearningConfig(), attention=attention, generator=generator)
    splits = [split.name for split in dataset.iterdir() if split.is_dir()]
    slices = learning_slices(dataset, splits, settings)
    config = settings.model_copy(update={"max_epochs": settings.max_epochs / slices.passes})
    print(
        f"{kind}: {len(slices.training.labels):,} rows to train on in {slices.passes} epochs of masks,"
    )
    print(f"{len(slices.heldout.labels):,} held out of {slices.heldout_split}; {settings!r}")
    columns = ("rows", "gain", "control gain", "order ablation", "loss / entropy", "CPU s", "failed")
    print(LINE.format(*columns), flush=True)
    passed = True
    for name, fault in faults_for(slices.training).items():
        training, heldout = fault(slices.training), fault(slices.heldout)
        results, started = [], time.process_time()
        for seed in range(seeds if name == "correct" else fault_seeds):
            results.append(check_learning(training, heldout, config=config, seed=seed).result)
            if log is not None:
                record = {"kind": kind, "rows": name, "seed": seed, **results[-1].to_dict()}
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
        if results:
            print(describe(name, results, time.process_time() - started), flush=True)
        if name == "correct":
            passed = all(result.passed for result in results)
    return passed


def main() -> int:
    """Measure each dataset named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("datasets", type=Path, nargs="+", help="folders of datasets")
    parser.add_argument("--seeds", type=int, default=20, help="seeds for correct rows")
    parser.add_argument("--fault-seeds", type=int, default=5, help="seeds for each fault")
    parser.add_argument("--json", type=Path, help="file to which every result is appended, a line each")
    given = parser.parse_args()
    passed = [
        measure(folder, seeds=given.seeds, fault_seeds=given.fault_seeds, log=given.json)
        for folder in given.datasets
    ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
