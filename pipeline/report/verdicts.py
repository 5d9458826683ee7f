"""Verdicts: the word for what is known of a dataset, and what a failed gate may mean that is no fault.

fail        an exact check or a gate failed: do not train on it
unproven    all exact checks passed, but there is too little data to see whether a model learns
pass        nothing failed, and a model learned; or no learning was asked for
"""

from math import floor
from pathlib import Path
from shlex import quote

from pipeline.report.part import Part
from pipeline.steps.verify.step import VerdictRecord

PASS, UNPROVEN, FAIL = "pass", "unproven", "fail"
LEAK = "leak_floor"
UNPROVEN_SAID = "though the exact checks passed and nothing is known to be wrong"
"""What people read beside the reason."""


def word_of(verdict: VerdictRecord) -> str:
    """Return the word for a verdict."""
    if not verdict.passed:
        return FAIL
    learning = verdict.learning
    extra = {} if learning is None else learning.model_dump()
    return UNPROVEN if extra.get("gated") and "reason" in extra else PASS


class GateResult(Part):
    """A bound, and the number that was held to it."""

    name: str
    value: float | None
    """None if it is not finite."""
    relation: str
    bound: float
    passed: bool


class Contrast(Part):
    """Views told from those of other texts."""

    loss: float | None
    chance: float


class ShownSpeed(Part):
    """How fast the loader was."""

    wait_share: float
    tokens_per_second: float
    mfu: float | None


class Resume(Part):
    """A training that stopped and went on."""

    supply: ShownSpeed


class Learning(Part):
    """What of a `LearnedRecord` is printed; what was not measured is None."""

    device: str | None = None
    gated: bool
    gates: tuple[GateResult, ...]
    reason: str | None = None
    """Why it could not be judged."""
    contrast: Contrast | None = None
    loss: float | None = None
    unigram_entropy: float | None = None
    control_loss: float | None = None
    resume: Resume | None = None


def learning_of(verdict: VerdictRecord) -> Learning | None:
    """Return what training on a dataset showed; None where none was trained on."""
    learning = verdict.learning
    return None if learning is None else Learning.model_validate(learning.model_dump())


def failed_gates(learning: Learning) -> list[GateResult]:
    """Return the gates of the learning check that a dataset failed."""
    return [gate for gate in learning.gates if not gate.passed]


def suspected_leak(verdict: VerdictRecord, output: str | Path, name: str) -> str | None:
    """Say what a loss under `leak_floor` may come from, and the way out; None without such a loss.

    Args:
        verdict: of the dataset.
        output: folder of the run.
        name: of the dataset.
    """
    learning = learning_of(verdict)
    if learning is None or verdict.findings:
        return None
    gate = next((gate for gate in failed_gates(learning) if gate.name == LEAK), None)
    if gate is None or gate.value is None:
        return None
    entropy = learning.unigram_entropy or 0.0
    least = floor(100 * gate.value / entropy) / 100 if entropy > 0 else 0.0
    return (
        "so low a loss is suspect: the inputs may show the labels. But documents that are much alike,"
        " such as dialogues that fill in one template, give it too, and then nothing is wrong. The exact"
        " checks passed: every row holds its documents' tokens and the labels that the objective gives"
        f" them. To tell, see rows: shardmill inspect {quote(str(output))} --dataset {name} --row 0. If"
        f" the texts repeat each other, set verify.leak_floor = {least:g} or less (0 turns the gate off)"
        " and run again with --replace. If they do not, do not train on the dataset: report it as a bug"
    )
