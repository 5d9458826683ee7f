"""Verdicts: the word for what is known of a dataset, and what a failed gate may mean that is no fault.

fail        an exact check or a gate failed: do not train on it
unproven    all exact checks passed, but there is too little data to see whether a model learns
pass        nothing failed, and a model learned; or no learning was asked for
"""

from math import floor
from pathlib import Path
from shlex import quote

from pipeline.report.content import GateContent, VerdictContent
from pipeline.steps.verify.step import VerdictRecord

PASS, UNPROVEN, FAIL = "pass", "unproven", "fail"
UNPROVEN_SAID = "though the exact checks passed and nothing is known to be wrong"
"""What people read beside the reason."""


def word_of(verdict: VerdictRecord) -> str:
    """Return the word for a verdict."""
    if not verdict.passed:
        return FAIL
    learning = verdict.learning
    extra = {} if learning is None else learning.model_dump()
    return UNPROVEN if extra.get("gated") and "reason" in extra else PASS


LEAK = "leak_floor"


def failed_gates(verdict: VerdictContent) -> list[GateContent]:
    """Return the gates of the learning check that a dataset failed."""
    learning = verdict["learning"]
    return [gate for gate in learning["gates"] if not gate["passed"]] if learning else []


def suspected_leak(verdict: VerdictContent, output: str | Path, name: str) -> str | None:
    """Say what a loss under `leak_floor` may come from, and the way out; None without such a loss.

    Args:
        verdict: of the dataset.
        output: folder of the run.
        name: of the dataset.
    """
    gate = next((gate for gate in failed_gates(verdict) if gate["name"] == LEAK), None)
    learning = verdict["learning"]
    if gate is None or gate["value"] is None or not learning or verdict["findings"]:
        return None
    entropy = learning["unigram_entropy"] or 0.0
    least = floor(100 * gate["value"] / entropy) / 100 if entropy > 0 else 0.0
    return (
        "so low a loss is suspect: the inputs may show the labels. But documents that are much alike,"
        " such as dialogues that fill in one template, give it too, and then nothing is wrong. The exact"
        " checks passed: every row holds its documents' tokens and the labels that the objective gives"
        f" them. To tell, see rows: shardmill inspect {quote(str(output))} --dataset {name} --row 0. If"
        f" the texts repeat each other, set verify.leak_floor = {least:g} or less (0 turns the gate off)"
        " and run again with --replace. If they do not, do not train on the dataset: report it as a bug"
    )
