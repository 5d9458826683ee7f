"""What the documentation promises.

Every block of the README runs, in order, from a folder that holds nothing but `examples`; docs/cli.md
and docs/config.md are what the code says of itself; the tables and golden values of docs/format.md are
the code's; every link leads somewhere.

    python tests/docs/test_docs.py      rewrites docs/cli.md and docs/config.md
"""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import annotated_types
import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pydantic import BaseModel, ByteSize
from typer.testing import CliRunner

from pipeline import cli
from pipeline.config import Dataset, Dedup, Ingest, Resources, RunFile, Source, TokenizerSection
from stages import columns
from stages.dedup.lsh import MinHashConfig
from stages.identity import document_id
from stages.loading.order import shuffled
from stages.mixing.placement import ValidationConfig
from stages.objectives.clm import IGNORED, CausalLM
from stages.objectives.drawing import draw_plainly
from stages.objectives.rows import StoredRows, Widths
from stages.objectives.table import KINDS, read_objective
from stages.objectives.vocabulary import vocabulary_of
from stages.packing.best_fit import pack_best_fit
from stages.packing.layout import PackingConfig
from stages.reading.records import LanguageColumn
from stages.seeding import Key, Purpose, Tag, document_hash, draw_u64
from stages.store import digests, manifest
from stages.store.arrays import id_dtype
from stages.tokenizer.special import special_ids
from stages.tokenizer.train import TrainConfig
from stages.verify.gates import LearningConfig

ROOT = Path(__file__).resolve().parents[2]
FORMAT = ROOT / "docs" / "format.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = ("plan", "run", "status", "verify", "inspect", "schema")
REWRITE = "{0} is not what the code says; run: python tests/docs/test_docs.py"
HEADER_BYTES = 128
Followed = tuple[Path, str]
"""The folder of someone who did what the README says, and all that they saw."""

SCHEMAS = [name for name, value in vars(columns).items() if isinstance(value, pa.Schema)]
MODELS = (
    *(manifest.Manifest, manifest.TokenizerFile, manifest.Column, manifest.Shard, manifest.Totals),
    digests.FileDigest,
)
SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("", RunFile),
    ("[[sources]]", Source),
    ("[sources.language]", LanguageColumn),
    ("[resources]", Resources),
    ("[ingest]", Ingest),
    ("[dedup]", Dedup),
    ("[dedup.minhash]", MinHashConfig),
    ("[tokenizer]", TokenizerSection),
    ("[tokenizer.train]", TrainConfig),
    ("[validation]", ValidationConfig),
    ("[packing]", PackingConfig),
    ("[[datasets]]", Dataset),
    *((f'[datasets.objective] with kind = "{kind}"', model) for kind, model in KINDS.items()),
    ("[verify]", LearningConfig),
)
"""The tables of a run file in the order of a run."""

CONFIG_HEAD = """\
# The run file

Generated from the code by `python tests/docs/test_docs.py`.

A run file is TOML. Only `sources` and `datasets` are required. Unknown keys are refused. Paths are
relative to the run file. Sizes are numbers of bytes or strings such as `"64MiB"` and `"500MB"`. Names of
sources and datasets are letters, digits, `_` and `-`, and no two are the same. `shardmill schema` prints
the JSON schema. `--set KEY=VALUE` changes one key for a trial, such as `--set packing.seq_len=1024`.

`language` of a source is a string, one language for all of it, or the table `[sources.language]`.
`near` of `[dedup]` needs `exact`. A dataset's own `packing` sets `seq_len` and `strategy`; `shards` and
`shard_size` are always the run's, since all datasets are made from one token store. What the objectives
are for, and how to choose one: [objectives.md](objectives.md).
"""


def clean(text: str) -> str:
    """Give a docstring as one line of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def size_of(value: int) -> str:
    """1048576 -> 1MiB."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value and value % (1 << shift) == 0:
            return f"{value >> shift}{unit}"
    return str(value)


