"""What `shardmill tokenizer extend` promises: a proved file, the same bytes each time, a true report."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from pipeline import cli
from pipeline.tools.tokenizer.extend import extend_tokenizer
from stages.errors import ConfigError
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.roles import SpecialPieces, find_roles
from tests.stages.tokenizer.existing_files import data_of
from tests.stages.tokenizer.test_extension import korean, old_texts

KIND = TokenizerKind.SENTENCEPIECE


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A model, Korean text in two files with some of another language, and old text."""
    (tmp_path / "old.model").write_bytes(data_of("llama-model"))
    for folder in ("new", "old"):
        (tmp_path / folder).mkdir()
    parts = [line for text in korean() for line in text.splitlines()]
    (tmp_path / "new" / "ko.txt").write_text("\n".join(parts[::2]), encoding="utf-8")
    records = [{"text": part, "lang": "ko"} for part in parts[1::2]] + [{"text": "x y", "lang": "xx"}]
    (tmp_path / "new" / "a.jsonl").write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    old = [{"text": text, "lang": "en"} for text in old_texts()]
    old.append({"text": "Office \ud55c\uad6d\uc5b4", "lang": "de"})
    (tmp_path / "old" / "b.jsonl").write_text("\n".join(map(json.dumps, old)), encoding="utf-8")
    return tmp_path


def called(place: Path, output: str, *arguments: str | Path) -> Result:
    words = ["tokenizer", "extend", str(place / "old.model"), "--output", str(place / output)]
    words += ["--pieces", "50", "--old-text", str(place / "old"), *map(str, arguments)]
    return CliRunner().invoke(cli.app, words, env={"COLUMNS": "120"})


def test_the_report_says_what_the_files_give(place: Path) -> None:
    result = called(place, "new.model", "--text", place / "new", "--language", "ko", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    before, after = (
        existing_tokenizer(data, KIND, {"pad": 2, **ids}, name="x")
        for data in (data_of("llama-model"), (place / "new.model").read_bytes())
        for ids in [find_roles(describe(data, KIND, name="x"), SpecialPieces(), name="x").ids]
    )
    size = before.vocab_size
    assert (found["size_before"], found["size_after"]) == (size, size + 50)
    assert [piece["id"] for piece in found["pieces"]] == list(range(size, size + 50))
    assert [p["piece"] for p in found["pieces"]] == after.codec.pieces(range(size, size + 50))
    tokens = [sum(map(len, one.encode(old_texts()))) for one in (before, after)]
    english = found["old_languages"]["en"]
    assert [english["tokens_before"], english["tokens_after"]] == tokens
    assert english["documents"] - english["same_documents"] == english["changed_tokens"] == 0
    first, second = (one.encode(["Office \ud55c\uad6d\uc5b4"])[0] for one in (before, after))
    assert found["old_languages"]["de"]["same_documents"] == int(np.array_equal(first, second))
    assert found["old_total"]["documents"] == len(old_texts()) + 1
    if found["changed_words"]:
        word = found["changed_words"][0]
        assert word["old_pieces"] == before.codec.pieces(word["old_ids"])
        assert word["new_pieces"] == after.codec.pieces(word["new_ids"])
    learned = found["languages"]["ko"]
    assert set(found["languages"]) == {"ko"}
    assert learned["held_out_texts"] > 0
    assert learned["tokens_after"] < learned["tokens_before"]
    assert found["proved_texts"] > 50


def test_the_same_bytes_whatever_the_order_and_the_names_of_files(place: Path) -> None:
    files = [place / "new" / "ko.txt", place / "new" / "a.jsonl"]
    for output, given in (("1.model", files), ("2.model", files[::-1]), ("3.model", files * 2)):
        texts = [word for file in given for word in ("--text", file)]
        assert called(place, output, *texts, "--language", "ko").exit_code == 0
    first = (place / "1.model").read_bytes()
    assert first == (place / "2.model").read_bytes() == (place / "3.model").read_bytes()


def test_tables_show_new_text_and_old_text(place: Path) -> None:
    result = called(place, "new.model", "--text", place / "new")
    assert result.exit_code == 0, result.output
    for words in ("no old id changed", "New text that was held out", "all not learned"):
        assert words in result.output


@pytest.mark.parametrize(
    ("output", "text", "language", "message"),
    [
        ("old.model", "new", "ko", "is there already"),
        ("x.json", "new", "ko", r"is a tokenizer\.model; end the name in \.model"),
        ("x.model", "nowhere", "ko", "--text .*nowhere: no such folder"),
        ("x.model", "new", "fi", "--language fi: no text is left after cleaning.*ko, xx"),
        ("x.model", "old.model", "ko", r"has no file LANG\.txt"),
    ],
)
def test_what_cannot_be_done_is_refused(
    place: Path, output: str, text: str, language: str, message: str
) -> None:
    model, old = place / "old.model", [place / "old"]
    with pytest.raises(ConfigError, match=message):
        extend_tokenizer(
            model, [place / text], pieces=50, output=place / output, languages=[language], old_text=old
        )
    assert model.read_bytes() == data_of("llama-model")
    assert [path.name for path in place.glob("*.*")] == ["old.model"]
