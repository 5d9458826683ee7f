"""The kept plan: run.json, what the last run in a folder keeps of its config and its steps.

    {"run": the run file with every default, "steps": {NAME: {"fingerprint", "inputs", "config"}},
     "skipped": [files that are not read, by source], "replayed": [folders of replayed runs],
     "generation": its number, if it is a later generation of its folder}

It is for `status` and `verify`, and to say later what changed. Nothing that is made depends on it, so a
damaged one is deleted and written again.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints

from pipeline.inputs.skipped import SkippedFiles
from pipeline.state.commits import PLAN
from pipeline.state.storage import replace_file
from pipeline.steps.earlier_runs import EarlierRun
from pipeline.steps.selection import CUT_NAME, DEDUP_NAME
from pipeline.steps.step import Scope, StepPlan
from pipeline.system.printable import as_known

AGAINST = "against"
"""The setting by which a step names the runs that it was made against."""
WAY_OUT = "delete it and run the run file again, which writes it anew; what is committed stays"
"""Out of a damaged one."""


_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]+$")]


class KeptStep(BaseModel):
    """A step of the last run."""

    fingerprint: str
    inputs: tuple[str, ...]
    config: dict[str, Any]
    """As JSON gives it; what its step makes of it is its own."""


class KeptPlan(BaseModel):
    """What the last run in a folder kept of itself."""

    run: dict[str, Any]
    """The run file with every default, as JSON gives it."""
    steps: dict[_Name, KeptStep]
    skipped: tuple[SkippedFiles, ...] = ()
    """Files that the sources name and the run did not read."""
    replayed: tuple[str, ...] = ()
    """Absolute folders of the runs that are replayed, in the order of the step's setting; empty for one
    that was not there."""
    against: tuple[str, ...] = ()
    """Absolute folders of the earlier runs that it is deduplicated against, in their order, but for the
    generations before it; empty for one that was not there."""
    generation: int | None = None
    """Its number in the folder of its run; None of generation 0, and in folders of earlier versions."""
    after: str | None = None
    """The digest of what the generation before it keeps; likewise."""

    def earlier(self, *, cut: bool = True) -> tuple[EarlierRun, ...]:
        """Return the runs that the run was deduplicated against, without their folders.

        Args:
            cut: whether to say what of them the cuts were made against, too.
        """
        dedup, selected = self.steps.get(DEDUP_NAME), self.steps.get(CUT_NAME) if cut else None
        if dedup is None:
            return ()
        last = () if selected is None else selected.config.get(AGAINST, ())
        return EarlierRun.recorded(dedup.config.get(AGAINST, ()), last)


def write_plan(
    output: Path,
    scope: Scope,
    steps: Sequence[StepPlan],
    skipped: Sequence[SkippedFiles],
    *,
    after: str | None,
) -> None:
    """Keep a run's config, for `status` and `verify`, and to say later what changed.

    Args:
        output: the run's folder.
        scope: what the steps are planned for.
        steps: all of them.
        skipped: what its sources name and it does not read.
        after: the digest of what the generation before it keeps.
    """
    named = scope.earlier[: max(0, len(scope.earlier) - scope.generation)]
    against = [as_known(str(run.folder or "")) for run in named]
    replayed = [as_known(str(run.folder or "")) for run in scope.replayed]
    content = {
        "run": scope.file.model_dump(mode="json"),
        "steps": {
            step.name: {
                "fingerprint": step.fingerprint,
                "inputs": step.inputs,
                "config": dict(step.config),
            }
            for step in steps
        },
        "skipped": [files.model_dump(mode="json") for files in skipped],
        **({"replayed": replayed} if replayed else {}),
        **({"against": against} if against else {}),
        **({"generation": scope.generation} if scope.generation else {}),
        **({"after": after} if after is not None else {}),
    }
    text = json.dumps(content, indent=1, default=str) + "\n"
    replace_file(output / PLAN, text.encode())
