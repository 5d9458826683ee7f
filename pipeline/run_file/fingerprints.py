"""Fingerprints: what of the settings decides a step's bytes, as a digest.

A setting at its default adds nothing, so that a new one changes no fingerprint; `memory`, workers and
paths are part of none.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.run_file.config import RunFile, TokenizerLimits
from stages.config import Config, canonical_json, changed_settings


@dataclass(frozen=True)
class SomeSettings:
    """Some settings of a config."""

    config: Config
    names: Collection[str]


def full_settings(value: object) -> object:
    """Return what the run file says, defaults and all: for people, and to tell what changed."""
    if isinstance(value, SomeSettings):
        return value.config.model_dump(mode="json", include=set(value.names))
    if isinstance(value, Config):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {key: full_settings(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [full_settings(item) for item in value]
    return value


def decisive(value: object) -> Any:
    """Return what enters a fingerprint: of configs the settings that differ from their defaults."""
    if isinstance(value, SomeSettings):
        changed = changed_settings(value.config)
        return {key: changed[key] for key in value.names if key in changed}
    if isinstance(value, Config):
        return changed_settings(value)
    if isinstance(value, Mapping):
        return {key: decisive(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [decisive(item) for item in value]
    return value


def fingerprint_of(parts: object) -> str:
    """Return the digest of settings, numbers and other fingerprints: 32 hex digits of SHA-256."""
    return hashlib.sha256(canonical_json(decisive(parts))).hexdigest()[:32]


def without_limits(file: RunFile) -> RunFile:
    """Return a run file whose limits stop nothing: they decide no byte.

    A finished run may have lower ones by now than those it was made with.
    """
    ingest = file.ingest.model_copy(update={"max_bad_fraction": 1.0})
    dedup = file.dedup.model_copy(update={"max_removed_fraction": 1.0, "max_cluster_size": None})
    sources = tuple(one.model_copy(update={"max_removed_fraction": None}) for one in file.sources)
    mix = None if file.mix is None else file.mix.model_copy(update={"tolerance": 1.0})
    tokenizer = file.tokenizer.model_copy(update={"limits": TokenizerLimits()})
    datasets = tuple(
        one
        if one.mix is None
        else one.model_copy(update={"mix": one.mix.model_copy(update={"tolerance": 1.0})})
        for one in file.datasets
    )
    lifted = {"ingest": ingest, "dedup": dedup, "sources": sources, "tokenizer": tokenizer}
    return file.model_copy(update={**lifted, "mix": mix, "datasets": datasets})
