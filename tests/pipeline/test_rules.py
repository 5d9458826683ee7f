"""What later rules promise: they change new runs, and what was finished without them stays done."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.planning.plan import finished_steps
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.publishing import Outcome
from pipeline.state.storage import LocalStorage
from pipeline.steps.mix import rules
from pipeline.steps.mix.choose import LATER, WITHIN, MixRecord
from pipeline.steps.mix.rules import RULES
from pipeline.steps.split.step import SPLIT
from pipeline.steps.step import LaterRule, Records, Scope, StepPlan
from stages.mixing.classes import BINS, MixClass
from stages.mixing.plan import Planning, plan_mix
from tests.conftest import small_run
from tests.stages.mixing.corpora import Document, counts_of

FIRST = LaterRule("first", lambda scope: scope.generation > 0)
SECOND = LaterRule("second", lambda _: True, settings=lambda _: {"since": "second"})
RULED = replace(SPLIT, rules=(FIRST, SECOND))
BEFORE = {name: StepPlan(name, name, {}, ()) for name in ("dedup", "tokenizer")}


def planned(step: object, scope: Scope) -> StepPlan:
    """Return the plan of a split."""
    assert isinstance(step, type(SPLIT))
    return step.plan(scope, BEFORE)


def test_a_rule_that_changes_nothing_of_a_run_is_not_in_its_fingerprint() -> None:
    scope = Scope(small_run())
    plan = planned(replace(SPLIT, rules=(FIRST,)), scope)
    assert plan == planned(SPLIT, scope)
    assert plan.rules == plan.missed == ()


def test_a_new_run_is_made_by_all_rules_that_change_it() -> None:
    plans = [planned(RULED, Scope(small_run(), generation=number)) for number in (0, 1)]
    assert [plan.rules for plan in plans] == [("second",), ("first", "second")]
    assert [plan.config["rules"] for plan in plans] == [["second"], ["first", "second"]]
    assert len({plan.fingerprint for plan in (*plans, planned(SPLIT, Scope(small_run())))}) == 3


@pytest.mark.parametrize("followed", [0, 1, 2])
def test_a_finished_step_stays_done_by_the_rules_of_its_time(followed: int) -> None:
    scope = Scope(small_run(), generation=1)
    then = planned(replace(SPLIT, rules=RULED.rules[:followed]), scope)
    now = planned(RULED, replace(scope, finished={SPLIT.name: then.fingerprint}))
    assert now.fingerprint == then.fingerprint
    assert (now.rules, now.missed) == (("first", "second")[:followed], ("first", "second")[followed:])
    assert now.config == then.config
    assert ("since" in now.config) == (followed == 2), "a rule brings its own settings, and no sooner"


def test_a_finished_step_of_other_settings_is_made_by_the_rules_of_today() -> None:
    plan = planned(RULED, Scope(small_run(), finished={SPLIT.name: "another"}))
    assert (plan.rules, plan.missed) == (("second",), ())


def test_what_was_finished_without_rules_is_known_of_every_step_that_has_some(tmp_path: Path) -> None:
    """A step of each dataset is committed under its name in the plan, whatever the dataset is called."""
    commits = Commits(LocalStorage(tmp_path))
    for name in ("ingest", "dedup", "mix-clm", "mix-my-second", "shard-clm"):
        commits.put(name, STEP_COMMIT, f"of {name}", Outcome(tmp_path, {}))
    commits.put("mix-begun", "unit", "of a unit", Outcome(tmp_path, {}))
    ruled = {"dedup", "mix-clm", "mix-my-second"}
    assert finished_steps(commits) == {name: f"of {name}" for name in ruled}


@pytest.mark.parametrize(
    ("sources", "changed"),
    [
        ([{"weight_column": "score", "epochs": 2}], False),
        ([{"weight_column": "score"}, {"share": 0.3}], False),
        ([{"weight_column": "score"}, {"epochs": 0}], False),
        ([{"share": 0.3, "weight_column": "score"}, {}, {}], False),
        ([{"weight_column": "score"}, {}], True),
        ([{"weight_column": "score"}, {}, {"share": 0.3}], True),
    ],
)
def test_the_rule_of_weights_changes_a_mix_only_if_sources_with_epochs_stand_beside_them(
    sources: list[dict[str, Any]], *, changed: bool
) -> None:
    named = [
        {"name": name, "paths": [f"{name}.jsonl"], "keep_columns": ["score"], **one}
        for name, one in zip("abc", sources, strict=False)
    ]
    file = small_run(sources=named)
    (rule,) = (one for one in RULES if one.name == WITHIN)
    assert rule.changes(Scope(file, of=file.datasets[0])) == changed


@pytest.mark.parametrize(("name", "told"), [("web", True), ("old", False)])
def test_only_new_documents_are_told_as_left_out_and_none_of_a_replayed_run(
    name: str, *, told: bool
) -> None:
    web = {"name": "web", "paths": ["*.jsonl"], "share": 0.8}
    old = {"name": "old", "run": "earlier", "share": 0.2}
    file = small_run(sources=[web, old], tokenizer={"path": "earlier"})
    counts = {"available_documents": 9, "available_tokens": 90, "documents": 4, "tokens": 40}
    taken = MixClass(source=name, language="en", end=1_000, **counts)
    records = Records()
    records.put("mix-clm", MixRecord(classes=(taken,), shares={}))
    (rule,) = (one for one in RULES if one.name == LATER)
    said = rule.missed(Path("run"), records, Scope(file, of=file.datasets[0], generation=1))
    assert (said is not None) == told
    assert not told or "new documents are in no training row: 5 of source web." in str(said)


def test_what_an_earlier_version_took_of_a_later_stage_is_counted_from_where_that_stage_began(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few long documents stand in the first half of the bins, many short ones in the second."""
    weighted = {"name": "a", "paths": ["a.jsonl"], "keep_columns": ["w"], "weight_column": "w"}
    plain = {"name": "b", "paths": ["b.jsonl"], "epochs": 0.5}
    file = small_run(sources=[{**weighted, "epochs": 1.5, "max_epochs": 2}, plain])
    scope, half = Scope(file, of=file.datasets[0]), BINS // 2
    counts = counts_of(
        [
            Document(source, "en", level, place, 100 // number)
            for source, level in (("a", 0), ("a", 40), ("b", 0))
            for place in range(0, BINS, BINS // 64)
            for number in (1 if place < half else 5,)
            for _ in range(number)
        ]
    )
    mix = file.mix_of(scope.dataset)
    assert mix is not None
    begun = {one.key.order: half for one in counts}
    lenient = Planning(within=False, strict=False)
    then = plan_mix(counts, mix, dataset="clm", seen=begun, planning=lenient).classes
    records = Records()
    records.put("mix-clm", MixRecord(classes=then, shares={}))
    monkeypatch.setattr(rules, "_counts_of", lambda *_: counts)
    (rule,) = (one for one in RULES if one.name == WITHIN)
    (copies,) = (one.documents for one in then if one.source == "b")
    assert f"b {copies} copies of documents where" in str(rule.missed(Path("run"), records, scope))
