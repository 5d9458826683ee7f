"""What the campaign on other users promises: a slice passes, and a wrong answer is seen as such."""

from pathlib import Path
from subprocess import CompletedProcess

import pytest
from other_users import done, faults_of, first_row

from tests.docs.generated_pages import COMMANDS as ALL_COMMANDS
from tests.material.user_places import COMMANDS, PLACES, USER, prepare, refusal
from tests.stages.loading.test_dataset import write_dataset

pytestmark = pytest.mark.slow

NOTE = "compiled kernels cannot be kept beside the program"


def test_a_user_without_any_folder_plans_and_reads_rows_and_is_told_once(tmp_path: Path) -> None:
    if (why := refusal()) is not None:
        pytest.skip(why)
    folder, place = prepare(tmp_path / "users", USER), PLACES["no folder"]
    case = done("no folder", place, "plan", folder, wanted=0)
    assert (case.faults, case.notes) == ([], 1), case.said
    write_dataset(folder / "run" / "datasets")
    assert first_row(folder, place, turns=1) > 0


def test_every_command_is_called() -> None:
    called = {" ".join(words) for words in COMMANDS.values()}
    for command in set(ALL_COMMANDS) - {"tokenizer"}:
        assert [one for one in called if one.startswith(f"{command} ") or one == command], command


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        (NOTE, None),
        (f"{NOTE}\n{NOTE}", "tells 2 times that kernels are not kept"),
        ("shardmill: unexpected error: x; this is a bug", "tells of a bug"),
        ("left: /tmp/shardmill-kernels-x", "leaves a folder"),
    ],
)
def test_what_is_wrong_with_an_answer_is_seen(said: str, fault: str | None) -> None:
    assert faults_of(CompletedProcess([], 0, "", said), 0) == ([] if fault is None else [fault])
    (wrong, *_, last) = faults_of(CompletedProcess([], 1, "", said), 75, "set TMPDIR")
    assert (wrong, last) == ("code 1, not 75", "does not say: set TMPDIR")
