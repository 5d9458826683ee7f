"""What benchmarks/recall.py promises: pairs found in a real run, and a wrong removal never passes."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from recall import (
    EDGES,
    Fate,
    Pair,
    Removals,
    bin_name,
    bin_of,
    blocks,
    check_removals,
    measure_pairs,
    table_of,
    theoretical,
)

from stages.columns import REMOVED
from stages.dedup.lsh import MinHashConfig
from tests.material.run_documents import RunDocuments


@pytest.fixture
def run(reference: Path, tmp_path: Path) -> Path:
    """A copy of the small run whose tables may be falsified."""
    for name in ("ingest", "dedup"):
        shutil.copytree(reference / name, tmp_path / "run" / name)
    return tmp_path / "run"


def check(run: Path, **options: Any) -> Removals:
    settings = {"seconds": 600.0, "seed": 1, **options}
    return check_removals(run, RunDocuments(run), Fate.of(run), MinHashConfig(), **settings)


def falsify(run: Path, method: str, **changes: Any) -> None:
    """Change the first removal by a method."""
    place = run / "dedup" / "removed.parquet"
    rows = pq.read_table(place).to_pylist()
    next(row for row in rows if row["method"] == method).update(changes)
    pq.write_table(pa.Table.from_pylist(rows, schema=REMOVED), place)


@pytest.mark.parametrize(
    ("similarity", "name"),
    [(1.0, "1.00"), (0.999, "0.95-1.00"), (0.95, "0.95-1.00"), (0.8, "0.80-0.85"), (0.0, "0.00-0.70")],
)
def test_similarities_fall_into_bins_by_their_lower_ends(similarity: float, name: str) -> None:
    assert bin_name(bin_of(similarity)) == name


def test_theory_is_the_chance_of_one_common_band() -> None:
    assert theoretical(1.0, 14, 9) == 1.0
    assert theoretical(0.5, 1, 1) == 0.5
    assert theoretical(0.5, 2, 2) == 1 - 0.75**2


def test_a_bin_counts_its_pairs_by_what_became_of_them() -> None:
    pairs = [Pair(0.9, 0, same_cluster=False), Pair(0.92, 1, same_cluster=True)]
    pairs += [Pair(0.94, 2, same_cluster=True), Pair(0.1, 0, same_cluster=False)]
    near, far = table_of(pairs, bands=14, rows=9)
    assert list(near.values())[:7] == ["0.90-0.95", 3, 1, 1, 1, 2, 0.6667]
    assert 0.998 < near["theory"] < 1
    assert (far["jaccard"], far["pairs"], far["recall"]) == ("0.00-0.70", 1, 0.0)
    assert table_of([], bands=14, rows=9) == []
    assert EDGES[-1] == 0.0


def test_blocks_hold_every_row_once_and_no_more_bytes_than_the_limit() -> None:
    sizes = np.array([5, 5, 1, 30, 2, 2])
    found = list(blocks(sizes, 10))
    assert [(block.start, block.stop) for block in found] == [(0, 2), (2, 3), (3, 4), (4, 6)]
    assert list(blocks(sizes[:0], 10)) == []


def test_documents_are_found_by_their_ids_and_read_as_they_were_ingested(reference: Path) -> None:
    tables = [pq.read_table(path) for path in (reference / "ingest").glob("*/*/documents.parquet")]
    rows = pa.concat_tables(tables).to_pylist()
    texts = {row["id"].hex(): row["text"] for row in rows}
    own = {row["own_id"] for row in rows if row["own_id"]}
    documents = RunDocuments(reference, own)
    assert len(documents) == len(rows) > 100
    numbers = documents.find(list(texts))
    assert [documents.hex_id(number) for number in numbers] == list(texts)
    assert dict(documents.texts(numbers)) == dict(zip(numbers.tolist(), texts.values(), strict=True))
    assert sum(map(len, documents.numbers.values())) == sum(row["own_id"] is not None for row in rows)
    with pytest.raises(KeyError, match="00"):
        documents.find(["00" * 16])


def test_every_removal_of_a_sound_run_passes(run: Path) -> None:
    found = check(run)
    assert found.sound
    assert found.checked == found.rows > 20
    assert check(run, seconds=-1.0).checked == 0


@pytest.mark.parametrize(
    ("changes", "counts"),
    [
        ({"similarity": 0.81}, {"stored_otherwise": 1}),
        ({"kept_id": "another"}, {"under_threshold": 1, "stored_otherwise": 1}),
        ({"kept_id": "removed"}, {"without_kept": 1}),
    ],
)
def test_a_wrong_removal_is_counted(run: Path, changes: dict[str, Any], counts: dict[str, int]) -> None:
    rows = pq.read_table(run / "dedup" / "removed.parquet").to_pylist()
    near = next(row for row in rows if row["method"] == "minhash")
    other = next(row for row in rows if row["method"] == "exact")
    names = {"another": other["kept_id"], "removed": near["id"]}
    assert near["similarity"] != 0.81
    assert names["another"] != near["kept_id"]
    falsify(run, "minhash", **{key: names.get(value, value) for key, value in changes.items()})
    found = check(run)
    assert not found.sound
    for name, count in counts.items():
        assert getattr(found, name) == count


def test_an_exact_removal_of_another_text_is_counted(run: Path) -> None:
    rows = pq.read_table(run / "dedup" / "removed.parquet").to_pylist()
    kept = {row["kept_id"] for row in rows if row["method"] == "exact"}
    assert len(kept) > 1
    first = next(row for row in rows if row["method"] == "exact")["kept_id"]
    falsify(run, "exact", kept_id=min(kept - {first}))
    assert check(run).unequal_exact == 1


def test_known_pairs_are_measured_from_the_run(run: Path) -> None:
    rows = pq.read_table(run / "dedup" / "removed.parquet").to_pylist()
    named = [(row["own_id"], row["kept_own_id"]) for row in rows if row["method"] == "minhash"]
    assert named
    documents = RunDocuments(run, {name for pair in named for name in pair})
    pairs = measure_pairs(documents, Fate.of(run), [*named, ("absent", named[0][0])], size=5)
    assert len(pairs) == len(named)
    assert all(pair.similarity >= 0.8 for pair in pairs)
