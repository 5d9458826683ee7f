"""With what a check does tasks of finished steps again, and which of their commits it needs."""

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.steps.again import choice
from pipeline.steps.again.choice import followed_steps, remade
from pipeline.steps.again.redo import RepeatedTask, redo
from pipeline.steps.again.signatures import (
    DrawnUnit,
    EmbeddedUnit,
    SignedUnit,
    drawn_groups,
    embed_again,
    sign_again,
)
from pipeline.steps.cut.step import CUT
from pipeline.steps.decontaminate.step import DECONTAMINATE
from pipeline.steps.dedup import clusters
from pipeline.steps.dedup.semantic import vectors_key
from pipeline.steps.dedup.step import DEDUP
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.step import Step
from pipeline.steps.tokenizer.step import TOKENIZER
from pipeline.steps.units import Unit
from stages.dedup.semantic import SemanticConfig
from tests.material.commit_seals import vouched
from tests.material.file_damages import Undo
from tests.material.signed_evidence import run_file
from tests.pipeline.test_made_again import DOCUMENTS, job_of, units_in

pytestmark = pytest.mark.slow


@pytest.fixture
def undo(signed_run: Path) -> Iterator[Undo]:
    """Take back what a test changes."""
    kept = Undo(signed_run)
    yield kept
    kept.undo()


def findings(run: Path, step: Step[Any]) -> list[str]:
    """Return what following a step finds."""
    (one,) = followed_steps(job_of(run), [step])
    return [f"{found.file}: {found.message}" for found in one.followed.findings]


def test_tasks_that_read_files_beside_the_run_are_told_apart(signed_run: Path) -> None:
    steps = (DEDUP, DECONTAMINATE, TOKENIZER)
    phases = choice.made_again(job_of(signed_run), steps, documents=DOCUMENTS)
    given = [task.payload for task in next(phases).tasks]
    outside = {one.task.function.__name__ for one in given if one.outside}
    assert outside == {"make_index"}  # tests remember what is measured, by another function
    assert {"resolve", "gather"} <= {one.task.function.__name__ for one in given}


def test_tasks_are_done_again_where_they_were_done(signed_run: Path) -> None:
    phases, titles = choice.made_again(job_of(signed_run), (DEDUP,), documents=DOCUMENTS), []
    phase = next(phases)
    while phase is not None:
        titles.append((phase.where, {one.payload.task.function.__name__ for one in phase.tasks}))
        done = {one.unit: SimpleNamespace(read=lambda kind: kind()) for one in phase.tasks}
        try:
            phase = phases.send(done)  # type: ignore[arg-type]  # commits that are read alone
        except StopIteration:
            break
    places = dict(titles)
    assert len(titles) == len(places) > 1
    assert any("find_clusters" in names for where, names in titles if where.name == "OWN_ACTOR")


def test_vectors_behind_those_of_an_earlier_run_are_found_by_their_place(signed_run: Path) -> None:
    job = job_of(signed_run)
    earlier: Any = (SimpleNamespace(units=units_in(signed_run), documents=DOCUMENTS),)
    job = replace(job, scope=replace(job.scope, earlier=earlier))
    works = [task.payload for task in next(choice.embedded_again(job)).tasks]
    firsts = {work.drawn.unit.first: (work.run, work.first) for work in works}
    assert firsts == {
        DOCUMENTS + unit.first: ("00000", DOCUMENTS + unit.first) for unit in units_in(signed_run)
    }
    beside = tuple(replace(unit, folder="other") for unit in units_in(signed_run))
    earlier = (SimpleNamespace(units=beside, documents=DOCUMENTS),)
    job = replace(job, scope=replace(job.scope, earlier=earlier))
    works = [task.payload for task in next(choice.embedded_again(job)).tasks]
    firsts = {work.drawn.unit.first: (work.run, work.first) for work in works}
    assert firsts == {DOCUMENTS + unit.first: ("00001", unit.first) for unit in units_in(signed_run)}, (
        "vectors of a run of units begin with its first"
    )


@pytest.mark.parametrize("step", [CUT, DEDUP], ids=lambda step: str(step.name))
def test_each_commit_that_a_step_keeps_is_needed(signed_run: Path, undo: Undo, step: Step[Any]) -> None:
    for path in sorted((signed_run / "commits" / step.name).glob("*.json")):
        if path.stem == "_step":
            continue
        undo.write(path, path.read_bytes())
        path.unlink()
        assert any(path.name in one for one in findings(signed_run, step)), path.name
        undo.undo()
    assert findings(signed_run, step) == []


def test_a_unit_that_a_record_no_longer_names_is_missed(signed_run: Path, undo: Undo) -> None:
    place = signed_run / "commits/ingest/_step.json"
    whole = json.loads(place.read_text())["record"]
    fewer = {**whole, "units": whole["units"][:-1]}
    for path, data in vouched(
        signed_run, set(), record=lambda record: fewer if record == whole else record
    ).items():
        undo.write(path, data)
    found = findings(signed_run, INGEST)
    assert any(one.startswith("commits/ingest/_step.json: units is ") for one in found)


