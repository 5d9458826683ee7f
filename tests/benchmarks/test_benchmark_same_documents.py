"""What benchmarks/same_documents.py promises: what differs between two runs is never called the same."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from same_documents import compare, documents


@pytest.fixture
def copy(reference: Path, tmp_path: Path) -> Path:
    """A copy of the small run that may be falsified."""
    shutil.copytree(reference, tmp_path / "copy")
    return tmp_path / "copy"


def differing(a: Path, b: Path) -> list[str]:
    return [name for name, same in compare(a, b)["same"].items() if not same]


def test_a_copy_is_the_same_and_its_documents_are_named(reference: Path, copy: Path) -> None:
    assert differing(reference, copy) == []
    assert len(list(documents(copy))) > 100
    assert any(name.startswith("documents in ") for name in compare(reference, copy)["same"])


def test_another_keep_flag_is_seen(reference: Path, copy: Path) -> None:
    path = next(path for path in sorted((copy / "dedup" / "keep").rglob("*.npy")) if len(np.load(path)))
    kept = np.load(path)
    kept[0] = not kept[0]
    np.save(path, kept)
    assert differing(reference, copy) == ["documents", "order"]


def test_another_removal_is_seen(reference: Path, copy: Path) -> None:
    path = copy / "dedup" / "removed.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    assert differing(reference, copy) == ["removals"]


def test_a_document_missing_in_the_rows_is_seen(reference: Path, copy: Path) -> None:
    path = min((copy / "datasets").glob("*/train/epoch-0000/*/documents.parquet"))
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table.slice(1), table.slice(1, 1)]), path)
    assert differing(reference, copy) == [f"documents in {path.parts[-5]}"]


def test_another_count_of_drops_is_seen(reference: Path, copy: Path) -> None:
    path = copy / "commits" / "ingest" / "_step.json"
    content = json.loads(path.read_text("utf-8"))
    content["record"]["drops"] = {"invented": 1}
    path.write_text(json.dumps(content), "utf-8")
    assert differing(reference, copy) == ["drops"]
