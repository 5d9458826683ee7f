"""What exported folders promise: AutoTokenizer gives the run's ids, special roles and frames.

The oracle is transformers itself, on files of every kind, trained models of a run among them.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Library
from transformers import AutoTokenizer
from typer.testing import CliRunner

import shardmill
from pipeline.cli import app
from pipeline.run_file.config import RunFile
from pipeline.tools.tokenizer import export as tokenizer_export
from pipeline.tools.tokenizer.export import (
    OpenedTokenizer,
    TokenizerExport,
    export_tokenizer,
    opened_tokenizer,
)
from stages.errors import ConfigError, FormatError, VerificationError
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from stages.tokenizer.framing import FrameIds, Framing, trained_ids
from stages.tokenizer.hub_folder import folder_files, prove_folder, unigram_scores
from stages.tokenizer.huggingface_content import read_content
from stages.tokenizer.post_processor import frame_of
from stages.tokenizer.roles import SpecialPieces, find_roles
from stages.tokenizer.sentencepiece_conversion import converted
from stages.tokenizer.stress import stress_texts
from stages.tokenizer.train import TrainConfig, train_model
from tests.stages.tokenizer.existing_files import changed, data_of, kind_of_file, model_of, texts
from tests.stages.tokenizer.test_existing_unusual import with_type

OWN: dict[str, dict[str, object]] = {
    "bpe": {},
    "unigram": {"model": "unigram"},
    "policies": {
        "vocab_size": 3_000,
        "digits": "threes",
        "indentation": True,
        "user_symbols": ["<br>", "a b", "\n# "],
        "control_symbols": ["<|end|>"],
    },
    "byte_bpe": {"model": "byte_bpe"},
}
"""Models as a run trains them, by their settings; `policies` are a BPE of more settings than `bpe`."""
KINDS = (*OWN, "gpt2", "bert", "llama-model")
ROLES = ("bos", "eos", "unk", "pad", "cls", "sep", "mask")
LITERALS = (
    "a <mask> b</s><sentinel_0>",
    "\u2581a\u2581 \u2581\u2581",
    "  a\t\n\n  b ",
    "<0x0A>",
    "",
    "a<br>\n# 12345a b",
)
SPLIT = {"type": "Split", "pattern": {"String": " "}, "behavior": "Isolated", "invert": False}


@pytest.fixture(autouse=True)
def few_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw few random strings: benchmarks/auto_tokenizer.py draws them all."""
    monkeypatch.setattr(tokenizer_export, "stress_texts", lambda found: stress_texts(found, strings=28))


@cache
def own_model(kind: str) -> bytes:
    """Return a model that a run trained."""
    lines = [(line, 1) for text in texts() for line in text.splitlines()]
    return train_model(lines, TrainConfig.model_validate({"vocab_size": 1_200, **OWN[kind]}))


