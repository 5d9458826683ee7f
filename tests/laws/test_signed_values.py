"""What verify promises of evidence that is changed and signed again: it names file, row and value.

A slice of benchmarks/signed_evidence.py.
"""

import re
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import pytest

from pipeline.session.verifying import verify_session
from stages.errors import VerificationError
from tests.material import signed_evidence
from tests.material.commit_seals import vouched
from tests.material.file_damages import Undo
from tests.material.signed_evidence import NAMED, Case, cases_of, looked_at, said_of, step_of

pytestmark = pytest.mark.slow

UNKNOWN = (
    *("decontaminate/index/", "scan/", "commits/scan/"),
    *("ingest/", "commits/ingest/"),
    *("tokenizer/", "commits/tokenizer/"),
    "commits/dedup/partitions.json",
)
"""Made from files beside the run, which verify does not have; measured by what tests keep; or a number
on which no result depends."""
TOGETHER = (
    {
        Case("dedup/removed.parquet", "kept_own_id"): r"row \d+, kept_own_id: is",
        Case("dedup/clusters.parquet", "number"): r"row \d+, number: is",
        Case("commits/split/_step.json", "/shards/train"): r"shards\.train is",
        Case("commits/dedup/_step.json", "/kept"): r"kept is",
        Case("commits/dedup/_step.json", "/compared"): r"compared is",
    },
    {
        Case("dedup/removed.parquet", "similarity"): r"row \d+, similarity: is",
        Case("commits/ingest/*-00000.json", "/covered/*/0"): r".*positions 0 to 1 were read by no unit",
    },
)
"""Values that are changed together, since none hides another, and what is said of each. A unit of ingest
begins in its file where the one before ended."""


@pytest.fixture
def run(signed_run: Path) -> Path:
    """The run."""
    return signed_run


def own_lines(case: Case, text: str) -> list[str]:
    """Return what verify said of the file of a case or of its step's commits."""
    begins = (f"{case.file}: ", f"commits/{step_of(case)}/")
    return [line for line in text.splitlines() if line.startswith(begins)]


@pytest.mark.parametrize("cases", TOGETHER, ids=["five", "two"])
def test_each_value_that_is_signed_again_is_named(cases: dict[Case, str], run: Path) -> None:
    every = cases_of(run)
    found = {next(one for one in every if is_like(one, case)): said for case, said in cases.items()}
    text, failed = said_of(run, found)
    assert failed
    for case, said in found.items():
        assert re.search(f"^{named_in(case)}: made again: {said}", text, re.MULTILINE), (case, text)


def named_in(case: Case) -> str:
    """Return the file that verify names: of ingest, which is not done again, the step's commit."""
    return "commits/ingest/_step.json" if step_of(case) == "ingest" else case.file


def is_like(case: Case, pattern: Case) -> bool:
    """Say whether a case is one of a kind."""
    return fnmatchcase(case.file, pattern.file) and fnmatchcase(case.where, pattern.where)


def test_any_value_of_any_table_or_record_is_named(run: Path) -> None:
    """A value of each step, all at once; one that another hides is looked at alone."""
    known = [case for case in cases_of(run) if not case.file.startswith(UNKNOWN)]
    assert len(known) > 300
    by_step: dict[str, list[Case]] = {}
    for case in known:
        by_step.setdefault(step_of(case), []).append(case)
    chosen = [cases[len(cases) * 3 // 4] for cases in by_step.values()]
    assert len(chosen) > 7
    text, _ = said_of(run, chosen)
    hidden = [case for case in chosen if not own_lines(case, text)]
    assert len(hidden) < 3
    assert [one for one in map(partial(looked_at, run), hidden) if one.outcome != NAMED] == []


@pytest.mark.campaign
def test_each_value_of_any_table_or_record_is_named(run: Path) -> None:
    known = [case for case in cases_of(run) if not case.file.startswith(UNKNOWN)]
    assert [one for one in map(partial(looked_at, run), known) if one.outcome != NAMED] == []


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
