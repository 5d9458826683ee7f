"""What semantic deduplication promises in a run.

With one cluster it decides what the rule says in plain loops over all pairs, in whole numbers. Units,
runs of units, workers, and how many documents are held change nothing, whatever the clusters. Nor does
the order in which files are read: clusters are found with documents that their ids choose.
"""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.steps.dedup import semantic
from pipeline.steps.dedup import unit_groups as runs
from stages.dedup.semantic import rounded
from tests.campaign import some_of
from tests.conftest import digests, run_small
from tests.stages.dedup.letters_encoder import encode

pytestmark = pytest.mark.slow

ENCODER = "tests.stages.dedup.letters_encoder:encode"
THRESHOLD = 0.9
ODD = ["", "0123456789 0123456789 123", "0123456789 0123456789 124", "猫" * 30, "a" * 5_000]
"""Texts that the encoder knows nothing of, texts of one letter."""


class Whole(NamedTuple):
    """A run."""

    clusters: int
    output: Path


def texts_of(seed: int) -> list[str]:
    """Return texts of few letters, some of them with the same ones in another order."""
    rng = np.random.default_rng(seed)
    texts: list[str] = list(ODD)
    for _ in range(int(rng.integers(40, 70))):
        if rng.random() < 0.4:
            letters = list(texts[rng.integers(len(ODD), len(texts))] if len(texts) > len(ODD) else "abc")
            rng.shuffle(letters)
            texts.append("".join(letters) + str(rng.choice(["", "x", "zz"])))
        else:
            texts.append("".join(rng.choice(list("abcdefghij    "), int(rng.integers(25, 60)))))
    return [*texts, texts[-1]]


def run(root: Path, seed: int, *, workers: int = 0, unit_size: str = "1MiB", **changed: Any) -> Path:
    """Run dedup over a corpus of one seed; return the run's folder."""
    corpus = root / "corpus"
    corpus.mkdir(parents=True)
    lines = [json.dumps({"text": text, "name": f"n{n}"}) for n, text in enumerate(texts_of(seed))]
    (corpus / "a.jsonl").write_text("\n".join(lines) + "\n")
    section = {"encoder": ENCODER, "threshold": THRESHOLD, "clusters": 1, **changed}
    run_small(
        corpus,
        root / "run",
        sources=[{"name": "s", "paths": ["*"], "id_column": "name"}],
        dedup={"near": False, "semantic": section},
        ingest={"unit_size": unit_size, "min_chars": 1},
        until="dedup",
        workers=workers,
    )
    return root / "run"


def removed(output: Path) -> dict[str, tuple[str, float, str]]:
    """Return for whom each document went, how similar they are, and by which method."""
    rows = pq.read_table(output / "dedup/removed.parquet").to_pylist()
    return {row["own_id"]: (row["kept_own_id"], row["similarity"], row["method"]) for row in rows}


def cosine(a: list[int], b: list[int]) -> float:
    """Return the similarity of two vectors in whole numbers."""
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0


def decided_plainly(output: Path) -> dict[str, tuple[str, float, str]]:
    """Return what the rule says of the documents that were read, by comparing all of them."""
    found: dict[str, tuple[str, float, str]] = {}
    kept: list[tuple[str, list[int]]] = []
    known: dict[str, str] = {}
    tables = sorted((output / "ingest").rglob("documents.parquet"))
    documents = [row for path in tables for row in pq.read_table(path).to_pylist()]
    for name, text in ((row["own_id"], row["text"]) for row in documents):
        if text in known:
            first = known[text]
            found[name] = found.get(first, (first, 1.0, "exact"))
            continue
        known[text] = name
        vector = rounded(encode([text]))[0].tolist()
        near = [(other, score) for other, own in kept if (score := cosine(own, vector)) >= THRESHOLD]
        if near:
            found[name] = (*near[0], "semantic")
        else:
            kept.append((name, vector))
    return found


@pytest.mark.parametrize("seed", some_of(range(8), 2))
def test_one_cluster_decides_what_the_rule_says_in_plain_loops(seed: int, tmp_path: Path) -> None:
    output = run(tmp_path, seed)
    expected = decided_plainly(output)
    assert removed(output) == expected
    assert sum(method == "semantic" for _, _, method in expected.values()) > 5
    assert "n1" not in expected
    assert "n2" not in expected


