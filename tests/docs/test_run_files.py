"""What the pages about inputs promise: their run files are ones, and the whole ones do what is said.

The blocks of docs/chat.md and docs/sources.md run over files that are made for them here.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.errors import ConfigError
from stages.reading.decompress import COMPRESSIONS
from stages.reading.source_code import ALL_CODE_ENDINGS
from stages.reading.table import READERS
from tests.conftest import bundled_lines
from tests.docs.test_docs import ROOT, blocks, execute
from tests.stages.chat.chat_files import SPECIAL, chat_tokenizer, dialogues, write_lines

SMALL: dict[str, Any] = {
    "dedup": {"near": False},
    "packing": {"seq_len": 64, "shards": 1},
    "verify": {"learning": False},
}
LACKING: dict[str, Any] = {
    "sources": [{"name": name, "paths": [f"{name}/*.jsonl"]} for name in ("web", "prose")],
    "datasets": [{"name": "clm"}],
}
"""What a block may leave out of a run file."""
PAGES = (
    "docs/chat.md",
    "docs/dedup.md",
    "docs/filters.md",
    "docs/mixing.md",
    "docs/objectives.md",
    "docs/sources.md",
    "docs/tokenizers.md",
)


def run_files(page: str) -> list[dict[str, Any]]:
    """Return what the blocks of a page set."""
    return [tomllib.loads(content) for language, content in blocks(page) if language == "toml"]


def run_it(folder: Path, content: dict[str, Any]) -> Any:
    """Run over the files in a folder, into `my-run`."""
    request = RunRequest(RunFile.model_validate(content), folder, folder / "my-run", 0)
    return run_session(request, stream=None)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_is_of_a_run_file(page: str) -> None:
    found = run_files(page)
    assert found
    for content in found:
        RunFile.model_validate({**LACKING, **content})


@pytest.mark.slow
def test_the_run_file_of_the_dialogues_learns_the_assistant_alone(tmp_path: Path) -> None:
    (tmp_path / "chats").mkdir()
    (tmp_path / "chats" / "a.jsonl").write_bytes(write_lines(list(dialogues(40))))
    (tmp_path / "tokenizer.json").write_bytes(chat_tokenizer())
    content = run_files("docs/chat.md")[0]
    special = {**SPECIAL["chatml"], "pad": "<pad>"}  # the tokenizer has the pieces of all templates
    whole = {**SMALL, **content, "tokenizer": {**content["tokenizer"], "special": special}}
    assert run_it(tmp_path, whole)["passed"]
    rows = shardmill.open_dataset(tmp_path / "my-run" / "datasets" / "sft", check="size")
    batch = rows.batch(range(len(rows)))
    learned = batch["labels"] != -100
    closing = np.isin(batch["input_ids"], list(_ids(tmp_path, "<|im_end|>")))
    assert np.count_nonzero(learned & closing) > 20, "the end of an answer"
    eos = (batch["input_ids"] == rows.manifest.special_ids["eos"]) & (batch["segment_ids"] >= 0)
    assert np.count_nonzero(eos) == rows.manifest.totals.documents
    assert not np.count_nonzero(learned & eos), "the line feed before it is not learned, nor is it"


def _ids(folder: Path, piece: str) -> set[int]:
    """Return the id of a piece that the tokenizer's file adds."""
    added = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    return {token["id"] for token in added if token["content"] == piece}


