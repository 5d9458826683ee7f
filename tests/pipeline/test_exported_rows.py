"""What exports of a real run promise: a collator that shows each row what the loader's masks show.

Kept texts are exported whole: those of the last step that decides what is kept, each once.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import shardmill
from pipeline.steps.units import kept_groups
from pipeline.tools.export import texts as export_texts
from pipeline.tools.export.folder import read_summary
from stages.errors import ConfigError, FormatError
from stages.export.collator import collator
from stages.export.source import open_source
from stages.export.table import FORMATS, select
from stages.objectives.rows import IGNORED
from tests.called import called
from tests.campaign import FULL
from tests.conftest import run_small
from tests.stages.export.rows_on_disk import READERS, write_export

OBJECTIVES: dict[str, dict[str, Any]] = {
    "clm": {"kind": "clm"},
    "prefix": {"kind": "prefix_lm"},
    "packed_prefix": {"kind": "prefix_lm", "pack_documents": True},
    "mlm": {"kind": "mlm"},
    "span_corruption": {"kind": "span_corruption"},
    "simcse": {"kind": "simcse"},
}
CASES = [
    (name, format_)
    for number, name in enumerate(OBJECTIVES)
    for format_ in (("hf", "mds") if number % 2 else ("mds", "hf"))
]
"""Each objective in both formats; half of them has each objective, in one or the other."""
ROWS = 12


@pytest.fixture(scope="module")
def run(small_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run with a dataset for each attention."""
    output = tmp_path_factory.mktemp("exported") / "run"
    datasets = [{"name": name, "objective": one} for name, one in OBJECTIVES.items()]
    repeated = {"substrings": {"min_bytes": 200}}
    run_small(small_corpus, output, datasets=datasets, packing={"seq_len": 64}, dedup=repeated)
    return output


def collate_of(code: str) -> Any:
    """Return the function that Python of a page defines."""
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  # as a user pastes it
    return names["collate"]


@pytest.mark.parametrize(("name", "format_"), CASES if FULL else CASES[::2])
def test_the_collator_shows_what_the_masks_of_the_loader_show(
    run: Path, tmp_path: Path, *, name: str, format_: str
) -> None:
    known = FORMATS[format_]
    source = select(known, open_source(run / "datasets" / name, split="train"), ())
    write_export(known, source, tmp_path)
    columns = READERS[format_](tmp_path / "train")
    rows = [{key: column[n] for key, column in columns.items()} for n in range(ROWS)]
    code = collator(source)
    assert code is not None
    batch = collate_of(code)(rows)
    plain = shardmill.open_dataset(run / "datasets" / name, shuffle=False)
    loaded = {key: torch.from_numpy(column) for key, column in plain.batch(range(ROWS)).items()}
    assert {column.dtype for key, column in batch.items() if key != "attention_mask"} == {torch.int64}
    ids = loaded["input_ids"].flatten(0, -2)
    assert torch.equal(batch["input_ids"], ids)
    masks = shardmill.dense_masks(loaded, plain.manifest.attention)
    mask = batch["attention_mask"]
    if mask.dim() == 2:  # of padding alone: an encoder sees all that is none
        encoder = masks["encoder_mask" if "encoder_mask" in masks else "attention_mask"]
        shown = (mask[:, None, :] * mask[:, :, None]).bool()
        tokens = mask.bool()
        assert torch.equal(encoder[:, 0] & tokens[:, :, None], shown)
        return
    tokens = loaded["segment_ids"] >= 0
    shown = mask[:, 0] == 0
    assert torch.equal(shown & tokens[:, :, None], masks["attention_mask"][:, 0] & tokens[:, :, None])
    assert shown.any(dim=-1).all(), "padding sees something, or a softmax is over nothing"
    assert (mask[:, 0][~shown] == torch.finfo(torch.float32).min).all(), "what is added to scores"
    half = collate_of(code)(rows, torch.bfloat16)["attention_mask"]
    assert half.dtype == torch.bfloat16
    assert torch.equal(half == 0, mask == 0)
    assert torch.isfinite(half).all()
    labels = loaded["labels"].clone()
    if plain.manifest.label_convention == "unshifted" and name != "prefix":
        labels[loaded["position_ids"] == 0] = IGNORED
    assert torch.equal(batch["labels"], labels)


def test_columns_are_narrow_and_chosen(run: Path, tmp_path: Path) -> None:
    sizes = {}
    for columns in ((), ("tokens",)):
        to = tmp_path / f"mds{len(columns)}"
        report = shardmill.export(run, "clm", "mds", to, split="train", columns=columns)
        read = READERS["mds"](to / "train")
        sizes[columns] = sum(column[0].nbytes for column in read.values()) / 64
        assert columns in ((), tuple(read))
        blocks = re.findall(r"```python\n(.*?)\n```", (to / "READ.md").read_text("utf-8"), re.DOTALL)
        code = collator(
            select(FORMATS["mds"], open_source(run / "datasets/clm", split="train"), columns)
        )
        assert (code in blocks) is not bool(columns)
    assert sizes == {(): 2 + 2 + 1 + 1 + 2, ("tokens",): 2}
    plain = shardmill.open_dataset(run / "datasets" / "clm", shuffle=False).batch(range(ROWS))
    assert (read["tokens"][:ROWS] == plain["input_ids"]).all()
    assert report["files"]


