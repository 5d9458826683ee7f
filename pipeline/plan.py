"""The plan: every step with its fingerprint, and what is done, to do, or stale.

A step's fingerprint is the digest of the settings that differ from their defaults, its BYTES_VERSION and
its inputs' fingerprints, so it is known before anything runs. `memory`, workers and paths are no part of
it, and a new setting at its default changes none.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pipeline.commits import STEP_COMMIT, Commits
from pipeline.config import Dataset, RunFile
from pipeline.inputs import InputFile
from pipeline.steps.tokenizer.adopt import Adoption
from stages.config import Config, canonical_json, changed_settings
from stages.errors import ConfigError
from stages.objectives.table import traits_of
from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.normalization import normalization_loss
from stages.tokenizer.sampling import SamplingConfig
from stages.verify.gates import settings_of

SAMPLE = "sample"
"""Begins the names of the tokenizer's samples, one a unit of ingest."""
CHECKS = ("decode", "verify")
"""Steps that make nothing, and that `verify` does again."""
BYTES_VERSIONS = {
    "ingest": 2,
    "dedup": 2,
    "tokenizer": 1,
    "split": 1,
    "tokenize": 2,
    "sentences": 1,
    "shard": 2,
    "draw": 2,
    "decode": 2,
    "verify": 3,
}
"""Raised when a step's bytes change for the same config and inputs; golden bytes in a test guard it."""


OWN_FILES = {
    "dedup": ("dedup/digests/", "dedup/exact/", "dedup/keys/", "dedup/bands/", "dedup/pairs/"),
    "tokenizer": ("work/sample/",),
    "split": ("work/split/",),
}
"""Where files of a step lie that no later step reads."""


class State(StrEnum):
    """How far a step is."""

    DONE = "done"
    PARTIAL = "partial"
    NEW = "new"
    STALE = "stale"
    DAMAGED = "damaged"


@dataclass(frozen=True)
class StepPlan:
    """One step of a run."""

    name: str
    """Its commits' name: ingest, dedup, ..., shard-NAME, verify-NAME."""
    fingerprint: str
    config: Mapping[str, Any]
    """What of the run file it depends on."""
    inputs: tuple[str, ...]
    """Steps it reads."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of units that have their own: of ingest by file, of the tokenizer's samples."""
    warning: str | None = None
    """What its settings cost, for people."""


@dataclass(frozen=True)
class StepStatus:
    """What is there of a step, and why it is not more."""

    step: StepPlan
    state: State
    commits: int
    """Units committed."""
    stale: tuple[str, ...] = ()
    """Commits that another plan made, or whose files are not what was committed."""
    why: str = ""


def plan_steps(
    run: RunFile, files: Sequence[InputFile], adopted: Adoption | None = None
) -> list[StepPlan]:
    """Give the steps of a run in the order they run; `adopted` is its tokenizer if it trains none."""
    per_file = _file_fingerprints(run, files)
    ingest_config = {
        "ingest": _ingest_config(run),
        "signatures": _signatures(run),
        "sources": {s.name: _Part(s, _SOURCE) for s in run.sources},
        "files": {f"{f.source}/{f.path}": f.digest for f in files},
    }
    steps = [_step("ingest", ingest_config, [], units=per_file)]

    def add(name: str, config: Mapping[str, object], *inputs: str) -> None:
        by_name = {step.name: step for step in steps}
        steps.append(_step(name, config, [by_name[i] for i in inputs]))

    dedup: dict[str, object] = {"dedup": run.dedup}
    if not run.dedup.exact:  # of older runs, equal texts were on both sides
        dedup["equal_texts"] = "on one side of the split"
    add("dedup", dedup, "ingest")
    steps[-1] = replace(steps[-1], warning=section_loss(run))
    steps.append(_tokenizer_step(run, steps[-1], adopted))
    shards = _Part(run.packing, {"shards", "shard_size"})
    add("split", {"validation": run.validation, "packing": shards, "seed": run.seed}, "tokenizer")
    add("tokenize", {"seed": run.seed}, "split")
    if run.needs_sentences:
        add("sentences", {"sentencex": version("sentencex")}, "tokenize")
    add("decode", {}, "sentences" if run.needs_sentences else "tokenize")
    for dataset in run.datasets:
        split_ = ["sentences"] if traits_of(dataset.objective).sentences else []
        add(f"shard-{dataset.name}", _dataset_config(run, dataset), "tokenize", *split_)
        verify = {"verify": settings_of(dataset.objective, run.verify), "seed": run.seed}
        made = f"shard-{dataset.name}"
        if dataset.epochs_on_disk:
            made = f"draw-{dataset.name}"
            add(made, {"epochs": dataset.epochs_on_disk}, f"shard-{dataset.name}")
        add(f"verify-{dataset.name}", verify, made, "decode")
    return steps


