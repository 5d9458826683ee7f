"""What the table of filters promises: each has rules and settings of its own, and names both."""

import re

import pytest
from pydantic import TypeAdapter, ValidationError

from stages.columns import DropReason
from stages.config import Config, meanings_of
from stages.filtering.filter import FilterConfig
from stages.filtering.table import (
    FILTERS,
    AnyFilter,
    columns_for,
    filter_of,
    filters_for,
    labels_of,
    require_sources,
)

ADAPTER: TypeAdapter[FilterConfig] = TypeAdapter(AnyFilter)
LEAST: dict[str, dict[str, object]] = {
    "length": {"min_chars": 5},
    "column": {"column": "score", "min": 0.5},
    "url": {"domains": ["blocked.txt"]},
    "function": {"function": "package.module:keep"},
}
"""Settings without which a filter is none; those of all others are there."""


def settings_of(kind: str, **changes: object) -> FilterConfig:
    """Return the settings of a filter, defaults as far as there are any."""
    return ADAPTER.validate_python({"kind": kind, **LEAST.get(kind, {}), **changes})


def test_no_two_filters_have_a_name_or_a_reason_in_common() -> None:
    reasons = [reason for one in FILTERS.values() for reason in one.reasons] + [
        str(one) for one in DropReason
    ]
    assert len(reasons) == len(set(reasons)) > 0
    assert all(re.fullmatch(r"[a-z_0-9]+", name) for name in FILTERS)
    assert all(one.name == name for name, one in FILTERS.items())


@pytest.mark.parametrize("kind", FILTERS)
def test_every_filter_has_a_kind_sources_and_a_meaning_of_each_setting(kind: str) -> None:
    config = FILTERS[kind].config
    assert issubclass(config, Config)
    assert meanings_of(config).keys() == config.model_fields.keys() >= {"kind", "sources"}
    found = settings_of(kind)
    assert filter_of(found) is FILTERS[kind]
    assert set(FILTERS[kind].undecided) < config.model_fields.keys()


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValidationError, match="'length'"):
        settings_of("lenght")


def test_a_filter_that_stands_twice_has_a_number() -> None:
    configs = [settings_of("length"), settings_of("length", min_chars=9), settings_of("length")]
    assert labels_of(configs) == ["length", "length-2", "length-3"]


def test_a_source_has_the_filters_that_name_it_and_those_that_name_none() -> None:
    configs = [settings_of("length", sources=["web"]), settings_of("length", min_chars=9)]
    assert [label for label, _ in filters_for(configs, "web")] == ["length", "length-2"]
    assert [label for label, _ in filters_for(configs, "books")] == ["length-2"]
    assert columns_for(configs, "web") == ()


def test_a_source_that_the_run_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"filters.1 \(kind = 'length'\): sources: no source is called"):
        require_sources([settings_of("length"), settings_of("length", sources=["wbe"])], {"web": 1})
