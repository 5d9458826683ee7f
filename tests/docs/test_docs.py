"""What the documentation promises.

Every block of docs/start.md runs, in order, from a folder that holds nothing but `examples`; those of
the README and of other pages run on what it made. docs/api.md, docs/cli.md and docs/config.md are what
the code says of itself. Every link leads somewhere.

    python tests/docs/test_docs.py      rewrites docs/api.md, docs/cli.md and docs/config.md
"""

import re
import string
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from pipeline.run_file.config import (
    RunFile,
)
from stages.export.table import FORMATS
from stages.export.texts import TEXT_FORMATS
from stages.filtering.filter import FilterConfig
from stages.filtering.table import FILTERS
from stages.objectives.kind import Kind
from stages.objectives.learning import LearningConfig, LearningSettings
from stages.objectives.table import KINDS, read_objective
from stages.objectives.traits import Objective
from stages.store import manifest
from tests.called import called, printed_by, script_called
from tests.campaign import FULL
from tests.docs.generated_pages import RENDERED, SECTIONS

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "benchmarks" / "results").glob("*.md")),
]
REWRITE = "{0} is not what the code says; run: python tests/docs/test_docs.py"
HEADER_BYTES = 128
WORDS = """
shardmill() { printf '%s\\0' shardmill "$@" $'\\n'; }
python() { printf '%s\\0' python "$@" $'\\n'; }
"""
"""Functions of a shell that say the words of a command, each with a NUL behind it, and call nothing."""
SMALLER = {
    '"examples/corpus/text/books.jsonl.zst", ': "",
    "fraction = 0.02": "fraction = 0.2",
    "vocab_size = 4096": "vocab_size = 1024",
    "labelled_tokens = 25_000": "learning = false",
}
"""A smaller run in place of the first page's, with a share that leaves it validation rows.

A campaign does what stands there.
"""
Followed = tuple[Path, str]
"""The folder of someone who did what docs/start.md says, and all that they saw."""
START = "docs/start.md"
OTHERS = (
    "README.md",
    "docs/dedup.md",
    "docs/format.md",
    "docs/loading.md",
    "docs/objectives.md",
    "docs/trouble.md",
    "docs/python.md",
    "docs/concepts/ledger.md",
    "docs/how-to/airflow.md",
    "docs/how-to/files.md",
    "docs/how-to/trainers.md",
)
"""Pages whose blocks run on what the first page made."""


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Yield the language and content of each fenced block of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield match[1], match[2]


def execute(language: str, content: str, folder: Path) -> str:
    """Do what a block says in a folder; return what it prints.

    All in this process, and no block sees the names of another: torch alone takes seconds to import.
    """
    if language == "toml":
        (folder / content.splitlines()[0].removeprefix("# ")).write_text(
            smaller(content), encoding="utf-8"
        )
        return ""
    if language == "python":
        code, names = compile(content, "block", "exec"), {"__name__": "__main__"}
        return printed_by(lambda: exec(code, names), cwd=folder)  # noqa: S102
    return "".join(command(words, folder) for words in commands(content, folder))


def smaller(content: str) -> str:
    """Return a run file of which a test needs seconds less."""
    for asked, enough in SMALLER.items() if not FULL else ():
        assert content.count(asked) == 1
        content = content.replace(asked, enough)
    return content