def steps_before(plan: Mapping[str, StepPlan], name: str) -> list[str]:
    """Return the names of all steps that a step depends on, first the nearest."""
    found: list[str] = []
    waiting = list(plan[name].inputs)
    for step in waiting:
        if step not in found:
            found.append(step)
            waiting += plan[step].inputs
    return found


def plan_again(run: RunFile, kept: Mapping[str, Any]) -> list[StepPlan]:
    """Return the steps of a run as the settings in its run.json give them, without its input files.

    Raises:
        ConfigError: run.json says nothing of the input files or of the tokenizer.
    """
    try:
        steps = kept["steps"]
        named = steps["ingest"]["config"]["files"].items()
        files = [
            InputFile(source, path, Path(path), 0, digest)
            for key, digest in named
            for source, _, path in [key.partition("/")]
        ]
        adopted = None
        if run.tokenizer.path is not None:
            ((kind, what),) = steps["tokenizer"]["config"]["tokenizer"].items()
            found = what["sha256"], TokenizerKind(kind), what["special_ids"]
            adopted = Adoption(Path(run.tokenizer.path), *found, vocab_size=0, loss=None)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ConfigError(
            f"run.json: is damaged ({error}); run the run file again, which writes it anew"
        ) from error
    return plan_steps(run, files, adopted)


def section_loss(run: RunFile) -> str | None:
    """Say what comparing whole texts costs where sections matter, or None if nothing."""
    names = [source.name for source in run.sources if source.section_columns]
    if not (names and run.dedup.near):
        return None
    return (
        f"source {names[0]}: near-duplicates are found on whole texts, all sections joined: of records"
        " with one long prompt the first stays alone, whatever their targets; if all are to stay, set"
        " dedup.near = false"
    )


def status_of(
    steps: Sequence[StepPlan], commits: Commits, *, before: Mapping[str, Any]
) -> list[StepStatus]:
    """Compare the plan with what is committed.

    Args:
        steps: the plan.
        commits: what is there.
        before: the configs of the last run in this folder, by step, to say what changed.
    """
    return [_status(step, commits, before.get(step.name)) for step in steps]


def _status(step: StepPlan, commits: Commits, before: Mapping[str, Any] | None) -> StepStatus:
    survey = commits.survey(step.name)
    found = dict(survey.commits)
    whole = found.pop(STEP_COMMIT, None)
    wrong = [
        unit for unit, commit in found.items() if unit_fingerprint(step, unit) != commit.fingerprint
    ]
    if whole is not None and whole.fingerprint != step.fingerprint:
        wrong.append(STEP_COMMIT)
    if wrong:
        return StepStatus(step, State.STALE, len(found), tuple(wrong), _changes(step, before))
    if survey.damaged:
        why = next(iter(survey.damaged.values()))
        return StepStatus(step, State.DAMAGED, len(found), tuple(survey.damaged), why)
    if whole is not None:
        return StepStatus(step, State.DONE, len(found))
    if found:
        return StepStatus(step, State.PARTIAL, len(found), why="stopped before its end")
    return StepStatus(step, State.NEW, 0)


def unit_fingerprint(step: StepPlan, unit: str) -> str | None:
    """Return the fingerprint that a unit's commit must have."""
    if step.name == "tokenizer" and unit.startswith(f"{SAMPLE}-"):
        return step.units.get(SAMPLE)  # an existing tokenizer has no samples
    if step.name != "ingest" or unit == STEP_COMMIT:
        return step.fingerprint
    key = unit.replace(".", "/", 1).rpartition("-")[0]
    return step.units.get(key)


def _changes(step: StepPlan, before: Mapping[str, Any] | None) -> str:
    """Say which settings differ from the last run's."""
    if before is None:
        return "made with other settings"
    old, new = _flat(before), _flat(json.loads(canonical_json(dict(step.config))))
    changed = [
        f"{key}: {_show(old.get(key))} -> {_show(new.get(key))}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key) != new.get(key)
    ]
    if not changed:
        return f"what it reads changed ({', '.join(step.inputs)})" if step.inputs else "new version"
    more = f", and {len(changed) - 3} more" if len(changed) > 3 else ""  # noqa: PLR2004  # enough to see why
    return ", ".join(changed[:3]) + more


