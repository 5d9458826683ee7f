"""What a release promises: one version everywhere, and a changelog that speaks of it."""

import tomllib
from importlib.metadata import version

import pytest

import shardmill
from release.changelog import ROOT, declared_version, notes_of, section_of
from release.lowest import lowest
from tests.called import called

PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CHANGELOG = """# Changelog

## [0.3.0] - Unreleased

### Added

- Something.

## [0.2.0] - 2027-01-31

### Fixed

- Something else.

[0.2.0]: https://example.org/0.2.0
"""


def test_the_version_is_one_and_the_changelog_has_a_section_of_it() -> None:
    declared = declared_version(PROJECT)
    assert declared == shardmill.__version__ == version("shardmill")
    assert called("--version", cwd=ROOT).stdout == f"shardmill {declared}\n"
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert section_of(changelog, declared)[1]
    assert changelog.index(f"## [{declared}]") == changelog.index("## [")


def test_the_notes_of_a_release_are_the_section_of_its_version() -> None:
    assert (
        notes_of("v0.2.0", '[project]\nversion = "0.2.0"', CHANGELOG) == "### Fixed\n\n- Something else."
    )


@pytest.mark.parametrize(
    ("tag", "declared", "said"),
    [
        ("v0.2.1", "0.2.0", "the tag v0.2.1 is not v0.2.0"),
        ("v0.2.1", "0.2.1", r"no section '## \[0.2.1\]"),
        ("v0.3.0", "0.3.0", "says 'Unreleased' of 0.3.0"),
    ],
)
def test_a_tag_that_does_not_fit_is_refused(tag: str, declared: str, said: str) -> None:
    with pytest.raises(SystemExit, match=said):
        notes_of(tag, f'[project]\nversion = "{declared}"', CHANGELOG)


def test_the_lowest_versions_are_those_that_are_declared() -> None:
    project = """
[project]
dependencies = ["numpy>=1.26"]
[project.optional-dependencies]
run = ["ray>=2.55", "torch>=2.4"]
dev = ["pytest>=8.3"]
examples = ["transformers>=4.48", "torch>=2.4"]
"""
    expected = ["numpy==1.26", "ray==2.55", "torch==2.13.0", "pytest>=8.3", "transformers>=4.48"]
    assert lowest(project, "ray==2.60.0\ntorch==2.13.0\n") == expected


def test_every_dependency_of_a_run_has_a_lower_bound() -> None:
    content = tomllib.loads(PROJECT)["project"]
    wanted = [*content["dependencies"], *content["optional-dependencies"]["run"]]
    exact = lowest(PROJECT, (ROOT / "constraints.txt").read_text(encoding="utf-8"))
    assert len(wanted) > 10
    assert all("==" in each for each in exact[: len(wanted)])
