"""What law 1 promises: the bytes of a run depend on its inputs, config and seed, and nothing else."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.campaign import some_of
from tests.conftest import digests, run_small


@pytest.mark.parametrize("workers", some_of([2, 1, 3], 1))
@pytest.mark.usefixtures("ray_session")
def test_any_number_of_workers_other_folders_and_another_memory_give_the_bytes_of_a_plain_loop(
    workers: int, small_corpus: Path, reference: Path, tmp_path: Path
) -> None:
    corpus, output = tmp_path / "elsewhere" / "corpus", tmp_path / "x" / "run"
    shutil.copytree(small_corpus, corpus)
    run_small(corpus, output, workers=workers, resources={"memory": "3GiB"})
    expected = digests(reference)
    assert len(expected) > 30
    assert digests(output) == expected


@pytest.mark.parametrize("unit_size", some_of(["150KiB", "70KiB", "64MiB"], 1))
def test_another_unit_size_gives_the_same_datasets_tokenizer_and_removals(
    unit_size: str, small_corpus: Path, reference: Path, tmp_path: Path
) -> None:
    output = tmp_path / "run"
    run_small(small_corpus, output, ingest={"unit_size": unit_size, "min_chars": 20})
    folders = ("datasets", "tokenizer")
    assert digests(output, *folders) == digests(reference, *folders)
    for name in ("removed.parquet", "clusters.parquet"):
        assert (output / "dedup" / name).read_bytes() == (reference / "dedup" / name).read_bytes()
    units = len(list((output / "tokens").rglob("ids.npy")))
    assert units != len(list((reference / "tokens").rglob("ids.npy")))


def same_tokenizer(reference: Path) -> dict[str, Any]:
    """Return settings of a run that trains no tokenizer, which takes half of its time."""
    return {"tokenizer": {"path": str(reference / "tokenizer" / "tokenizer.model")}}


def test_another_seed_gives_other_rows(small_corpus: Path, reference: Path, tmp_path: Path) -> None:
    run_small(small_corpus, tmp_path / "run", seed=12, **same_tokenizer(reference))
    assert digests(tmp_path / "run", "dedup") == digests(reference, "dedup")
    assert sorted_ids(tmp_path / "run") == sorted_ids(reference), "only their order differs"
    place = "datasets/clm/train/epoch-0000/00000/input_ids.npy"
    assert (tmp_path / "run" / place).read_bytes() != (reference / place).read_bytes()


def sorted_ids(output: Path) -> list[int]:
    """Return the stored tokens of a run in the order of their numbers."""
    stored = [np.load(path) for path in (output / "tokens").rglob("ids.npy")]
    return sorted(np.concatenate(stored).tolist())


def test_adding_a_file_renames_and_moves_no_document(
    small_corpus: Path, reference: Path, tmp_path: Path
) -> None:
    corpus = tmp_path / "corpus"
    shutil.copytree(small_corpus, corpus)
    (corpus / "0-first.jsonl").write_text('{"text": "A document that nobody has seen before."}\n')
    run_small(corpus, tmp_path / "run", **same_tokenizer(reference))

    def shards(output: Path) -> dict[str, str]:
        return {
            identity: path.parent.name
            for path in (output / "datasets/clm/train").rglob("documents.parquet")
            for identity in pq.read_table(path).column("id").to_pylist()
        }

    before, after = shards(reference), shards(tmp_path / "run")
    assert before.items() <= after.items()
    assert len(after) == len(before) + 1


def test_no_time_host_or_path_stands_in_an_artifact(small_corpus: Path, reference: Path) -> None:
    strangers = [str(reference).encode(), str(small_corpus).encode()]
    files = [p for folder in ("datasets", "tokenizer") for p in (reference / folder).rglob("*.*")]
    assert len(files) > 10
    for path in files:
        assert not any(stranger in path.read_bytes() for stranger in strangers)


def test_conservation_every_document_is_kept_dropped_or_removed_and_every_token_in_a_row(
    reference: Path,
) -> None:
    stored = sum(len(np.load(path)) for path in (reference / "tokens").rglob("ids.npy"))
    in_rows = sum(
        int(np.load(path).sum()) for path in (reference / "datasets/clm").rglob("segments/length.npy")
    )
    kept = sum(int(np.load(path).sum()) for path in (reference / "dedup/keep").rglob("*.npy"))
    listed = sum(
        pq.read_metadata(path).num_rows
        for path in (reference / "datasets/clm").rglob("documents.parquet")
    )
    assert stored == in_rows > 0
    assert kept == listed > 0
