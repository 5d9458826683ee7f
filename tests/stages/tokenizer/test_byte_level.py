"""What compiled byte-level BPE promises: the library's ids, of every file that it takes.

Vocabularies and merges are made up, so that merges take each other's symbols, and words are pieces that
no merge reaches. Files trained on real texts are in `test_existing`.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast
from unicodedata import is_normalized

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from stages.tokenizer.bpe import encoder as bpe_encoder
from stages.tokenizer.bpe.byte_level import byte_tables_of
from stages.tokenizer.bpe.merging import LONGEST_WORD
from stages.tokenizer.huggingface_file import HuggingFaceFile
from stages.tokenizer.texts import joined_texts
from tests.campaign import examples
from tests.stages.tokenizer.test_splitting import KNOWN, LETTERS

if TYPE_CHECKING:
    from stages.tokenizer.huggingface_content import ReadFile

INT32 = np.dtype(np.int32)
SIGN = "\u0120"
"""How a space is written."""
ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
PARTS = st.lists(st.text(f"ab{SIGN}c", min_size=2, max_size=5), max_size=14, unique=True)
TEXTS = st.lists(
    st.text(st.sampled_from("aab  c'1\n\u00e9"), max_size=40) | st.text(LETTERS, max_size=30), max_size=4
)


def file_of(
    parts: Sequence[str], order: Sequence[int] = (), *, name: str = "gpt2", **model: Any
) -> dict[str, Any]:
    """Return a file with pieces, and all merges of two pieces to one, in some order."""
    vocab = {piece: number for number, piece in enumerate(dict.fromkeys([*ALPHABET, *parts]))}
    merges = [
        (part[:cut], part[cut:])
        for part in parts
        for cut in range(1, len(part))
        if part[:cut] in vocab and part[cut:] in vocab
    ]
    merges = [merges[place % len(merges)] for place in order] + merges if merges else []
    merges = list(dict.fromkeys(merges))
    made = Tokenizer(models.BPE(vocab, merges, **model))
    made.pre_tokenizer, made.decoder = KNOWN[name], decoders.ByteLevel()
    content: dict[str, Any] = json.loads(made.to_str())
    return content


def opened(file: dict[str, Any], special: Sequence[int] = ()) -> HuggingFaceFile:
    """Return a file, which compiled code must take."""
    found = HuggingFaceFile.open(json.dumps(file).encode(), special, name="made up")
    assert found.compiled
    return found


def ids_of(file: HuggingFaceFile, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids that compiled code gives."""
    joined = joined_texts([text.encode() for text in texts])
    return [part.tolist() for part in file.encode_texts(joined, dtype=INT32).parts()]


