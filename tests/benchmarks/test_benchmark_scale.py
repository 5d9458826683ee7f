"""What benchmarks/scale.py promises: one run is measured, and all that came of it is printed."""

import json
import sys
from pathlib import Path

import pytest
import scale

RUN_FILE = Path(__file__).parents[2] / "benchmarks" / "scale.toml"
SMALL = ("tokenizer.train.vocab_size=1500", "verify.learning=false")


@pytest.mark.slow  # a run in processes of its own
def test_a_run_is_measured_to_the_last_line(
    small_corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    output, figures = tmp_path / "run", tmp_path / "figures.json"
    arguments = [str(RUN_FILE), "--output", str(output), "--workers", "0", "--json", str(figures)]
    arguments += [
        "--command",
        f"{sys.executable} -m pipeline.main",
        "--corpus",
        f"{small_corpus}/a.jsonl",
    ]
    arguments += [word for one in SMALL for word in ("--set", one)]
    monkeypatch.setattr(sys, "argv", ["scale.py", *arguments])
    assert scale.main() == 0, (tmp_path / "run.out").read_text()
    printed = capsys.readouterr().out
    for line in ("verify clm: pass", "dropped.bad_json: 1", "  total  ", "CPU seconds by process"):
        assert line in printed
    content = json.loads(figures.read_text())
    assert content["exit_code"] == 0
    assert content["steps"].keys() >= {"ingest", "dedup", "tokenize", "verify-clm"}


def test_counts_are_named_by_where_they_stand() -> None:
    figures = {"read": 3, "dropped": {"a": 1, "b": {"c": 2}}, "rate": 0.5}
    assert scale.counts_of(figures) == {"read": 3, "dropped.a": 1, "dropped.b.c": 2}
