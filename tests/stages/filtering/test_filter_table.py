"""What the table of filters promises: each has its own reasons and settings, and the first decides."""

import pytest

from stages.columns import DropReason
from stages.filtering.filter import Dropped, Filter
from stages.filtering.table import FILTERS, FilterSettings, verdict_of

TEXTS = ["", " \n", "ab", "a longer text", "é" * 500]


def test_no_two_filters_have_a_name_or_a_reason_in_common() -> None:
    names = [one.name for one in FILTERS]
    reasons = [reason for one in FILTERS for reason in one.reasons] + [str(one) for one in DropReason]
    assert len(names) == len(set(names)) > 0
    assert len(reasons) == len(set(reasons))


@pytest.mark.parametrize("text", TEXTS)
def test_every_verdict_has_a_reason_of_its_filter(text: str) -> None:
    settings = FilterSettings(min_chars=10)
    for one in FILTERS:
        verdict = one.verdict(text.encode(), settings)
        assert verdict is None or verdict[0] in one.reasons


def test_the_first_filter_that_drops_a_text_gives_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def long(data: bytes, settings: FilterSettings) -> Dropped:
        return ("long", f"{len(data)}, {settings.min_chars}") if len(data) > 1 else None

    added = (*FILTERS, Filter("long", ("long",), long))
    monkeypatch.setattr("stages.filtering.table.FILTERS", added)
    settings = FilterSettings(min_chars=2)
    assert verdict_of(b" ", settings) == ("empty", "no character but white space")
    assert verdict_of(b"a ", settings) == ("too_short", "1 characters; min_chars = 2")
    assert verdict_of(b"ab", settings) == ("long", "2, 2")