def library_ids(file: HuggingFaceFile, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids that the library gives."""
    return [ids.tolist() for ids in file.encode_by_library(texts)]


@settings(deadline=None, derandomize=True, max_examples=examples(250))
@given(
    parts=PARTS,
    order=st.lists(st.integers(0, 99), max_size=10),
    texts=TEXTS,
    whole=st.booleans(),
    name=st.sampled_from(sorted(KNOWN)),
)
def test_ids_are_the_librarys(
    parts: list[str], order: list[int], texts: list[str], *, whole: bool, name: str
) -> None:
    file = opened(file_of(parts, order, name=name, ignore_merges=whole))
    assert ids_of(file, texts) == library_ids(file, texts)


def test_a_word_that_is_a_piece_is_taken_whole_only_if_the_file_says_so() -> None:
    parts = ["ab", "abcb", f"{SIGN}abcb"]
    merged, whole = (opened(file_of(parts, ignore_merges=ignore)) for ignore in (False, True))
    words = ["abcb", " abcb abcb", "ab"]
    assert ids_of(merged, words) == library_ids(merged, words)
    assert ids_of(whole, words) == library_ids(whole, words) == [[257], [258, 258], [256]]
    assert ids_of(merged, words) != ids_of(whole, words)


def test_words_are_found_by_all_their_bytes() -> None:
    pieces = [f"a{first}{second}" for first in "bcdefgh" for second in "klmnopq"]
    file = opened(file_of(pieces[::2], ignore_merges=True))
    assert ids_of(file, pieces) == library_ids(file, pieces)
    assert sum(len(ids) == 1 for ids in ids_of(file, pieces)) == len(pieces[::2])


def test_of_two_merges_of_the_same_symbols_the_later_counts() -> None:
    file = file_of(["ab", "bc"])
    file["model"]["merges"] = [["a", "b"], ["b", "c"], ["a", "b"]]
    found = opened(file)
    texts = ["abc", "ab bc abcabc", "abab"]
    assert ids_of(found, texts) == library_ids(found, texts)
    assert ids_of(found, ["abc"]) != ids_of(opened(file_of(["ab", "bc"])), ["abc"])


@pytest.mark.parametrize("size", [24, 25, 26, 300, LONGEST_WORD, LONGEST_WORD + 1, LONGEST_WORD + 7])
def test_words_of_any_length(size: int) -> None:
    file = opened(file_of(["ab", "abab", "ba", "bab"]))
    texts = ["x ", "ab" * (size // 2) + "a" * (size % 2), "ab ab"]
    assert ids_of(file, texts) == library_ids(file, texts)


def test_words_that_take_each_others_place_change_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_of(["ab", "ba", "bab", "abba"])
    words = [f"{number:b}".replace("0", "a").replace("1", "b") for number in range(2_000)]
    text = " ".join([*words, *words])
    much = ids_of(opened(file), [text])
    monkeypatch.setattr(bpe_encoder, "_SLOTS", 2)
    found = opened(file)
    assert ids_of(found, [text]) == much == library_ids(found, [text])


@settings(deadline=None, derandomize=True, max_examples=examples(40))
@given(
    added=st.sets(st.text("ab <c\u00e9", min_size=1, max_size=4), max_size=5),
    texts=st.lists(st.text("abc <\n\u00e9", max_size=40), max_size=4),
    name=st.sampled_from(sorted(KNOWN)),
    normalized=st.booleans(),
)
def test_added_pieces_are_cut_out_as_the_library_does(
    added: set[str], texts: list[str], name: str, *, normalized: bool
) -> None:
    made = Tokenizer.from_str(json.dumps(file_of(["ab", f"{SIGN}a", "abc"], name=name)))
    made.add_tokens([AddedToken(one, special=False, normalized=normalized) for one in sorted(added)])
    file = opened(json.loads(made.to_str()))
    assert ids_of(file, texts) == library_ids(file, texts)


def test_texts_that_write_out_an_added_piece_are_the_librarys() -> None:
    made = Tokenizer.from_str(json.dumps(file_of(["ab", "<t"])))
    made.add_tokens([AddedToken("<tool>", special=False), AddedToken("  b", lstrip=True)])
    made.add_special_tokens(["<|end|>"])
    file = opened(json.loads(made.to_str()), [260])
    texts = [
        "ab<tool>ab",
        "<tool",
        "ab",
        "a  ba",
        "<|end|> ab",
        "<t",
        "ool>",
        "a<tool",
        ">b",
        "",
        "b<tool>",
    ]
    found = ids_of(file, texts)
    assert found == library_ids(file, texts)
    assert [258 in ids for ids in found] == [True] + [False] * 9 + [True]
    assert [260 in ids for ids in found] == [False] * 11


def test_normalised_texts() -> None:
    for normaliser in (normalizers.NFC(), normalizers.Sequence([normalizers.NFKD(), normalizers.NFC()])):
        made = Tokenizer.from_str(json.dumps(file_of(["ab", "ba"])))
        made.normalizer = normaliser
        made.add_tokens(
            [AddedToken("\u00e9b", normalized=True), AddedToken("e\u0301y", normalized=True)]
        )
        made.add_tokens([AddedToken("<e", normalized=False)])
        file = opened(json.loads(made.to_str()))
        texts = [
            "AB ab",
            "e\u0301 \u00e9 \ufb01 \u0344",
            "plain ab",
            "ae\u0301bab",
            "a\u00e9bab",
            "\u00c9B",
            "\u00e9y",
            "ae\u0301y",
            "<e\u0301",
            "<\u00e9",
        ]
        assert ids_of(file, texts) == library_ids(file, texts)


@pytest.mark.parametrize(("form", "step"), [("NFC", 1), ("NFD", 5), ("NFKC", 5), ("NFKD", 5)])
def test_what_python_takes_for_normalised_the_library_leaves_as_it_is(form: Any, step: int) -> None:
    normaliser, seen = getattr(normalizers, form)(), 0
    for point in [*range(0, 0xD800, step), *range(0xE000, 0x34000, step), *range(0xE0000, 0xE0200)]:
        for before, after in (("", ""), ("a\u0323", "\u0301"), ("", "\u0338")):
            text = before + chr(point) + after
            if is_normalized(form, text):
                seen += 1
                assert normaliser.normalize_str(text) == text
    assert seen > 200_000 / step


def test_other_normalisers_are_left_to_the_library() -> None:
    for normaliser in (
        normalizers.Lowercase(),
        normalizers.Sequence([normalizers.NFC(), normalizers.Strip()]),
    ):
        made = Tokenizer.from_str(json.dumps(file_of(["ab"])))
        made.normalizer = normaliser
        found = HuggingFaceFile.open(made.to_str().encode(), [], name="made up")
        assert not found.compiled
        assert ids_of(found, [" AB ab"]) == library_ids(found, [" AB ab"])


def test_other_files_are_left_to_the_library() -> None:
    plain = file_of(["ab"])
    assert byte_tables_of(cast("ReadFile", plain)) is not None
    lacking = json.loads(json.dumps(plain))
    del lacking["model"]["vocab"]["a"]
    changes = ({"dropout": 0.5}, {"end_of_word_suffix": "</w>"}, {"type": "Unigram", "vocab": []})
    others = [
        lacking,
        plain | {"pre_tokenizer": {"type": "Whitespace"}},
        *(plain | {"model": plain["model"] | change} for change in changes),
    ]
    assert [byte_tables_of(cast("ReadFile", other)) for other in others] == [None] * len(others)
