"""What growth promises of decisions: dumps one after the other are decided as all of them at once.

The rule in plain loops is that of `tests.stages.dedup.test_dedup_oracle`, over all dumps in the order in
which they came; each dump is a run of its own, against those before it.

A campaign asks for 50 corpora instead of 2.
"""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from tests.campaign import some_of
from tests.laws.tiny_run import tiny_run
from tests.stages.dedup.test_dedup_oracle import Corpus, corpus_of, rule

pytestmark = pytest.mark.slow

SEEDS = some_of(range(50), 2)
Removal = tuple[str, float, str]


@dataclass(frozen=True)
class Decided:
    """What runs decided: own ids that stay, and of each other one what it went for."""

    kept: frozenset[str]
    removed: dict[str, Removal]


def dumps_of(corpus: Corpus, seed: int) -> list[list[int]]:
    """Cut a corpus into three dumps, none of them empty."""
    rng = np.random.default_rng([seed, 3])
    cuts = np.sort(rng.choice(np.arange(1, len(corpus.texts)), 2, replace=False)).tolist()
    numbers = list(range(len(corpus.texts)))
    return [numbers[: cuts[0]], numbers[cuts[0] : cuts[1]], numbers[cuts[1] :]]


def write_dump(path: Path, texts: dict[int, str]) -> None:
    """Write documents under own ids n0, n1, ..."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"text": text, "name": f"n{number}"}) for number, text in texts.items()]
    path.write_text("\n".join(lines) + "\n")


def run_of(corpus: Corpus, paths: list[str], against: list[str]) -> RunFile:
    """Return a run over some files, against earlier ones."""
    minhash = corpus.minhash.model_dump()
    source = {"name": "s", "paths": paths, "root": "input", "id_column": "name"}
    return tiny_run(
        sources=[source],
        ingest={"unit_size": "2KiB"},
        dedup={"minhash": minhash, "against": against},
    )


def decide(folder: Path, name: str, file: RunFile, *, workers: int = 0) -> Path:
    """Run as far as deduplication."""
    run_session(
        RunRequest(file, folder, folder / name, workers=workers, until="dedup", replace=False),
        stream=None,
    )
    return folder / name


def decided(*runs: Path) -> Decided:
    """Return what some runs decided together."""
    kept: set[str] = set()
    removed: dict[str, Removal] = {}
    for run in runs:
        for row in pq.read_table(run / "dedup" / "removed.parquet").to_pylist():
            assert row["own_id"] not in removed
            removed[row["own_id"]] = (row["kept_own_id"], row["similarity"], row["method"])
        for table in sorted(run.glob("ingest/*/*/documents.parquet")):
            names = pq.read_table(table, columns=["own_id"]).column("own_id").to_pylist()
            mask = np.load(run / "dedup/keep" / f"{table.parent.relative_to(run / 'ingest')}.npy")
            kept |= {name for name, stays in zip(names, mask.tolist(), strict=True) if stays}
    return Decided(frozenset(kept), removed)


def expected(corpus: Corpus) -> Decided:
    """Return what the rule decides of all dumps at once, ranked in the order in which they came."""
    verdict = rule(corpus)
    return Decided(
        frozenset(f"n{number}" for number, stays in enumerate(verdict.kept) if stays),
        {f"n{n}": (f"n{kept}", s, method) for n, (kept, s, method) in verdict.removed.items()},
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_three_dumps_are_decided_as_all_at_once(seed: int, tmp_path: Path) -> None:
    corpus = corpus_of(seed)
    dumps = dumps_of(corpus, seed)
    names = ["c", "b", "a"] if seed % 2 else ["a", "b", "c"]  # of two orders, one is not canonical
    runs: list[Path] = []
    for name, numbers in zip(names, dumps, strict=True):
        write_dump(tmp_path / f"input/{name}.jsonl", {n: corpus.texts[n] for n in numbers})
        before = [run.name for run in runs]
        file = run_of(corpus, [f"input/{name}.jsonl"], before)
        runs.append(decide(tmp_path, f"run-{name}", file))
    found = decided(*runs)
    assert found == expected(corpus)
    assert len(found.kept) + len(found.removed) == len(corpus.texts)
    later = [pq.read_table(run / "dedup" / "removed.parquet").to_pylist() for run in runs[1:]]
    named = Counter(row["kept_run"] is None for rows in later for row in rows)
    assert named[False] or seed not in range(3), "documents go for those of earlier runs"


@pytest.mark.parametrize("seed", some_of(range(4), 2))
def test_two_earlier_runs_that_do_not_know_each_other(seed: int, tmp_path: Path) -> None:
    corpus = corpus_of(seed)
    first, second, third = dumps_of(corpus, seed)
    runs = []
    for name, numbers in (("a", first), ("b", second)):
        write_dump(tmp_path / f"input/{name}.jsonl", {n: corpus.texts[n] for n in numbers})
        runs.append(decide(tmp_path, f"run-{name}", run_of(corpus, [f"input/{name}.jsonl"], [])))
    write_dump(tmp_path / "input/c.jsonl", {n: corpus.texts[n] for n in third})
    file = run_of(corpus, ["input/c.jsonl"], ["run-a", "run-b"])
    new = decided(decide(tmp_path, "run-c", file))
    old = decided(*runs)
    texts = {f"n{n}": text for n, text in enumerate(corpus.texts)}
    kept_before = {texts[name] for name in old.kept}
    for name in new.kept:
        assert texts[name] not in kept_before, "no text is kept twice"
    assert {kept for kept, _, _ in new.removed.values()} <= old.kept | new.kept
    assert new.removed


@pytest.mark.campaign
def test_workers_and_units_change_no_byte_of_a_run_against_another(tmp_path: Path) -> None:
    corpus = corpus_of(5)
    first, second, third = dumps_of(corpus, 5)
    write_dump(tmp_path / "input/a.jsonl", {n: corpus.texts[n] for n in first + second})
    write_dump(tmp_path / "input/b.jsonl", {n: corpus.texts[n] for n in third})
    decide(tmp_path, "old", run_of(corpus, ["input/a.jsonl"], []))
    file = run_of(corpus, ["input/b.jsonl"], ["old"])
    runs = [decide(tmp_path, f"new-{n}", file, workers=n) for n in (0, 1, 2)]
    tables = ["removed.parquet", "clusters.parquet", "sides.parquet"]
    bytes_of = [[(run / "dedup" / name).read_bytes() for name in tables] for run in runs]
    assert bytes_of[0] == bytes_of[1] == bytes_of[2]
