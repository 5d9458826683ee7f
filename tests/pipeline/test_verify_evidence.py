"""Where verify tells of evidence that was changed and signed again: with the files, or a dataset."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.report.evidence import evidence_lines
from pipeline.report.report import RunReport, SeenEvidence
from pipeline.session.audit import with_findings_so_far
from pipeline.session.verifying import verify_session
from pipeline.steps.records import AuditReport, FoundIn
from pipeline.steps.tokenizer import step
from tests.material.commit_seals import vouched
from tests.material.file_damages import Undo

pytestmark = pytest.mark.slow


@pytest.fixture
def undo(signed_run: Path) -> Iterator[Undo]:
    """Take back what a test changes."""
    kept = Undo(signed_run)
    yield kept
    kept.undo()


def sign(run: Path, undo: Undo, *keys: str, record: Callable[[Any], Any] = lambda one: one) -> None:
    """Let the run vouch for what is there."""
    for place, data in vouched(run, set(keys), record=record).items():
        undo.write(place, data)


def change_table(run: Path, undo: Undo, key: str, column: str, change: Callable[[Any], Any]) -> None:
    """Change the first value of a column."""
    undo.write(run / key, (run / key).read_bytes())
    table = pq.read_table(run / key)
    rows = table.to_pylist()
    rows[0][column] = change(rows[0][column])
    pq.write_table(pa.Table.from_pylist(rows, table.schema), run / key)


def told(report: RunReport) -> tuple[set[str], set[str]]:
    """Return the files that findings name: of the run's files, and of the dataset."""
    assert report["audit"] is not None
    audited = {one["file"] for one in report["audit"]["findings"]}
    return audited, {one["file"] for one in report["verify"]["clm"]["findings"]}


def verify(run: Path) -> RunReport:
    """Verify the run."""
    return verify_session(run, workers=0, address=None, stream=None)


def test_changed_tables_and_numbers_are_told_with_the_dataset_and_numbers_with_the_files_too(
    signed_run: Path, undo: Undo
) -> None:
    tables = ("dedup/clusters.parquet", "dedup/cuts.parquet", "decontaminate/items.parquet")
    change_table(signed_run, undo, tables[0], "number", lambda number: number + 1)
    change_table(signed_run, undo, tables[1], "excerpt", lambda text: text + "x")
    change_table(signed_run, undo, tables[2], "words", lambda words: words + 1)

    place = signed_run / "commits/shard-clm/_step.json"
    whole = json.loads(place.read_text())["record"]
    other = json.loads(json.dumps(whole))
    other["splits"]["train"]["rows"] += 1
    sign(signed_run, undo, *tables, record=lambda record: other if record == whole else record)
    audited, of_dataset = told(verify(signed_run))
    assert "commits/shard-clm/_step.json" in audited
    assert {*tables, "commits/shard-clm/_step.json"} <= of_dataset


def test_changed_numbers_of_fairness_and_a_signature_and_a_vector_are_told_together(
    signed_run: Path, undo: Undo, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: Any = vars(step)["train_tokenizer"]
    monkeypatch.setattr(step, "train_tokenizer", trained.__wrapped__)  # not the one that tests remember
    assert told(verify(signed_run)) == (set(), set())
    path = signed_run / "tokenizer/fairness.json"
    undo.write(path, path.read_bytes())
    content = json.loads(path.read_text())
    language = next(iter(content))
    content[language]["sample"]["tokens"] += 1
    path.write_text(json.dumps(content))
    signatures = next(signed_run.glob("ingest/s/*/signatures.npy")).relative_to(signed_run).as_posix()
    vectors = "dedup/embeddings/00000.npy"
    for key in (signatures, vectors):
        undo.write(signed_run / key, (signed_run / key).read_bytes())
        array = np.load(signed_run / key)
        array[0, 0] = array[0, 0] ^ 64
        np.save(signed_run / key, array)
    sign(signed_run, undo, "tokenizer/fairness.json", signatures, vectors)
    audited, of_dataset = told(verify(signed_run))
    assert "tokenizer/fairness.json" in audited
    assert {signatures, vectors} <= of_dataset


def test_findings_of_checks_come_before_those_of_sums_and_none_is_lost() -> None:
    before = FoundIn(file="b", check="ledger", message="of the audit")
    found = [FoundIn(file=name, check="ids", message="of a check") for name in ("x", "y")]

    class Survey:
        commits = {  # noqa: RUF012  # of a test
            "unit": type("C", (), {"record": {"findings": [found[0].model_dump()]}}),
            "_step": type("C", (), {"record": {"findings": [one.model_dump() for one in found]}}),
        }

    class Execution:
        class commits:  # noqa: N801  # as an execution names it
            survey = staticmethod(lambda _: Survey)

    report = AuditReport(files=1, bytes=1, findings=(before, found[1]))
    execution: Any = Execution
    told_ = with_findings_so_far(execution, {"decode": None}, report)  # type: ignore[dict-item]
    assert told_.findings == (found[0], found[1], before)
    Survey.commits.pop("_step")
    assert with_findings_so_far(execution, {"decode": None}, report).findings == (  # type: ignore[dict-item]
        found[0],
        before,
        found[1],
    )


def test_how_much_was_looked_at_is_summed_over_checks_and_tasks_are_told_apart() -> None:
    looked = [
        {"what": "a", "unit": "tasks", "looked": 1, "of": 4},
        {"what": "b", "unit": "tasks", "looked": 2, "of": 2},
        {"what": "b", "unit": "rows", "looked": 1_000, "of": 5_000},
        {"what": "none", "unit": "rows", "looked": 0, "of": 0},
    ]
    keys = [f"commits/x.json: {name}" for name in "abcdefg"]
    evidence = SeenEvidence.model_validate({"looked": looked, "lacking": keys})
    assert list(evidence_lines(evidence)) == [
        "evidence: 3 of 6 tasks of finished steps were done again and compared",
        "  b: 1,000 of 5,000 rows",
        "  not checked, since an earlier version did not write it: "
        + ", ".join(keys[:5])
        + " and 2 more",
    ]
    fewer = evidence.model_copy(update={"lacking": tuple(keys[:5])})
    assert list(evidence_lines(fewer))[-1].endswith("x.json: e")
    assert list(evidence_lines(None)) == []  # of a run that is not whole
