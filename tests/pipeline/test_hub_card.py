"""What an export for the Hugging Face Hub promises: its card says which files are which split."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

import shardmill
from tests.conftest import run_small


@pytest.mark.parametrize("with_report", [True, False])
def test_the_card_of_an_export_names_the_files_of_each_split(
    with_report: bool,  # noqa: FBT001  # of two cases
    small_corpus: Path,
    tmp_path: Path,
) -> None:
    output, to = tmp_path / "run", tmp_path / "export"
    run_small(small_corpus, output, until="shard", verify={"learning": False})
    if not with_report:
        (output / "report" / "report.json").unlink()
    shardmill.export(output, "clm", "hf-parquet", to)
    head, _, text = (to / "README.md").read_text(encoding="utf-8").removeprefix("---\n").partition("---")
    metadata = yaml.safe_load(head)
    (config,) = metadata["configs"]
    assert config["config_name"] == "clm"
    rows = {}
    for one in config["data_files"]:
        files = sorted(to.glob(one["path"]))
        assert files, one["path"]
        rows[one["split"]] = sum(pq.ParquetFile(path).metadata.num_rows for path in files)
    assert rows == {
        split: len(shardmill.open_dataset(output / "datasets" / "clm", split=split)) for split in rows
    }
    assert rows.keys() == {"train", "validation"}
    assert (metadata.get("license") == "other") is with_report
    assert ("## Sources" in text) is with_report
    assert "Python" not in text, "no byte depends on versions of the moment"