def test_values_of_a_file_of_the_same_size_are_compared(
    signed_run: Path, undo: Undo, tmp_path: Path
) -> None:
    key = "dedup/shingles/00000/values.npy"
    undo.write(signed_run / key, (signed_run / key).read_bytes())
    array = np.load(signed_run / key)
    array[7] ^= np.uint64(1)
    np.save(signed_run / key, array)
    for path, data in vouched(signed_run, {key}).items():
        undo.write(path, data)
    (dedup,) = followed_steps(job_of(signed_run), [DEDUP])
    (one,) = [one for one in dedup.followed.tasks if one.task.unit.startswith("shingles-")]
    again = redo(
        Workspace(signed_run, tmp_path), RepeatedTask(one.task, one.commit.files, one.commit.record)
    )
    assert [(found.file, "row 7" in found.message) for found in again.findings] == [(key, True)]


def test_a_trained_tokenizer_is_measured_again_with_the_model_that_is_there(
    signed_run: Path, tmp_path: Path
) -> None:
    (tokenizer,) = followed_steps(job_of(signed_run), [TOKENIZER])
    (one,) = [one for one in tokenizer.followed.tasks if one.task.unit == "train"]
    trained: Any = one.task.function
    own = replace(one, task=replace(one.task, function=trained.__wrapped__))
    work = remade(own, TOKENIZER)
    assert redo(Workspace(signed_run, tmp_path), work).findings == ()
    changed = {**work.record, "character_coverage": 0.5}
    found = redo(Workspace(signed_run, tmp_path), replace(work, record=changed)).findings
    assert [one.message.split(" is ")[0] for one in found] == ["character_coverage"]


def test_shares_of_the_tokenizers_sample_are_drawn_again(signed_run: Path, tmp_path: Path) -> None:
    (tokenizer,) = followed_steps(job_of(signed_run), [TOKENIZER])
    samples = [one for one in tokenizer.followed.tasks if one.task.unit.startswith("sample-")]
    assert len(samples) == len(units_in(signed_run))
    for one in samples:
        work = remade(one, TOKENIZER)
        assert redo(Workspace(signed_run, tmp_path), work).findings == ()
        changed = {**work.record, "pieces": work.record["pieces"] + 1}
        found = redo(Workspace(signed_run, tmp_path), replace(work, record=changed)).findings
        assert [finding.message.split(" is ")[0] for finding in found] == ["pieces"]


@pytest.fixture
def regrouped(signed_run: Path, tmp_path: Path) -> tuple[Path, Unit]:
    """A folder with a unit whose documents lie in row groups of three, and what was made of them."""
    unit = max(units_in(signed_run), key=lambda unit: unit.documents)
    (tmp_path / unit.table).parent.mkdir(parents=True)
    pq.write_table(pq.read_table(signed_run / unit.table), tmp_path / unit.table, row_group_size=3)
    for key in (f"ingest/{unit.name}/signatures.npy", vectors_key("00000")):
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(signed_run / key, tmp_path / key)
    return tmp_path, unit


def test_row_groups_are_drawn_by_the_key_with_their_places(regrouped: tuple[Path, Unit]) -> None:
    root, unit = regrouped
    texts = pq.read_table(root / unit.table, columns=["text"]).column("text").to_pylist()
    orders = set()
    for key in "abcdef":
        drawn = list(drawn_groups(Workspace(root, root), DrawnUnit(unit, 1_000, key)))
        for first, column in drawn:
            assert column.to_pylist() == texts[first : first + 3]
        assert {first for first, _ in drawn} == set(range(0, unit.documents, 3))
        orders.add(tuple(first for first, _ in drawn))
        few = list(drawn_groups(Workspace(root, root), DrawnUnit(unit, 4, key)))
        assert [first for first, _ in few] == [first for first, _ in drawn[:2]]
    assert len(orders) > 2


def test_signatures_and_vectors_of_any_row_group_are_those_of_its_texts(
    regrouped: tuple[Path, Unit],
) -> None:
    root, unit = regrouped
    for wanted in (2, 5, 1_000):
        drawn = DrawnUnit(unit, wanted, "a key")
        signed = sign_again(Workspace(root, root), SignedUnit(drawn, run_file().dedup.minhash))
        embedded = embed_again(
            Workspace(root, root), EmbeddedUnit(drawn, "00000", unit.first, SemanticConfig())
        )
        assert signed.findings == embedded.findings == ()
        (vectors,) = embedded.looked
        assert vectors.looked == min(wanted, unit.documents)


def test_texts_of_clusters_are_found_in_any_row_group(regrouped: tuple[Path, Unit]) -> None:
    root, unit = regrouped
    rows = pq.read_table(root / unit.table, columns=["text", "position"]).to_pylist()
    numbers = {str(row): unit.first + row for row in range(unit.documents)}
    texts = clusters._Texts(Workspace(root, root), [unit], numbers)  # noqa: SLF001  # of whole runs
    for name, row in zip(numbers, rows, strict=True):
        found = texts.find(name)
        assert found is not None
        assert found[1] == row["text"]
        assert f"byte {row['position']:,}" in found[0]
