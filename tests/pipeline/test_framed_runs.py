"""What a framed run promises: documents as the tokenizers of transformers frame them, one by one.

The ids of every document are those that the tokenizer's class gives with its special ids, and a special
id that stands elsewhere is found.
"""

import json
import re
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.inputs.files import InputFile
from pipeline.planning.plan import plan_steps
from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import plan_session, run_session
from pipeline.state.commits import STEP_COMMIT, Commits
from pipeline.state.storage import LocalStorage
from pipeline.steps.decode.check import DecodeUnit, check_texts
from pipeline.steps.ingest.step import IngestRecord
from pipeline.steps.tokenize.encode import TokenizeUnit
from pipeline.steps.units import Unit, units_of
from stages.errors import ConfigError
from stages.export.source import open_source
from stages.store.token_store import TokenUnit
from tests.campaign import some_of
from tests.conftest import digests
from tests.stages.tokenizer.existing_files import changed, texts
from tests.stages.tokenizer.framed_files import tokenizer_of

pytestmark = pytest.mark.slow

KINDS: dict[str, list[dict[str, Any]]] = {
    "gpt2": [{"kind": "clm"}, {"kind": "fim", "fim_rate": 0.5}],
    "llama": [{"kind": "clm"}, {"kind": "prefix_lm"}],
    "bert": [{"kind": "mlm"}, {"kind": "mlm", "selection": "whole_word"}, {"kind": "electra"}],
    "roberta": [{"kind": "mlm", "selection": "exact"}],
    "t5": [{"kind": "span_corruption", "mean_noise_span_length": 4.0}],
}
FRAMINGS = ("gpt2", "llama", "bert", "t5")
"""Nothing, what begins a text, that and what ends it, and the end alone; roberta is as bert."""
CLOSED = {"gpt2": [0]}
"""What follows a document of a class that puts nothing around a text."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginnings of some bundled texts, numbered."""
    folder = tmp_path_factory.mktemp("framed")
    rows = ({"id": number, "text": text} for number, text in enumerate(texts()))
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def run_file(preset: str, folder: Path, **changes: Any) -> RunFile:
    """Return a run with the tokenizer of a class; `changes` replace whole sections."""
    content: dict[str, Any] = {
        "seed": 5,
        "sources": [{"name": "some", "paths": ["a.jsonl"], "id_column": "id"}],
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": str(folder / "tokenizer.json")},
        "framing": {"preset": preset},
        "validation": {"fraction": 0.05},
        "packing": {"seq_len": 64, "shards": 2},
        "datasets": [{"name": f"d{n}", "objective": each} for n, each in enumerate(KINDS[preset])],
        "verify": {"learning": False},
    }
    return RunFile.model_validate({**content, **changes})


def run_it(corpus: Path, output: Path, file: RunFile, **options: Any) -> Any:
    request = RunRequest(file, corpus, output, options.pop("workers", 0), **options)
    return run_session(request, stream=None)


def units(output: Path) -> tuple[Unit, ...]:
    """Return the units of a run."""
    commits = dict(Commits(LocalStorage(output)).all("ingest"))
    return units_of(commits[STEP_COMMIT].read(IngestRecord).units)


def files(output: Path, folder: str) -> dict[str, str]:
    """Return the digests of the files below a folder of a run."""
    found = {name: digest for name, digest in digests(output).items() if name.startswith(f"{folder}/")}
    assert found
    return found


def stored(output: Path) -> dict[int, list[int]]:
    """Return the ids of each document of a run, by its own id."""
    found = {}
    for unit in units(output):
        store = TokenUnit.open(output / unit.tokens)
        names = pq.read_table(output / unit.tokens / "documents.parquet").column("own_id").to_pylist()
        for name, (first, last) in zip(names, store.places.tolist(), strict=True):
            found[int(name)] = store.ids[first:last].tolist()
    return found


