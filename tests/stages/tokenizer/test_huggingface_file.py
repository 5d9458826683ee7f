"""What tokenizer.json files promise that are unlike those of the well-known models.

Texts have the ids of their library wherever they are cut; parts of texts join or are refused; a file
that its library cannot work with is refused by a line that names it.
"""

import json
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer as Library
from tokenizers import normalizers, pre_tokenizers

from stages.errors import FormatError
from stages.tokenizer import huggingface_file
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import TokenizerKind, describe, existing_tokenizer
from tests.stages.tokenizer.existing_files import changed, data_of, texts

LONG = {
    "words": "".join(texts())[:20_000],
    "no spaces": "".join("".join(texts()).split())[:20_000],
    "table": "|---|:--:|\n" * 800,
    "faces": "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f\n" * 500,
    "dashes": "- - , " * 1200,
    "white space": f"{texts()[0][:680]} end,{' ' * 290}and {'more words of it. ' * 60}",
}
"""Texts of many stretches, of which some have no place where a space could be put before the rest."""
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def part_of(part: Any) -> dict[str, Any]:
    """Return a part of a pipeline as a file writes it."""
    library = Library.from_str(data_of("gpt2").decode())
    if isinstance(part, pre_tokenizers.PreTokenizer):
        library.pre_tokenizer = part
        return dict(json.loads(library.to_str())["pre_tokenizer"])
    library.normalizer = part
    return dict(json.loads(library.to_str())["normalizer"])


def opened(data: bytes, special: int = 0) -> Tokenizer:
    """Return a tokenizer of which an id is EOS and padding."""
    describe(data, TokenizerKind.HUGGING_FACE, name="some.json")
    ids = {"eos": special, "pad": special}
    return existing_tokenizer(data, TokenizerKind.HUGGING_FACE, ids, name="some.json")


UNUSUAL = {
    "gpt2 with a space before": changed(
        data_of("gpt2"), pre_tokenizer=BYTE_LEVEL | {"add_prefix_space": True}
    ),
    "gpt2 that strips": changed(data_of("gpt2"), normalizer=part_of(normalizers.Strip())),
    "t5 that strips": changed(data_of("t5"), normalizer=part_of(normalizers.Strip())),
    "t5 of words": changed(
        data_of("t5"),
        pre_tokenizer=part_of(
            pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
        ),
    ),
    "llama": data_of("llama-json"),
}


@pytest.mark.parametrize("kind", LONG)
@pytest.mark.parametrize("name", UNUSUAL)
def test_nothing_is_put_before_a_stretch_or_taken_off_it(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(huggingface_file, "_STRETCH", 700)
    monkeypatch.setattr(huggingface_file, "_WINDOW", 100)
    library = Library.from_str(UNUSUAL[name].decode())
    expected = library.encode(LONG[kind], add_special_tokens=False).ids
    assert len(LONG[kind]) > 1400
    assert opened(UNUSUAL[name]).encode([LONG[kind]])[0].tolist() == expected


def with_added(**flags: bool) -> bytes:
    """Return a byte-level file with a token of text that takes the spaces beside it."""
    library = Library.from_str(data_of("gpt2").decode())
    number = library.get_vocab_size()
    every = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    added = [
        *json.loads(data_of("gpt2"))["added_tokens"],
        {"id": number, "content": "<tool>", **every, **flags},
    ]
    return changed(data_of("gpt2"), added_tokens=added)


@pytest.mark.parametrize(
    ("data", "joins"),
    [
        (data_of("gpt2"), True),
        (UNUSUAL["gpt2 with a space before"], True),
        (with_added(), True),
        (with_added(lstrip=True), False),
        (changed(data_of("gpt2"), pre_tokenizer=None, normalizer={"type": "ByteLevel"}), False),
        (changed(data_of("gpt2"), pre_tokenizer=part_of(
            pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel()])
        )), False),
        (changed(data_of("gpt2"), pre_tokenizer=part_of(
            pre_tokenizers.Sequence([pre_tokenizers.CharDelimiterSplit("e"), pre_tokenizers.ByteLevel()])
        )), False),
    ],
)  # fmt: skip
def test_parts_of_texts_join_only_where_nothing_is_dropped(data: bytes, *, joins: bool) -> None:
    tokenizer = opened(data)
    assert tokenizer.writes_all == joins
    if joins:
        parts = [" a <tool>  b", "tree\n", " ", "\u00e9"]
        assert tokenizer.verbatim().decode(tokenizer.verbatim().encode(parts)) == parts


