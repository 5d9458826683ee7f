"""The base of every config: frozen, unknown keys refused, canonical as JSON.

A config is a value. What it says enters a step's fingerprint through `canonical_json`, so two configs
that mean the same give the same bytes.
"""

import json

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """A frozen group of settings; attribute docstrings are the documentation."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        use_attribute_docstrings=True,
        validate_default=True,
        allow_inf_nan=False,
    )


def canonical_json(value: object) -> bytes:
    """Give the one JSON spelling of a value: sorted keys, no spaces, UTF-8, no NaN.

    {"b": 1, "a": [2.5, "é"]} -> {"a":[2.5,"é"],"b":1}
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode()
