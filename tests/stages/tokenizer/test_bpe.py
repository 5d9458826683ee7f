"""What the compiled encoder promises: the library's ids of every BPE model it takes, in bounded memory.

Models are made up piece by piece, so that scores tie, pieces are out of reach of merging, and characters
stand in pieces and have none of their own.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stages.tokenizer.bpe import encoder as bpe_encoder
from stages.tokenizer.bpe.encoder import BpeEncoder
from stages.tokenizer.bpe.merging import LONGEST_WORD
from stages.tokenizer.bpe.tables import tables_of
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.encode import NO_NORMALIZER, trained_tokenizer
from stages.tokenizer.sampling import SPACE_SYMBOL
from stages.tokenizer.sentencepiece_model import SentencePieceModel, varint
from stages.tokenizer.texts import joined_texts
from tests.campaign import examples

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2
INT32 = np.dtype(np.int32)
ALPHABET = f"ab1é猫👍{SPACE_SYMBOL}"
PIECES = st.lists(
    st.tuples(st.text(ALPHABET, min_size=1, max_size=5), st.sampled_from([-0.0, -1.0, -2.0, -2.5])),
    max_size=25,
    unique_by=lambda piece: piece[0],
)
TEXTS = st.lists(st.text(f"{ALPHABET} c\n", max_size=60), max_size=4)


def piece_of(text: str, score: float = 0.0, kind: int = NORMAL) -> bytes:
    """Return a piece as it stands in a model."""
    content = b"\x0a" + varint(len(text.encode())) + text.encode()
    content += b"\x15" + struct.pack("<f", score) + b"\x18" + varint(kind)
    return b"\x0a" + varint(len(content)) + content


def model_of(pieces: Sequence[bytes], *, kind: int = BPE, num_bytes: int = 256) -> bytes:
    """Return a model of some pieces, with the bytes, and no normaliser."""
    singles = [piece_of(f"<0x{byte:02X}>", kind=BYTE) for byte in range(num_bytes)]
    trainer = b"\x18" + varint(kind) + b"\x98\x02" + varint(num_bytes == 256)
    head = [
        piece_of("<unk>", kind=UNKNOWN),
        piece_of("<s>", kind=CONTROL),
        piece_of("</s>", kind=CONTROL),
    ]
    content = b"".join([*head, *singles, *pieces])
    return content + b"\x12" + varint(len(trainer)) + trainer + NO_NORMALIZER


def opened(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Return a model as the library has it."""
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def tokenizer_of(model: bytes) -> Tokenizer:
    """Return a model with its compiled encoder."""
    return trained_tokenizer(opened(model))


def never(text: str) -> np.ndarray:
    """Fail: no word is too long."""
    raise AssertionError(text)


