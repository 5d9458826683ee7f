"""What a dataset's own packing promises: the keys that it sets, the run's for all others, no shards."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pipeline.inputs.files import find_inputs
from pipeline.planning.plan import plan_steps
from pipeline.run_file.config import RunFile
from pipeline.run_file.dataset import Dataset, without_shards
from pipeline.run_file.faults import explain
from pipeline.session.scanning import planned_inputs
from pipeline.state.commits import Commits
from pipeline.state.storage import LocalStorage
from stages.packing.layout import PackingConfig

RUN_PACKING = {"seq_len": 4096, "strategy": "concat", "shard_size": "1MiB", "shards": 8}
"""No value is the default, so that a key that is lost shows."""
OWN_PACKING = {"seq_len": 64, "strategy": "best_fit"}


def run_with(own: dict[str, object], shared: dict[str, object]) -> dict[str, Any]:
    return {
        "sources": [{"name": "web", "paths": ["*.jsonl"]}],
        "packing": shared,
        "datasets": [{"name": "own", "packing": own}, {"name": "plain"}],
    }


@pytest.mark.parametrize("number", range(len(OWN_PACKING) + 1))
def test_a_dataset_s_packing_differs_from_the_run_s_in_the_keys_that_it_sets_and_in_no_other(
    number: int,
) -> None:
    assert RUN_PACKING.keys() == PackingConfig.model_fields.keys(), "the law is asked of every key"
    shared = PackingConfig.model_validate(RUN_PACKING)
    asked = 0
    for keys in itertools.combinations(OWN_PACKING, number):
        own = {key: OWN_PACKING[key] for key in keys}
        run = RunFile.model_validate(run_with(own, RUN_PACKING))
        first, second = (run.packing_of(dataset) for dataset in run.datasets)
        assert first == PackingConfig.model_validate({**RUN_PACKING, **own})
        assert second == shared
        again = RunFile.model_validate(json.loads(run.model_dump_json()))
        assert again == run, "run.json gives the run that it was written from"
        asked += 1
    assert asked


def test_a_dataset_given_as_an_object_has_the_run_s_packing_too() -> None:
    own = Dataset(name="own", packing=PackingConfig(seq_len=64))
    run = RunFile.model_validate({**run_with({}, RUN_PACKING), "datasets": (own,)})
    assert run.packing_of(run.datasets[0]) == PackingConfig.model_validate(
        {**RUN_PACKING, "seq_len": 64}
    )


@pytest.mark.parametrize(("key", "value"), [("shards", 4), ("shard_size", "2MiB"), ("shards", None)])
def test_shards_in_a_dataset_s_packing_are_refused_since_they_are_the_run_s(
    key: str, value: object
) -> None:
    content = run_with({key: value}, RUN_PACKING)
    with pytest.raises(ValidationError) as caught:
        RunFile.model_validate(content)
    (message,) = explain(caught.value, content)
    assert message == (
        f"dataset 'own': packing.{key} = {value!r}: all datasets of a run share its shards; set {key}"
        " in the run's own [packing]"
    )
    same = RunFile.model_validate(run_with({key: RUN_PACKING[key]}, RUN_PACKING))
    assert same == RunFile.model_validate(run_with({}, RUN_PACKING))


def test_a_run_json_of_a_version_that_wrote_shards_of_datasets_gives_the_packing_it_was_made_with() -> (
    None
):
    written = {"seq_len": 512, "strategy": "concat", "shard_size": 1 << 29, "shards": None}
    content = without_shards(run_with(written, RUN_PACKING))
    run = RunFile.model_validate(content)
    own = run.packing_of(run.datasets[0])
    assert own == PackingConfig.model_validate({**RUN_PACKING, "seq_len": 512, "strategy": "concat"})


def test_a_fault_of_the_run_s_packing_is_named_once() -> None:
    content = run_with({"strategy": "concat"}, {"seq_len": 1})
    with pytest.raises(ValidationError) as caught:
        RunFile.model_validate(content)
    (message,) = explain(caught.value, content)
    assert message == "packing.seq_len = 1: must be at least 2"


@pytest.mark.parametrize("datasets", [7, [7], ["clm"], [{"name": "own", "packing": 7}], {"name": "own"}])
def test_what_is_no_list_of_datasets_is_refused_as_such(datasets: object) -> None:
    content = {**run_with({}, RUN_PACKING), "datasets": datasets}
    assert without_shards(content) == content
    with pytest.raises(ValidationError, match="datasets"):
        RunFile.model_validate(content)


def test_a_dataset_s_own_packing_changes_no_fingerprint_of_what_it_says_already(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "some text"}\n', encoding="utf-8")
    owns: list[dict[str, object]] = [{}, {"seq_len": 4096}, {"seq_len": 4096, "strategy": "concat"}]
    prints = []
    for own in owns:
        run = RunFile.model_validate(run_with(own, RUN_PACKING))
        files = planned_inputs(find_inputs(run, tmp_path).files, Commits(LocalStorage(tmp_path / "out")))
        prints.append({step.name: step.fingerprint for step in plan_steps(run, files)})
    assert prints[0] == prints[1] == prints[2]
    assert "shard-own" in prints[0]
