"""What verify promises of evidence that is changed and signed again: it names file, row and value.

A slice of benchmarks/signed_values.py.
"""

import re
from pathlib import Path

import pytest

from pipeline.session.verifying import verify_session
from stages.errors import VerificationError
from tests.campaign import some_of
from tests.material import signed_evidence
from tests.material.commit_seals import vouched
from tests.material.file_damages import Undo
from tests.material.signed_evidence import NAMED, Case, cases_of, looked_at

pytestmark = pytest.mark.slow

UNKNOWN = (
    *("decontaminate/index/", "scan/", "commits/scan/"),
    *("ingest/", "commits/ingest/"),
    *("tokenizer/", "commits/tokenizer/"),
    "commits/dedup/partitions.json",
)
"""Made from files beside the run, which verify does not have; measured by what tests keep; or a number
on which no result depends."""
STATED = [
    Case("dedup/removed.parquet", "kept_own_id"),
    Case("dedup/removed.parquet", "similarity"),
    Case("dedup/clusters.parquet", "number"),
    Case("commits/split/_step.json", "/shards/train"),
    Case("commits/dedup/_step.json", "/kept"),
    Case("commits/dedup/_step.json", "/compared"),
]


@pytest.fixture
def run(signed_run: Path) -> Path:
    """The run."""
    return signed_run


@pytest.mark.parametrize("case", STATED, ids=lambda case: f"{case.file} {case.where}")
def test_a_value_that_is_signed_again_is_named(case: Case, run: Path) -> None:
    looked = looked_at(run, case)
    assert looked.outcome == NAMED, looked
    assert "made again" in looked.said


def test_where_a_unit_of_ingest_begins_in_its_file_is_where_the_one_before_ended(run: Path) -> None:
    begins = [case for case in cases_of(run) if re.fullmatch(r"/covered/.*/0", case.where)]
    assert begins
    looked = looked_at(run, begins[0])
    assert looked.outcome == NAMED, looked
    assert "positions 0 to 1 were read by no unit" in looked.said


def test_any_value_of_any_table_or_record_is_named(run: Path) -> None:
    known = [case for case in cases_of(run) if not case.file.startswith(UNKNOWN)]
    assert len(known) > 300
    silent = [
        one for one in (looked_at(run, case) for case in some_of(known, 8)) if one.outcome != NAMED
    ]
    assert silent == []


def test_what_was_found_is_told_where_a_changed_number_ends_the_checks(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    undo = Undo(run)
    try:
        signed_evidence.change(run, Case("commits/split/_step.json", "/shards/train"), undo)
        monkeypatch.setattr("pipeline.steps.decode.step.checks_of", lambda *_, **__: 1 / 0)
        with pytest.raises(
            VerificationError, match=r"commits/split/_step\.json: made again: shards\.train is"
        ):
            verify_session(run, workers=0, address=None, stream=None)
    finally:
        undo.undo()
    assert vouched(run, set()) == {}
