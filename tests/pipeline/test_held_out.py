"""What a split promises of duplicates: a cluster stands on one side, in every step that asks."""

import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.steps.dedup.sides import SIDES, KnownSides, write_sides
from pipeline.steps.earlier_runs import EarlierRun
from pipeline.steps.split.choice import (
    VALIDATION,
    CandidateUnit,
    ValidationChoice,
    choose_validation,
    count_candidates,
)
from pipeline.steps.tokenize.encode import TokenizeUnit, groups_of
from pipeline.steps.tokenizer.load import load_tokenizer
from pipeline.steps.tokenizer.training import SampleUnit, sample_key, sample_unit
from pipeline.steps.units import NAME, Unit
from stages.columns import CLUSTERS
from stages.mixing.placement import ValidationConfig, is_candidate, shard_of
from stages.packing.layout import PackingConfig
from tests.laws.tiny_run import tiny_run, write_tiny_corpus

HALF = ValidationConfig(fraction=0.5)
SEEDS = range(6)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Unit, list[dict[str, Any]]]:
    """A run with a tokenizer, in which each two neighbours are said to be one cluster; its documents."""
    base = tmp_path_factory.mktemp("held-out")
    write_tiny_corpus(base / "corpus")
    run_session(RunRequest(tiny_run(), base / "corpus", base / "run", 0, until="tokenizer"), stream=None)
    (table,) = (base / "run" / "ingest").rglob("documents.parquet")
    documents = pq.read_table(table).to_pylist()
    (mask,) = (base / "run" / "dedup" / "keep").rglob("*.npy")
    kept = np.load(mask)
    names = [documents[number // 2 * 2]["id"] for number in range(len(documents))]
    for document, cluster in zip(documents, names, strict=True):
        document["cluster"] = cluster
    clusters = pa.table(
        {
            "number": list(range(len(documents))),
            "id": [document["id"].hex() for document in documents],
            "cluster": [name.hex() for name in names],
            "kept": kept,
        },
        schema=CLUSTERS,
    )
    pq.write_table(clusters, base / "run" / "dedup" / "clusters.parquet")
    name = table.parent.relative_to(base / "run" / "ingest").as_posix()
    unit = Unit(name, "s", "a.jsonl", 0, len(documents), 0)
    left = [document for document, is_kept in zip(documents, kept, strict=True) if is_kept]
    assert 10 < len(left) < len(documents)
    return base / "run", unit, left


def space(root: Path, folder: Path) -> Workspace:
    """Return a workspace over a run that writes elsewhere."""
    folder.mkdir(exist_ok=True)
    return Workspace(root, folder)


@pytest.mark.parametrize("seed", SEEDS)
def test_candidates_are_counted_by_cluster_with_the_eos_of_each_document(
    seed: int, run: tuple[Path, Unit, list[dict[str, Any]]], tmp_path: Path
) -> None:
    root, unit, documents = run
    work = space(root, tmp_path / "own")
    count_candidates(work, CandidateUnit(unit, HALF, seed))
    tokenizer = load_tokenizer(work)
    expected: dict[bytes, tuple[int, int]] = {}
    for document in documents:
        cluster = document["cluster"]
        if is_candidate(cluster, seed, config=HALF):
            tokens, size = expected.get(cluster, (0, 0))
            (ids,) = tokenizer.encode([document["text"]])
            expected[cluster] = (tokens + len(ids) + 1, size + len(document["text"].encode()))
    rows = pq.read_table(tmp_path / "own" / "work" / "split" / f"{unit.name}.parquet").to_pylist()
    assert {row["cluster"]: (row["tokens"], row["text_bytes"]) for row in rows} == expected
    assert 0 < len(expected) < len(documents)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_document_of_a_candidate_cluster_is_in_the_sample_of_the_tokenizer(
    seed: int, run: tuple[Path, Unit, list[dict[str, Any]]], tmp_path: Path
) -> None:
    root, unit, documents = run
    work = space(root, tmp_path / "own")
    rates = {document["language"]: Fraction(1) for document in documents}
    sample_unit(work, SampleUnit(unit, rates, HALF, seed))
    rows = pq.read_table(tmp_path / "own" / sample_key(unit)).to_pylist()
    sampled = {row["piece"] for row in rows}
    for document in documents:
        held_out = is_candidate(document["cluster"], seed, config=HALF)
        pieces = {piece for piece in sampled if piece in document["text"]}
        assert bool(pieces) != held_out
    assert sampled


@pytest.mark.parametrize("seed", SEEDS)
def test_a_held_out_cluster_stands_in_the_groups_of_validation_behind_those_of_training(
    seed: int, run: tuple[Path, Unit, list[dict[str, Any]]], tmp_path: Path
) -> None:
    root, unit, documents = run
    work = space(root, tmp_path / "own")
    count_candidates(work, CandidateUnit(unit, HALF, seed))
    written = Workspace(tmp_path / "own", tmp_path / "own")
    choose_validation(written, ValidationChoice((unit,), HALF, PackingConfig(), seed, 1 << 20))
    held_out = {row["cluster"] for row in pq.read_table(tmp_path / "own" / VALIDATION).to_pylist()}
    clusters = tmp_path / "own" / "dedup" / "clusters.parquet"
    clusters.parent.mkdir()
    clusters.write_bytes((root / "dedup" / "clusters.parquet").read_bytes())
    joined = b"".join(document["id"] for document in documents)
    identities = np.frombuffer(joined, np.uint8).reshape(-1, 16)
    groups = groups_of(written, TokenizeUnit(unit, 3, 2, seed), identities)
    for document, group in zip(documents, groups.tolist(), strict=True):
        if document["cluster"] in held_out:
            assert group == 3 + shard_of(document["id"], seed, copy=0, shards=2)
        else:
            assert group == shard_of(document["id"], seed, copy=0, shards=3)
    assert 0 < len(held_out) < len(documents)


@pytest.mark.parametrize(
    ("validation", "said"),
    [
        (
            {"fraction": 1e-9},
            r"validation.fraction = 1e-09: no document is held out, because none of \d+ was drawn",
        ),
        (
            {"fraction": 0.5, "max_tokens": 1},
            r"validation.max_tokens = 1: no document is held out, because the first .* more tokens",
        ),
        ({"fraction": 0.0}, None),
        ({"fraction": 0.5}, None),
    ],
)
def test_a_split_that_was_asked_for_and_is_empty_is_told(
    validation: dict[str, Any], said: str | None, tmp_path: Path
) -> None:
    write_tiny_corpus(tmp_path / "corpus")
    file = tiny_run().model_copy(update={"validation": ValidationConfig(**validation)})
    report = run_session(RunRequest(file, tmp_path / "corpus", tmp_path / "run", 0), stream=None)
    found = [warning for warning in report["warnings"] if warning.startswith("validation.")]
    assert len(found) == (said is not None)
    assert all(re.match(str(said), warning) for warning in found)
    assert ("validation" in report["datasets"]["mlm"]) == (validation["fraction"] > 0)
    if said is not None:
        assert report["datasets"]["mlm"]["validation"]["rows"] == 0


def test_what_earlier_runs_hold_out_is_so_by_cluster_where_this_run_holds_out_nothing_itself(
    run: tuple[Path, Unit, list[dict[str, Any]]], tmp_path: Path
) -> None:
    root, unit, documents = run
    name = next(
        name for name, count in Counter(one["cluster"] for one in documents).items() if count == 2
    )
    sides = pa.table({"cluster": pa.array([name], pa.binary(16)), "held_out": [True]})
    pq.write_table(sides, tmp_path / "sides.parquet")
    nothing = ValidationConfig(fraction=0.0)
    work = CandidateUnit(unit, nothing, 3, sides=str(tmp_path / "sides.parquet"))
    record = count_candidates(space(root, tmp_path / "own"), work)
    assert record.joined.documents == 2
    (row,) = pq.read_table(tmp_path / "own" / "work" / "split" / f"{unit.name}.parquet").to_pylist()
    assert row["cluster"] == name
    size = sum(len(one["text"].encode()) for one in documents if one["cluster"] == name)
    assert row["text_bytes"] == size


@pytest.mark.parametrize("held_out", ["a", "b", "c"])
def test_clusters_that_became_one_are_held_out_by_any_of_their_names(held_out: str) -> None:
    first, second, every = (np.array(list(names), NAME) for names in ("ac", "bb", "abcd"))
    known = KnownSides(first, second, np.array([held_out], NAME))
    assert known.holds_out(every).tolist() == [True, True, True, False]


class Numbered:
    """Names of documents: their numbers."""

    def clusters(self, numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return the name of each, (M, 16)."""
        found = np.zeros((len(numbers), 16), np.uint8)
        found[:, 0] = numbers
        return found


def test_a_cluster_stays_on_the_side_that_an_earlier_run_gave_it_be_it_training(tmp_path: Path) -> None:
    """Documents 0 to 2 are of a run with a split that holds out 0, 3 is of one without; 4 to 7 are new.

    A new document is in the cluster of each of 0, 1 and 3; nothing is like 2 and 7.
    """
    split, none = (
        EarlierRun("", "i", "d", name, tmp_path / str(name), (Unit("u", "s", "", 0, count, 0),))
        for name, count in (("f", 3), (None, 1))
    )
    (tmp_path / "f" / "split").mkdir(parents=True)
    held_out = pa.array([Numbered().clusters(np.array([0])).tobytes()], pa.binary(16))
    pq.write_table(pa.table({"cluster": held_out}), tmp_path / "f" / VALIDATION)
    clustered = np.array([True, True, False, True, True, True, True, False])
    roots = np.array([0, 1, 2, 3, 0, 1, 3, 7])
    names: Any = Numbered()
    written = Workspace(tmp_path, tmp_path)
    write_sides(written, (split, none), clustered=clustered, roots=roots, names=names)
    rows = pq.read_table(tmp_path / SIDES).to_pylist()
    assert {row["cluster"][0]: row["held_out"] for row in rows} == {0: True, 1: False}
