"""Steps wait until files that earlier sessions made, and that they read, are what was committed."""

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.engine.step_run import StepRun
from pipeline.session import runner
from pipeline.session.runner import Runner

BEFORE = {"ingest": (), "dedup": ("ingest",), "split": ("ingest", "dedup")}


def test_each_step_waits_for_the_checks_of_all_that_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "steps_before", lambda _, name: BEFORE[name])
    commits = SimpleNamespace(unchecked=lambda _: {})
    needs: Any = dict.fromkeys(BEFORE)
    execution = SimpleNamespace(trusting=False, commits=commits, need_of=needs.get)
    plan = {name: SimpleNamespace(unread=()) for name in BEFORE}
    session: Any = SimpleNamespace(execution=execution, plan=plan, _compare=lambda *_: iter(()))
    nothing: Any = iter(())
    told = frozenset({"told before"})
    runs = {name: StepRun(name, needs[name], nothing, after=told) for name in ("dedup", "split")}
    checks = [check.name for check in Runner._checks(session, runs)]  # noqa: SLF001
    assert sorted(checks) == ["check of dedup", "check of ingest", "check of split"]
    own = {"told before", "check of ingest", "check of dedup"}
    assert runs["dedup"].after == own
    assert runs["split"].after == own | {"check of split"}
    execution.trusting = True
    assert list(Runner._checks(session, runs)) == []  # noqa: SLF001
