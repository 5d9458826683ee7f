"""Hugging Face datasets: load_from_disk of Arrow files, load_dataset of Parquet."""

import tempfile
from collections.abc import Iterator

from answers import Answer, Facts, column_answers, read_facts, tell
from datasets import Dataset, load_dataset, load_from_disk
from numpy.typing import ArrayLike


def _open(facts: Facts, split: str, cache: str) -> Dataset:
    if facts.format == "hf":
        return load_from_disk(str(facts.folder))[split]
    files = {split: str(facts.folder / split / "*.parquet")}
    return load_dataset("parquet", data_files=files, split=split, cache_dir=cache)


def answers(facts: Facts) -> Iterator[Answer]:
    """Yield every column of each split, in batches of numpy arrays."""
    with tempfile.TemporaryDirectory() as cache:
        for split in facts.splits:
            rows = _open(facts, split, cache).with_format("numpy")

            def read(name: str, rows: Dataset = rows) -> Iterator[ArrayLike]:
                batches = rows.select_columns(name).iter(batch_size=512)
                return (batch[name] for batch in batches)

            yield from column_answers(split, len(rows), rows.column_names, read)


if __name__ == "__main__":
    tell(answers(read_facts()))
