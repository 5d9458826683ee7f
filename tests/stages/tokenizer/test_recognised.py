"""What a tokenizer's file promises: its content says what it is, and a tekken.json has Mistral's ids."""

import base64
import json
from typing import Any

import pytest

from stages.errors import ConfigError, FormatError
from stages.tokenizer.existing import TokenizerKind, describe
from stages.tokenizer.framing import FrameIds
from stages.tokenizer.ranks.encodings import TiktokenConfig
from stages.tokenizer.recognised import RecognisedFile, tokenizer_file
from stages.tokenizer.roles import SpecialPieces, find_roles
from tests.stages.tokenizer.existing_files import FILES, data_of, kind_of_file, texts
from tests.stages.tokenizer.test_ranks import PATTERN, by_the_rule, opened, trained_ranks

RESERVED = 24
CUT = 100
"""Pieces that a tekken.json has and does not use."""


def tekken(**changes: Any) -> bytes:
    """Return a tekken.json of the trained ranks."""
    ranks = trained_ranks()
    config = {"pattern": PATTERN, "num_vocab_tokens": len(ranks), "version": "v3"}
    config |= {"default_vocab_size": len(ranks) - CUT + RESERVED, "default_num_special_tokens": RESERVED}
    vocab = [
        {"rank": rank, "token_bytes": base64.b64encode(piece).decode(), "token_str": None}
        for piece, rank in ranks.items()
    ]
    config |= {key: value for key, value in changes.items() if key in config}
    rest = {key: value for key, value in changes.items() if key not in config}
    return json.dumps({"config": config, "vocab": vocab, **rest}).encode()


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_opened_as_it_is_stays_as_it_is(name: str) -> None:
    data = data_of(name)
    assert tokenizer_file(data, name="tokenizer.model.v3") == RecognisedFile(kind_of_file(name), data)
    if kind_of_file(name) is TokenizerKind.HUGGING_FACE:
        assert tokenizer_file(b" \r\n" + data, name="x").kind is TokenizerKind.HUGGING_FACE


def test_a_tekken_file_has_its_special_tokens_first_and_the_pieces_that_it_uses_behind_them() -> None:
    file = tokenizer_file(tekken(), name="tekken.json")
    assert (file.kind, file.converted) == (TokenizerKind.HUGGING_FACE, "tekken.json")
    described = describe(file.data, file.kind, name="tekken.json")
    used = {piece: rank for piece, rank in trained_ranks().items() if rank < 1499 - CUT}
    assert described.size == len(used) + RESERVED
    assert described.controls == frozenset(range(RESERVED))
    assert described.frame() == FrameIds(1, None)
    ids = find_roles(described, SpecialPieces(), name="tekken.json").ids
    assert {role: ids[role] for role in ("unk", "bos", "eos", "pad")} == {
        "unk": 0,
        "bos": 1,
        "eos": 2,
        "pad": 11,
    }
    every = [*texts()[:20], "<s>[INST] a [/INST]</s><SPECIAL_23><pad>"]
    tokenizer = opened(file.data)
    expected = [[rank + RESERVED for rank in by_the_rule(text, used)] for text in every]
    assert [row.tolist() for row in tokenizer.encode(every)] == expected
    assert tokenizer.decode(tokenizer.encode(every)) == every


def test_a_tekken_file_names_its_special_tokens_itself_after_version_7() -> None:
    given = [{"rank": 1, "token_str": "<s>"}, {"rank": 0, "token_str": "<unk>"}]
    file = tokenizer_file(tekken(version="v11", special_tokens=given), name="x")
    marks = describe(file.data, file.kind, name="x").marks
    assert list(marks.items())[:3] == [("<unk>", 0), ("<s>", 1), ("<SPECIAL_2>", 2)]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": "v11"}, "no special_tokens, which files of version v11 must have"),
        ({"special_tokens": [{"rank": 3, "token_str": "<s>"}]}, "not numbered from 0 to 23"),
        (
            {"special_tokens": [{"rank": 0, "token_str": "<s>"}] * 2},
            "a special token that is there twice",
        ),
        ({"default_vocab_size": 3000}, "pieces that are not ranked from 0 to 2,975"),
        ({"default_vocab_size": 200}, "no rank for the byte"),
        ({"vocab": [{"rank": 0, "token_bytes": "AA=="}, {}]}, "KeyError: 'rank'"),
        ({"vocab": [{"rank": 0, "token_bytes": "?"}]}, "not a tekken.json"),
    ],
)
def test_damaged_tekken_files_are_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(FormatError, match=f"x: .*{said}"):
        tokenizer_file(tekken(**changes), name="x")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a pointer of Git LFS"),
        (b"#version: 0.2\n\xc4\xa0 t\n", "merges.txt"),
        (b"\n<!doctype html>", "a page of the web"),
        (b"\x1f\x8b\x08", "compressed by gzip"),
        (b"PK\x03\x04", "a zip archive"),
        (b"[PAD]\n[unused0]\n", "vocab.txt"),
    ],
)
def test_what_is_named_in_place_of_a_tokenizer_is_told_apart(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=rf"x: is {said}.*; SentencePiece models, tokenizer\.json"):
        tokenizer_file(data, name="x")


def test_other_json_and_other_bytes_are_refused_when_they_are_opened() -> None:
    for data in (b"{}", b'{"a": 1}', b"", b"no model", b"\n{\n\x05"):
        file = tokenizer_file(data, name="x")
        with pytest.raises(FormatError, match="x: not a "):
            describe(file.data, file.kind, name="x")


def test_what_is_said_of_ranks_is_refused_with_another_file() -> None:
    for data in (data_of("gpt2"), tekken(), b"no model"):
        with pytest.raises(
            ConfigError, match=r"x: is no file of tiktoken's ranks, and tokenizer\.tiktoken"
        ):
            tokenizer_file(data, name="x", tiktoken=TiktokenConfig(encoding="llama3"))
