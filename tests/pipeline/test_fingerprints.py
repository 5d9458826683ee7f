"""What fingerprints promise: a new setting at its default changes none, a changed default is noticed.

`python -m tests.pipeline.test_fingerprints` writes defaults.json anew; do it only after raising the
version of the filter, or of the first step, whose bytes the changed default changes.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import create_model

from pipeline.inputs.files import InputFile
from pipeline.planning.plan import plan_again, plan_steps
from pipeline.run_file.config import RunFile
from pipeline.steps.ingest.compared_fields import readers_of
from pipeline.steps.kept_plan import KeptPlan
from pipeline.steps.step import StepPlan
from pipeline.steps.table import STEPS
from stages.config import Config, changed_settings
from stages.filtering.table import FILTERS
from stages.objectives.clm.config import CausalLM
from stages.objectives.learning import LearningSettings
from stages.objectives.table import KINDS
from stages.packing.layout import PackingConfig
from stages.reading import table
from stages.reading.text import PARAGRAPHS
from stages.verify.gates import settings_of

GOLDEN = Path(__file__).with_name("defaults.json")
FILES = (InputFile("mixed", "a.jsonl", Path("/here/a.jsonl"), 10, "aa"),)
EVERY_KIND = [
    {"name": kind, "objective": {"kind": kind}}
    for kind in sorted(KINDS)
    if kind not in ("mixture", "simcse")
]
MIXTURE = {
    "name": "mixed",
    "objective": {
        "kind": "mixture",
        "components": [
            {"weight": 2.0, "objective": {"kind": "prefix_lm", "architecture": "encoder_decoder"}},
            {"objective": {"kind": "span_corruption"}},
        ],
    },
}


def run_file(**changes: Any) -> RunFile:
    """Return a run with an evaluation set, and a dataset of every kind that any source gives."""
    source = {"name": "mixed", "paths": ["*.jsonl"], "language": {"column": "lang"}}
    datasets = [*EVERY_KIND, MIXTURE]
    content = {
        "sources": [source],
        "decontamination": {"sets": [{"name": "quiz", "paths": ["quiz.jsonl"]}]},
        "packing": {"seq_len": 256},
        "datasets": datasets,
        **changes,
    }
    return RunFile.model_validate(content)


def configs(value: object) -> Iterator[Config]:
    """Yield a config and all configs inside it."""
    if isinstance(value, Config):
        yield value
        for name in type(value).model_fields:
            yield from configs(getattr(value, name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from configs(item)


def with_new_option(value: Any, among: type[Config]) -> Any:
    """Return a config whose parts of one class have an option more, at its default."""
    if isinstance(value, tuple):
        return tuple(with_new_option(item, among) for item in value)
    if not isinstance(value, Config):
        return value
    fields = {name: with_new_option(getattr(value, name), among) for name in type(value).model_fields}
    kind = type(value)
    if kind is among:
        kind = create_model(kind.__name__, __base__=kind, new_option=(bool, False))
        fields["new_option"] = False
    made = kind.__new__(kind)  # model_construct takes no field of the name `cls`
    object.__setattr__(made, "__dict__", fields)
    object.__setattr__(made, "__pydantic_fields_set__", set(fields))
    object.__setattr__(made, "__pydantic_extra__", None)
    object.__setattr__(made, "__pydantic_private__", None)
    return made


CLASSES = sorted(
    {type(config) for config in configs(run_file())} - {LearningSettings}, key=lambda c: c.__name__
)


def fingerprints(file: RunFile) -> dict[str, str]:
    """Return the fingerprint of every step."""
    return {step.name: step.fingerprint for step in plan_steps(file, FILES)}


def test_the_configs_that_are_tried_are_many() -> None:
    names = {config.__name__ for config in CLASSES}
    assert {"RunFile", "Source", "MinHashConfig", "PackingConfig", "Component", "UL2"} <= names
    assert len(CLASSES) > 20


@pytest.mark.parametrize("config", CLASSES, ids=lambda config: config.__name__)
def test_a_new_option_at_its_default_changes_no_fingerprint(config: type[Config]) -> None:
    file = run_file()
    changed = with_new_option(file, config)
    assert any(hasattr(part, "new_option") for part in configs(changed))
    found, wanted = fingerprints(changed), fingerprints(file)
    steps = {name for name in wanted if not name.startswith("verify-")}
    assert {name: found[name] for name in steps} == {name: wanted[name] for name in steps}


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_new_option_of_a_learning_check_changes_nothing_of_it(kind: str) -> None:
    dataset = [d for d in (*EVERY_KIND, MIXTURE) if d["objective"]["kind"] == kind]  # type: ignore[index]
    for found in dataset:
        file = run_file(datasets=[found])
        settings = settings_of(file.datasets[0].objective, file.verify)
        changed = with_new_option(settings, type(settings))
        assert changed_settings(changed) == changed_settings(settings)


def test_settings_that_differ_from_their_defaults_are_all_that_is_told() -> None:
    assert changed_settings(PackingConfig()) == {}
    assert changed_settings(PackingConfig(seq_len=4096)) == {"seq_len": 4096}
    assert changed_settings(PackingConfig(seq_len=512, shards=3)) == {"shards": 3}
    assert changed_settings(CausalLM()) == {"kind": "clm"}, "a kind says what the rest means"


def test_what_delimits_fields_decides_the_documents_of_a_source_and_its_default_adds_nothing() -> None:
    source = {"name": "mixed", "paths": ["*.csv"]}
    comma, semicolon, plain = (
        fingerprints(run_file(sources=[{**source, **more}]))["ingest"]
        for more in ({"delimiter": None}, {"delimiter": ";"}, {})
    )
    assert semicolon != comma == plain


def units_of(names: list[str], **source: Any) -> tuple[str, dict[str, str]]:
    """Return the fingerprint of ingest over some files, and those of its units, one of each file."""
    file = run_file(sources=[{"name": "mixed", "paths": ["*"], **source}], ingest={"unit_size": "1KiB"})
    files = [InputFile("mixed", name, Path("/here") / name, 50_000, name) for name in names]
    (ingest,) = [step for step in plan_steps(file, files) if step.name == "ingest"]
    return ingest.fingerprint, {one.path: ingest.units[one.key] for one in files}


@pytest.mark.parametrize(("name", "other"), [("b.csv", "none"), ("b.tsv.gz", "csv")])
def test_what_a_quote_means_decides_the_documents_of_delimited_files_and_its_default_adds_nothing(
    name: str, other: str
) -> None:
    names = ["a.jsonl", name]
    plain, units = units_of(names)
    for quoting, changes in ((other, True), ({"csv": "none", "none": "csv"}[other], False)):
        found, found_units = units_of(names, quoting=quoting)
        assert (found != plain) == changes
        assert found_units["a.jsonl"] == units["a.jsonl"]
        assert (found_units[name] != units[name]) == changes


def test_a_quoting_decides_the_documents_of_its_own_source_alone() -> None:
    def fingerprints_of(quoting: str) -> list[str]:
        sources = [{"name": "one", "paths": ["1"], "quoting": quoting}, {"name": "two", "paths": ["2"]}]
        file = run_file(sources=sources)
        files = [InputFile(name, "a.csv", Path(f"/{name}/a.csv"), 9, name) for name in ("one", "two")]
        units = plan_steps(file, files)[0].units
        return [units[one.key] for one in files]

    (one, two), (other, same) = fingerprints_of("csv"), fingerprints_of("none")
    assert one != other
    assert two == same


FORMATS = {reader.endings[0]: reader for reader in table.READERS if reader is not PARAGRAPHS}
"""By an ending; paragraphs have that of whole texts."""


@pytest.mark.parametrize("ending", FORMATS)
def test_a_reader_of_a_higher_version_makes_its_own_files_stale_and_no_others(
    ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = sorted(f"a{one}" for one in FORMATS)
    plain, units = units_of(names)
    higher = replace(FORMATS[ending], version=FORMATS[ending].version + 1)
    readers = [higher if one is FORMATS[ending] else one for one in table.READERS]
    monkeypatch.setattr(table, "READERS", tuple(readers))
    found, found_units = units_of(names)
    assert found != plain
    assert [name for name in names if found_units[name] != units[name]] == [f"a{ending}"]


def test_kinds_without_a_setting_have_fingerprints_of_their_own() -> None:
    plans = [run_file(datasets=[{**dataset, "name": "x"}]) for dataset in EVERY_KIND]
    found = [fingerprints(plan)["shard-x"] for plan in plans]
    assert len(set(found)) == len(EVERY_KIND) > 8


def test_the_plan_can_be_made_again_from_what_the_run_keeps() -> None:
    file = run_file()
    names = [f"{number:03}.jsonl" for number in range(300)]
    files = [InputFile("mixed", name, Path("/here") / name, 50_000, name) for name in names]
    steps = plan_steps(file, files)
    plain = {
        step.name: {"fingerprint": "", "inputs": [], "config": json.loads(json.dumps(dict(step.config)))}
        for step in steps
    }
    kept = KeptPlan.model_validate({"run": file.model_dump(mode="json"), "steps": plain})
    again = plan_again(RunFile.model_validate(kept.run), kept)
    assert [(s.name, s.fingerprint) for s in again] == [(s.name, s.fingerprint) for s in steps]
    assert [step.units for step in again] == [step.units for step in steps]
    assert 1 < len(steps[0].units) < len(files) / 10
    assert all(isinstance(step, StepPlan) for step in again)


def defaults() -> dict[str, Any]:
    """Return every default that a fingerprint leaves out, by class and setting, with the versions."""
    found = {}
    every: set[type[Config]] = {*CLASSES, *(kind.config for kind in KINDS.values()), LearningSettings}
    every |= {one.config for one in FILTERS.values()}
    for kind in sorted(every, key=lambda c: c.__name__):
        fields = {
            name: field.get_default(call_default_factory=True)
            for name, field in kind.model_fields.items()
            if not field.is_required()
        }
        found[kind.__name__] = {name: _plain(value) for name, value in sorted(fields.items())}
    versions = {one.name: one.version for one in STEPS}
    versions |= {f"filter {one.name}": one.version for one in FILTERS.values()}
    return {"versions": versions, "defaults": found}


def _plain(value: object) -> object:
    if isinstance(value, Config):
        return value.model_dump(mode="json")
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def test_defaults_are_those_of_their_versions() -> None:
    golden = json.loads(GOLDEN.read_text())
    now = json.loads(json.dumps(defaults()))
    known = {
        (kind, name): value
        for kind, fields in golden["defaults"].items()
        for name, value in fields.items()
    }
    changed = [
        f"{kind}.{name}"
        for (kind, name), value in known.items()
        if name in now["defaults"].get(kind, {}) and now["defaults"][kind][name] != value
    ]
    assert not changed, (
        f"defaults changed: {changed}; fingerprints do not show it, so raise the version of the"
        " step or filter and write defaults.json anew"
    )
    new = [
        f"{kind}.{n}" for kind, names in now["defaults"].items() for n in names if (kind, n) not in known
    ]
    way = "PYTHONPATH=. python tests/pipeline/test_fingerprints.py"
    assert now == golden, f"new settings {new}, or other versions: write defaults.json again by {way}"


if __name__ == "__main__":
    GOLDEN.write_text(json.dumps(defaults(), indent=1, sort_keys=True) + "\n")


def test_readers_stand_in_one_order_whatever_the_files() -> None:
    names = ["a.warc", "b.html", "c.jsonl"]
    for order in (names, names[::-1]):
        files = [InputFile("s", name, Path("/in") / name, 1, "") for name in order]
        assert list(readers_of(files)) == ["HTML", "WARC"]
