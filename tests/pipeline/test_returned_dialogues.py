"""What verify says of dialogues whose tokenizer puts spaces behind pieces and has a normaliser."""

from pathlib import Path

import pytest
from tokenizers import Tokenizer, pre_tokenizers

from pipeline.run_file.config import RunFile
from pipeline.session.request import RunRequest
from pipeline.session.session import run_session
from tests.stages.chat.chat_files import chat_run, chat_tokenizer, write_lines
from tests.stages.tokenizer.existing_files import changed


@pytest.mark.slow
def test_dialogues_come_back_as_texts_or_as_the_normaliser_leaves_them(tmp_path: Path) -> None:
    library = Tokenizer.from_str(changed(chat_tokenizer(), normalizer={"type": "NFKC"}).decode())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    (tmp_path / "tokenizer.json").write_text(library.to_str())
    talks = [
        [{"role": "user", "content": f"The {word}?"}, {"role": "assistant", "content": "It ends."}]
        for word in ("tide", "sea", "\ufb01sh")
    ]
    (tmp_path / "a.jsonl").write_bytes(write_lines(talks))
    content = {**chat_run("chatml"), "validation": {"fraction": 0}}
    request = RunRequest(RunFile.model_validate(content), tmp_path, tmp_path / "run", 0)
    report = run_session(request, stream=None)
    assert report["passed"]
    assert report["verify"]["clm"]["returned"] == {"text": 2, "normalised": 1}
