"""Rules that steps were given later: which of them a finished run was made without.

A run that such a rule changes has the rule in its fingerprint. A step that was finished before stays
done, and `verify` says what is otherwise there.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

from pipeline.state.commits import Commits
from pipeline.steps.step import Records, Scope, StepPlan
from pipeline.steps.table import STEPS
from stages.errors import FormatError


def finished_steps(commits: Commits) -> dict[str, str]:
    """Return the fingerprints of the steps of a folder that are whole and have later rules, by name."""
    ruled = {step.name for step in STEPS if step.rules}
    found = {}
    for name in commits.steps():
        if name.split("-", maxsplit=1)[0] not in ruled:
            continue
        try:
            whole = commits.whole(name)
        except FormatError:  # damaged, which is said where its files are looked at
            continue
        if whole is not None:
            found[name] = whole.fingerprint
    return found


def missed_rules(
    output: Path, plan: Mapping[str, StepPlan], scope: Scope, records: Records
) -> Iterator[str]:
    """Yield, for people, what is otherwise in a finished run that was made without later rules.

    Args:
        output: the run's folder.
        plan: its steps by name.
        scope: what they are planned for.
        records: of its steps.
    """
    for step in STEPS:
        for one in step.scopes(scope):
            planned = plan[step.name_for(one)]
            for rule in step.rules:
                said = rule.missed(output, records, one) if rule.name in planned.missed else None
                if said is not None:
                    yield said