def test_a_decoder_of_bytes_alone_writes_no_character_as_bytes() -> None:
    data = changed(data_of("gpt2"), pre_tokenizer={"type": "Whitespace"})
    assert Library.from_str(data.decode()).encode("\u65e5").ids == [], "lost without a trace"
    with pytest.raises(FormatError, match=r"some\.json: has neither an unknown token nor a piece for"):
        opened(data)


def test_a_byte_of_the_fallback_cannot_be_special() -> None:
    number = json.loads(data_of("llama-json"))["model"]["vocab"]["<0xE4>"]
    with pytest.raises(FormatError, match=r"some\.json: byte 0xe4 is a special id, and texts need it"):
        opened(data_of("llama-json"), number)


def with_id(number: object) -> bytes:
    vocab = json.loads(data_of("gpt2"))["model"]["vocab"]
    return changed(data_of("gpt2"), model__vocab={**vocab, "zz": number})


def with_id_added(number: object) -> bytes:
    added = json.loads(data_of("gpt2"))["added_tokens"]
    return changed(data_of("gpt2"), added_tokens=[*added, {**added[0], "content": "zz", "id": number}])


def with_merge(merge: object) -> bytes:
    merges = json.loads(data_of("gpt2"))["model"]["merges"]
    return changed(data_of("gpt2"), model__merges=[*merges, merge])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (with_merge("a b c"), "the merge 'a b c' is not of two pieces"),
        (with_merge(["a", 1]), "the merge .'a', 1. is not of two pieces"),
        (with_merge(5), "the merge 5 is not of two pieces"),
        *(
            (maker(number), f"the id of 'zz' is {number!r}, and must be from 0 to 16,777,215")
            for number in ("7", 3_000_000_000, -1, 1.5, True, None)
            for maker in (with_id, with_id_added)
        ),
    ],
)
def test_merges_and_ids_that_are_none_are_refused(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=rf"some\.json: not a tokenizer\.json .*{said}\); save it"):
        opened(data)


def test_a_file_on_which_its_library_panics_is_refused() -> None:
    data = changed(data_of("t5"), normalizer={"type": "Precompiled", "precompiled_charsmap": ""})
    with pytest.raises(FormatError, match=r"some\.json: not a tokenizer\.json: .*; save it with"):
        opened(data)


def test_a_text_on_which_its_library_panics_is_named() -> None:
    endless = {"type": "Replace", "pattern": {"Regex": ""}, "content": "x"}
    tokenizer = opened(changed(data_of("gpt2"), normalizer=endless))
    said = r"some\.json: its normaliser, .* gives up on the text 'a b c .*'\.\.\.: .*; mend that part"
    with pytest.raises(FormatError, match=said):
        tokenizer.encode(["a b c " * 20])


def test_a_pattern_without_end_is_named_with_its_text() -> None:
    pattern = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}
    both = {"type": "Sequence", "pretokenizers": [pattern, BYTE_LEVEL]}
    tokenizer = opened(changed(data_of("gpt2"), pre_tokenizer=both))
    with pytest.raises(FormatError, match=r"some\.json: its normaliser, .* on the text 'aaaa.*b': "):
        tokenizer.encode([f"{'a' * 40}b"])


def test_what_stops_a_run_is_no_fault_of_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    tokenizer = opened(data_of("gpt2"))
    monkeypatch.setattr(np, "array", stopped)
    with pytest.raises(KeyboardInterrupt):
        tokenizer.encode(["a"])


def test_runs_of_spaces_that_are_added_tokens_are_spelled_as_spaces() -> None:
    data = json.loads(data_of("llama-json"))
    run = "\u2581\u2581"
    number = data["model"]["vocab"].setdefault(run, len(data["model"]["vocab"]))
    if ["\u2581", "\u2581"] not in data["model"]["merges"]:
        data["model"]["merges"].append(["\u2581", "\u2581"])
    added = {"content": run, "id": number, "special": False, "normalized": False}
    sides = {"single_word": False, "lstrip": False, "rstrip": False}
    data["added_tokens"].append(added | sides)
    data["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    tokenizer = opened(json.dumps(data).encode(), special=2)
    given = ["def f(x):\n    return  x\n", f"a{run}b"]
    ids = tokenizer.encode(given)
    assert all(number in row for row in ids)
    assert tokenizer.decode(ids) == [tokenizer.normalise(text) for text in given]
    assert tokenizer.normalise(given[0]) == given[0]