def _show(value: Any) -> str:
    text = "absent" if value is None else str(value)
    return text if len(text) <= 24 else text[:21] + "..."  # noqa: PLR2004  # a digest's first half


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    return {
        key: item
        for name, part in value.items()
        for key, item in _flat(part, f"{prefix}.{name}" if prefix else name).items()
    }


@dataclass(frozen=True)
class _Part:
    """Some settings of a config."""

    config: Config
    names: Collection[str]


_SOURCE = ("text_column", "id_column", "language", "text_split", "section_columns")
"""What of a source decides its documents."""


def _step(
    name: str,
    config: Mapping[str, object],
    inputs: Sequence[StepPlan],
    *,
    units: Mapping[str, str] | None = None,
) -> StepPlan:
    version = BYTES_VERSIONS[name.split("-", maxsplit=1)[0]]
    parts = [name, version, _changed(config), [step.fingerprint for step in inputs]]
    plain = {key: _full(value) for key, value in config.items()}
    return StepPlan(name, _digest(parts), plain, tuple(i.name for i in inputs), units or {})


def _full(value: object) -> object:
    """Return what the run file says, defaults and all: for people, and to tell what changed."""
    if isinstance(value, _Part):
        return value.config.model_dump(mode="json", include=set(value.names))
    if isinstance(value, Config):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: _full(item) for key, item in value.items()}
    return value


def _changed(value: object) -> Any:
    """Return what enters a fingerprint: of configs the settings that differ from their defaults."""
    if isinstance(value, _Part):
        changed = changed_settings(value.config)
        return {key: changed[key] for key in value.names if key in changed}
    if isinstance(value, Config):
        return changed_settings(value)
    if isinstance(value, Mapping):
        return {key: _changed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(item) for item in value]
    return value


def _tokenizer_step(run: RunFile, dedup: StepPlan, adopted: Adoption | None) -> StepPlan:
    """Give the tokenizer's step; its samples stay while only the training of the model changes."""
    if adopted is not None:
        what = {"sha256": adopted.sha256, "special_ids": dict(adopted.special_ids)}
        step = _step("tokenizer", {"tokenizer": {adopted.kind.value: what}}, [dedup])
        return replace(step, warning=adopted.loss)
    train = run.tokenizer.train
    held_out = {"validation": _Part(run.validation, {"fraction"}), "seed": run.seed}
    sampling = _Part(train, set(SamplingConfig.model_fields))
    parts = [SAMPLE, BYTES_VERSIONS["tokenizer"], sampling, held_out, dedup.fingerprint]
    config = {"tokenizer": {"train": train}, **held_out}
    step = _step("tokenizer", config, [dedup], units={SAMPLE: _digest(_changed(parts))})
    return replace(step, warning=normalization_loss(train.normalization))


def _file_fingerprints(run: RunFile, files: Sequence[InputFile]) -> dict[str, str]:
    """Return the fingerprint of each file's units, by the file's key."""
    ingest = [BYTES_VERSIONS["ingest"], _ingest_config(run), _signatures(run)]
    by_source = {source.name: _changed([*ingest, _Part(source, _SOURCE)]) for source in run.sources}
    return {
        file.key: _digest([*by_source[file.source], [file.source, file.path, file.digest]])
        for file in files
    }


def _ingest_config(run: RunFile) -> _Part:
    """Return what of ingest's config decides its units; the bound on bad records decides none."""
    return _Part(run.ingest, set(type(run.ingest).model_fields) - {"max_bad_fraction"})


def _signatures(run: RunFile) -> _Part | None:
    """Return what of dedup's config decides the signatures that ingest writes."""
    return _Part(run.dedup.minhash, {"shingle", "size", "num_perm"}) if run.dedup.near else None


def _dataset_config(run: RunFile, dataset: Dataset) -> Mapping[str, object]:
    return {
        "objective": dataset.objective,
        "packing": run.packing_of(dataset),
        "seed": run.seed,
    }


def _digest(parts: object) -> str:
    return hashlib.sha256(canonical_json(parts)).hexdigest()[:32]
