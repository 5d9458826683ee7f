"""Verdicts: the word that says what is known of a dataset.

fail        an exact check or a gate failed: do not train on it
unproven    all exact checks passed, but there is too little data to see whether a model learns
pass        nothing failed, and a model learned; or no learning was asked for
"""

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
