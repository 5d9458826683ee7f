"""What verify promises of a finished run of which one file is not what it was: it says which.

A slice of benchmarks/damaged_files.py, with what its damages must be: each changes what it says, each is
undone to the byte, and a table that is vouched for again passes every digest.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from damaged_files import FILE, GOOD, alarms, campaign, spread, together

from pipeline.session.request import RunRequest
from pipeline.session.verifying import verify_session
from stages.objectives.table import KINDS
from stages.store.digests import digest_file
from stages.store.drawn import read_drawn
from stages.store.manifest import MANIFEST_NAME, read_manifest
from tests.campaign import FULL
from tests.conftest import digests
from tests.material.damaged_run import OBJECTIVES, make_run
from tests.material.file_damages import (
    LOST,
    MADE_UP,
    OF_FILES,
    OF_TABLES,
    SWAPPED,
    Case,
    cases_of,
    committed_files,
    damaged,
)

DAMAGES = (*OF_FILES, *OF_TABLES)
OWN = ("report", "verify", "tmp")
"""Folders that a check writes to."""


@pytest.fixture(scope="module")
def request_(
    few_redrawn: None,  # noqa: ARG001  # must be in place
    tmp_path_factory: pytest.TempPathFactory,
) -> RunRequest:
    """A finished run with a dataset of every kind."""
    return make_run(tmp_path_factory.mktemp("damaged"), seed=1)


@pytest.fixture(scope="module")
def cases(request_: RunRequest) -> list[Case]:
    """Every case that the run has a place for."""
    return cases_of(request_.output)


def contents(run: Path) -> dict[str, str]:
    """Return the digest of every file of a run, but for what a check writes."""
    return digests(run, *(p.name for p in run.iterdir() if p.is_dir() and p.name not in OWN))


def test_every_kind_every_file_and_every_table_has_its_damages(
    request_: RunRequest, cases: list[Case]
) -> None:
    assert {objective["kind"] for objective in OBJECTIVES.values()} == KINDS.keys()
    files, counts = committed_files(request_.output), Counter(case.damage for case in cases)
    assert {case.key for case in cases} == files.keys()
    for damage in set(OF_FILES) - {SWAPPED}:
        assert counts[damage] == len(files) > 300
    assert counts[SWAPPED] > 200
    tables = {case.key for case in cases if case.damage == MADE_UP}
    steps = {key.split("/")[0] for key in tables}
    assert steps == {"ingest", "dedup", "split", "tokens", "datasets"}
    assert {Path(key).name for key in tables} == {
        "documents.parquet",
        "drops.parquet",
        "removed.parquet",
        "clusters.parquet",
        "validation.parquet",
    }
    assert counts[MADE_UP] == counts[LOST] == len(tables) > 30


def some_of_each(cases: list[Case]) -> Iterator[Case]:
    """Yield cases of each damage, of tables that are vouched for again those of each kind."""
    for damage in OF_FILES:
        yield from spread([case for case in cases if case.damage == damage], 3 if FULL else 1)
    of_tables = [case for case in cases if case.damage in OF_TABLES]
    places = {(case.damage, case.key.split("/")[0], Path(case.key).name): case for case in of_tables}
    yield from places.values() if FULL else spread([*places.values()], 6)


def test_a_damage_changes_its_files_and_is_undone_to_the_byte(
    request_: RunRequest, cases: list[Case]
) -> None:
    before = contents(request_.output)
    for case in some_of_each(cases):
        rows = pq.read_metadata(request_.output / case.key).num_rows if case.damage in OF_TABLES else 0
        with damaged(request_.output, case):
            after = contents(request_.output)
            changed = {key for key in before if after.get(key) != before[key]}
            assert set(case.keys) <= changed, case
            assert after.keys() <= before.keys()
            if case.damage in OF_TABLES:
                found = pq.read_metadata(request_.output / case.key).num_rows
                assert found == rows + (1 if case.damage == MADE_UP else -1)
                _vouched_for(request_.output, changed)
    assert contents(request_.output) == before


def _vouched_for(run: Path, changed: set[str]) -> None:
    """Hold each changed file to the digests that commits and manifests have of it."""
    files = {
        key: digest
        for path in (run / "commits").glob("*/*.json")
        for key, digest in json.loads(path.read_text())["files"].items()
    }
    for key in changed - {key for key in changed if key.startswith("commits/")}:
        assert files[key] == digest_file(run / key).model_dump()
        if key.endswith(MANIFEST_NAME):
            manifest = read_manifest((run / key).parent)
            read_drawn((run / key).parent, dataset=manifest.fingerprint)
            for shard in manifest.shards:
                for name, digest in shard.files.items():
                    assert digest == digest_file((run / key).parent / shard.path / name)


def one_of_each(cases: list[Case]) -> list[Case]:
    """Return a case of each damage, each at another place of the run."""
    return [
        spread([case for case in cases if case.damage == damage], len(DAMAGES))[number]
        for number, damage in enumerate(DAMAGES)
    ]


def test_each_of_several_damaged_files_is_named(request_: RunRequest, cases: list[Case]) -> None:
    some = one_of_each(cases)
    assert len({case.step for case in some}) == len(some)
    found = list(together(request_, some))
    assert [said for said in found if said.outcome != FILE] == []
    assert [said.by for said in found] == ["run"] * 2 + ["verify"] * len(some)


@pytest.mark.campaign
def test_a_damaged_file_is_named(request_: RunRequest, cases: list[Case]) -> None:
    some = one_of_each(cases)
    found = list(campaign(request_, some, command=0))
    assert [said for said in found if said.outcome not in GOOD] == []
    assert len(found) >= len(some)


@pytest.mark.campaign  # the fixture holds the verification at the end of the run to this
def test_nothing_is_said_of_a_sound_run(request_: RunRequest) -> None:
    assert verify_session(request_.output, workers=0, address=None, stream=None)["passed"]


@pytest.mark.campaign
def test_nothing_is_said_of_a_run_with_another_seed(tmp_path: Path) -> None:
    assert alarms(make_run(tmp_path, seed=2)) == []