@pytest.fixture(scope="module", params=some_of([5, 1], 1))
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A run over one unit."""
    return Whole(request.param, run(tmp_path_factory.mktemp("whole"), 3, clusters=request.param))


def test_units_runs_and_what_is_held_change_nothing(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "GROUP_BYTES", 500)
    monkeypatch.setattr(semantic, "_ROWS", 3)
    monkeypatch.setattr(semantic, "_TEXTS", 2)
    monkeypatch.setattr(semantic, "_ASSIGNED_ROWS", 4)
    small = run(tmp_path / "small", 3, clusters=whole.clusters, unit_size="1KiB")
    assert len(list((small / "dedup/embeddings").iterdir())) > 2
    names = ("dedup/removed.parquet", "dedup/clusters.parquet")
    one, other = digests(whole.output, "dedup"), digests(small, "dedup")
    assert [one[name] for name in names] == [other[name] for name in names]
    assert any(method == "semantic" for _, _, method in removed(small).values())


def test_clusters_are_the_same_whenever_a_file_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, `a` and `b` come in this order; added one by one, `b` comes first."""
    monkeypatch.setattr(semantic, "SAMPLE", 30)
    texts = {name: texts_of(seed)[len(ODD) :] for name, seed in (("a", 6), ("b", 7))}
    found = []
    for name, files, before in (("all", "ab", []), ("first", "b", []), ("then", "a", ["../of-first"])):
        corpus = tmp_path / f"in-{name}"
        corpus.mkdir()
        for one in files:
            lines = "".join(json.dumps({"text": text}) + "\n" for text in texts[one])
            (corpus / f"{one}.jsonl").write_text(lines)
        section = {"encoder": ENCODER, "threshold": THRESHOLD, "clusters": 5}
        run_small(
            corpus,
            tmp_path / f"of-{name}",
            sources=[{"name": "s", "paths": ["*"]}],
            dedup={"near": False, "semantic": section, "against": before},
            ingest={"min_chars": 1},
            until="dedup",
        )
        found.append(np.load(tmp_path / f"of-{name}/dedup/centroids.npy"))
    np.testing.assert_array_equal(found[0], found[2])
    assert not np.array_equal(found[0], found[1])


@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize("workers", some_of([1, 2], 1))
def test_workers_change_nothing(workers: int, whole: Whole, tmp_path: Path) -> None:
    shared = run(tmp_path, 3, clusters=whole.clusters, workers=workers)
    assert digests(shared, "dedup") == digests(whole.output, "dedup")


def test_a_large_cluster_is_compared_with_its_best_ranked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(semantic, "MAX_HEADS", 4)
    output = run(tmp_path, 5)
    found = removed(output)
    order = [f"n{number}" for number in range(len(texts_of(5)))]
    whole = decided_plainly(output)
    pairs = {name: pair for name, pair in found.items() if pair[2] == "semantic"}
    assert pairs
    assert len({kept for kept, _, _ in pairs.values()}) <= 4
    assert pairs.keys() <= whole.keys()
    assert all(order.index(pair[0]) < order.index(name) for name, pair in pairs.items())


def test_documents_of_other_sources_take_no_place_of_a_source_within_itself(tmp_path: Path) -> None:
    texts = ["abcdefghij abcdefghij klm", "abcdefghij abcdefghij lkm", "jihgfedcba abcdefghij mkl"]
    for name, some in {"a": texts, "b": texts[:2]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in some))
    section = {"encoder": ENCODER, "threshold": THRESHOLD, "clusters": 1, "max_candidates": 1}
    run_small(
        tmp_path,
        tmp_path / "run",
        sources=[
            {"name": "a", "paths": ["a.jsonl"]},
            {"name": "b", "paths": ["b.jsonl"], "dedup": "within"},
        ],
        dedup={"near": False, "semantic": section},
        ingest={"min_chars": 1},
        until="dedup",
    )
    rows = pq.read_table(tmp_path / "run/dedup/removed.parquet").to_pylist()
    assert [(row["source"], row["kept_source"]) for row in rows] == [("a", "a"), ("a", "a"), ("b", "b")]
