"""What `shardmill tokenizer compare` promises: the rates of a plain loop, tables, a picture."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Library
from typer.testing import CliRunner, Result

from pipeline import cli
from pipeline.tools.tokenizer.compare import compare_tokenizers
from stages.errors import ConfigError, DataError, FormatError
from tests.stages.tokenizer.existing_files import data_of

SENTENCES = {
    "en": ["the cat sat", "a mat and a rat", "", "he ran"],
    "de": ["die Katze sa\u00df", "eine Matte und eine Ratte", "x", "er lief"],
    "el": ["\u03b7 \u03b3\u03ac\u03c4\u03b1", "\u03ad\u03bd\u03b1 \u03c7\u03b1\u03bb\u03af", "y", "z"],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Two tokenizers, a folder of parallel text and one of records."""
    for name in ("gpt2", "bert"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tokenizer.json").write_bytes(data_of(name))
    (tmp_path / "parallel").mkdir()
    for language, lines in SENTENCES.items():
        content = "\n".join(lines) + "\n"
        (tmp_path / "parallel" / f"{language}.txt").write_text(content, encoding="utf-8")
    (tmp_path / "text").mkdir()
    records = [{"text": "one cat", "lang": "en"}, {"text": "ein Hut", "lang": "de"}]
    written = "".join(json.dumps(record) + "\n" for record in records)
    (tmp_path / "text" / "a.jsonl").write_text(written, encoding="utf-8")
    (tmp_path / "text" / "en.txt").write_text("two cats\n\n", encoding="utf-8")
    return tmp_path


def called(*arguments: str | Path) -> Result:
    words = ["tokenizer", "compare", *map(str, arguments)]
    return CliRunner().invoke(cli.app, words, env={"COLUMNS": "120"})


def test_rates_are_those_of_a_plain_loop(place: Path) -> None:
    files = [place / name / "tokenizer.json" for name in ("gpt2", "bert")]
    result = called(*files, "--parallel", place / "parallel", "--text", place / "text", "--json")
    found = json.loads(result.output)
    assert [one["name"] for one in found["tokenizers"]] == ["gpt2", "bert"]
    assert (found["parallel"]["sentences"], found["parallel"]["left_out"]) == (3, 1)
    for name in ("gpt2", "bert"):
        library = Library.from_str(data_of(name).decode())
        tokens = {
            language: sum(
                len(library.encode(lines[number], add_special_tokens=False).ids) for number in (0, 1, 3)
            )
            for language, lines in SENTENCES.items()
        }
        for language, count in tokens.items():
            rates = found["parallel"]["languages"][language][name]
            assert rates["tokens"] == count
            assert rates["parity"] == round(count / tokens["en"], 4)
            assert rates["tokens_per_text"] == round(count / 3, 4)
        total = found["parallel"]["total"][name]
        assert total["tokens"] == sum(tokens.values())
        parities = [count / tokens["en"] for count in tokens.values()]
        assert total["parity"] == pytest.approx(sum(parities) / len(parities), abs=1e-4)
        english = ["one cat", "two cats"]
        expected = sum(len(library.encode(text, add_special_tokens=False).ids) for text in english)
        assert found["text"]["languages"]["en"][name]["tokens"] == expected
        assert found["text"]["languages"]["en"][name]["texts"] == 2


def test_tables_and_picture_show_every_language_and_tokenizer(place: Path) -> None:
    picture = place / "parity.svg"
    models = [f"new={place / 'gpt2'}", str(place / "bert" / "tokenizer.json")]
    result = called(*models, "--parallel", place / "parallel", "--picture", picture)
    assert result.exit_code == 0, result.output
    assert "3 sentences in each language, 1 left out that a language lacks" in result.output
    for word in ("Parity: tokens against those of en", "Tokens a word", "new", "all tokens", "el "):
        assert word in result.output
    namespace = "{http://www.w3.org/2000/svg}"
    drawn = ET.fromstring(picture.read_text(encoding="utf-8"))  # noqa: S314  # ours
    told = [title.text for title in drawn.iter(f"{namespace}title")]
    assert len(told) == 2 + 2 * len(SENTENCES)
    assert "new, en: 1.00" in told


def test_the_bundled_declarations_are_compared_part_by_part(place: Path) -> None:
    found = compare_tokenizers([str(place / "gpt2")])["parallel"]
    assert found is not None
    assert (found["unit"], found["sentences"], found["left_out"]) == ("declaration part", 3, 0)
    assert len(found["languages"]) == 62
    assert (
        found["languages"]["my"]["gpt2"]["parity"] > 2 > found["languages"]["fr"]["gpt2"]["parity"] > 1
    )


def test_what_cannot_be_compared_is_said_in_one_line(place: Path) -> None:
    model, parallel = str(place / "gpt2"), place / "parallel"
    (place / "empty").mkdir()
    (place / "junk.model").write_bytes(b"no model")

    def refused(kind: type[Exception], match: str, *models: str, **options: Path | str) -> None:
        with pytest.raises(kind, match=match):
            compare_tokenizers(models or (model,), **options)  # type: ignore[arg-type]

    refused(ConfigError, "MODEL .*none.json: no such file", str(place / "none.json"))
    refused(ConfigError, "this folder has no tokenizer.model or tokenizer.json", str(place / "empty"))
    refused(FormatError, "junk.model: not a SentencePiece model", str(place / "junk.model"))
    refused(ConfigError, "two tokenizers are called 'a'", f"a={place / 'gpt2'}", f"a={place / 'bert'}")
    refused(ConfigError, "--parallel .*none: no such folder", parallel=place / "none")
    refused(ConfigError, "has no file of the form LANG.txt", parallel=place / "text" / ".." / "empty")
    refused(ConfigError, "--reference fr: .* it has de, el, en", parallel=parallel, reference="fr")
    refused(ConfigError, "--picture: shows parity", text=place / "text", picture=place / "p.svg")
    (parallel / "de.txt").write_text("eins\nzwei\n", encoding="utf-8")
    refused(DataError, "el has 4, en has 4, de has 2", parallel=parallel)
    (parallel / "de.txt").write_bytes(b"eins\n\xff\n")
    refused(DataError, "de.txt, line 2: not UTF-8", parallel=parallel)
    (place / "text" / "b.jsonl").write_text('{"text": "x"}\n', encoding="utf-8")
    refused(DataError, "b.jsonl, line 1: not an object with text and lang", text=place / "text")
