"""What the site adds to the pages in docs/: files of the repository that pages link to.

Links lead to files of the repository, so that they work wherever the repository is read. Files outside
docs/ become pages below `repository/`: Markdown as it is, programs and run files as code. A page that
would load something from another server is a warning, which fails a strict build.
"""

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[1]
PROJECT = {
    "CHANGELOG.md": "Changelog",
    "CONTRIBUTING.md": "Contributing",
    "SECURITY.md": "Security",
    "docs/releasing.md": "Releasing",
}
"""Pages that the section Project lists where they exist."""
_FENCE = re.compile(r"^( *)(```+).*?^\1\2$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()([^)\s#]+)")
_NESTED = re.compile(r"^ {2,3}(?=(?:[-*]|\d+\.) )", re.MULTILINE)
_LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"((?:https?:)?//[^\"]+)")
_LOG = logging.getLogger("mkdocs.hooks.site")
_OTHER_PLACES = ("https://", "http://", "mailto:")


def on_config(config: Any) -> Any:
    """List the pages of the project that exist."""
    (section,) = (entry["Project"] for entry in config.nav if "Project" in entry)
    there = [place for place in PROJECT if (ROOT / place).exists()]
    section += [{PROJECT[place]: _site_place(place)} for place in there]
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the files outside docs/ that pages link to, and those that these link to."""
    pending = [place for place in PROJECT if (ROOT / place).exists()]
    pending += [f"docs/{file.src_uri}" for file in files if file.src_uri.endswith(".md")]
    seen = set(pending)
    while pending:
        place = pending.pop()
        if not place.startswith("docs/"):
            files.append(_page(place, config))
        if place.endswith(".md"):
            found = {target for target in _targets(place) if (ROOT / target).is_file()} - seen
            pending += sorted(found)
            seen |= found
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return a page with links as the site has them, and lists in lists as its Markdown wants them."""
    place = _repository_place(page.file.src_uri)
    folder = os.path.dirname(page.file.src_uri)  # noqa: PTH120  # a relative URL

    def link(match: re.Match[str]) -> str:
        if match[1].startswith(_OTHER_PLACES):
            return match[1]
        return os.path.relpath(_site_place(_target(place, match[1])), folder or ".")

    return _outside_fences(markdown, lambda text: _NESTED.sub("    ", _LINK.sub(link, text)))


def on_post_page(output: str, *, page: Any, **_: Any) -> str:
    """Warn of what a page loads from another server."""
    for address in _LOADED.findall(output):
        _LOG.warning("%s loads %s from another server", page.file.src_uri, address)
    return output


def _page(place: str, config: Any) -> File:
    """Return a page for a file of the repository."""
    content = (ROOT / place).read_text(encoding="utf-8")
    language = {".py": "python", ".toml": "toml"}.get(Path(place).suffix)
    if language:
        content = f"# {Path(place).name}\n\n```{language}\n{content}```\n"
    file = File.generated(config, _site_place(place), content=content)
    file.inclusion = InclusionLevel.NOT_IN_NAV
    return file


def _targets(place: str) -> Iterator[str]:
    """Yield the files of the repository that a page links to."""
    text = _FENCE.sub("", (ROOT / place).read_text(encoding="utf-8"))
    for target in _LINK.findall(text):
        if not target.startswith(_OTHER_PLACES):
            yield _target(place, target)


def _target(place: str, link: str) -> str:
    """Return the file of the repository that a link of a page leads to."""
    return os.path.normpath(os.path.join(os.path.dirname(place), link))  # noqa: PTH118, PTH120


def _site_place(place: str) -> str:
    """docs/a.md -> a.md, CHANGELOG.md -> repository/CHANGELOG.md, a.py -> repository/a.py.md."""
    if place.startswith("docs/"):
        return place.removeprefix("docs/")
    return f"repository/{place}" + (".md" if place.endswith((".py", ".toml")) else "")


def _repository_place(site_place: str) -> str:
    """Return the file of the repository that a page of the site is."""
    if site_place.startswith("repository/"):
        return re.sub(r"(\.py|\.toml)\.md$", r"\1", site_place.removeprefix("repository/"))
    return f"docs/{site_place}"


def _outside_fences(markdown: str, change: Any) -> str:
    """Return a page, changed everywhere but in its blocks of code."""
    parts, end = [], 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])
