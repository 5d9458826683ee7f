"""What a run promises of sections: the ids of the library, with one space before all of a text."""

import json
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from tests.stages.tokenizer.existing_files import data_of

TEXTS = [("The tide", " ends."), ("(", "and so on"), ("A:", " the  end")]
EOS = [2] * len(TEXTS)
"""One behind each document."""


@pytest.mark.slow
def test_sections_of_a_document_have_the_ids_of_its_text(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(data_of("llama-json"))
    rows = [{"id": n, "text": text, "more": more} for n, (text, more) in enumerate(TEXTS)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    content = {
        "sources": [{"name": "some", "paths": ["a.jsonl"], "section_columns": ["more"]}],
        "dedup": {"exact": False, "near": False},
        "tokenizer": {"path": "tokenizer.json", "special": {"pad": "<s>"}},
        "validation": {"fraction": 0},
        "packing": {"seq_len": 32, "shards": 1},
        "datasets": [{"name": "clm"}],
        "verify": {"learning": False},
    }
    request = RunRequest(RunFile.model_validate(content), tmp_path, tmp_path / "run", 0)
    assert run_session(request, stream=None)["passed"]
    (place,) = (tmp_path / "run/tokens").rglob("ids.npy")
    library = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    wanted = [library.encode(text + more, add_special_tokens=False).ids for text, more in TEXTS]
    assert sorted(np.load(place).tolist()) == sorted([*(n for ids in wanted for n in ids), *EOS])