def commands(content: str, folder: Path) -> list[list[str]]:
    """Return the words of each command of a block, as bash takes them apart."""
    done = subprocess.run(
        ["/bin/bash", "-euc", WORDS + content], cwd=folder, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    parts = done.stdout.removesuffix("\0\n\0").split("\0\n\0")
    found = [part.split("\0") for part in parts if part]
    assert {words[0] for words in found} <= {"shardmill", "python"}
    return found


def command(words: list[str], folder: Path) -> str:
    """Do what a command says in a folder; return what it prints."""
    program, *arguments = words
    if program == "python":
        return script_called(*arguments, cwd=folder)
    done = called(*arguments, cwd=folder)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """Do what the first page says, block by block."""
    folder = tmp_path_factory.mktemp("start")
    (folder / "examples").symlink_to(ROOT / "examples")
    runnable = [block for block in blocks(START) if block[0] in ("toml", "sh", "python")]
    assert {language for language, _ in runnable} == {"toml", "sh", "python"}
    return folder, "".join(execute(*block, folder) for block in runnable)


def test_every_block_of_the_first_page_runs_and_ends_in_verified_shards(followed: Followed) -> None:
    folder, printed = followed
    assert printed.count("verify clm: PASS") == 2, "of run and status"
    assert printed.count('train = IndexedDataset("megatron/train")') == 1
    for expected in ("'similarity': ", "'input_ids': (512,)", "step     2  loss", "verify t5: PASS"):
        assert expected in printed
    assert (folder / "first-run" / "report" / "index.html").exists()
    assert (folder / "code.toml").read_text(encoding="utf-8").count('kind = "fim"') == 1


def test_the_tree_of_the_first_page_is_what_a_run_leaves(followed: Followed) -> None:
    output = followed[0] / "first-run"
    tree = next(content for _, content in blocks(START) if content.startswith("first-run/"))
    tree = tree.partition("\n")[2]
    named = set(re.findall(r"(?:^|  )(\w+)/", tree, re.MULTILINE))
    named |= set(re.findall(r"\b(\w+\.(?:jsonl?|prom))\b", tree))
    there = {path.name for path in output.iterdir()} | {p.name for p in output.rglob("*.json")}
    assert len(named) > 10
    assert named <= there
    assert {path.name for path in output.iterdir()} <= named | {"lock"}


@pytest.mark.parametrize("page", OTHERS)
def test_every_block_of_the_other_pages_runs_on_those_datasets(followed: Followed, page: str) -> None:
    found = [content for language, content in blocks(page) if language == "python"]
    assert found
    for content in found:
        execute("python", content, followed[0])


def test_arrays_have_the_headers_and_sizes_of_the_format_page(followed: Followed) -> None:
    checked: set[tuple[str, int]] = set()
    for place in (followed[0] / "first-run" / "datasets").rglob("dataset.json"):
        content = manifest.read_manifest(place.parent)
        for shard in content.shards:
            data = (place.parent / shard.path / "input_ids.npy").read_bytes()
            assert data[:10] == b"\x93NUMPY\x01\x00\x76\x00"
            (length,) = content.columns["input_ids"].shape
            assert len(data) == HEADER_BYTES + shard.rows * length * 2
            assert data[10:HEADER_BYTES].endswith(b" \n")
            checked.add((content.name, length))
    assert checked == {("clm", 512), ("t5", 568)}


@pytest.mark.parametrize("page", RENDERED)
def test_generated_pages_equal_the_code(page: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == RENDERED[page](), REWRITE.format(page)


def test_the_config_page_has_every_table() -> None:
    kinds = [*KINDS.values(), *FILTERS.values()]
    pending: list[Any] = [RunFile, *(kind.config for kind in kinds)]
    found: set[Any] = set()
    while pending:
        kind = pending.pop()
        pending += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found.add(kind)
            pending += [field.annotation for field in kind.model_fields.values()]
    assert found - {Objective, FilterConfig} == {model for _, model in SECTIONS}


def test_the_page_of_objectives_has_a_section_for_each() -> None:
    text = (ROOT / "docs" / "objectives.md").read_text(encoding="utf-8")
    found = set(re.findall(r"^## (\S+)$", text, re.MULTILINE))
    assert found == KINDS.keys(), f"docs/objectives.md: sections of {found ^ KINDS.keys()}"


def test_the_page_of_filters_has_a_section_for_each() -> None:
    text = (ROOT / "docs" / "filters.md").read_text(encoding="utf-8")
    found = set(re.findall(r"^## `(\w+)`$", text, re.MULTILINE))
    assert found == FILTERS.keys(), f"docs/filters.md: sections of {found ^ FILTERS.keys()}"


def test_the_table_of_sources_has_each_default_of_a_rule() -> None:
    text = (ROOT / "docs" / "filters.md").read_text(encoding="utf-8").split("<!-- defaults -->")[1]
    rows = [line.strip("| ").split(" | ")[:3] for line in text.strip().split("\n\n")[0].splitlines()[2:]]
    wanted = [
        [f"`{kind}`", f"`{name}`", _shown(field.default)]
        for kind in ("gopher_quality", "gopher_repetition", "c4", "fineweb")
        for name, field in FILTERS[kind].config.model_fields.items()
        if name not in ("kind", "sources")
    ]
    assert rows == wanted


def _shown(value: object) -> str:
    if not isinstance(value, tuple):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return (" " if set("".join(map(str, value))) <= set(string.punctuation) else ", ").join(
        map(str, value)
    )


def test_the_page_of_verification_has_the_learning_settings_of_each_kind() -> None:
    page = (ROOT / "docs" / "verification.md").read_text(encoding="utf-8")
    names = re.findall(r"`(\w+)`", page[page.index("| objective | `max_ids` |") :].splitlines()[0])
    for name, kind in KINDS.items():
        if isinstance(kind, Kind):
            found = kind.learning(read_objective({"kind": name}))
            values = [getattr(found, each) for each in names]
            for each, field in LearningConfig.model_fields.items():
                fixed = field.default is not None
                assert not fixed or getattr(found, each) == field.default, (
                    f"learning of {name}: {each} has a default in LearningConfig, which counts"
                )
            cells = [
                "no gate" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:g}"
                for value in values
            ]
            row = f"| `{name}` | {' | '.join(cells)} |"
            assert f"{row}\n" in page, f"docs/verification.md has a row: {row}"
    assert set(names) < LearningSettings.model_fields.keys()


def test_the_page_of_exports_has_a_row_for_each_format() -> None:
    text = (ROOT / "docs" / "exports.md").read_text(encoding="utf-8").split("<!-- formats -->")[1]
    formats = [(known.name, known.holds, known.client, known.files) for known in FORMATS.values()]
    texts = [(known.name, "texts", known.client, known.files) for known in TEXT_FORMATS.values()]
    rows = [
        f"| `{name}` | {holds} | {client} | {', '.join(f'`{file}`' for file in files)} |"
        for name, holds, client, files in (*formats, *texts)
    ]
    assert text.split("|---|---|---|---|\n")[1].split("\n\n")[0].splitlines() == rows


def test_the_table_of_dependencies_equals_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["run"]]
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^\| ([\w-]+) \| (?:run|run, torch)? ?\|", text.split("## Dependencies")[1], re.MULTILINE
    )
    assert sorted(listed) == sorted(re.split(r"[^\w-]", name)[0] for name in wanted)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            assert (page.parent / target.split("#")[0]).exists(), f"{page.name}: {target}"


def test_console_blocks_name_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shown = [
        block
        for page in ("README.md", START, "CONTRIBUTING.md")
        for kind, block in blocks(page)
        if kind == "console"
    ]
    targets = set(re.findall(r"^\$ make (\w+)$", "".join(shown), re.MULTILINE))
    assert targets == {"setup", "demo", "test", "check"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_no_text_speaks_of_what_a_reader_cannot_see() -> None:
    forbidden = re.compile(r"\.\./" r"shared|/wor" r"k/|issue #?\d")
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = listed.stdout.splitlines()
    texts = [name for name in tracked if Path(name).suffix in {".md", ".py", ".toml", ".txt", ".j2", ""}]
    assert len(texts) > 50
    for name in texts:
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), 1):
            assert not forbidden.search(line), f"{name}, line {number}: {line}"


if __name__ == "__main__":
    for place, render in RENDERED.items():
        (ROOT / place).write_text(render(), encoding="utf-8")
