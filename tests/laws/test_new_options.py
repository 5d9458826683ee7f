"""What verify promises of options that are new: a dataset made without one is as sound as it was.

An option that came later is at its default in the dataset and in the run, and no manifest of before
names it. An option is added to the config of each kind, and each option is taken out of each manifest.
"""

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import pytest
from pydantic import TypeAdapter, create_model

from pipeline.engine.tasks import Workspace
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.records import CheckRecord, FoundIn
from pipeline.steps.shard.make import ManifestWork, manifest_of
from pipeline.steps.shard.rows import RowSettings
from pipeline.steps.split.choice import SplitRecord
from pipeline.steps.units import units_of
from pipeline.steps.verify.check import checks_of
from pipeline.steps.verify.settings import Settings, check_declared
from stages.config import Config, one_of
from stages.errors import FormatError
from stages.objectives import table
from stages.objectives.clm.config import CausalLM
from stages.objectives.table import KINDS, read_objective, resolve
from stages.objectives.traits import Objective
from stages.packing.layout import PackingConfig
from stages.store.manifest import Manifest
from tests.material.fault_material import OBJECTIVES

_Config = TypeVar("_Config", bound=Config)

PACKING, SEED = PackingConfig(seq_len=256, shards=2), 11
"""Of the small run."""
KEPT = {"kind", "form"}
"""What every manifest names."""
FOLDER = "datasets/some/train"


@pytest.fixture
def workspace(reference: Path, tmp_path: Path) -> Workspace:
    """The small run, of which a manifest takes the tokenizer."""
    return Workspace(reference, tmp_path)


def manifest_with(workspace: Workspace, objective: Any) -> Manifest:
    """Return the manifest that the run would write of an objective."""
    work = ManifestWork("some", "train", (), RowSettings(objective, PACKING, SEED), 4096)
    return manifest_of(workspace, work, resolve(objective, PACKING.seq_len))


@cache
def extended(model: type[_Config]) -> type[_Config]:
    """Return a config with an option more."""
    found: type[_Config] = create_model(model.__name__, __base__=model, new_option=(bool, False))
    return found


@cache
def extended_kinds() -> TypeAdapter[Any]:
    """Return what reads an objective of any kind, each with an option more."""
    classes: list[type[Objective]] = [kind.config for kind in KINDS.values()]
    configs = [extended(config) for config in classes]
    return TypeAdapter(Annotated[Objective, one_of(configs)])


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later version, in which each kind has an option more."""
    monkeypatch.setattr(table, "_ADAPTER", extended_kinds())


def of_later(objective: Any, **changes: Any) -> Settings:
    """Return the settings of a run as the later version reads them."""
    content = objective.model_dump(mode="json")
    packing: Any = extended(PackingConfig).model_validate(PACKING.model_dump())
    read: Any = read_objective({**content, **changes})
    assert packing.new_option is False
    return Settings(RowSettings(read, packing, SEED), 0)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_option_that_a_config_gained_changes_nothing_while_it_is_at_its_default(
    name: str, workspace: Workspace, request: pytest.FixtureRequest
) -> None:
    objective: Any = read_objective(OBJECTIVES[name])
    manifest = manifest_with(workspace, objective)
    request.getfixturevalue("later")
    assert list(check_declared(workspace, FOLDER, manifest, of_later(objective))) == []
    ((_, finding),) = check_declared(workspace, FOLDER, manifest, of_later(objective, new_option=True))
    assert finding.message.startswith("objective = {'new_option': False}, but the run has")


def findings_of(record: Config) -> tuple[FoundIn, ...]:
    """Return what a check found."""
    assert isinstance(record, CheckRecord)
    return record.findings


@pytest.mark.usefixtures("later")
def test_a_dataset_of_before_is_sound_to_a_version_with_an_option_more(
    reference: Path, workspace: Workspace
) -> None:
    commits = {step: dict(Commits(LocalStorage(reference)).all(step)) for step in ("ingest", "split")}
    units = units_of(commits["ingest"][STEP_COMMIT].read(IngestRecord).units)
    shards = commits["split"][STEP_COMMIT].read(SplitRecord).shards
    checks = list(checks_of("clm", of_later(CausalLM()), units, shards))
    assert len(checks) > 3
    records = [check(workspace, of) for _, check, of in checks]
    assert [findings_of(record) for record in records] == [()] * len(checks)


def places(content: Any) -> Iterator[tuple[str | int, ...]]:
    """Yield the place of every option of an objective, those of its parts too."""
    for key, value in content.items() if isinstance(content, dict) else enumerate(content):
        if isinstance(content, dict) and key not in KEPT:
            yield (key,)
        if isinstance(value, dict | list):
            yield from ((key, *place) for place in places(value))


def without(content: Any, place: tuple[str | int, ...]) -> Any:
    """Return an objective's content without one option."""
    content = json.loads(json.dumps(content))
    inside = content
    for key in place[:-1]:
        inside = inside[key]
    del inside[place[-1]]
    return content


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_option_that_a_manifest_does_not_name_is_at_its_default(
    name: str, workspace: Workspace
) -> None:
    objective: Any = read_objective(OBJECTIVES[name])
    manifest = manifest_with(workspace, objective)
    settings = Settings(RowSettings(objective, PACKING, SEED), 0)
    looked_at = 0
    for place in places(manifest.objective):
        shorter = without(manifest.objective, place)
        found = [
            finding.check
            for _, finding in check_declared(
                workspace, FOLDER, manifest.model_copy(update={"objective": shorter}), settings
            )
        ]
        try:
            at_default = read_objective(shorter) == objective
        except FormatError:  # it has no default
            at_default = False
        assert found == ([] if at_default else ["settings"]), place
        looked_at += 1
    assert looked_at > 0 or manifest.objective.keys() <= {"kind"}
