"""What the files for a forge promise: they run what `make` runs, have few rights, and ask what helps."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # PyYAML ships no types

ROOT = Path(__file__).resolve().parents[2]
FORGE = ROOT / ".github"
WORKFLOWS: dict[str, Any] = {
    path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in FORGE.glob("workflows/*.yml")
}
JOBS = [(workflow, job) for workflow in sorted(WORKFLOWS) for job in WORKFLOWS[workflow]["jobs"]]


def steps(workflow: str, job: str) -> list[dict[str, Any]]:
    """Return the steps of a job, of which there must be some."""
    found: list[dict[str, Any]] = WORKFLOWS[workflow]["jobs"][job]["steps"]
    assert found
    return found


def test_there_are_these_jobs() -> None:
    jobs = {workflow: list(content["jobs"]) for workflow, content in WORKFLOWS.items()}
    assert jobs == {
        "ci": ["everything", "quick", "lowest", "package"],
        "release": ["build", "publish", "announce"],
    }


@pytest.mark.parametrize(("workflow", "job"), JOBS)
def test_a_job_has_few_rights_an_end_and_no_secret(workflow: str, job: str) -> None:
    rights = WORKFLOWS[workflow]["jobs"][job].get("permissions", WORKFLOWS[workflow]["permissions"])
    allowed = {"publish": {"id-token": "write"}, "announce": {"contents": "write"}}
    assert rights == allowed.get(job, {"contents": "read"})
    assert WORKFLOWS[workflow]["jobs"][job]["timeout-minutes"] <= 60
    text = (FORGE / "workflows" / f"{workflow}.yml").read_text(encoding="utf-8")
    assert "secrets." not in text
    assert not re.search(r"run:.*\$\{\{", text), "an expression in a command can be made to run code"


def test_actions_are_those_of_a_version_and_make_has_the_targets() -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(FORGE.rglob("*.yml"))]
    actions = [name for text in texts for name in re.findall(r"uses: (\S+)", text)]
    assert len(actions) > 5
    assert all(re.search(r"@(v\d+|release/v\d+)$|^\./", name) for name in actions), actions
    targets = {
        name
        for text in texts
        for name in re.findall(r"\bmake (?:--jobs=\d )?([\w-]+)$", text, re.MULTILINE)
    }
    assert targets >= {"setup", "quick-test", "lowest", "package"}
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_all_of_ci_runs_and_the_tag_is_checked_before_anything_is_built() -> None:
    assert steps("ci", "everything")[-1]["run"] == "bash .ci/run"
    commands = [step["run"].split()[:2] for step in steps("release", "build") if "run" in step]
    assert commands == [["python", "release/changelog.py"], ["make", "package"]]


def test_the_pythons_that_are_declared_are_those_that_are_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = re.findall(r"Python :: (3\.\d+)$", "\n".join(project["classifiers"]), re.MULTILINE)
    assert WORKFLOWS["ci"]["jobs"]["quick"]["strategy"]["matrix"]["python"] == declared
    assert project["requires-python"] == f">={declared[0]}"


def test_the_form_for_a_fault_asks_for_what_it_takes_to_find_it() -> None:
    form = (FORGE / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8")
    for asked in ("shardmill --version", "run file", "log.jsonl", "report.json", "SECURITY.md"):
        assert asked in form
