"""Print the changelog's section of a version, which becomes the text of its release.

    python release/changelog.py v0.1.0 > notes.md

The tag must name the version of pyproject.toml, and the section must have a date. Needs Python alone.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def declared_version(project: str) -> str:
    """Return the version that the text of a pyproject.toml declares."""
    version: str = tomllib.loads(project)["project"]["version"]
    return version


def section_of(changelog: str, version: str) -> tuple[str, str]:
    """Return what stands behind a version in its heading, a date or "Unreleased", then its section.

    ## [0.2.0] - 2027-01-31   ->  ("2027-01-31", "### Added ...")
    """
    heading = rf"^## \[{re.escape(version)}\] - ([^\n]+)\n"
    found = re.search(rf"{heading}(.*?)(?=^## |^\[[^\]]+\]: |\Z)", changelog, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section '## [{version}] - YYYY-MM-DD'")
    return found[1].strip(), found[2].strip()


def notes_of(tag: str, project: str, changelog: str) -> str:
    """Return the text of a release, if tag, version and changelog agree."""
    version = declared_version(project)
    if tag != f"v{version}":
        raise SystemExit(f"the tag {tag} is not v{version}, which pyproject.toml declares")
    date, section = section_of(changelog, version)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        raise SystemExit(f"CHANGELOG.md says '{date}' of {version}; write YYYY-MM-DD")
    if not section:
        raise SystemExit(f"CHANGELOG.md says nothing of {version}; write what users can see")
    return section


def main() -> None:
    """Print the section of the version that a tag names."""
    if len(sys.argv) != 2:  # noqa: PLR2004  # the program and the tag
        raise SystemExit("usage: python release/changelog.py TAG")
    texts = [(ROOT / name).read_text("utf-8") for name in ("pyproject.toml", "CHANGELOG.md")]
    print(notes_of(sys.argv[1], *texts))


if __name__ == "__main__":
    main()
