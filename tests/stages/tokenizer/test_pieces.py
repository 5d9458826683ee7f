"""What pieces promise: they say what ids decode to; parts of a normalised text come back verbatim."""

from functools import cache

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.pieces import pieces_of
from stages.tokenizer import encode
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.encode import trained_tokenizer
from stages.tokenizer.normalization import Normalization
from stages.tokenizer.special import special_ids
from stages.tokenizer.train import TrainConfig, train_model

SAMPLE = [
    ("the cat sat on the mat and then ran to the other cat\nwhile another rat sat there\n", 3),
    ("x = f(x)\n\treturn 12345\n\treturn f(x) + another(x)\n", 2),
]
TEXTS = [
    "",
    "the cat sat\n\ton the  mat ",
    "a\u2581b \u2581",
    "e\u0301 \u0301e q\u0323\u0307 \u3099か \u1100\u1161\u11a8",
    "\ufb01 \u00b2 \u00bd \uff21\uff76\uff9e \u2122 \u2026 \u00a0\u3000\u2009",
    "👍🏽 👨\u200d👩\u200d👧 </s><mask><0x41>",
]
BOTH = pytest.mark.parametrize("rule", Normalization)


@cache
def tokenizer_of(rule: Normalization) -> Tokenizer:
    """Return a small model with a normaliser."""
    model = train_model(SAMPLE, TrainConfig(vocab_size=556, normalization=rule))
    return trained_tokenizer(sentencepiece.SentencePieceProcessor(model_proto=model))


@BOTH
def test_pieces_say_what_ids_decode_to(rule: Normalization) -> None:
    tokenizer = tokenizer_of(rule)
    pieces = tokenizer.codec.piece_bytes()
    for text, ids in zip(TEXTS, tokenizer.encode(TEXTS), strict=True):
        assert b"".join(pieces[i] for i in ids).decode() == tokenizer.normalise(text)
    assert [pieces[i] for i in special_ids().values()] == [b""] * len(special_ids())
    assert len(pieces) == tokenizer.vocab_size


@pytest.mark.parametrize("batch", [8, 13])
def test_long_lists_of_ids_are_decoded_in_parts_that_tear_no_character(
    batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = tokenizer_of(Normalization.IDENTITY)
    text = "the \U00010380\U0001f9ff of\u4dc0\u4dc1\u4dc2 and \u4dc3 " * 9
    (ids,) = tokenizer.encode([text])
    monkeypatch.setattr(encode, "_BATCH", batch)
    assert tokenizer.decode([ids]) == [text]


@BOTH
def test_parts_of_a_normalised_text_come_back_verbatim(rule: Normalization) -> None:
    tokenizer = tokenizer_of(rule)
    verbatim, pieces = tokenizer.verbatim(), tokenizer.codec.piece_bytes()
    assert tokenizer.normalises is (rule is Normalization.NMT_NFKC)
    assert not verbatim.normalises
    assert verbatim.codec.piece_bytes() == pieces
    parts = [
        part
        for text in map(tokenizer.normalise, TEXTS)
        for part in (text[: len(text) // 3], text[len(text) // 3 :], text[-1:], " " + text)
    ]
    for part, ids in zip(parts, verbatim.encode(parts), strict=True):
        assert b"".join(pieces[i] for i in ids).decode() == part


@settings(deadline=None)
@given(st.lists(st.binary(max_size=5), min_size=1, max_size=9), st.data())
def test_pieces_spell_what_they_join_to(pieces: list[bytes], data: st.DataObject) -> None:
    ids = data.draw(st.lists(st.integers(0, len(pieces) - 1)))
    known = pieces_of(pieces)
    spelled = known.spell(np.array(ids, np.uint16)).tobytes()
    assert spelled == b"".join(pieces[number] for number in ids)
    assert list(known) == pieces
    assert pieces_of(known) is known


def test_an_id_that_is_none_is_not_spelled() -> None:
    with pytest.raises(IndexError):
        pieces_of([b"a"]).spell(np.array([1]))
