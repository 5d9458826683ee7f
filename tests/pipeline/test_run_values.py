"""Runs as values of Python: what is given is what runs, and a report of another kind is refused."""

from pathlib import Path

import pytest

from pipeline.commands import api
from pipeline.run_file.config import RunFile
from stages.errors import ConfigError
from stages.filtering.length import Length
from stages.objectives.mlm.config import MaskedLM


def test_an_objective_and_a_filter_that_are_values_keep_their_kind() -> None:
    run = RunFile.model_validate(
        {
            "sources": [{"name": "a", "paths": ["a.txt"]}],
            "filters": [Length(min_chars=4)],
            "dedup": {"substrings": {"min_bytes": 100}},
            "datasets": [{"name": "m", "objective": MaskedLM()}],
        }
    )
    read, _ = api._read(run, ())  # noqa: SLF001  # what every function does with a run
    assert read == run
    assert read.datasets[0].objective.kind == "mlm"
    changed, _ = api._read(run, ["packing.seq_len=64"])  # noqa: SLF001  # likewise
    assert (changed.datasets[0].objective.kind, changed.packing.seq_len) == ("mlm", 64)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not the JSON of a report"),
        ("[]", "not the JSON of a report"),
        ('{"verify": {"clm": {"passed": true}}}', "an earlier version of Shardmill wrote it"),
    ],
)
def test_a_report_of_another_kind_is_refused(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "report.json").write_text(content)
    with pytest.raises(ConfigError, match=said):
        api.open_run(tmp_path)


def test_a_number_of_workers_below_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="workers = -1: must be at least 0"):
        api.run({"sources": [{"name": "a", "paths": ["a.txt"]}]}, tmp_path / "out", workers=-1)
    with pytest.raises(ConfigError, match="workers = -1"):
        api.verify(tmp_path, workers=-1)
