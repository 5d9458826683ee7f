"""The base of every config: frozen, unknown keys refused, canonical as JSON.

A config is a value. What it says enters a step's fingerprint through `changed_settings` and
`canonical_json`, so that two configs that mean the same give the same bytes, and a new setting at its
default changes no fingerprint.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetPydanticSchema
from pydantic.fields import FieldInfo
from pydantic_core import core_schema


class Config(BaseModel):
    """A frozen group of settings; the strings behind them say what they are for."""

    model_config = ConfigDict(
        defer_build=True,  # a process uses few of a hundred classes, and each worker imports all
        frozen=True,
        extra="forbid",
        validate_default=True,
        allow_inf_nan=False,
    )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[BaseModel], handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        """Take true and false for a flag alone: pydantic would take "no", "off" and 1 as well."""
        schema = handler(source)
        _make_flags_strict(schema)
        return schema


def _make_flags_strict(schema: object) -> None:
    """Change the schema of every flag in a schema."""
    if isinstance(schema, dict):
        if schema.get("type") == "bool":
            schema["strict"] = True
        for part in schema.values():
            _make_flags_strict(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            _make_flags_strict(part)


def kind_name(config: type[Config]) -> str:
    """Return the `kind` that configs of a class have."""
    return str(config.model_fields["kind"].default)


def one_of(configs: Iterable[type[Config]]) -> GetPydanticSchema:
    """Return the annotation of a field that holds a config of one of some classes; `kind` says which."""
    named = {kind_name(config): config for config in configs}
    return GetPydanticSchema(
        lambda _, handler: core_schema.tagged_union_schema(
            {name: handler.generate_schema(config) for name, config in named.items()}, "kind"
        )
    )


def meanings_of(config: type[BaseModel]) -> dict[str, str]:
    """Return what each setting is for, as the string behind it says; read from the source.

    pydantic would read the sources of all configs whenever they are imported, in 0.15 CPU s a process.
    """
    found: dict[str, str] = {}
    for kind in reversed(config.__mro__):
        if kind is not BaseModel and issubclass(kind, BaseModel):
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
            found |= dict(_meanings_in(definition))
    return {name: found[name] for name in config.model_fields if name in found}


def _meanings_in(definition: ast.stmt) -> Iterator[tuple[str, str]]:
    """Yield the settings of a class that a string stands behind, and the string."""
    assert isinstance(definition, ast.ClassDef)
    for setting, behind in pairwise(definition.body):
        match setting, behind:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                yield name, inspect.cleandoc(text)


def canonical_json(value: object) -> bytes:
    """Return the one JSON spelling of a value: sorted keys, no spaces, UTF-8, no NaN.

    {"b": 1, "a": [2.5, "é"]} -> {"a":[2.5,"é"],"b":1}
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()


def changed_settings(config: Config) -> dict[str, object]:
    """Return the settings of a config that differ from their defaults, as plain JSON values.

    Packing(seq_len=4096) -> {"seq_len": 4096}

    What has no default is always there, and so is a `kind`, which says what the other settings mean.
    """
    everything = config.model_dump(mode="json")
    found: dict[str, object] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        only_value = get_origin(field.annotation) is Literal and len(get_args(field.annotation)) == 1
        if only_value or field.is_required() or not _is_default(value, field):
            found[name] = _changed(value, everything[name])
    return found


def _is_default(value: object, field: FieldInfo) -> bool:
    default = field.get_default(call_default_factory=True)
    if isinstance(value, Config) and isinstance(default, Config):
        return changed_settings(value) == changed_settings(default)
    return bool(value == default)


def _changed(value: object, plain: object) -> object:
    """Return a value as plain JSON, with the configs inside it reduced to what differs."""
    if isinstance(value, Config):
        return changed_settings(value)
    if isinstance(value, tuple | list) and isinstance(plain, list):
        return [_changed(one, other) for one, other in zip(value, plain, strict=True)]
    if isinstance(value, Mapping) and isinstance(plain, Mapping):
        return {key: _changed(value[key], plain[str(key)]) for key in value}
    return plain