def ids_of(model: bytes, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids that compiled code gives of each text."""
    tables = tables_of(SentencePieceModel(model))
    assert tables is not None
    encoded = BpeEncoder(tables, never).encode(joined_texts([t.encode() for t in texts]), dtype=INT32)
    return [part.tolist() for part in encoded.parts()]


def library_ids(model: bytes, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids that the library gives, the sign of a space written as its bytes."""
    return [ids.tolist() for ids in tokenizer_of(model).encode_by_library(texts)]


SPACE = (SPACE_SYMBOL, -9.0)


@settings(deadline=None, derandomize=True, max_examples=examples(300))
@given(PIECES, TEXTS)
@example([("ab", -1.0), ("ba", -1.0), ("aba", -1.0)], ["ababa abab baba"])
@example([("aa", -2.0), ("aaa", -1.0), ("aaaa", -2.0)], ["a" * n for n in range(60)])
@example([("猫👍", -1.0), ("é猫", -2.0)], ["é猫👍 猫👍👍é"])
def test_ids_are_the_librarys(pieces: list[tuple[str, float]], texts: list[str]) -> None:
    model = model_of([piece_of(*piece) for piece in dict([SPACE, *pieces]).items()])
    assert ids_of(model, texts) == library_ids(model, texts)


@settings(deadline=None, derandomize=True, max_examples=examples(150))
@given(PIECES, st.sets(st.text(ALPHABET, min_size=1, max_size=4), max_size=6), TEXTS)
@example([("ab", -1.0), ("abb", -2.0)], {"ab", "abba", "b1"}, ["aabbab1 abbabba abba"])
@example([("a", -1.0), ("aa", -2.0)], {SPACE_SYMBOL * n for n in (2, 3, 5)}, [" " * 9 + "a  aa a"])
@example([], {"\U0001f44d", "a", f"a{SPACE_SYMBOL}b"}, ["a b\U0001f44da", f"a{SPACE_SYMBOL}b"])
def test_pieces_that_are_matched_as_a_whole_have_the_librarys_ids(
    pieces: list[tuple[str, float]], whole: set[str], texts: list[str]
) -> None:
    merged = dict([SPACE, *pieces])
    whole -= {SPACE_SYMBOL}
    model = model_of(
        [piece_of(*piece) for piece in merged.items() if piece[0] not in whole]
        + [piece_of(text, kind=USER_DEFINED) for text in sorted(whole)]
    )
    assert ids_of(model, texts) == library_ids(model, texts)


def test_a_long_run_of_whole_pieces_is_encoded_by_the_library() -> None:
    model = model_of([piece_of(*SPACE), piece_of(SPACE_SYMBOL * 7, kind=USER_DEFINED), piece_of("a")])
    texts = ["a" + " " * 300_000, "a" + " " * 1_000, " " * (LONGEST_WORD + 9) + "aa"]
    assert [ids.tolist() for ids in tokenizer_of(model).encode(texts)] == library_ids(model, texts)
    assert ids_of(model, texts[1:2]) == library_ids(model, texts[1:2])


@settings(deadline=None, derandomize=True, max_examples=examples(30))
@given(PIECES, st.text(ALPHABET.replace(SPACE_SYMBOL, " "), min_size=200, max_size=600))
def test_long_words_have_the_librarys_ids(pieces: list[tuple[str, float]], text: str) -> None:
    every = [(first + second, -7.0) for first in ALPHABET for second in ALPHABET]
    model = model_of([piece_of(*piece) for piece in dict([SPACE, *every, *pieces]).items()])
    assert ids_of(model, [text]) == library_ids(model, [text])


def test_words_that_take_each_others_place_change_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of(
        [piece_of(*SPACE), *(piece_of(text, -1.0) for text in ("a", "b", "ab", "ba", "bab"))]
    )
    words = [f"{number:b}".replace("0", "a").replace("1", "b") for number in range(2_000)]
    text = " ".join([*words, *words])
    much = ids_of(model, [text])
    monkeypatch.setattr(bpe_encoder, "_SLOTS", 2)
    assert ids_of(model, [text]) == much == library_ids(model, [text])


@pytest.mark.parametrize(
    "merged", [("aa", "bb", "abba"), ("a" * 8, "b" * 8, "aa", "bb", "aaaa", "bbbb", "ab", "ba")]
)
def test_words_that_differ_in_their_last_bytes_or_have_many_ids_change_no_id(
    merged: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of([piece_of(*SPACE), *(piece_of(text, -1.0) for text in ("a", "b", *merged))])
    endings = [f"{number:08b}".replace("0", "a").replace("1", "b") for number in range(256)]
    words = ["a" * 8 + "b" * 8 + ending for ending in endings]
    text = " ".join(word for pair in pairwise(words) for word in (*pair, *pair))
    monkeypatch.setattr(bpe_encoder, "_SLOTS", 2)
    assert ids_of(model, [text]) == library_ids(model, [text])


def test_a_text_with_too_long_a_word_is_encoded_by_the_library_alone() -> None:
    model = model_of([piece_of(*SPACE), piece_of("a", -5.0), piece_of("aa", -1.0), piece_of("b", -5.0)])
    texts = ["a b", "a" * (LONGEST_WORD + 1), "b aa", "b" + "a" * LONGEST_WORD, "a" * LONGEST_WORD, ""]
    asked: list[str] = []

    def otherwise(text: str) -> np.ndarray:
        asked.append(text)
        return np.array([7, 8, 9], INT32)

    tables = tables_of(SentencePieceModel(model))
    assert tables is not None
    encoder = BpeEncoder(tables, otherwise)
    encoded = encoder.encode(joined_texts([text.encode() for text in texts]), dtype=INT32)
    found = [part.tolist() for part in encoded.parts()]
    assert asked == [texts[1]], "the b of the fourth is a word by itself"
    assert found[1] == [7, 8, 9]
    others = [0, 2, 3, 4, 5]
    assert [found[n] for n in others] == library_ids(model, [texts[n] for n in others])
    assert tokenizer_of(model).encode([texts[1]])[0].tolist() == library_ids(model, [texts[1]])[0]


@pytest.mark.parametrize(
    "model",
    [
        model_of([piece_of(*SPACE), piece_of("a")], kind=UNIGRAM),
        model_of([piece_of(*SPACE), piece_of("a")], num_bytes=0),
        model_of([piece_of("a"), piece_of("ab")]),
        model_of([piece_of(*SPACE), piece_of("a b", kind=USER_DEFINED)]),
        model_of([piece_of(*SPACE), *(piece_of("a" * n, kind=USER_DEFINED) for n in range(1, 66))]),
        model_of([piece_of(*SPACE), piece_of("ab", kind=UNUSED)]),
        model_of([piece_of(*SPACE), piece_of("a", kind=CONTROL)]),
        model_of([piece_of(*SPACE), piece_of("a b")]),
        model_of([piece_of(*SPACE), piece_of("b猫", -0.0), piece_of("猫a", 0.0)]),
    ],
    ids=[
        "unigram",
        "no bytes",
        "no space",
        "a plain space in one that is user-defined",
        "too many that begin one another",
        "unused",
        "one character",
        "a plain space",
        "two zeros",
    ],
)
def test_models_of_other_rules_are_left_to_the_library(model: bytes) -> None:
    assert tables_of(SentencePieceModel(model)) is None
    texts = ["ab a b", "", "猫", "b猫a"]
    assert [ids.tolist() for ids in tokenizer_of(model).encode(texts)] == library_ids(model, texts)


def test_a_text_that_writes_a_special_id_gives_none() -> None:
    model = model_of(
        [piece_of(*SPACE), *(piece_of(letter) for letter in "<s/>0xA"), piece_of("<s", 1.0)]
    )
    (ids,) = ids_of(model, ["<s></s><unk><0x0A>"])
    special = {1, 2, 0, opened(model).piece_to_id("<0x0A>")}
    assert not special & set(ids)
    assert [ids] == library_ids(model, ["<s></s><unk><0x0A>"])


def test_of_a_field_that_stands_twice_the_later_counts() -> None:
    twice = piece_of("ab", 5.0, kind=NORMAL)
    changed = b"\x0a" + varint(len(twice)) + twice[2:] + bytes([3 << 3, CONTROL])
    model = model_of([piece_of(*SPACE), piece_of("a", -3.0), piece_of("b", -3.0), changed])
    assert opened(model).is_control(opened(model).piece_to_id("ab"))
    assert ids_of(model, ["ab"]) == library_ids(model, ["ab"])
    assert len(ids_of(model, ["ab"])[0]) == len("ab")
