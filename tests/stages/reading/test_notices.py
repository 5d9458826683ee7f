"""What is noticed while reading: each name has its words, and warnings say how many."""

import pytest

from stages.reading.notices import LOOKS_QUOTED, NOTICES, notice_of, notice_warnings, said_of_notice


@pytest.mark.parametrize("notice", NOTICES, ids=lambda notice: notice.name)
def test_each_notice_is_found_by_the_name_that_it_is_counted_under(notice: object) -> None:
    (own,) = (one for one in NOTICES if one == notice)
    kind = "revisit" if own.name.endswith(":") else ""
    assert notice_of(f"{own.name}{kind}") == (own, kind)
    assert said_of_notice(f"{own.name}{kind}") == own.said.format(kind=kind)


def test_warnings_name_source_and_number_and_others_are_none() -> None:
    found = list(notice_warnings({"web": {LOOKS_QUOTED.name: 1_234, "long field": 7}, "rest": {}}))
    assert len(found) == 1
    assert found[0].startswith("sources.web: 1,234 fields begin and end with a quote")
    (cut,) = notice_warnings({"a": {"warc truncated:length": 2}})
    assert cut.startswith("sources.a: 2 ")