@pytest.mark.slow
def test_the_sources_of_the_page_are_read_as_it_says(tmp_path: Path) -> None:
    listed = _write_folder(tmp_path)
    _write_records(tmp_path)
    _write_library(tmp_path)
    found = run_files("docs/sources.md")
    sources, filters = (
        [one for content in found for one in content.get(key, [])] for key in ("sources", "filters")
    )
    replayed = {"domain", "general"}  # of an earlier run, which is not here
    sources = [one for one in sources if one["name"] not in replayed]
    assert [one["name"] for one in sources] == ["mixed", "records", "plain", "web", "translations"]
    more = {"sources": sources, "filters": filters, "tokenizer": {"train": {"vocab_size": 1200}}}
    report = run_it(tmp_path, {**SMALL, **LACKING, **more})
    read = {f"corpus/{path}" for path in _paths_read(tmp_path, "mixed")}
    assert read == {name for name, said in listed.items() if said == "read"}
    text = (ROOT / "docs" / "sources.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^sources\.mixed: .*$", text, re.MULTILINE)
    assert line in report["warnings"]
    assert json.dumps(report["skipped"]) in text.replace("\n", " ")
    assert report["documents"]["dropped"] == {"column.below_min": 2, "missing_text": 1}
    assert _paths_read(tmp_path, "plain") == {"a.txt", "deep/a.html", "deep/a.md"}
    assert _paths_read(tmp_path, "records") == {"deep/b.parquet"}
    (printing,) = [content for language, content in blocks("docs/sources.md") if language == "python"]
    addresses = execute("python", printing, tmp_path).split()
    assert all(one.startswith("http://a.org/") for one in addresses)
    shown = shardmill.inspect(tmp_path / "my-run", "clm", row=7)["documents"]
    assert addresses == [document["record"]["url"] for document in shown]


def test_a_filter_of_a_column_without_sources_is_refused_as_the_page_says(tmp_path: Path) -> None:
    _write_library(tmp_path)
    (content,) = [one for one in run_files("docs/sources.md") if "filters" in one]
    del content["filters"][0]["sources"]
    with pytest.raises(
        ConfigError, match="has no columns, and a filter reads column 'quality'; set the"
    ):
        run_it(tmp_path, {**SMALL, **LACKING, **content})


def _paths_read(folder: Path, source: str) -> set[str]:
    """Return the files of which a source gave documents to `my-run`."""
    places = (folder / "my-run" / "ingest" / source).glob("*/documents.parquet")
    return {path for place in places for path in pq.read_table(place).column("path").to_pylist()}


def _write_folder(folder: Path) -> dict[str, str]:
    """Write the files of the page's folder; return what it says of each."""
    text = next(content for kind, content in blocks("docs/sources.md") if kind == "text")
    listed = dict(re.split(r" {2,}", line.strip(), maxsplit=1) for line in text.splitlines())
    for name in listed:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        written = f"The text of {name}."
        lines = json.dumps({"text": written}) + "\n"
        (folder / name).write_text(lines if name.endswith(".jsonl") else written)
    return listed


def _write_library(folder: Path) -> None:
    """Write records, of which half are of low quality, and a plain text of each ending."""
    (folder / "library" / "deep").mkdir(parents=True)
    records = [
        {"id": str(n), "text": f"Record {n} of the library.", "url": "", "quality": n / 5}
        for n in range(4)
    ]
    pq.write_table(pa.Table.from_pylist(records), folder / "library" / "deep" / "b.parquet")
    for name in ("a.txt", "deep/a.md", "deep/a.html"):
        (folder / "library" / name).write_text(f"A plain text, which lies in {name}.")


def _write_records(folder: Path) -> None:
    """Write crawled texts as a table, and pairs of which one lacks its second text."""
    for name in ("crawl", "pairs"):
        (folder / name).mkdir()
    texts = [json.loads(line)["text"] for line in bundled_lines("text/*", 8)]
    records = [
        {"id": str(n), "text": text, "url": f"http://a.org/{n}", "license": "", "meta": {"quality": n}}
        for n, text in enumerate(texts)
    ]
    pq.write_table(pa.Table.from_pylist(records), folder / "crawl" / "a.parquet")
    pairs = [{"id": n, "translation": {"en": f"Text {n} here.", "fr": f"Texte {n}."}} for n in range(9)]
    del pairs[8]["translation"]["fr"]  # type: ignore[attr-defined]
    lines = "".join(json.dumps(pair) + "\n" for pair in pairs)
    (folder / "pairs" / "a.jsonl").write_text(lines, encoding="utf-8")


def test_the_page_of_limits_lists_every_ending_that_is_read() -> None:
    page = (ROOT / "docs" / "limits.md").read_text(encoding="utf-8")
    said = set(re.findall(r"`(\.[a-z]+)`", page[page.index("## Input") : page.index("- **Places.**")]))
    endings = {ending for reader in READERS for ending in reader.endings} - set(ALL_CODE_ENDINGS)
    assert said == endings | {*COMPRESSIONS, ".py", ".java"}
