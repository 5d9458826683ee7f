"""What the page of the format promises: its tables and golden values are the code's."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from types import UnionType
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from pydantic import BaseModel

from pipeline.steps.scan.files import ScannedFile
from stages import columns
from stages.config import meanings_of
from stages.decontamination import tables
from stages.identity import document_id
from stages.interleaving import LEVELS
from stages.loading.interleaved import InterleavedOrder, InterleavedRows
from stages.loading.order import MAX_SORTED, shuffled
from stages.objectives.clm.config import CausalLM
from stages.objectives.drawing import draw_material, draw_plainly
from stages.objectives.fim.characters import Spelling
from stages.objectives.material import Material
from stages.objectives.rows import IGNORED, StoredRows, Widths
from stages.objectives.span_corruption.config import SpanCorruption, span_lengths
from stages.objectives.table import KINDS, read_objective, resolve, traits_of
from stages.objectives.ul2.kind import UL2, denoisers
from stages.objectives.vocabulary import vocabulary_of
from stages.objectives.whole_shard import WholeShard
from stages.packing.best_fit import pack_best_fit
from stages.ragged import ragged_of
from stages.reading.checked import BLOCK_BYTES
from stages.seeding import Key, Purpose, document_hash, draw_u64
from stages.store import digests, drawn, manifest
from stages.store.arrays import id_dtype
from stages.tokenizer.special import num_reserved, special_ids
from tests.docs.generated_pages import clean
from tests.docs.test_docs import ROOT
from tests.material.every_kind import TAGS

MIXTURE = "mixture"
"""The kind of which all depends on its components."""
FORMAT = ROOT / "docs" / "format.md"
SCHEMAS = {
    **{name: value for name, value in vars(columns).items() if isinstance(value, pa.Schema)},
    **{name: getattr(tables, name) for name in ("CONTAMINATED", "JUDGED_ITEMS")},
}
MODELS = (
    *(
        manifest.Manifest,
        manifest.Lineage,
        manifest.TokenizerFile,
        manifest.Column,
        manifest.Shard,
        manifest.Totals,
    ),
    *(digests.FileDigest, drawn.DrawnManifest, drawn.DrawnShard),
)


def table_after(mark: str) -> list[list[str]]:
    """Return the cells of the table that follows a comment in docs/format.md, without back quotes."""
    after = FORMAT.read_text(encoding="utf-8").split(f"<!-- {mark} -->\n\n")
    assert len(after) == 2, mark
    lines = after[1].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip().replace("`", "") for cell in line.strip("|").split("|")] for line in lines]


def type_name(annotation: Any) -> str:
    """Return how a table names the type of a field: dict[str, int] | None -> dict, nullable."""
    if isinstance(annotation, UnionType):
        (some,) = (part for part in get_args(annotation) if part is not type(None))
        return f"{type_name(some)}, nullable"
    return str(annotation.__name__)


@pytest.mark.parametrize("name", SCHEMAS)
def test_tables_of_columns_equal_the_schemas(name: str) -> None:
    schema = SCHEMAS[name]
    expected = [[f.name, f"{f.type}{', nullable' if f.nullable else ''}"] for f in schema]
    assert [row[:2] for row in table_after(f"schema: {name}")] == expected


@pytest.mark.parametrize("model", MODELS)
def test_tables_of_the_manifest_equal_the_models(model: type[BaseModel]) -> None:
    rows = table_after(f"model: {model.__name__}")
    types = [type_name(f.annotation) for f in model.model_fields.values()]
    assert [row[:2] for row in rows] == [list(p) for p in zip(model.model_fields, types, strict=True)]
    meanings = meanings_of(model)
    for name, _, meaning in rows:
        assert name not in meanings or clean(meanings[name]).replace("`", "") == meaning


def test_the_table_of_what_is_scanned_equals_the_code() -> None:
    rows = table_after("record: ScannedFile")
    assert [name for name, _, _ in rows] == list(ScannedFile.model_fields)
    assert f"of each block of {BLOCK_BYTES:,} bytes" in FORMAT.read_text(encoding="utf-8")


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
    draws, tags = table_after("golden draws"), {int(tag): tag for tag in TAGS}
    for seed, epoch, shard, tag, row, block, first, second in draws:
        key = Key(int(seed), int(epoch), int(shard), tags[int(tag)])
        values = draw_u64(key, np.array([row], np.uint64), block=int(block))[0]
        assert [f"{int(value):016x}" for value in values] == [first, second]
    assert {int(draw[3]) for draw in draws} == tags.keys(), (
        "docs/format.md has a golden draw of each tag"
    )


def test_the_table_of_tags_has_every_number_once() -> None:
    page = FORMAT.read_text(encoding="utf-8")
    table = page[page.index("| tag | of |") : page.index("The fields of the counter have these")]
    found: list[int] = []
    for cell in re.findall(r"^\| ([0-9., ]+) \|", table, re.MULTILINE):
        first, _, last = cell.partition(" .. ")
        found += range(int(first), int(last) + 1) if last else map(int, cell.split(", "))
    assert sorted({*found} - {2, 3}) == sorted(map(int, TAGS)), "docs/format.md has a row for each tag"
    assert len(set(found)) == len(found)


def golden_columns(objective: Mapping[str, object]) -> dict[str, NDArray[np.integer]]:
    """Return the columns of the row that the page describes."""
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
    widths, read = Widths(*[length] * 3), read_objective(objective)
    if not traits_of(read).written_for:
        columns = draw_plainly(rows, read, vocabulary, widths)
    else:
        rows, material = golden_material(rows, in_halves=read.kind == "sop")
        columns = draw_material(rows, read, vocabulary, widths, material=material)
    return {name: column[0] for name, column in columns.items()}


def golden_material(rows: StoredRows, *, in_halves: bool) -> tuple[StoredRows, Material]:
    """Return the row as the page describes it for kinds that need more than it, and what they need."""
    halves = [8, 9] if in_halves else [17]
    ids = np.full((5, 24), special_ids()["pad"], np.uint16)
    ids[0, :9], ids[4] = [*range(550, 558), special_ids()["eos"]], rows.input_ids[0]
    segments = {
        "row_ptr": np.array([0, 1, 1, 1, 1, 1 + len(halves)]),
        "start": np.array([0, 0, 8][: 1 + len(halves)]),
        "length": np.array([9, *halves]),
        "doc": np.array([0, 1, 1][: 1 + len(halves)]),
        "doc_offset": np.array([0, 0, 8][: 1 + len(halves)]),
    }
    shard = WholeShard(ids, segments, 2, sentences=ragged_of([[4, 9], [8, 17]]))
    named = replace(
        rows,
        segment_ptr=np.array([0, len(halves)]),
        segment_length=np.array(halves),
        room=np.array([5], np.int32),
    )
    pieces = [chr(number).encode() if number >= num_reserved() else b"" for number in range(600)]
    spelling = Spelling(pieces, lambda texts: [np.array([*map(ord, text)], np.uint16) for text in texts])
    return named, Material(shard, spelling)


def written(columns: Mapping[str, NDArray[np.integer]]) -> list[str]:
    """Return inputs and labels as the page has them: without what fills them up, . for no loss."""
    found = []
    for name, filling in (("input_ids", special_ids()["pad"]), ("labels", IGNORED)):
        views = np.atleast_2d(columns.get(name, np.empty((0, 0), np.int32)))
        kept = [view[: np.max(np.nonzero(view != filling)) + 1].tolist() for view in views]
        texts = [" ".join("." if value == IGNORED else str(value) for value in view) for view in kept]
        found.append(", ".join(texts))
    return found


def test_golden_rows_are_what_is_drawn_of_every_kind() -> None:
    objectives = [json.loads(objective) for objective, *_ in table_after("golden rows")]
    expected = [row[1:] for row in table_after("golden rows")]
    assert [written(golden_columns(objective)) for objective in objectives] == expected
    there = {objective["kind"] for objective in objectives} | {CausalLM().kind}
    assert there == KINDS.keys(), "docs/format.md has a golden row of each kind"


FORMS: dict[str, dict[str, Any]] = {
    "": {},
    "encoder_decoder": {"architecture": "encoder_decoder"},
    "pack_documents": {"pack_documents": True},
}
"""Of the kinds that have several, by how the page names them."""


def test_the_table_of_objectives_equals_the_code() -> None:
    found = set()
    for named, attention, convention, columns_ in table_after("kinds"):
        kind, _, form = named.partition(", ")
        found.add(kind)
        if kind == MIXTURE:
            assert (attention, convention) == ("of its components", "of its components")
            continue
        content = {"kind": kind, **FORMS[form]}
        traits = traits_of(read_objective(content))
        assert (attention, convention) == (traits.attention, traits.label_convention), named
        assert set(re.findall(r"[a-z]+_?[a-z]+_?[a-z]+", columns_)) == golden_columns(content).keys()
    assert found == KINDS.keys(), f"docs/format.md, table of kinds: rows of {found ^ KINDS.keys()}"


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
    orders = table_after("golden orders")
    for rows, epoch, begin in orders:
        wanted = [int(row) for row in begin.split()]
        positions = np.arange(len(wanted))
        assert shuffled(positions, int(rows), seed=7, epoch=int(epoch)).tolist() == wanted
    assert {int(rows) <= MAX_SORTED for rows, _, _ in orders} == {True, False}


def test_the_dealt_orders_equal_the_code() -> None:
    deals = table_after("golden deals")
    for *shards, epoch, begin in deals:
        wanted = [int(row) for row in begin.split()]
        order = InterleavedOrder(
            InterleavedRows([source_rows(shard) for shard in shards]), seed=7, epoch=int(epoch)
        )
        assert order.rows(np.arange(len(wanted))).tolist() == wanted
    assert len(deals) == 4


def source_rows(listed: str) -> dict[str, tuple[int, ...]]:
    """Return the numbers of rows of a shard: "a 9 + 3" are 9 full ones of source a and 3 empty ones."""
    found = {}
    for name, full, empty in re.findall(r"(\w) (\d+)(?: \+ (\d+))?", listed):
        found[name] = (int(empty or 0), *[0] * (LEVELS - 2), int(full))
    return found


def test_the_lengths_of_the_page_of_objectives_are_the_codes() -> None:
    text = (ROOT / "docs" / "objectives.md").read_text(encoding="utf-8")
    row = re.compile(r"^\| `([rsx]\w*)`.* \| ([\d,]+) \| (\d+) \|$", re.MULTILINE)
    listed = {
        name: (int(stored.replace(",", "")), int(labels)) for name, stored, labels in row.findall(text)
    }
    found: dict[str, tuple[int, int]] = {}
    for config in (UL2(), UL2(preset="ul2r")):
        widths = [part.widths for part in resolve(config, 512).parts]
        found |= {
            each.name: (w.stored, w.labels) for each, w in zip(denoisers(config), widths, strict=True)
        }
    assert listed == found
    assert span_lengths(SpanCorruption(), 512) == Widths(stored=568, inputs=512, labels=114)
    assert "up to 568 tokens, of which 512 are inputs and 114 targets" in " ".join(text.split())
