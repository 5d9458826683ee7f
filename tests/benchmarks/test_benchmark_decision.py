"""What measuring deduplication promises: documents of the shares it names, every phase of a run."""

import json
from pathlib import Path

import pytest
from decision import PHASES, main, short_documents


def test_documents_repeat_as_often_as_is_said() -> None:
    texts = list(short_documents(20_000))
    assert texts == list(short_documents(20_000))
    exact = len(texts) - len(set(texts))
    near = sum(" last" in text for text in texts)
    assert 0.03 * len(texts) < exact < 0.07 * len(texts)
    assert 0.07 * len(texts) < near < 0.13 * len(texts)
    assert all(20 <= len(text.split()) < 60 for text in texts)


@pytest.mark.slow
@pytest.mark.campaign
def test_the_table_has_every_phase_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    figures = tmp_path / "figures.json"
    assert main([str(tmp_path / "work"), "--documents", "3000", "--json", str(figures)]) == 0
    seconds = json.loads(figures.read_text())["seconds"]
    assert set(seconds) == set(PHASES)
    assert all(value > 0 for value in seconds.values())
    table = capsys.readouterr().out
    assert all(title in table for title in PHASES.values())