@pytest.fixture(scope="module")
def made(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Any, Path]]:
    """What gives the tokenizer of a class and the folder of it and of a whole run, made once."""

    @cache
    def make(preset: str) -> tuple[Any, Path]:
        folder = tmp_path_factory.mktemp(preset)
        theirs = tokenizer_of(preset, folder)
        theirs.save_pretrained(folder)
        assert run_it(corpus, folder / "run", run_file(preset, folder))["passed"]
        return theirs, folder

    return make


@pytest.mark.parametrize("preset", [*FRAMINGS, pytest.param("roberta", marks=pytest.mark.campaign)])
def test_ids_are_those_of_the_class_with_its_special_ids(
    preset: str, made: Callable[[str], tuple[Any, Path]]
) -> None:
    theirs, folder = made(preset)
    found = stored(folder / "run")
    assert len(found) == len(texts()) > 20
    for number, ids in found.items():
        wanted = theirs(texts()[number], split_special_tokens=True)["input_ids"]
        assert ids == [*wanted, *CLOSED.get(preset, [])]


@pytest.mark.parametrize("preset", some_of(["llama", "t5", "bert", "roberta"], 2))
def test_what_a_file_itself_puts_around_texts_gives_the_bytes_of_the_preset(
    preset: str, corpus: Path, made: Callable[[str], tuple[Any, Path]], tmp_path: Path
) -> None:
    _, folder = made(preset)
    file = run_file(preset, folder, framing={"preset": "tokenizer"})
    run_it(corpus, tmp_path / "run", file, until="tokenize")
    assert files(tmp_path / "run", "tokens") == files(folder / "run", "tokens")


@pytest.mark.campaign
def test_workers_change_no_byte_of_a_framed_run(corpus: Path, tmp_path: Path) -> None:
    tokenizer_of("bert", tmp_path).save_pretrained(tmp_path)
    file = run_file("bert", tmp_path)
    run_it(corpus, tmp_path / "inline", file)
    run_it(corpus, tmp_path / "workers", file, workers=2)
    for folder in ("tokens", "datasets"):
        assert files(tmp_path / "inline", folder) == files(tmp_path / "workers", folder)


@pytest.mark.parametrize("begin", some_of(["cls", "bos"], 1))
def test_a_trained_tokenizer_frames_too_and_sections_count_what_begins_them(
    begin: str, tmp_path: Path
) -> None:
    rows = ({"id": n, "text": f"{text}\n", "more": text[:99]} for n, text in enumerate(texts()))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"name": "some", "paths": ["a.jsonl"], "id_column": "id", "section_columns": ["more"]}
    file = run_file(
        "llama",
        tmp_path,
        sources=[source],
        tokenizer={"train": {"vocab_size": 1024}},
        framing={"begin": begin, "end": "sep"},
        datasets=[
            {"name": "clm"},
            {"name": "prompts", "objective": {"kind": "prefix_lm", "split": "source"}},
        ],
    )
    report = run_it(tmp_path, tmp_path / "run", file)
    assert report["passed"]
    special = json.loads((tmp_path / "run" / "tokenizer" / "special_ids.json").read_text())
    assert special["begin"] == special[begin]
    assert special["eos"] == special["sep"] == 5
    found = stored(tmp_path / "run")
    assert all(ids[0] == special[begin] and ids[-1] == 5 for ids in found.values())
    assert all(not {1, 2, 4, 5} & set(ids[1:-1]) for ids in found.values())
    assert found
    documents = list(open_source(tmp_path / "run" / "datasets" / "clm", split="train").documents(0))
    assert documents
    assert all(ids[0] == special[begin] for ids in documents)


def test_a_begin_that_was_exchanged_is_found(
    made: Callable[[str], tuple[Any, Path]], tmp_path: Path
) -> None:
    output = tmp_path / "run"
    shutil.copytree(made("bert")[1] / "run", output)
    (unit, *_) = units(output)
    ids = np.load(output / unit.tokens / "ids.npy", mmap_mode="r+")
    ids[[0, 1]] = ids[[1, 0]]
    ids.flush()
    work = DecodeUnit(TokenizeUnit(unit, 2, 1, 5), sentences=False)
    (found,) = check_texts(Workspace(output, output / "tmp"), work).findings
    assert found.check == "text"
    assert "1 of" in found.message


