"""What growth promises of every method that finds duplicates: dumps are decided as all of them at once.

URLs and keys, and embeddings in one cluster; the other methods: `test_growth_decides` and
`test_growth_policies`. Dumps come in canonical order here, so one run over all of them ranks as they do.
"""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.campaign import some_of
from tests.conftest import run_small
from tests.stages.dedup.test_policies import corpus_of
from tests.stages.dedup.test_semantic_runs import ENCODER, texts_of

pytestmark = pytest.mark.slow

Removal = tuple[str, float | None, str]


def write(folder: Path, records: list[dict[str, Any]]) -> None:
    """Write records in three dumps."""
    folder.mkdir()
    for number, name in enumerate("abc"):
        part = records[number * len(records) // 3 : (number + 1) * len(records) // 3]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in part))


def removed(folder: Path, dumps: str, dedup: dict[str, Any], against: str = "") -> dict[str, Removal]:
    """Return what a run over some dumps removes."""
    run = folder / f"run-{dumps}"
    run_small(
        folder,
        run,
        sources=[{"name": "s", "paths": [f"{one}.jsonl" for one in dumps], "id_column": "name"}],
        dedup={**dedup, "against": [f"run-{one}" for one in against]},
        ingest={"min_chars": 1},
        until="dedup",
    )
    rows = pq.read_table(run / "dedup/removed.parquet").to_pylist()
    return {row["own_id"]: (row["kept_own_id"], row["similarity"], row["method"]) for row in rows}


def grown(folder: Path, dedup: dict[str, Any]) -> dict[str, Removal]:
    """Return what three runs remove, each against those before it."""
    found = {name: removed(folder, name, dedup, "abc"[:n]) for n, name in enumerate("abc")}
    return found["a"] | found["b"] | found["c"]


@pytest.mark.parametrize("seed", some_of(range(1, 3), 1))
def test_urls_and_keys_across_dumps(seed: int, tmp_path: Path) -> None:
    records = [{**one.fields, "name": f"n{n}"} for n, one in enumerate(corpus_of(seed))]
    write(tmp_path / "corpus", records)
    dedup = {"url": "url", "keys": ["doi"], "near": False}
    whole, parts = removed(tmp_path / "corpus", "abc", dedup), grown(tmp_path / "corpus", dedup)
    assert parts.keys() == whole.keys()
    assert {method for _, _, method in parts.values()} == {"exact", "url", "key:doi"}
    assert parts == whole


@pytest.mark.parametrize("seed", some_of(range(2), 1))
def test_embeddings_across_dumps(seed: int, tmp_path: Path) -> None:
    texts = texts_of(seed)
    write(tmp_path / "corpus", [{"text": text, "name": f"n{n}"} for n, text in enumerate(texts)])
    section = {"encoder": ENCODER, "threshold": 0.9, "clusters": 1}
    dedup = {"near": False, "semantic": section}
    whole, parts = removed(tmp_path / "corpus", "abc", dedup), grown(tmp_path / "corpus", dedup)
    assert parts == whole
    assert "semantic" in {method for _, _, method in parts.values()}
    named = pq.read_table(tmp_path / "corpus/run-c/dedup/removed.parquet").to_pylist()
    assert {row["kept_run"] is None for row in named if row["method"] == "semantic"} == {True, False}
