"""The steps of a run, in the order of the flow; whatever is asked of all of them loops over this list.

`scan` comes before them: it finds out what the plan is made of (`pipeline.session.scanning`).
"""

from dataclasses import replace
from typing import Any

from pipeline.engine.memory import Need
from pipeline.state.commits import SCAN
from pipeline.steps.cut.step import CUT
from pipeline.steps.decode.step import DECODE
from pipeline.steps.decontaminate.step import DECONTAMINATE
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.draw.step import DRAW
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.mix.step import MIX
from pipeline.steps.replay.step import REPLAY
from pipeline.steps.sentences.step import SENTENCES
from pipeline.steps.shard.step import SHARD
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import Scope, Step
from pipeline.steps.tokenize.step import TOKENIZE
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.steps.verify.step import VERIFY

STEPS: tuple[Step[Any], ...] = (
    INGEST,
    DEDUP,
    DECONTAMINATE,
    CUT,
    TOKENIZER,
    SPLIT,
    TOKENIZE,
    SENTENCES,
    REPLAY,
    MIX,
    SHARD,
    DRAW,
    DECODE,
    VERIFY,
)
NAMES = (SCAN, *(step.name for step in STEPS))
"""What `--until` takes."""


def planned_steps(scope: Scope) -> list[tuple[str, Step[Any]]]:
    """Return the steps of a run with their names in its plan, in the order of the flow."""
    return [(step.name_for(one), step) for step in STEPS for one in step.scopes(scope)]


def step_of(name: str) -> Step[Any]:
    """Return the step of a name in a plan: shard-clm -> SHARD."""
    return next(step for step in STEPS if name.split("-", maxsplit=1)[0] == step.name)


def step_needs(scope: Scope) -> dict[str, Need]:
    """Return the need of every step of a run, by its name in the plan."""
    needs = {step.name_for(one): step.need(one) for step in STEPS for one in step.scopes(scope)}
    needs[SCAN] = INGEST.need(replace(scope, inputs=()))  # less, but the same workers go on with ingest
    return needs


def written_folders() -> tuple[str, ...]:
    """Return the folders in which steps write, beside the ledger."""
    return tuple(dict.fromkeys(folder for step in STEPS for folder in step.folders))
