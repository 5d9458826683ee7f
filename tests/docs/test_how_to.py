"""What the how-to pages promise: their run files are those of examples/how-to, and do what is said."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import shardmill
from pipeline.steps.table import NAMES as STEP_NAMES
from tests.conftest import BUNDLED, bundled_lines
from tests.docs.test_docs import ROOT, blocks
from tests.stages.chat.chat_files import chat_tokenizer, dialogues, write_lines

FOLDER = ROOT / "examples" / "how-to"
NAMES = sorted(path.stem for path in FOLDER.glob("*.toml"))
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
SMALL = ("verify.learning=false", "packing.shards=1")
ENCODED = (*SMALL, "tokenizer.special.eos=<|endoftext|>", "tokenizer.special.pad=<pad>")
SETTINGS = {"continue": ENCODED, "chat": ENCODED, "t5": (*SMALL, "tokenizer.train.vocab_size=4096")}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder like examples/how-to, with what its run files need beside the bundled corpus."""
    (tmp_path / "corpus").symlink_to(BUNDLED)
    place = Path(shutil.copytree(FOLDER, tmp_path / "how-to"))
    monkeypatch.syspath_prepend(place)
    monkeypatch.delitem(sys.modules, "my_filters", raising=False)  # of another test's folder
    (place / "tokenizer.json").write_bytes(chat_tokenizer())
    (place / "chats").mkdir()
    (place / "chats" / "a.jsonl").write_bytes(write_lines(list(dialogues(40))))
    lines = bundled_lines("text/human-rights*", 40)
    write_dump(place, "2026-10", lines[:30])
    return place


def write_dump(folder: Path, month: str, lines: list[bytes]) -> None:
    """Write the records of a month where docs/how-to/dump.md has them."""
    (folder / "dumps" / month).mkdir(parents=True)
    (folder / "dumps" / month / "a.jsonl").write_bytes(b"\n".join(lines) + b"\n")


def run(folder: Path, name: str, *settings: str, **options: Any) -> Any:
    """Run a file of the folder into `out`."""
    small = (*SETTINGS.get(name, SMALL), *settings)
    return shardmill.run(folder / f"{name}.toml", folder / "out", workers=0, settings=small, **options)


def test_each_run_file_is_shown_on_its_page() -> None:
    shown = {
        content
        for page in (ROOT / "docs" / "how-to").glob("*.md")
        for language, content in blocks(page.relative_to(ROOT).as_posix())
        if language == "toml" and content.startswith("# examples/how-to/")
    }
    assert shown == {(FOLDER / f"{name}.toml").read_text(encoding="utf-8") for name in NAMES}
    assert (FOLDER / "my_filters.py").read_text(encoding="utf-8") in {
        content for _, content in blocks("docs/how-to/filter.md")
    }


@pytest.mark.parametrize("name", NAMES)
def test_each_run_file_can_be_planned(folder: Path, name: str) -> None:
    steps = shardmill.plan(folder / f"{name}.toml", folder / "out", settings=SETTINGS.get(name, SMALL))
    assert len(steps) > 5


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_each_run_file_ends_in_verified_datasets(folder: Path, name: str) -> None:
    assert run(folder, name)["passed"]


def test_what_the_filter_drops_is_counted_with_its_reason(folder: Path) -> None:
    report = run(folder, "filter", until="dedup", limit=60)
    found = report["documents"]
    drops = pq.read_table(next((folder / "out" / "ingest").glob("*/*/drops.parquet"))).to_pylist()
    assert {drop["detail"] for drop in drops} == {"another language"}
    assert found["dropped"] == {"function.dropped": len(drops)}
    assert sum(found["dropped"].values()) + sum(found["removed"].values()) + found["kept"] == 60


@pytest.mark.slow
def test_a_second_dump_is_a_generation_without_the_old_documents(folder: Path) -> None:
    assert run(folder, "dump")["passed"]
    rows = len(shardmill.open_dataset(folder / "out" / "datasets" / "clm"))
    write_dump(folder, "2026-11", bundled_lines("text/human-rights*", 40)[20:])
    assert run(folder, "dump")["passed"]
    grown = shardmill.open_run(folder / "out" / "generations" / "0001").report["documents"]
    assert grown["read"] == 20
    assert grown["removed"]["exact"] == 10
    assert len(shardmill.open_dataset(folder / "out" / "datasets" / "clm")) > rows


def test_commands_of_pages_have_the_options_that_they_are_given() -> None:
    helped = dict(
        re.findall(
            r"^## shardmill ?([\w ]*)\n(.*?)(?=^## |\Z)",
            (ROOT / "docs" / "cli.md").read_text(encoding="utf-8"),
            re.DOTALL | re.MULTILINE,
        )
    )
    seen = 0
    for page in PAGES:
        for language, content in blocks(page.relative_to(ROOT).as_posix()):
            lines = content.replace("\\\n", " ").splitlines() if language in ("console", "sh") else []
            for command in re.findall(r"shardmill ((?:tokenizer )?[a-z]+)( .*)", "\n".join(lines)):
                known = helped[command[0]]
                for option in re.findall(r" (--[a-z-]+)", command[1]):
                    assert re.search(rf"{option}\b", known), f"{page.name}: {command}"
                seen += 1
    assert seen > 20


def test_the_glossary_is_in_order_and_has_every_step() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| ([^|]+?) \|", text, re.MULTILINE)
    terms = [term for term in terms if term not in ("word", "---")]
    assert terms == sorted(terms, key=lambda term: term.strip("`").casefold())
    steps = set(re.findall(r"\| `(\w+)`", (ROOT / "docs/concepts/flow.md").read_text(encoding="utf-8")))
    assert steps == set(STEP_NAMES), "docs/concepts/flow.md has a row for each step"
    assert {f"`{step}`" for step in steps} <= set(terms), "docs/glossary.md has a row for each step"
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = page.partition("## The steps")[2].partition("## What verify checks")[0]
    rows = set(re.findall(r"^\| `(\w+)", table, re.MULTILINE))
    assert rows == steps, "docs/architecture.md has a row for each step"
