"""What the summary of a run promises: numbers that do not add up end it, whichever of them is wrong.

The records are those of a real run. Each number of documents and of tokens is changed alone.
"""

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.counted import Counted
from pipeline.report.summary import summarise
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.step import Records
from pipeline.steps.table import step_of
from stages.errors import VerificationError
from tests.conftest import small_run

Place = tuple[str, ...]


@pytest.fixture(scope="module")
def records(reference: Path) -> dict[str, Any]:
    """What the steps of the small run reported, as its commits have it, by name in the plan."""
    commits = Commits(LocalStorage(reference))

    def record(step: str) -> Any:
        return dict(commits.all(step))[STEP_COMMIT].record

    steps = ("ingest", "dedup", "tokenizer", "split", "tokenize", "shard-clm")
    return {step: record(step) for step in steps}


def summed(content: Mapping[str, Any], output: Path) -> Any:
    """Return the summary of a run whose steps reported this."""
    records = Records()
    for name, record in content.items():
        records.put(name, step_of(name).record.model_validate(record))
    return summarise(small_run(), records, Counted(output))


def numbers(content: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the place of every number in a value."""
    if isinstance(content, int):
        yield place
    elif isinstance(content, dict):
        for key, part in content.items():
            yield from numbers(part, (*place, key))


def changed(records: dict[str, Any], place: Place, by: int) -> dict[str, Any]:
    """Return the records with another number at a place."""
    records = copy.deepcopy(records)
    inside = records
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] += by
    return records


DOCUMENTS = (("ingest", "read"), ("ingest", "drops"), ("dedup", "kept"), ("dedup", "removed"))
TOKENS = (("tokenize", "tokens"), ("shard-clm", "splits"))


def wrong(records: dict[str, Any], parts: tuple[Place, ...]) -> list[Place]:
    """Return the places of all numbers that are conserved, in some parts of the records."""
    found = [place for place in numbers(records) if any(place[: len(part)] == part for part in parts)]
    return [place for place in found if place[-1] not in ("rows", "segments", "documents")]


def test_the_numbers_of_a_sound_run_add_up(records: dict[str, Any], reference: Path) -> None:
    report = summed(records, reference)
    assert report.documents.read > report.documents.kept > 200


@pytest.mark.parametrize("by", [-1, 1, 1000])
def test_a_wrong_number_of_documents_ends_the_run(
    by: int, records: dict[str, Any], tmp_path: Path
) -> None:
    places = wrong(records, DOCUMENTS)
    assert len(places) > 6
    for place in places:
        with pytest.raises(VerificationError, match="documents do not add up"):
            summed(changed(records, place, by), tmp_path)


@pytest.mark.parametrize("by", [-1, 1, 1000])
def test_a_wrong_number_of_tokens_ends_the_run(by: int, records: dict[str, Any], tmp_path: Path) -> None:
    places = wrong(records, TOKENS)
    assert {place[-1] for place in places} == {"tokens", "tokens_cut", "frame_tokens"}
    assert len(places) == 7
    for place in places:
        with pytest.raises(VerificationError, match="tokens of clm do not add up"):
            summed(changed(records, place, by), tmp_path)


def test_tokens_that_one_dataset_lost_are_not_made_up_for_by_another(
    records: dict[str, Any], tmp_path: Path
) -> None:
    two = copy.deepcopy(records)
    two["shard-other"] = copy.deepcopy(two["shard-clm"])
    summed(two, tmp_path)
    two["shard-other"]["splits"]["train"]["tokens"] -= 1
    two["shard-clm"]["splits"]["train"]["tokens"] += 1
    with pytest.raises(VerificationError, match="tokens of clm do not add up"):
        summed(two, tmp_path)
