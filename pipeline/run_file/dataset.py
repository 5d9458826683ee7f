"""A dataset of a run: what is learned from its rows, and what of the run's settings it sets anew.

    [packing]                  seq_len = 4096, shards = 8
    [datasets.packing]         strategy = "concat"
    the dataset's packing      seq_len = 4096, strategy = "concat", shards = 8

Shards belong to the run: every dataset reads the same token store, which is cut into shards once.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field, ValidationError, field_validator

from pipeline.run_file.source import plain_name
from stages.config import Config
from stages.mixing.config import DatasetMix
from stages.objectives.clm.config import CausalLM
from stages.objectives.table import AnyObjective, traits_of
from stages.objectives.traits import Traits
from stages.packing.layout import PackingConfig

OF_THE_RUN = ("shards", "shard_size")
"""Keys that a dataset cannot set."""


class Dataset(Config):
    """One dataset to make."""

    name: str
    """Name of the dataset and of its folder."""
    objective: AnyObjective = CausalLM()
    """What is learned from the rows; `kind` says which, "clm" unless given."""
    packing: PackingConfig | None = None
    """`seq_len` and `strategy` of this dataset. Without them, those of the run apply. `shards` and
    `shard_size` are always the run's: all datasets share the shards of one token store."""
    mix: DatasetMix | None = None
    """Settings of the mix of this dataset. Those that are left out are the run's."""
    materialized_epochs: int = Field(0, ge=0, le=1000)
    """Number of epochs that are also written to disk, for programs that only read files. The loader
    gives the same bits. Objectives that cannot be drawn from rows have only the epochs on disk, at least
    one."""

    _name = field_validator("name")(plain_name)

    @property
    def traits(self) -> Traits:
        """What follows from its objective."""
        return traits_of(self.objective)

    @property
    def epochs_on_disk(self) -> int:
        """Epochs that are written out."""
        return max(self.materialized_epochs, int(bool(self.traits.written_for)))

    @field_validator("objective", mode="before")
    @classmethod
    def _causal_by_default(cls, value: object) -> object:
        return {"kind": CausalLM().kind, **value} if isinstance(value, dict) else value


def with_whole_packing(content: Any) -> Any:
    """Return a run's content with every key filled in where a dataset has a packing of its own.

    What has another form than a run file is returned as it is: the model says what is wrong with it.

    Raises:
        ValueError: a dataset sets a key of the run.
    """
    if not isinstance(content, Mapping) or not isinstance(content.get("datasets"), list | tuple):
        return content
    try:
        shared = PackingConfig.model_validate(content.get("packing", {}))
    except ValidationError:
        return content  # said once, of the run's own packing
    return {**content, "datasets": [_filled(dataset, shared) for dataset in content["datasets"]]}


def without_shards(content: Any) -> Any:
    """Return the content of a run.json without the shards that its datasets name: they are the run's.

    A run file that sets them is refused; a run.json names every key of every packing.
    """
    if not isinstance(content, Mapping) or not isinstance(content.get("datasets"), list):
        return content
    return {**content, "datasets": [_shardless(dataset) for dataset in content["datasets"]]}


def _shardless(dataset: Any) -> Any:
    if not isinstance(dataset, Mapping) or not isinstance(dataset.get("packing"), Mapping):
        return dataset
    own = {key: value for key, value in dataset["packing"].items() if key not in OF_THE_RUN}
    return {**dataset, "packing": own}


def _filled(dataset: Any, shared: PackingConfig) -> Any:
    if isinstance(dataset, BaseModel):
        dataset = dataset.model_dump(exclude_unset=True)
    if not isinstance(dataset, Mapping) or not isinstance(dataset.get("packing"), Mapping):
        return dataset
    own = dataset["packing"]
    for key in OF_THE_RUN:
        if key in own and not _is_the_run_s(key, own[key], shared):
            raise ValueError(
                f"dataset {dataset.get('name')!r}: packing.{key} = {own[key]!r}: all datasets of a run"
                f" share its shards; set {key} in the run's own [packing]"
            )
    return {**dataset, "packing": {**shared.model_dump(), **own}}


def _is_the_run_s(key: str, value: object, shared: PackingConfig) -> bool:
    """Say whether a value of one key is the run's, in whatever spelling."""
    try:
        given = PackingConfig.model_validate({key: value})
    except ValidationError:
        return True  # no such value: the model says so
    return bool(getattr(given, key) == getattr(shared, key))