@pytest.mark.parametrize(
    ("format_", "columns", "said"),
    [
        ("hf", "input_idz", "did you mean 'input_ids'"),
        ("megatron", "input_ids", "holds documents, which have no columns"),
        ("text-jsonl", "input_ids", "holds the texts that the run kept"),
    ],
)
def test_columns_that_are_not_there_are_refused(
    run: Path, tmp_path: Path, *, format_: str, columns: str, said: str
) -> None:
    words = ("export", str(run), "--format", format_, "--columns", columns, "--to", "out")
    dataset = () if format_.startswith("text") else ("--dataset", "clm")
    done = called(*words, *dataset, cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_other_columns_are_another_export(run: Path, tmp_path: Path) -> None:
    shardmill.export(run, "clm", "hf", tmp_path / "out", columns=["input_ids"])
    with pytest.raises(ConfigError, match="columns: input_ids there, attention_mask, input_ids, lab"):
        shardmill.export(run, "clm", "hf", tmp_path / "out")


def kept_texts(run: Path) -> dict[str, str]:
    """Return the texts of all kept documents by id: those that the report counts."""
    found = {}
    for table_at in sorted(run.glob("ingest/*/*/documents.parquet")):
        unit = "/".join(table_at.parts[-3:-1])
        table = pq.read_table(table_at)
        mask = np.load(run / "cut" / "keep" / f"{unit}.npy")
        cuts = pq.read_table(run / "cut" / "ranges" / f"{unit}.parquet").to_pylist()
        gone = {cut["row"]: list(zip(cut["starts"], cut["ends"], strict=True)) for cut in cuts}
        for number, row in enumerate(table.select(["id", "text"]).to_pylist()):
            text = row["text"].encode()
            for start, end in reversed(gone.get(number, [])):
                text = text[:start] + text[end:]
            if mask[number]:
                found[row["id"].hex()] = text.decode()
    return found


@pytest.mark.parametrize("format_", ["text-parquet", "text-jsonl"])
def test_the_texts_are_those_that_were_kept(run: Path, tmp_path: Path, format_: str) -> None:
    report = shardmill.export_texts(run, format_, tmp_path / "out")
    rows = [
        row
        for name in report["files"]
        for row in (
            pq.read_table(tmp_path / "out" / name).to_pylist()
            if name.endswith(".parquet")
            else map(orjson.loads, (tmp_path / "out" / name).read_bytes().splitlines())
            if name.endswith(".jsonl")
            else ()
        )
    ]
    wanted = kept_texts(run)
    assert len(wanted) > 100
    assert {row["id"]: row["text"] for row in rows} == wanted
    assert len(rows) == len(wanted)
    assert f"{len(rows):,} documents" in report["contents"][0]
    assert {"text", "id", "own_id", "source", "language", "path", "position"} == rows[0].keys()
    summary = read_summary(tmp_path / "out")
    assert summary is not None
    identity = summary.identity
    assert (identity.format, identity.dataset, identity.epoch) == (format_, "", 0), "earlier ones go on"
    again = shardmill.export_texts(run, format_, tmp_path / "again")
    assert again["files"] == report["files"]
    assert shardmill.export_texts(run, format_, tmp_path / "out")["already"]


def test_a_document_that_is_not_written_is_an_error(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shorter(*arguments: Any) -> Iterator[pa.Table]:
        return (table.slice(1) for table in kept_groups(*arguments))

    monkeypatch.setattr(export_texts, "kept_groups", shorter)
    with pytest.raises(FormatError, match=r"documents were written to .*\.jsonl, but step .* kept"):
        shardmill.export_texts(run, "text-jsonl", tmp_path / "out")
    assert not (tmp_path / "out" / "export.json").exists()


def test_texts_need_no_more_of_a_run_than_deduplication(small_corpus: Path, tmp_path: Path) -> None:
    run_small(small_corpus, tmp_path / "run", until="ingest")
    with pytest.raises(ConfigError, match=r"step dedup is not done.*--until dedup"):
        shardmill.export_texts(tmp_path / "run", "text-jsonl", tmp_path / "out")
    run_small(small_corpus, tmp_path / "run", until="dedup")
    assert shardmill.export_texts(tmp_path / "run", "text-jsonl", tmp_path / "out")["bytes"] > 0
    (tmp_path / "out" / "export.json").unlink()
    (table,) = list((tmp_path / "run").glob("ingest/*/*/documents.parquet"))[:1]
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(bytes(data))
    with pytest.raises(FormatError, match="is not the file that the run committed"):
        shardmill.export_texts(tmp_path / "run", "text-jsonl", tmp_path / "other")


def test_a_format_of_texts_is_named_among_the_others(run: Path, tmp_path: Path) -> None:
    done = called("export", str(run), "--to", "out", cwd=tmp_path)
    assert "text-parquet" in done.stderr
    with pytest.raises(ConfigError, match="formats: text-parquet, text-jsonl"):
        shardmill.export_texts(run, "hf", tmp_path / "out")
    shown = called("export", str(run), "--format", "text-jsonl", "--to", "out", "--json", cwd=tmp_path)
    assert json.loads(shown.stdout)["format"] == "text-jsonl"
