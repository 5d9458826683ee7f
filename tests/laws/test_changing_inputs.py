"""What law 2 promises of inputs: of a file that changes while it is read nothing is lost in silence.

A slice of the campaign `changing`: each change of a file and each fault of a server, at a moment that is
the same in every run. Either what was read is what was scanned, or the run stops and names the file;
then the same command finishes like a run that nobody disturbed, or with `--replace` like a new one.
"""

import pytest
from changing_inputs import Campaign, Case, choose_cases, problems

from tests.material.changing_files import CHANGES, FORMATS
from tests.material.changing_server import FAULTS

LOCAL = dict(
    zip(CHANGES, ("jsonl", "jsonl.gz", "parquet", "txt", "jsonl.zst", "txt.gz", "arrow"), strict=True)
)
SERVED = dict(zip(FAULTS, ("jsonl", "txt.zst", "parquet"), strict=True))
CASES = [
    *(Case(kind, change, 1) for change, kind in LOCAL.items()),
    *(Case(kind, fault, 1, server=True) for fault, kind in SERVED.items()),
    Case("jsonl", "replaced", 2, server=True, stamps=False),
]


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    """A campaign with files of a few units."""
    return Campaign(tmp_path_factory.mktemp("changing"), size=1_500_000, seed=1)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.format}-{c.change}-{c.after}")
def test_a_file_that_changes_is_refused_by_name_and_both_ways_out_work(
    case: Case, campaign: Campaign
) -> None:
    outcome = campaign.run(case)
    assert problems(outcome) == []
    expected = {"drops": "stopped", "unavailable": "stopped"}.get(case.change, "refused")
    assert outcome.kind == expected, outcome.message


def test_the_campaign_has_every_format_change_and_way() -> None:
    assert {case.format for case in CASES} == FORMATS.keys()
    chosen = choose_cases(60, 1)
    assert len(chosen) == 60
    assert {case.format for case in chosen} == FORMATS.keys()
    assert {case.change for case in chosen} == {*CHANGES, *FAULTS}
    assert {(case.server, case.outside) for case in chosen} == {
        (False, False),
        (True, False),
        (False, True),
    }
