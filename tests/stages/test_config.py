"""What configs promise.

A config is a frozen value that refuses what it does not know, and it has one spelling as JSON.
"""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from stages.config import Config, canonical_json
from stages.errors import (
    ConfigError,
    DataError,
    FormatError,
    Interrupted,
    ShardmillError,
    Stopped,
    VerificationError,
)
from tests.campaign import examples

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


class Example(Config):
    """A config with one field of each kind."""

    count: int = Field(3, ge=1)
    share: float = 0.5
    names: tuple[str, ...] = ("é",)


def test_a_config_is_frozen() -> None:
    config = Example()
    with pytest.raises(ValidationError, match="frozen"):
        config.count = 4  # type: ignore[misc]
    assert config == Example()


def test_an_unknown_key_is_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="cuont"):
        Example.model_validate({"cuont": 4})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_cannot_spell_is_refused(value: float) -> None:
    with pytest.raises(ValidationError, match="finite"):
        Example.model_validate({"share": value})
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"share": value})


def test_canonical_json_is_sorted_dense_utf8() -> None:
    assert canonical_json({"b": 1, "a": [2.5, "é"]}) == '{"a":[2.5,"é"],"b":1}'.encode()
    assert canonical_json(Example()) == '{"count":3,"names":["é"],"share":0.5}'.encode()


def test_two_configs_that_mean_the_same_have_the_same_spelling() -> None:
    given_order = Example.model_validate({"share": 0.5, "names": ["é"], "count": 3})
    assert canonical_json(given_order) == canonical_json(Example())
    assert canonical_json(Example(count=4)) != canonical_json(Example())


@settings(deadline=None, derandomize=True, max_examples=examples(30))
@given(JSON_VALUES)
def test_canonical_json_reads_back_as_the_value_and_spells_it_once(value: object) -> None:
    spelled = canonical_json(value)
    assert json.loads(spelled) == value
    assert canonical_json(json.loads(spelled)) == spelled


@pytest.mark.parametrize(
    ("error", "base"),
    [
        (ConfigError, ShardmillError),
        (DataError, ShardmillError),
        (FormatError, DataError),
        (VerificationError, ShardmillError),
        (Stopped, ShardmillError),
        (Interrupted, Stopped),
    ],
)
def test_errors_form_the_tree_of_the_docstring(
    error: type[ShardmillError], base: type[ShardmillError]
) -> None:
    assert error.__bases__ == (base,)