def type_of(annotation: Any) -> str:
    """Give the name of a field's type as a run file's author knows it."""
    if get_origin(annotation) is Literal:
        return " or ".join(f'"{value}"' for value in get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, StrEnum):
        return " or ".join(f'"{value}"' for value in annotation)
    if get_origin(annotation) is tuple:
        return f"array of {type_of(get_args(annotation)[0])}s"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    if parts := get_args(annotation):
        names = [type_of(part) for part in parts if part is not type(None)]
        return " or ".join(dict.fromkeys(names))
    return {ByteSize: "size", str: "string", int: "integer", float: "number", bool: "boolean"}[
        annotation
    ]


def default_of(field: Any) -> str:
    """Give a field's default in TOML."""
    if field.is_required():
        return "required"
    value = field.default
    if value is None or isinstance(value, BaseModel):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if field.annotation is ByteSize:
        return f'"{size_of(value)}"'
    return (
        f'"{value}"'
        if isinstance(value, str)
        else f"{value:_}"
        if isinstance(value, int)
        else str(value)
    )


def bounds_of(field: Any) -> str:
    """Give a field's bounds."""
    shown = size_of if field.annotation is ByteSize else lambda value: f"{value}"
    texts = []
    for bound in field.metadata:
        if isinstance(bound, annotated_types.MinLen):
            texts.append("not empty")
        for name, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<")):
            if hasattr(bound, name):
                texts.append(f"{sign} {shown(getattr(bound, name))}")
    return ", ".join(texts)


def meaning_of(field: Any) -> str:
    """Give what a field is for; a table without a word of its own has its class's."""
    models = [kind for kind in (field.annotation, *get_args(field.annotation)) if isinstance(kind, type)]
    documents = [kind.__doc__ or "" for kind in models if issubclass(kind, BaseModel)]
    return clean(field.description or "".join(documents) or "Which one it is.")


def render_config() -> str:
    """Give docs/config.md."""
    parts = [CONFIG_HEAD]
    for name, model in SECTIONS:
        parts.append(f"## `{name}`\n\n{clean(model.__doc__ or '')}\n" if name else "## Top level\n")
        rows = [
            f"| `{key}` | {type_of(field.annotation)} | {default_of(field)} | {bounds_of(field)} |"
            f" {meaning_of(field)} |"
            for key, field in model.model_fields.items()
        ]
        head = "| key | type | default | bounds | meaning |\n|---|---|---|---|---|\n"
        parts.append(head + "\n".join(rows) + "\n")
    return "\n".join(parts)


