"""Prose of the documentation, cut into sentences: what the checks of plain English read.

python tests/docs/prose.py      a table of every page: words, sentences, and those that are long
"""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LONGEST = 25
"""Words that a sentence may have."""
SECTION_TITLES = ("#", "|", "<!--", "![", "---", "===", "<", ":::", "!!!", "???")
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.DOTALL | re.MULTILINE)
_ITEM = re.compile(r"([-*]|\d+\.)\s+")
_END = re.compile(r"(?<=[.!?:;])[)*\"_]*\s+(?=[*_(\"]*[A-Z`\[\d])")


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page."""

    page: str
    line: int
    """Of the paragraph that holds it, from 1."""
    text: str

    @property
    def words(self) -> int:
        """Words, of which code and the target of a link are one each."""
        return len(self.text.split())


def listed_words(part: str) -> list[tuple[str, ...]]:
    """Return the columns of each line of a part of coined_words.txt: "pages" or "identifiers"."""
    text = (ROOT / "tests/docs/coined_words.txt").read_text(encoding="utf-8")
    lines = text.partition(f"[{part}]\n")[2].partition("\n[")[0].splitlines()
    return [tuple(re.split(r" {2,}", line)) for line in lines if line and not line.startswith("#")]


def pages() -> list[Path]:
    """Return every page that people read, but for the changelog."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "docker" / "README.md"]
    found += (ROOT / "benchmarks" / "results").glob("*.md")
    return sorted(page for page in found if page.name != "CHANGELOG.md")


def sentences(page: Path) -> Iterator[Sentence]:
    """Yield the sentences of a page: of its paragraphs and lists, not of its tables and code."""
    name = page.relative_to(ROOT).as_posix()
    for line, paragraph in _paragraphs(page.read_text(encoding="utf-8")):
        plain = re.sub(r"\]\([^)]*\)", "]", paragraph)
        plain = re.sub(r"`[^`]*`", "CODE", plain)
        for text in _END.split(plain):
            if text:
                yield Sentence(name, line, text)


def settings() -> Iterator[Sentence]:
    """Yield what docs/config.md says of each setting, in one piece."""
    text = (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("| `"):
            yield Sentence("docs/config.md", number, re.split(r"(?<!\\)\|", line)[-2].strip())


def _paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield each paragraph or item of a list, with the number of its first line."""
    blank = _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    held: list[str] = []
    first = 0
    for number, line in enumerate([*blank.splitlines(), ""], 1):
        stripped = line.strip()
        if held and (not stripped or stripped.startswith(SECTION_TITLES) or _ITEM.match(stripped)):
            yield first, " ".join(held)
            held = []
        if stripped and not stripped.startswith(SECTION_TITLES):
            first = first if held else number
            item = None if held else _ITEM.match(stripped)
            held.append(stripped if item is None else stripped[item.end() :])


def table() -> Iterator[str]:
    """Yield a line for each page."""
    yield f"{'page':76}{'words':>8}{'sentences':>11}{f'over {LONGEST}':>9}{'longest':>9}"
    for page in pages():
        counts = [sentence.words for sentence in sentences(page)]
        words = len(page.read_text(encoding="utf-8").split())
        long = sum(count > LONGEST for count in counts)
        name = page.relative_to(ROOT).as_posix()
        yield f"{name:76}{words:8,}{len(counts):11,}{long:9,}{max(counts, default=0):9,}"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in table())
