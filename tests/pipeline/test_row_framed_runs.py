"""What a run with framed rows promises: every row as the tokenizers of transformers give it.

With `packing.strategy = "document"` the rows of a document are those that the class makes of a text that
is cut. Between the frames of rows lie the documents, and whoever gives them back leaves the frames out.
"""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.report.inspection import inspect
from pipeline.session.verifying import verify_session
from pipeline.state.ledger import read_flows
from stages.export.rows import row_notes
from stages.export.source import open_source
from stages.ledger import total_flow
from stages.loading.dataset import open_dataset
from stages.objectives.rows import IGNORED
from stages.store.manifest import read_manifest
from tests.campaign import some_of
from tests.conftest import digests
from tests.pipeline.row_framed import DATASETS, FRAMES, LENGTH, OBJECTIVES, run_file, run_it, write_texts
from tests.pipeline.test_framed_runs import stored
from tests.stages.tokenizer.existing_files import texts
from tests.stages.tokenizer.framed_files import tokenizer_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginnings of some bundled texts, numbered."""
    folder = tmp_path_factory.mktemp("framed")
    write_texts(folder)
    return folder


@pytest.fixture(scope="module", params=some_of(list(FRAMES), 1))
def made(
    request: pytest.FixtureRequest, corpus: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Any, Path]:
    """A run over the texts with the rows of a preset, and the tokenizer of its class.

    Presets differ in the ids that they name, which `test_framed_runs` looks at; a campaign runs all.
    """
    preset = request.param
    folder = tmp_path_factory.mktemp(preset)
    theirs = tokenizer_of(preset, folder)
    theirs.save_pretrained(folder)
    file = run_file(folder, framing={"preset": preset, "per": "row"})
    report = run_it(corpus, folder / "run", file)
    assert {name: verdict["findings"] for name, verdict in report["verify"].items()} == {
        name: [] for name in OBJECTIVES
    }
    assert report["passed"]
    return preset, theirs, folder / "run"


def ids_of(theirs: Any, preset: str) -> tuple[int, int]:
    """Return what begins and what ends rows."""
    begin, end = (getattr(theirs, name) for name in FRAMES[preset])
    return begin, end


def split_folders(run: Path, dataset: str) -> list[Path]:
    """Return the folders of the splits of a dataset."""
    found = sorted(path.parent for path in (run / "datasets" / dataset).glob("*/dataset.json"))
    assert [path.name for path in found] == ["train", "validation"]
    return found


def rows_by_document(run: Path, dataset: str) -> dict[int, list[list[int]]]:
    """Return the rows of each document, in its order, by its own id, without padding."""
    found: dict[int, list[tuple[int, list[int]]]] = {}
    for split in split_folders(run, dataset):
        pad = read_manifest(split).special_ids["pad"]
        for shard in sorted((split / "epoch-0000").iterdir()):
            ids = np.load(shard / "input_ids.npy")
            row_ptr, doc, offset = (
                np.load(shard / "segments" / f"{name}.npy") for name in ("row_ptr", "doc", "doc_offset")
            )
            names = pq.read_table(shard / "documents.parquet").column("own_id").to_pylist()
            for row, (first, last) in enumerate(pairwise(row_ptr.tolist())):
                held = ids[row][ids[row] != pad].tolist()
                for segment in range(first, last):
                    pieces = found.setdefault(int(names[doc[segment]]), [])
                    pieces.append((int(offset[segment]), held))
    return {name: [row for _, row in sorted(pieces)] for name, pieces in found.items()}


def test_rows_of_a_document_are_those_of_the_class(made: tuple[str, Any, Path]) -> None:
    _, theirs, run = made
    found = rows_by_document(run, "mlm-document")
    assert len(found) == len(texts()) > 20
    several = 0
    for number, rows in found.items():
        wanted = theirs(
            texts()[number],
            truncation=True,
            max_length=LENGTH,
            return_overflowing_tokens=True,
            split_special_tokens=True,
        )["input_ids"]
        several += len(wanted) > 1
        assert rows == wanted
    assert several > 10


@pytest.mark.parametrize("name", OBJECTIVES)
def test_every_row_begins_and_ends_as_its_model_expects(made: tuple[str, Any, Path], name: str) -> None:
    preset, theirs, run = made
    begin, end = ids_of(theirs, preset)
    added = shared = 0
    for split in split_folders(run, name):
        manifest = read_manifest(split)
        assert manifest.row_frame == {"begin": begin, "end": end}
        for shard in manifest.shards:
            folder = split / shard.path
            ids, ends = np.load(folder / "input_ids.npy"), np.load(folder / "added_end.npy")
            segments = (
                np.load(folder / "segments" / "length.npy"),
                np.load(folder / "segments/row_ptr.npy"),
            )
            for row, (first, last) in enumerate(pairwise(segments[1].tolist())):
                filled = int(segments[0][first:last].sum())
                held = ids[row][:filled].tolist()
                assert (held[0], held[-1]) == (begin, end)
                assert held.count(begin) == 1
                assert held.count(end) == last - first, "one for each document, or for the row"
                shared += last - first > 1
            added += int(ends.sum())
            assert shard.frame_tokens == len(ids) + ends.sum()
    assert added > 5
    assert shared > 0 or name in ("mlm-document", "prefix-document")


def test_tokens_in_rows_are_those_of_documents_and_of_frames(made: tuple[str, Any, Path]) -> None:
    _, _, run = made
    tokens = sum(map(len, stored(run).values()))
    report = json.loads((run / "report" / "report.json").read_text())
    for name in OBJECTIVES:
        flow = total_flow(read_flows(run, f"shard-{name}").values())
        assert flow is not None
        assert flow.input.tokens == flow.output.tokens == tokens
        splits = report["datasets"][name].values()
        assert sum(one["tokens"] - one["frame_tokens"] for one in splits) == tokens
        assert all(one["frame_tokens"] > one["rows"] - 1 for one in splits)
        for split, one in report["datasets"][name].items():
            sources = report["packing"][name][split]["sources"]
            assert sum(row["tokens"] for row in sources) == one["tokens"] - one["frame_tokens"]
            padding = one["rows"] * LENGTH - one["tokens"]
            assert abs(sum(row["padding"] for row in sources) - padding) <= len(sources)


@pytest.mark.parametrize("name", ["mlm-full", "clm-best_fit", "mlm-document", "prefixes-concat"])
def test_documents_come_back_without_frames(made: tuple[str, Any, Path], name: str) -> None:
    preset, theirs, run = made
    begin, end = ids_of(theirs, preset)
    documents = []
    for split in ("train", "validation"):
        source = open_source(run / "datasets" / name, split=split)
        documents += [
            ids.tolist() for shard in range(source.num_shards) for ids in source.documents(shard)
        ]
        assert source.frame == f"A document ends in the id {end}"
        said = " ".join(row_notes([source]))
        assert f"Each row begins with the id {begin} and ends in the id {end}" in said
    assert sorted(documents) == sorted(stored(run).values())


def test_an_end_that_is_no_document_s_has_no_label_and_no_mask(made: tuple[str, Any, Path]) -> None:
    _, _, run = made
    for name in ("clm-full", "clm-best_fit", "prefix-document", "prefixes-concat"):
        dataset = open_dataset(run / "datasets" / name, shuffle=False)
        reader = dataset.reader
        numbers = np.arange(dataset.manifest.shards[0].rows)
        rows, batch = reader.stored(0, numbers, 0), dataset.batch(numbers)
        row, place = rows.added_ends
        assert len(row) > 3
        assert (batch["labels"][row, place] == IGNORED).all()
        own = np.flatnonzero(rows.added_end == 0)
        kept = batch["labels"][own, rows.filled[own] - 1]
        if name.startswith("clm"):
            assert (kept == dataset.manifest.special_ids["eos"]).all()
            first = batch["labels"][:, 0] == IGNORED
            assert first.all() if name == "clm-best_fit" else not first.any()
        assert np.array_equal(batch["position_ids"][:, 0], np.zeros(len(batch["labels"])))
    for name in ("mlm-full", "electra-concat", "words-full"):
        dataset = open_dataset(run / "datasets" / name, shuffle=False)
        numbers = np.arange(dataset.manifest.shards[0].rows)
        rows = dataset.reader.stored(0, numbers, 0)
        for epoch in range(3):
            batch = dataset.at(epoch, numbers)
            special = dataset.vocabulary.special(rows.input_ids)
            assert np.array_equal(batch["input_ids"][special], rows.input_ids[special])


def test_a_row_says_which_of_its_tokens_are_a_document_s(made: tuple[str, Any, Path]) -> None:
    _, _, run = made
    row = inspect(run, "mlm-full", split="train", row=0, epoch=0)
    tokens = row["sequences"][0]["tokens"]
    assert row["documents"][0]["start"] == 1
    own = sum(part["length"] for part in row["documents"])
    assert len(tokens) - own in (1, 2)
    assert (tokens[0]["role"], tokens[-1]["role"]) == ("special", "special")


@pytest.mark.campaign
def test_workers_change_no_byte_of_framed_rows(corpus: Path, tmp_path: Path) -> None:
    tokenizer_of("roberta", tmp_path).save_pretrained(tmp_path)
    file = run_file(tmp_path, framing={"preset": "roberta", "per": "row"})
    run_it(corpus, tmp_path / "inline", file, until="shard")
    run_it(corpus, tmp_path / "workers", file, until="shard", workers=2)
    found = digests(tmp_path / "inline", "tokens", "datasets")
    assert found
    assert found == digests(tmp_path / "workers", "tokens", "datasets")


@pytest.mark.campaign
def test_a_model_learns_from_framed_rows_and_documents_stay_apart(corpus: Path, tmp_path: Path) -> None:
    names = ("mlm-full", "clm-full", "prefixes-concat")
    file = run_file(
        tmp_path,
        tokenizer={"train": {"vocab_size": 1024}},
        datasets=[one for one in DATASETS if one["name"] in names],
        verify={
            "min_labelled_tokens": 500,
            "min_heldout_tokens": 50,
            "labelled_tokens": 4000,
            "full": True,
        },
    )
    report = run_it(corpus, tmp_path / "run", file)
    assert report["verify"].keys() == set(names)
    for name, verdict in report["verify"].items():
        assert verdict["findings"] == [], name
        isolation = verdict["learning"]["isolation"]
        assert isolation["ends"] > 5
        assert isolation["max_change"] == 0.0
        assert isolation["max_change_without"] > 0.0


def test_what_a_file_puts_around_texts_frames_the_same_rows(
    corpus: Path, made: tuple[str, Any, Path], tmp_path: Path
) -> None:
    _, theirs, run = made
    theirs.save_pretrained(tmp_path)
    datasets = [one for one in DATASETS if one["name"] == "mlm-full"]
    file = run_file(tmp_path, datasets=datasets, framing={"preset": "tokenizer", "per": "row"})
    run_it(corpus, tmp_path / "run", file, until="shard")
    found, wanted = (
        {name: digest for name, digest in digests(output, folder).items() if name.endswith(".npy")}
        for output, folder in ((tmp_path / "run", "datasets"), (run, "datasets/mlm-full"))
    )
    assert found == wanted
    assert found
    report = verify_session(tmp_path / "run", workers=0, address=None, stream=None)
    assert report["passed"], "run.json says enough"


def test_sources_name_prompts_in_framed_rows_too(tmp_path: Path) -> None:
    rows = ({"id": n, "text": f"{text[:200]}\n", "more": text[:99]} for n, text in enumerate(texts()))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"name": "some", "paths": ["a.jsonl"], "id_column": "id", "section_columns": ["more"]}
    named = {"kind": "prefix_lm", "split": "source"}
    file = run_file(
        tmp_path,
        sources=[source],
        tokenizer={"train": {"vocab_size": 1024}},
        framing={"preset": "llama", "per": "row"},
        datasets=[
            {"name": "alone", "objective": named},
            {"name": "packed", "objective": {**named, "pack_documents": True}},
        ],
    )
    report = run_it(tmp_path, tmp_path / "run", file)
    assert report["passed"], report["verify"]
    begun = 0
    for name in ("alone", "packed"):
        dataset = open_dataset(tmp_path / "run" / "datasets" / name, shuffle=False)
        batch = dataset.batch(np.arange(len(dataset)))
        shown = (
            batch["in_prefix"]
            if name == "packed"
            else np.arange(LENGTH) < batch["prefix_length"][:, None]
        )
        begun += int(shown[:, 0].sum())
        assert shown[:, :2].all(), "what begins a row is shown, and a token that follows it"
        assert (batch["labels"][shown != 0] == IGNORED).all()
    assert begun > 20
