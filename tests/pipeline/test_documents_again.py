"""Signatures and vectors of drawn documents are held to their texts."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.steps.again import choice
from pipeline.steps.again import signatures as vectors
from pipeline.steps.again.signatures import (
    DrawnUnit,
    EmbeddedUnit,
    SignedUnit,
    drawn_groups,
    drawn_units,
    embed_again,
    sign_again,
)
from pipeline.steps.dedup.semantic import vectors_key
from pipeline.steps.records import CheckRecord
from stages.dedup.semantic import SemanticConfig
from tests.material.file_damages import Undo
from tests.material.signed_evidence import run_file
from tests.pipeline.test_made_again import DOCUMENTS, job_of, units_in

pytestmark = pytest.mark.slow


@pytest.fixture
def run(signed_run: Path) -> Path:
    """The run."""
    return signed_run


@pytest.fixture
def undo(run: Path) -> Any:
    """Take back what a test changes."""
    kept = Undo(run)
    yield kept
    kept.undo()


def test_units_are_drawn_until_they_have_the_documents(run: Path) -> None:
    units = units_in(run)
    assert sum(unit.documents for unit in units) == DOCUMENTS
    every = list(drawn_units(units, DOCUMENTS, "a key"))
    assert {one.unit for one in every} == set(units)
    some = list(drawn_units(units, 20, "a key"))
    have = [one.unit.documents for one in some]
    assert sum(have) >= 20 > sum(have[:-1])
    assert [one.documents for one in some] == [20 - sum(have[:n]) for n in range(len(some))]
    orders = {tuple(one.unit.name for one in drawn_units(units, DOCUMENTS, str(n))) for n in range(9)}
    assert len(orders) > 4  # by the key


def test_groups_come_with_the_row_of_their_first_document(run: Path) -> None:
    for unit in units_in(run):
        texts = pq.read_table(run / unit.table, columns=["text"]).column("text").to_pylist()
        for first, column in drawn_groups(Workspace(run, run), DrawnUnit(unit, 1_000, "k")):
            assert column.to_pylist() == texts[first : first + len(column)]
        assert list(drawn_groups(Workspace(run, run), DrawnUnit(unit, 0, "k"))) == []


def test_signatures_of_the_drawn_documents_are_held_to_their_texts(run: Path, undo: Undo) -> None:
    unit = max(units_in(run), key=lambda unit: unit.documents)
    work = SignedUnit(DrawnUnit(unit, 1, "k"), run_file().dedup.minhash)
    sound = sign_again(Workspace(run, run), work)
    assert sound.findings == ()
    assert [one.looked for one in sound.looked] == [unit.documents]  # it has one row group
    array = np.load(run / work.signatures)
    undo.write(run / work.signatures, (run / work.signatures).read_bytes())
    array[3, 5] ^= 1
    np.save(run / work.signatures, array)
    (found,) = sign_again(Workspace(run, run), work).findings
    assert found.file == work.signatures
    assert found.message.startswith(f"document 5, minimum 3: is {array[3, 5]},")


def embedded(run: Path, documents: int = DOCUMENTS, encoder: str = "wordllama") -> CheckRecord:
    """Embed documents of the second unit again."""
    first, unit = units_in(run)[:2]
    config = SemanticConfig(encoder=encoder)
    work = EmbeddedUnit(DrawnUnit(unit, documents, "k"), "00000", first.documents, config)
    return embed_again(Workspace(run, run), work)


def changed_vector(run: Path, undo: Undo, by: int) -> int:
    """Change a component of the third document of the second unit; return its row."""
    path = run / vectors_key("00000")
    undo.write(path, path.read_bytes())
    array, row = np.load(path), units_in(run)[0].documents + 2
    lane = int(np.argmin(np.abs(array[row])))
    array[row, lane] += by
    np.save(path, array)
    return row


def test_vectors_are_held_to_texts_within_the_tolerance(run: Path, undo: Undo) -> None:
    unit = units_in(run)[1]
    assert embedded(run).findings == ()
    assert [one.looked for one in embedded(run).looked] == [unit.documents]
    changed_vector(run, undo, vectors.TOLERANCE)
    assert embedded(run).findings == ()
    row = changed_vector(run, undo, -vectors.TOLERANCE - 1 - vectors.TOLERANCE)
    (found,) = embedded(run).findings
    assert found.file == "dedup/embeddings/00000.npy"
    assert found.message.startswith(f"document {row:,}, component ")


def test_an_encoder_gets_no_more_texts_than_are_drawn(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []

    def encode(texts: list[str]) -> Any:
        given.extend(texts)
        return np.zeros((len(texts), 256))

    monkeypatch.setattr(vectors, "encoder_of", lambda *_: encode)
    monkeypatch.setattr(vectors, "TOLERANCE", 255)
    found = embedded(run, 3)
    assert (len(given), [one.looked for one in found.looked]) == (3, [3])
    monkeypatch.setattr(vectors, "encoder_of", lambda *_: lambda texts: np.zeros((len(texts), 9)))
    assert "shape" in embedded(run).findings[0].message


def test_without_the_encoder_no_vector_is_looked_at(run: Path) -> None:
    found = embedded(run, encoder="no.such.module:encode")
    assert (found.findings, [one.looked for one in found.looked]) == ((), [0])


def test_signatures_of_few_documents_are_drawn_and_counted(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "LEAST", 20)
    signing = choice.signed_again(job_of(run), documents=DOCUMENTS)
    tasks = next(signing).tasks
    units = {task.unit: task.payload.drawn.unit.documents for task in tasks}
    assert sum(units.values()) >= 20 > sum(units.values()) - max(units.values())
    done = {task.unit: SimpleNamespace(read=lambda _, one=task: sign(run, one)) for task in tasks}
    with pytest.raises(StopIteration) as ended:
        signing.send(done)  # type: ignore[arg-type]  # commits that are read alone
    (one,) = ended.value.value.looked
    assert (one.what, one.looked, one.of) == ("signatures", sum(units.values()), DOCUMENTS)
    monkeypatch.setattr(choice, "SHARE", 0.5)
    more = next(choice.signed_again(job_of(run), documents=DOCUMENTS)).tasks
    assert sum(task.payload.drawn.unit.documents for task in more) >= DOCUMENTS / 2


def sign(run: Path, task: Any) -> CheckRecord:
    """Do a task that signs."""
    return sign_again(Workspace(run, run), task.payload)
