"""The base of every objective's config, and the field that holds any of them."""

from collections.abc import Iterable

from pydantic import GetPydanticSchema
from pydantic_core import core_schema

from stages.config import Config


class Objective(Config):
    """What is learned from rows: the settings of one kind of objective."""

    kind: str
    """Names the objective."""


def kind_name(config: type[Objective]) -> str:
    """Return the `kind` that configs of a class have."""
    return str(config.model_fields["kind"].default)


def one_of(configs: Iterable[type[Objective]]) -> GetPydanticSchema:
    """Return the annotation of a field that holds a config of one of some classes; `kind` says which."""
    named = {kind_name(config): config for config in configs}
    return GetPydanticSchema(
        lambda _, handler: core_schema.tagged_union_schema(
            {name: handler.generate_schema(config) for name, config in named.items()}, "kind"
        )
    )