def written(name: str, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """Write a tokenizer's file; return it and the special ids that it does not say by itself."""
    pieces = name in OWN and name != "byte_bpe"
    kind = TokenizerKind.SENTENCEPIECE if pieces else kind_of_file(name)
    place = folder / f"{name}-{kind}"
    place.write_bytes(own_model(name) if name in OWN else data_of(name))
    return place, ("eos=[SEP]",) if name == "bert" else ()


def exported(name: str, folder: Path, **more: Any) -> TokenizerExport:
    """Export a tokenizer to the folder `hub`."""
    place, special = written(name, folder)
    return export_tokenizer(place, folder / "hub", special=special, **more)


def opened_model(name: str, folder: Path) -> OpenedTokenizer:
    """Return a tokenizer as a run uses it, and what a folder of it holds."""
    place, special = written(name, folder)
    return opened_tokenizer(place, special=special)


@pytest.mark.parametrize("name", [*KINDS[1:], pytest.param("bpe", marks=pytest.mark.campaign)])
def test_ids_and_roles_of_autotokenizer_are_those_of_the_run(name: str, tmp_path: Path) -> None:
    found = exported(name, tmp_path, split_special=True)
    assert found.proof.texts > 900
    assert found.proof.differ == 0
    ours = opened_model(name, tmp_path).tokenizer
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hub", local_files_only=True)
    special = ours.special_ids
    assert [getattr(theirs, f"{role}_token_id") for role in ROLES] == [*map(special.get, ROLES)]
    assert set(special.values()) <= set(theirs.all_special_ids)
    every = [*texts(), *(LITERALS if name in OWN else LITERALS[2:])]
    wanted = [ids.tolist() for ids in ours.encode(every)]
    assert theirs(every, add_special_tokens=False)["input_ids"] == wanted
    if name in OWN:
        assert [theirs.decode(ids) for ids in wanted] == every
    data = (tmp_path / "hub" / "tokenizer.json").read_bytes()
    if found.model.name.endswith(".json"):
        assert data == found.model.read_bytes()


@pytest.mark.parametrize("name", ["bpe", "unigram", "policies"])
def test_a_written_folder_is_a_tokenizer_of_another_run_with_the_same_ids(
    name: str, tmp_path: Path
) -> None:
    opened = opened_model(name, tmp_path)
    data = folder_files(opened.hub, opened.frame)["tokenizer.json"]
    kind = TokenizerKind.HUGGING_FACE
    roles = find_roles(describe(data, kind, name=name), SpecialPieces(), name=name)
    assert roles.ids == opened.hub.ids
    again = existing_tokenizer(data, kind, roles.ids, name=name)
    every = [*texts(), *LITERALS, *stress_texts(["</s>"], strings=14)["special pieces"]]
    wanted = [ids.tolist() for ids in opened.tokenizer.encode(every)]
    assert [ids.tolist() for ids in again.encode(every)] == wanted
    assert again.decode([np.array(ids, np.int32) for ids in wanted]) == every
    assert again.codec.byte_ids().sum() == 256


def test_a_file_whose_pre_tokenizer_drops_text_is_not_read(tmp_path: Path) -> None:
    opened = opened_model("bpe", tmp_path)
    data = folder_files(opened.hub, opened.frame)["tokenizer.json"]
    for dropping in ({"type": "Whitespace"}, SPLIT | {"behavior": "Removed"}):
        with pytest.raises(FormatError, match="and what `shardmill tokenizer export` wrote"):
            read_content(changed(data, pre_tokenizer=dropping), name="x")


@pytest.mark.parametrize(
    ("preset", "begin", "end"),
    [("bert", [4], [5]), ("none", [], [])],
)
def test_what_add_special_tokens_puts_around_a_text_is_the_framing(
    preset: str, begin: list[int], end: list[int], tmp_path: Path
) -> None:
    exported("bpe", tmp_path, framing=preset)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hub", local_files_only=True)
    bare, framed = (theirs("low tide", add_special_tokens=on)["input_ids"] for on in (False, True))
    assert framed == [*begin, *bare, *end]
    assert theirs("a", "b")["input_ids"] == [
        *(*begin, *theirs("a", add_special_tokens=False)["input_ids"], *end),
        *(*theirs("b", add_special_tokens=False)["input_ids"], *end),
    ]
    literal = {
        split: theirs("<mask>", add_special_tokens=False, split_special_tokens=split)["input_ids"]
        for split in (False, True)
    }
    assert literal[False] == [6]  # the library's way, unless it is told to split special tokens
    assert literal[True] == opened_model("bpe", tmp_path).tokenizer.encode(["<mask>"])[0].tolist()


@pytest.mark.parametrize(
    ("framing", "frame"),
    [
        ({}, (None, 2)),
        ({"preset": "bert"}, (4, 5)),
        ({"preset": "bert", "per": "row"}, (4, 5)),
        ({"begin": "bos", "end": "sep"}, (1, 5)),
    ],
)
def test_the_folder_of_a_run_has_its_framing(
    framing: dict[str, str], frame: tuple[int | None, int], tmp_path: Path
) -> None:
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "tokenizer.model").write_bytes(own_model("bpe"))
    ids = trained_ids(Framing.model_validate(framing))
    (tmp_path / "tokenizer" / "special_ids.json").write_text(json.dumps(ids))
    run = RunFile.model_validate(
        {"sources": [{"name": "s", "paths": ["*"]}], "datasets": [{"name": "d"}], "framing": framing}
    )
    kept = {"run": run.model_dump(mode="json"), "steps": {}}
    (tmp_path / "run.json").write_text(json.dumps(kept))
    opened = opened_tokenizer(tmp_path)
    assert opened.frame is not None
    assert tuple(opened.frame) == frame
    assert opened.tokenizer.exact
    files = folder_files(opened.hub, opened.frame)
    assert frame_of(files["tokenizer.json"], name="written") == opened.frame
    assert json.loads(files["tokenizer_config.json"])["eos_token"] == opened.hub.pieces[frame[1]]


def test_a_folder_that_differs_is_refused_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_export, "stress_texts", stress_texts)
    with pytest.raises(VerificationError, match="comparisons find other ids in the written"):
        exported("albert-model", tmp_path)  # its rules join characters, the library's do not
    assert not (tmp_path / "hub").exists()
    assert not (tmp_path / "hub.partial").exists()


