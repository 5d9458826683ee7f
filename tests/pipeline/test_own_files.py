"""A run's own files: a run whose folder lies among its inputs reads none of what it wrote."""

import json
from pathlib import Path

import pytest

from pipeline.commands import api
from pipeline.run_file.load import load_run_file, read_run
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.tools.init.init import init
from stages.errors import ConfigError

TEXTS = [f"Text {n}: " + f"words of the text {n}, and some more. " * 4 for n in range(40)]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Notes and records in folders, so that patterns go to any depth."""
    for number, text in enumerate(TEXTS):
        folder = tmp_path / "corpus" / f"{number % 10}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number}.md").write_text(text)
        (folder / f"{number}.jsonl").write_text(json.dumps({"text": f"{text} As a record."}))
    return tmp_path / "corpus"


def request(corpus: Path, until: str) -> RunRequest:
    run = load_run_file(corpus / "run.toml")
    return RunRequest(run, corpus, corpus / "run-output", 0, until=until)


def test_a_run_among_its_inputs_goes_on_and_is_no_input_of_itself(corpus: Path) -> None:
    init(corpus, corpus / "run.toml")
    patterns = [source.paths for source in load_run_file(corpus / "run.toml").sources]
    assert patterns == [("**/*.jsonl",), ("**/*.md",)]
    first = run_session(request(corpus, "ingest"), stream=None)
    assert (corpus / "run-output" / "report" / "card.md").exists()
    states = {one.step.name: str(one.state) for one in plan_session(request(corpus, "dedup"))}
    assert states["ingest"] == "done"
    again = run_session(request(corpus, "dedup"), stream=None)
    assert first["documents"]["read"] == again["documents"]["read"] == 2 * len(TEXTS)
    assert "generations" not in again


def test_init_takes_no_run_and_no_trial_for_a_corpus(corpus: Path) -> None:
    before = init(corpus, corpus / "run.toml")
    api.run(corpus / "run.toml", corpus / "run-output", workers=0, until="ingest", limit=3)
    assert (corpus / "run-output.inputs").is_dir()
    after = init(corpus, corpus / "run.toml", replace=True)
    assert after["sources"] == before["sources"]
    left = {one["why"]: one["files"] for one in after["left_out"]}
    assert left["in the folder of a run, which wrote it"] > 10
    run = load_run_file(corpus / "run.toml")
    report = run_session(RunRequest(run, corpus, corpus / "other", 0, until="ingest"), stream=None)
    assert report["documents"]["read"] == 2 * len(TEXTS)
    with pytest.raises(ConfigError, match="in the folder of a run"):
        init(corpus / "run-output", corpus / "x.toml")


@pytest.mark.parametrize("name", [".", "odd [1] *"])
def test_a_trial_may_have_a_folder_of_any_name(
    corpus: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    init(corpus, corpus / "run.toml")
    for _ in range(2):
        report = api.run(corpus / "run.toml", name, workers=0, until="ingest", limit=3)
        assert report["documents"]["read"] == 6


def test_patterns_that_match_nothing_but_own_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXTS[0])
    source = {"name": "a", "paths": ["a.txt"]}
    content = {"sources": [source], "datasets": [{"name": "clm"}]}
    run = read_run(content)
    run_session(RunRequest(run, tmp_path, tmp_path / "out", 0, until="ingest"), stream=None)
    other = read_run({**content, "sources": [{**source, "paths": ["out/**/*.md"]}]})
    with pytest.raises(ConfigError, match=r"sources\.a\.paths: match nothing but what this run wrote"):
        plan_session(RunRequest(other, tmp_path, tmp_path / "out", 0))