def render_cli() -> str:
    """Give docs/cli.md: the help texts at a fixed width, without colours."""
    parts = ["# The command line\n\nGenerated from the code by `python tests/docs/test_docs.py`.\n"]
    for command in ("", *COMMANDS):
        environment = {"COLUMNS": "100", "NO_COLOR": "1"}
        arguments = [*command.split(), "--help"]
        result = CliRunner().invoke(cli.app, arguments, prog_name="shardmill", env=environment)
        assert result.exit_code == 0, result.output
        parts.append(f"## shardmill {command}".rstrip() + f"\n\n```text\n{result.output.strip()}\n```\n")
    codes = (cli.__doc__ or "").split("Exit codes: ")[1].strip().rstrip(".").split("; ")
    rows = [f"| {code.partition(' ')[0]} | {clean(code.partition(' ')[2])} |" for code in codes]
    parts.append("## Exit codes\n\n| code | meaning |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


RENDERED = {"docs/cli.md": render_cli, "docs/config.md": render_config}


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """Give the language and content of each fenced block of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        yield match[1], match[2]


def table_after(mark: str) -> list[list[str]]:
    """Give the cells of the table that follows a comment in docs/format.md, without back quotes."""
    after = FORMAT.read_text(encoding="utf-8").split(f"<!-- {mark} -->\n\n")
    assert len(after) == 2, mark
    lines = after[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def execute(language: str, content: str, folder: Path) -> str:
    """Do what a block says in a folder; give what it prints."""
    if language == "toml":
        (folder / content.splitlines()[0].removeprefix("# ")).write_text(content, encoding="utf-8")
        return ""
    command = ["bash", "-euc", content] if language == "sh" else [sys.executable, "-c", content]
    binaries = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{binaries}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, f"{content}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    """Do what the README says, block by block."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "examples").symlink_to(ROOT / "examples")
    runnable = [block for block in blocks("README.md") if block[0] in ("toml", "sh", "python")]
    assert {language for language, _ in runnable} == {"toml", "sh", "python"}
    return folder, "".join(execute(*block, folder) for block in runnable)


def test_every_block_of_the_readme_runs_and_ends_in_verified_shards(followed: Followed) -> None:
    folder, printed = followed
    assert printed.count("verify clm: PASS") == 2
    for expected in ("'similarity': ", "'input_ids': (512,)", "step     2  loss"):
        assert expected in printed
    assert (folder / "first-run" / "report" / "report.html").exists()


def test_the_tree_in_the_readme_is_what_a_run_leaves(followed: Followed) -> None:
    output = followed[0] / "first-run"
    tree = next(content for _, content in blocks("README.md") if content.startswith("first-run/"))
    tree = tree.partition("\n")[2]
    named = set(re.findall(r"(?:^|  )(\w+)/", tree, re.MULTILINE))
    named |= set(re.findall(r"\b(\w+\.jsonl?)\b", tree))
    there = {path.name for path in output.iterdir()} | {p.name for p in output.rglob("*.json")}
    assert len(named) > 10
    assert named <= there
    assert {path.name for path in output.iterdir()} <= named | {"lock"}


@pytest.mark.parametrize("page", ["docs/format.md", "docs/objectives.md"])
def test_every_block_of_the_other_pages_runs_on_those_datasets(followed: Followed, page: str) -> None:
    found = [content for language, content in blocks(page) if language == "python"]
    assert found
    for content in found:
        execute("python", content, followed[0])


def test_arrays_have_the_headers_and_sizes_of_the_format_page(followed: Followed) -> None:
    checked = 0
    for place in (followed[0] / "first-run" / "datasets").rglob("dataset.json"):
        content = manifest.read_manifest(place.parent)
        for shard in content.shards:
            data = (place.parent / shard.path / "input_ids.npy").read_bytes()
            assert data[:10] == b"\x93NUMPY\x01\x00\x76\x00"
            assert len(data) == HEADER_BYTES + shard.rows * content.seq_len * 2
            assert data[10:HEADER_BYTES].endswith(b" \n")
            checked += 1
    assert checked > 1


@pytest.mark.parametrize("page", RENDERED)
def test_generated_pages_equal_the_code(page: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == RENDERED[page](), REWRITE.format(page)


def test_the_config_page_has_every_table() -> None:
    pending: list[Any] = [RunFile]
    found: set[Any] = set()
    while pending:
        kind = pending.pop()
        pending += get_args(kind)
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            found.add(kind)
            pending += [field.annotation for field in kind.model_fields.values()]
    assert found == {model for _, model in SECTIONS}


@pytest.mark.parametrize("name", SCHEMAS)
def test_tables_of_columns_equal_the_schemas(name: str) -> None:
    schema = getattr(columns, name)
    expected = [[f.name, f"{f.type}{', nullable' if f.nullable else ''}"] for f in schema]
    assert [row[:2] for row in table_after(f"schema: {name}")] == expected


@pytest.mark.parametrize("model", MODELS)
def test_tables_of_the_manifest_equal_the_models(model: type[BaseModel]) -> None:
    rows = table_after(f"model: {model.__name__}")
    types = [getattr(f.annotation, "__name__", "") for f in model.model_fields.values()]
    assert [row[:2] for row in rows] == [list(p) for p in zip(model.model_fields, types, strict=True)]
    for (_, _, meaning), field in zip(rows, model.model_fields.values(), strict=True):
        assert field.description is None or clean(field.description).replace("`", "") == meaning


def test_the_table_of_dtypes_equals_the_code() -> None:
    text = FORMAT.read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `segments/(\w+)\.npy` \| `(\S+)` \|", text, re.MULTILINE))
    assert rows == manifest.SEGMENT_COLUMNS
    assert [id_dtype(size).str for size in (65_536, 65_537)] == ["<u2", "<i4"]
    assert "| `input_ids.npy` | `<u2` or `<i4` |" in text


def test_golden_values_equal_the_code() -> None:
    ((source, path, position, identity),) = table_after("golden ids")
    named = document_id(source, path, int(position))
    assert named.hex() == identity
    hashes = {purpose: value for purpose, value in table_after("golden hashes")}  # noqa: C416  # checks the width
    assert hashes == {p.value: f"{document_hash(named, 7, purpose=p):016x}" for p in Purpose}
    draws = table_after("golden draws")
    for seed, epoch, shard, tag, row, block, first, second in draws:
        key = Key(int(seed), int(epoch), int(shard), Tag(int(tag)))
        drawn = draw_u64(key, np.array([row], np.uint64), block=int(block))[0]
        assert [f"{int(value):016x}" for value in drawn] == [first, second]
    assert {int(draw[3]) for draw in draws} == set(Tag)


def golden_columns(objective: Mapping[str, object]) -> dict[str, NDArray[np.integer]]:
    """Give the columns of the row that the page describes."""
    length, size = 24, 600
    starts_word = (np.arange(size) % 2 == 0) & (np.arange(size) >= 526)
    stored = np.full((1, length), special_ids()["pad"], np.uint16)
    stored[0, :17] = [*range(530, 546), special_ids()["eos"]]
    rows = StoredRows(
        stored,
        np.array([0, 1]),
        np.array([17]),
        np.array([4]),
        seed=7,
        epoch=1,
        shard=2,
        components=np.array([3], np.uint8),
        unigram=np.cumsum(np.isin(np.arange(size), stored[0, :16])),
    )
    vocabulary = vocabulary_of(size, special_ids(), starts_word)
    columns = draw_plainly(rows, read_objective(objective), vocabulary, Widths(*[length] * 3))
    return {name: column[0] for name, column in columns.items()}


def written(columns: Mapping[str, NDArray[np.integer]]) -> list[str]:
    """Give inputs and labels as the page has them: without what fills them up, . for no loss."""
    found = []
    for name, filling in (("input_ids", special_ids()["pad"]), ("labels", IGNORED)):
        views = np.atleast_2d(columns.get(name, np.empty((0, 0), np.int32)))
        kept = [view[: np.max(np.nonzero(view != filling)) + 1].tolist() for view in views]
        texts = [" ".join("." if value == IGNORED else str(value) for value in view) for view in kept]
        found.append(", ".join(texts))
    return found


def test_golden_rows_are_what_is_drawn_of_every_kind() -> None:
    drawn = [json.loads(objective) for objective, *_ in table_after("golden rows")]
    expected = [row[1:] for row in table_after("golden rows")]
    assert [written(golden_columns(objective)) for objective in drawn] == expected
    assert {objective["kind"] for objective in drawn} | {CausalLM().kind} == KINDS.keys()


def test_special_ids_and_the_drawn_layout_equal_the_code() -> None:
    names = list(special_ids())
    for span, listed in table_after("special ids"):
        first, last = map(int, span.split(" .. "))
        wanted = re.findall(r"\w+", listed)
        assert names[first : last + 1] == wanted or [names[first], names[last]] == wanted
    layout = pack_best_fit(np.array([3, 6, 1, 2]), row_length=4)
    text = FORMAT.read_text(encoding="utf-8")
    for name in manifest.SEGMENT_COLUMNS:
        assert f"{name} {' '.join(map(str, getattr(layout, name)))}" in re.sub(" +", " ", text)
    order = shuffled(np.arange(9), 9, seed=7, epoch=0)
    assert sorted(order) == list(range(9))


def test_the_table_of_dependencies_equals_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["run"]]
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    listed = re.findall(
        r"^\| (\w+) \| (?:run|run, torch)? ?\|", text.split("## Dependencies")[1], re.MULTILINE
    )
    assert sorted(listed) == sorted(re.split(r"\W", name)[0] for name in wanted)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            assert (page.parent / target.split("#")[0]).exists(), f"{page.name}: {target}"


def test_console_blocks_name_targets_of_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    shown = [
        block
        for page in ("README.md", "CONTRIBUTING.md")
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
