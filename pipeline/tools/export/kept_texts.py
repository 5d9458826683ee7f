"""Kept texts: those that a run has cleaned, filtered and deduplicated, for a command that reads them.

Nothing of the run is changed.
"""

from collections.abc import Sequence

from pipeline.planning.plan import State, StepStatus
from pipeline.session.request import RunRequest, generation_requests, scope_of
from pipeline.session.session import plan_session
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.selection import selecting
from pipeline.steps.step import Job, Records
from pipeline.steps.table import step_of
from pipeline.steps.tokenizer.step import TOKENIZER
from stages.errors import ConfigError


def kept_texts(request: RunRequest) -> Job:
    """Return the step `tokenizer` of a run, ready to read what was kept.

    Args:
        request: whose output is the run's folder.

    Raises:
        ConfigError: the folder has no texts of this run file, or not all of them yet.
    """
    own = generation_requests(request)[0]
    needed = (INGEST.name, *selecting(own.file))
    status = {one.step.name: one for one in plan_session(own)}
    _require_done([status[name] for name in needed], own)
    records, commits = Records(), Commits(LocalStorage(own.output))
    for name in needed:
        commit = commits.get(name, STEP_COMMIT, status[name].step.fingerprint)
        assert commit is not None, "the step is done"
        records.put(name, commit.read(step_of(name).record))
    scope = scope_of(own, ())
    return Job(status[TOKENIZER.name].step, scope, records, own.output.resolve(), own.workers)


def _require_done(needed: Sequence[StepStatus], request: RunRequest) -> None:
    open_steps = [one for one in needed if one.state is not State.DONE]
    if not open_steps:
        return
    first = open_steps[0]
    why = f" ({first.why})" if first.why else ""
    last = needed[-1].step.name
    raise ConfigError(
        f"{request.output}: has no kept texts of this run file: step {first.step.name} is"
        f" {first.state.value}{why}; run `shardmill run RUN.toml --output {request.output} --until"
        f" {last}` first, or give no folder: the texts are then made in a temporary one"
    )
