"""What a loss on dialogues promises: labels exactly on the chosen turns, and what closes them.

From the records to the loader: of every document the labels of its rows, put together again, are those
sections that the token store calls learned, and these are what transformers says assistants generate.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from stages.chat.table import TEMPLATES
from stages.loading.dataset import open_dataset
from tests.conftest import bundled_lines
from tests.stages.chat.chat_files import chat_run, chat_tokenizer, dialogues, write_lines
from tests.stages.chat.stored_chats import stored_dialogues

pytestmark = pytest.mark.slow

NUMBER = 60
DATASETS = [
    {"name": "turns", "objective": {"kind": "clm", "loss": "targets"}},
    {"name": "all", "objective": {"kind": "clm"}},
]
PARTS = ("row_ptr", "start", "length", "doc", "doc_offset")
TEXTS = {"name": "texts", "paths": ["texts.jsonl"], "id_column": "id"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dialogues, some texts, and a tokenizer that has the pieces of all templates."""
    folder = tmp_path_factory.mktemp("turns")
    (folder / "a.jsonl").write_bytes(write_lines(list(dialogues(NUMBER))))
    (folder / "texts.jsonl").write_bytes(b"\n".join(bundled_lines("text/*", 1)) + b"\n")
    (folder / "tokenizer.json").write_bytes(chat_tokenizer())
    return folder


def run_it(corpus: Path, output: Path, content: dict[str, Any]) -> Any:
    """Run inline to the end."""
    request = RunRequest(RunFile.model_validate(content), corpus, output, 0)
    return run_session(request, stream=None)


def losses(run: Path, name: str, split: str) -> dict[tuple[str, str], list[bool]]:
    """Return of each document, by source and own id, which of its tokens have a label."""
    dataset = open_dataset(run / "datasets" / name, split=split, shuffle=False)
    found: dict[tuple[str, str], list[bool]] = {}
    row = 0
    for shard in sorted((run / "datasets" / name / split / "epoch-0000").iterdir()):
        listed = pq.read_table(shard / "documents.parquet").to_pylist()
        parts = {part: np.load(shard / "segments" / f"{part}.npy") for part in PARTS}
        for number in range(len(parts["row_ptr"]) - 1):
            labels, ids = dataset[row]["labels"], dataset[row]["input_ids"]
            assert ((labels == -100) | (labels == ids)).all()
            inside = np.zeros(len(labels), np.bool_)
            for n in range(parts["row_ptr"][number], parts["row_ptr"][number + 1]):
                one = listed[parts["doc"][n]]
                own = found.setdefault((one["source"], one["own_id"]), [False] * one["tokens"])
                place = slice(parts["start"][n], parts["start"][n] + parts["length"][n])
                offset = parts["doc_offset"][n]
                own[offset : offset + parts["length"][n]] = (labels[place] != -100).tolist()
                inside[place] = True
            assert (labels[~inside] == -100).all()
            row += 1
    assert row == len(dataset) > 0
    return found


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_labels_stand_exactly_on_the_chosen_turns(template: str, corpus: Path, tmp_path: Path) -> None:
    content = chat_run(template, datasets=DATASETS)
    content["sources"].append(TEXTS)
    report = run_it(corpus, tmp_path / "run", content)
    assert report["passed"]
    stored = stored_dialogues(tmp_path / "run")
    assert len(stored) == NUMBER
    seen = texts = 0
    for split in ("train", "validation"):
        for (source, name), labelled in losses(tmp_path / "run", "turns", split).items():
            if source == "texts":
                assert all(labelled)
                texts += 1
                continue
            learned = stored[int(name)].learned_tokens().tolist()
            assert labelled == learned
            seen += 0 < sum(learned) < len(learned)
        assert all(all(own) for own in losses(tmp_path / "run", "all", split).values())
    assert seen > NUMBER / 2
    assert texts == 7


def test_rows_of_short_dialogues_are_full(corpus: Path, tmp_path: Path) -> None:
    short = [
        [{"role": "user", "content": f"What is {n}?"}, {"role": "assistant", "content": f"It is {n}."}]
        for n in range(300)
    ]
    (tmp_path / "a.jsonl").write_bytes(write_lines(short))
    (tmp_path / "tokenizer.json").write_bytes((corpus / "tokenizer.json").read_bytes())
    content = chat_run(
        "chatml",
        datasets=DATASETS[:1],
        validation={"fraction": 0.0},
        packing={"seq_len": 512, "shards": 1},
    )
    assert run_it(tmp_path, tmp_path / "run", content)["passed"]
    segments = tmp_path / "run" / "datasets" / "turns" / "train" / "epoch-0000" / "00000" / "segments"
    filled, rows = np.load(segments / "length.npy").sum(), len(np.load(segments / "row_ptr.npy")) - 1
    assert len(np.load(segments / "doc.npy")) == 300
    assert filled / (rows * 512) >= 0.95