@pytest.mark.parametrize("kind", ["nsp", "bart", "span_corruption", "fim", "simcse"])
def test_objectives_that_frame_their_own_rows_are_refused(
    kind: str, corpus: Path, tmp_path: Path
) -> None:
    tokenizer_of("bert", tmp_path).save_pretrained(tmp_path)
    datasets = [{"name": "own", "objective": {"kind": kind}}]
    with pytest.raises(ValueError, match="frames its rows itself"):
        run_file("bert", tmp_path, datasets=datasets, tokenizer={})
    file = run_file("bert", tmp_path, datasets=datasets, framing={"preset": "tokenizer"})
    with pytest.raises(ConfigError, match=r"frames its rows itself|needs the special id"):
        plan_session(RunRequest(file, corpus, tmp_path / "run", 0))


def test_a_tokenizer_without_the_id_of_a_preset_is_refused(corpus: Path, tmp_path: Path) -> None:
    tokenizer_of("gpt2", tmp_path).save_pretrained(tmp_path)
    file = run_file("gpt2", tmp_path, framing={"preset": "bert"}, datasets=[{"name": "clm"}])
    with pytest.raises(ConfigError, match=r"framing needs the special id 'cls'"):
        plan_session(RunRequest(file, corpus, tmp_path / "run", 0))
    place = tmp_path / "tokenizer.json"
    place.write_bytes(changed(place.read_bytes(), post_processor=None))
    file = run_file("gpt2", tmp_path, framing={"preset": "tokenizer"}, datasets=[{"name": "clm"}])
    with pytest.raises(ConfigError, match="has no post-processor that says"):
        plan_session(RunRequest(file, corpus, tmp_path / "run", 0))


@pytest.mark.parametrize(
    ("single", "said"),
    [
        ((70_000, 3), "the id 70000 before each document: tokenizer.json has the ids 0 to"),
        ((2, -1), "the id -1 behind each document: tokenizer.json has the ids 0 to"),
        ((1, 3), "the id 1 before each document: is what tokenizer.json gives for unknown characters"),
        ((4, 3), "needs 'mask' and 'begin' to be two ids, and both are 4"),
        ((3, 3), "the id 3 would begin and close every document"),
    ],
)
def test_ids_that_cannot_frame_are_refused_when_the_run_is_planned(
    single: tuple[int, int], said: str, corpus: Path, tmp_path: Path
) -> None:
    theirs = tokenizer_of("bert", tmp_path)
    theirs.save_pretrained(tmp_path)
    assert (theirs.unk_token_id, theirs.mask_token_id) == (1, 4)
    place = tmp_path / "tokenizer.json"
    cls, sep = single
    processor = {"type": "BertProcessing", "cls": ["[CLS]", cls], "sep": ["[SEP]", sep]}
    place.write_bytes(changed(place.read_bytes(), post_processor=processor))
    file = run_file("bert", tmp_path, framing={"preset": "tokenizer"})
    with pytest.raises(ConfigError, match=re.escape(said)):
        plan_session(RunRequest(file, corpus, tmp_path / "run", 0))


def test_a_framing_is_what_it_means_however_it_is_said(tmp_path: Path) -> None:
    files = (InputFile("some", "a.jsonl", Path("/here/a.jsonl"), 10, "aa"),)
    said = [
        {"preset": "llama"},
        {"preset": "roberta"},
        {"begin": "bos"},
        {"begin": "cls"},
        {},
        {"preset": "t5"},
    ]
    plans = []
    for framing in said:
        file = run_file("gpt2", tmp_path, tokenizer={}, framing=framing, datasets=[{"name": "clm"}])
        plans.append([step.fingerprint for step in plan_steps(file, files, None)])
    llama, roberta, bos, cls, none, t5 = plans
    assert llama == roberta == bos
    assert none == t5
    assert len({tuple(plan) for plan in plans}) == 3
    assert cls not in (llama, none)