def test_a_half_made_folder_of_someone_else_is_left_alone(tmp_path: Path) -> None:
    stranger = tmp_path / "hub.partial" / "parts.jsonl"  # as an export of rows leaves it
    stranger.parent.mkdir()
    stranger.write_text("hours of work")
    with pytest.raises(ConfigError, match=r"holds parts\.jsonl, which is not ours; move it away"):
        exported("gpt2", tmp_path)
    assert stranger.read_text() == "hours of work"


def test_a_proof_counts_what_differs_and_what_is_left_out(tmp_path: Path) -> None:
    opened = opened_model("bpe", tmp_path)
    file = converted(opened.hub.data, {*opened.hub.ids.values()}, spaces=True, name="bpe")
    given = ["a text", "a </s> b", "\u2581"]
    good = prove_folder(json.dumps(file).encode(), opened.tokenizer, None, given)
    assert (good.texts, good.special, good.split_special, good.differ) == (6, 1, 0, 0)
    symbols = converted(opened.hub.data, {*opened.hub.ids.values()}, spaces=False, name="bpe")
    bad = prove_folder(json.dumps(symbols).encode(), opened.tokenizer, FrameIds(None, 2), given)
    assert (bad.differ, bad.first[0]) == (5, "\u2581")  # U+2581 twice, and no text is framed


def test_unigram_may_cut_otherwise_only_where_scores_are_tied(tmp_path: Path) -> None:
    opened = opened_model("unigram", tmp_path)
    scores = unigram_scores(opened.hub)
    assert scores is not None
    file = converted(opened.hub.data, {*opened.hub.ids.values()}, spaces=True, name="unigram")
    every = [text for group in stress_texts([], strings=300).values() for text in group]
    written = json.dumps(file).encode()
    strict = prove_folder(written, opened.tokenizer, None, every)
    found = prove_folder(written, opened.tokenizer, None, every, scores=scores)
    assert (found.differ, found.ties) == (0, strict.differ)
    for piece in file["model"]["vocab"][600:900]:  # type: ignore[index]
        piece[1] += 9.0
    written = json.dumps(file).encode()
    assert prove_folder(written, opened.tokenizer, None, texts()[:4], scores=scores).differ


@pytest.mark.parametrize(
    ("options", "special", "said"),
    [
        ({"kind": "word"}, (), "a model of kind word, not BPE or unigram"),
        ({"kind": "bpe", "treat_whitespace_as_suffix": True}, (), "puts the space behind words"),
        ({"kind": "bpe", "control_symbols": ["\u00a7"]}, (), "is one character"),
    ],
)
def test_models_that_tokenizer_json_cannot_say_are_refused(
    options: dict[str, object], special: tuple[int, ...], said: str
) -> None:
    with pytest.raises(FormatError, match=said):
        converted(model_of(**options), special, spaces=False, name="x")  # type: ignore[arg-type]


def test_a_piece_that_a_model_never_gives_is_refused_only_where_it_is_merged_over() -> None:
    unused = 5
    bpe, unigram = (with_type(model_of(kind=kind), "\u2581a", unused) for kind in ("bpe", "unigram"))
    with pytest.raises(FormatError, match="merges over '\u2581a', which it never gives"):
        converted(bpe, (), spaces=False, name="x")
    assert converted(unigram, (), spaces=False, name="x")["model"]["type"] == "Unigram"  # type: ignore[index]


def test_the_command_says_what_it_wrote_and_refuses_a_folder_that_is_not_empty(tmp_path: Path) -> None:
    place = tmp_path / "gpt2"
    place.write_bytes(data_of("gpt2"))
    arguments = ["tokenizer", "export", str(place), str(tmp_path / "hub")]
    (tmp_path / "more.txt").write_text("more")
    more = ["--text", str(tmp_path / "more.txt"), "--framing", "gpt2", "--json"]
    result = CliRunner().invoke(app, [*arguments, *more])
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["proof"]["differ"] == 0
    assert found["frame"] == {"begin": None, "end": 0}
    library = Library.from_file(str(tmp_path / "hub" / "tokenizer.json"))
    assert library.encode("a").ids[-1] == 0
    by_function = shardmill.export_tokenizer(place, tmp_path / "api", framing="gpt2")
    assert [(tmp_path / "api" / name).read_bytes() for name in by_function.files] == [
        (tmp_path / "hub" / name).read_bytes() for name in found["files"]
    ]
    again = CliRunner().invoke(app, arguments)
    assert isinstance(again.exception, ConfigError)
    assert "is there and not empty" in str(again.exception)
    wrong = CliRunner().invoke(app, [*arguments[:3], str(tmp_path / "b"), "--framing", "bart"])
    assert "--framing bart: no such preset; presets: gpt2" in str(wrong.exception)
