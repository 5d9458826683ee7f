"""What laws 1 and 3 promise of a run with all of it switched on: workers and kills change no byte.

`make test` does it once, without workers, and checks all of it. A campaign asks for ten kills of the
whole process group, for 1, 2 and 3 workers, and for the run with prompts beside that with dialogues.
"""

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from pipeline.state.commits import SCAN, STEP_COMMIT, Commits
from pipeline.state.journal import read_log
from pipeline.state.storage import LocalStorage
from pipeline.steps.cut.step import CutRecord
from pipeline.steps.draw.step import DRAW
from pipeline.steps.ingest.step import INGEST
from pipeline.steps.step import Scope
from pipeline.steps.table import STEPS, planned_steps, step_of
from stages.filtering.table import FILTERS, labels_of
from stages.packing.strategies import PACKINGS
from stages.store.manifest import read_manifest
from tests.campaign import FULL
from tests.conftest import digests
from tests.laws.combinations import KEEPS
from tests.laws.everything_on import EVERYTHING, FOLDERS, everything_on, write_everything
from tests.laws.killed_runs import kill_until_done, require_each_done_once
from tests.laws.written_dialogues import TEMPLATES


class Corpus(NamedTuple):
    """The sources of one of the runs."""

    name: str
    folder: Path


NAMES = tuple(EVERYTHING) if FULL else ("dialogues",)


@pytest.fixture(scope="module", params=NAMES)
def everything(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """The sources of a run."""
    folder = tmp_path_factory.mktemp("everything")
    write_everything(request.param, folder)
    return Corpus(request.param, folder)


def run(corpus: Corpus, output: Path, *, workers: int, until: str | None = None) -> Any:
    """Do the run."""
    request = RunRequest(everything_on(corpus.name), corpus.folder, output, workers, until=until)
    return run_session(request, stream=None)


@pytest.fixture(scope="module")
def inline(
    everything: Corpus,
    tmp_path_factory: pytest.TempPathFactory,
    few_redrawn: None,  # noqa: ARG001  # until the module ends
) -> tuple[Path, Any]:
    """The run by a plain loop, and its report."""
    output = tmp_path_factory.mktemp("inline") / "run"
    return output, run(everything, output, workers=0)


def test_every_step_is_in_each_of_the_runs() -> None:
    steps = {step.name for step in STEPS} - {"replay"}  # whose laws have runs of their own
    for name in EVERYTHING:
        planned = {step.name for _, step in planned_steps(Scope(everything_on(name)))}
        assert planned == steps, f"everything_on of tests/laws/everything_on.py switches on: {name}"


def test_all_of_it_is_on_and_passes_verify(everything: Corpus, inline: tuple[Path, Any]) -> None:
    output, report = inline
    file = everything_on(everything.name)
    assert report["passed"]
    assert {one.kind for one in file.filters} == FILTERS.keys()
    assert {file.packing_of(dataset).strategy for dataset in file.datasets} == PACKINGS.keys()
    heads = {reason.partition(".")[0] for reason in report["documents"]["dropped"]}
    changed = {name.partition(".")[0] for name in report["documents"]["changed"]}
    idle = set(labels_of(file.filters)) - heads - changed
    assert not idle, f"{idle} of FILTERS of tests/laws/combinations.py find nothing that others leave"
    assert {"bad_json", "bad_record", "bad_utf8", "missing_text", "not_a_page"} <= heads
    chats = {source.chat.template for source in file.sources if source.chat is not None}
    if everything.name == "dialogues":
        assert {"bad_dialogue", "template_refuses"} <= heads
        assert chats == {template.chat["template"] for template in TEMPLATES.values()}
        assert all(
            read_manifest(one.parent).totals.frame_tokens
            for one in output.glob("datasets/*/train/*.json")
        )
    assert {tuple(source.keep_columns) for source in file.sources} == set(KEEPS.values())
    assert report["documents"]["kept"] > 12
    sets = report["documents"]["evaluation_sets"]
    assert sets["drop"]["dropped"] > 0
    assert sets["report"]["reported"] > 0
    commits = Commits(LocalStorage(output))
    cut = dict(commits.all("cut"))[STEP_COMMIT].read(CutRecord)
    assert cut.bytes["line"] > 100
    assert cut.bytes["substring"] > 300
    assert cut.documents > 3
    assert len(digests(output, *FOLDERS)) > 300
    assert [folder for folder in FOLDERS if not digests(output, folder)] == []
    steps = [name for name in commits.steps() if name != SCAN]
    assert len(steps) > 10
    for name in steps:
        files = {key for _, commit in commits.all(name) for key in commit.files}
        written = {key.partition("/")[0] for key in files} - {"ledger"}
        assert written <= set(step_of(name).folders), f"`folders` of the step {name}"
        assert written <= {*FOLDERS, "mix", "work"}, "FOLDERS of tests/laws/everything_on.py"
        own = step_of(name)
        received = dict(commits.all(name))[STEP_COMMIT].record.get("ledger")
        assert own.takes or received is None or own in (INGEST, DRAW), f"`takes` of the step {name}"


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.usefixtures("ray_session")
@pytest.mark.campaign
def test_any_number_of_workers_gives_the_bytes_of_a_plain_loop(
    workers: int, everything: Corpus, inline: tuple[Path, Any], tmp_path: Path
) -> None:
    assert run(everything, tmp_path / "run", workers=workers)["passed"]
    assert digests(tmp_path / "run", *FOLDERS) == digests(inline[0], *FOLDERS)


@pytest.mark.campaign
def test_kill_9_at_random_moments_changes_no_byte(
    everything: Corpus, inline: tuple[Path, Any], tmp_path: Path
) -> None:
    output, total = tmp_path / "killed", sum(1 for _ in read_log(inline[0]))
    file = everything_on(everything.name)
    kill_until_done(file, everything.folder, output, until="verify", events=total)
    assert digests(output, *FOLDERS) == digests(inline[0], *FOLDERS)
    require_each_done_once(list(read_log(output)), least=100)
