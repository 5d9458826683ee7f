"""What extension promises: old ids stay, new pieces are given by texts, old text keeps its tokens."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.cleaning.text import clean_text
from stages.errors import ConfigError, FormatError
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.existing import describe, existing_tokenizer
from stages.tokenizer.extension.drift import Drift
from stages.tokenizer.extension.extended import Extension
from stages.tokenizer.extension.kinds import extendable
from stages.tokenizer.extension.learning import (
    LONGEST,
    NewPiece,
    OldPieces,
    PieceLearner,
    PieceLimits,
    SymbolWords,
    own_words,
)
from stages.tokenizer.extension.pairs import PairTable, merge_pair, pair_table
from stages.tokenizer.extension.sentencepiece_append import append_pieces, scores_below
from stages.tokenizer.extension.words import WordRules, count_words, rules_of
from stages.tokenizer.proof import prove, untouched
from stages.tokenizer.roles import SpecialPieces, find_roles
from stages.tokenizer.sentencepiece_model import SentencePieceModel
from stages.tokenizer.texts import joined_ids
from tests.conftest import bundled_lines
from tests.stages.tokenizer.existing_files import changed, data_of, kind_of_file, texts

INT32 = np.dtype(np.int32)
KINDS = ("llama-model", "albert-model", "gpt2", "gpt2-added")
PIECES = 60


@cache
def korean() -> tuple[str, ...]:
    """Return the declaration in Korean, in its parts."""
    records = map(json.loads, bundled_lines("text/human-rights*", 1000))
    return tuple(clean_text(one["text"]) for one in records if one["lang"] == "ko")


@cache
def old_texts() -> tuple[str, ...]:
    """Return texts without Korean."""
    return tuple(text for text in texts() if not re.search("[\uac00-\ud7a3]", text))


@cache
def content_of(name: str) -> bytes:
    """Return a file: one of the known ones, or GPT-2's with tokens added behind its vocabulary."""
    if name != "gpt2-added":
        return data_of(name)
    library = tokenizers.Tokenizer.from_str(data_of("gpt2").decode())
    library.add_special_tokens(["<|im_start|>"])
    library.add_tokens(["<tool>"])
    return str(library.to_str()).encode()


def opened(data: bytes, name: str) -> Tokenizer:
    """Return a tokenizer that asserts that no text gives a special id."""
    kind = kind_of_file(name)
    ids = find_roles(describe(data, kind, name=name), SpecialPieces(), name=name).ids
    return existing_tokenizer(data, kind, {"pad": ids["eos"], **ids}, name=name)


@cache
def extended(name: str, pieces: int = PIECES) -> Extension:
    """Return a tokenizer with pieces for Korean."""
    tokenizer = extendable(content_of(name), kind_of_file(name), name=name)
    words = [tokenizer.count(korean()), tokenizer.count(old_texts())]
    return tokenizer.extend(words, pieces, max_drift=0.005)


@pytest.mark.parametrize("name", KINDS)
def test_old_ids_stay_and_new_ones_follow(name: str) -> None:
    before = describe(content_of(name), kind_of_file(name), name=name)
    after = describe(extended(name).data, kind_of_file(name), name=name)
    assert after.size == before.size + PIECES
    assert {p: n for p, n in after.pieces.items() if n < before.size} == dict(before.pieces)
    assert (after.marks, after.controls, after.declared) == (
        before.marks,
        before.controls,
        before.declared,
    )
    old, new = (opened(data, name) for data in (content_of(name), extended(name).data))
    assert new.codec.piece_bytes()[: before.size] == old.codec.piece_bytes()
    assert new.codec.piece_bytes()[before.size :] == [
        piece.content.replace("\u2581".encode(), b" ") for piece in extended(name).pieces
    ]


@pytest.mark.parametrize("name", KINDS)
def test_old_text_keeps_its_ids_and_new_text_takes_fewer(name: str) -> None:
    old, new = (opened(data, name) for data in (content_of(name), extended(name).data))
    pairs = zip(old.encode(old_texts()), new.encode(old_texts()), strict=True)
    assert all(np.array_equal(one, other) for one, other in pairs)
    tokens = [sum(map(len, one.encode(korean()))) for one in (old, new)]
    if name != "albert-model":  # which wrote whole words as one unknown token
        assert tokens[1] < 0.75 * tokens[0]
    given_by = {number for ids in new.encode(korean()) for number in ids.tolist()}
    uses = extended(name).uses
    used = {old.vocab_size + n for n in np.flatnonzero(uses).tolist()}
    assert used <= given_by
    assert len(used) > 0.7 * PIECES
    assert new.compiled == old.compiled


@pytest.mark.parametrize("name", KINDS)
def test_the_extended_file_is_proved(name: str) -> None:
    tokenizer = opened(extended(name).data, name)
    special = tokenizer.codec.pieces(sorted(set(tokenizer.special_ids.values()) - {tokenizer.unk}))
    spelled = [piece.decode(errors="ignore") for piece in tokenizer.codec.piece_bytes()[-PIECES:]]
    odd = ["", " ", "\u2581", "\u2581\ud55c", "\ud55c\r\n1\u0661", "\u0301", "\x7f", "a" * 5000]
    groups = {"new": [*korean()[:5], *spelled], "special": [f"{p} a{p}" for p in special], "odd": odd}
    proof = prove(
        tokenizer.unguarded(), groups, library=untouched(extended(name).data, kind_of_file(name))
    )
    assert proof.failed == {}


@pytest.mark.parametrize("name", KINDS)
def test_the_order_of_words_changes_no_byte(name: str) -> None:
    tokenizer = extendable(content_of(name), kind_of_file(name), name=name)
    words = [tokenizer.count(korean()[::-1]), tokenizer.count(old_texts()[::-1])]
    assert tokenizer.extend(words, PIECES, max_drift=0.005).data == extended(name).data


def test_languages_get_pieces_in_turn_whatever_they_have_of_text() -> None:
    tokenizer = extendable(content_of("llama-model"), kind_of_file("llama-model"), name="x")
    thai = ["\u0e44\u0e17\u0e22\u0e44\u0e17\u0e22 \u0e20\u0e32\u0e29\u0e32\u0e20\u0e32\u0e29\u0e32"] * 2
    words = [tokenizer.count(korean()), tokenizer.count(thai), tokenizer.count(old_texts())]
    found = tokenizer.extend(words, 16, max_drift=0.005)
    assert Counter(piece.language for piece in found.pieces) == {0: 8, 1: 8}
    assert [piece.language for piece in found.pieces[:4]] == [0, 1, 0, 1]


def test_a_text_with_too_few_pieces_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"--pieces 99,999: the text gives [0-9,]+ pieces"):
        extended("llama-model", 99_999)
    with pytest.raises(ConfigError, match=r"--pieces 99,999: the text gives [0-9,]+ pieces"):
        extended("albert-model", 99_999)


def test_other_kinds_are_refused() -> None:
    for name in ("bert", "t5", "llama-json"):
        with pytest.raises(FormatError, match="is no byte-level BPE"):
            extendable(data_of(name), kind_of_file(name), name=name)


def test_added_tokens_enter_the_vocabulary_with_the_ids_they_have() -> None:
    file = json.loads(extended("gpt2-added").data)
    library = tokenizers.Tokenizer.from_str(extended("gpt2-added").data.decode())
    ids = {token["content"]: token["id"] for token in file["added_tokens"]}
    assert {piece: library.token_to_id(piece) for piece in ids} == ids
    assert sorted(file["model"]["vocab"].values()) == list(range(1502 + PIECES))
    text = changed(data_of("gpt2"), model__merges=[" ".join(m) for m in merges_of_gpt2()])
    tokenizer = extendable(text, kind_of_file("gpt2"), name="x")
    words = [tokenizer.count(korean()), tokenizer.count(old_texts())]
    written = json.loads(tokenizer.extend(words, PIECES, max_drift=0.005).data)["model"]["merges"]
    assert all(isinstance(merge, str) for merge in written)


def test_no_word_reaches_into_an_added_piece_that_texts_give() -> None:
    token = {"content": "<turn>", "special": False}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    file = json.loads(data_of("gpt2"))
    token |= {"id": len(file["model"]["vocab"])}
    data = json.dumps(file | {"added_tokens": [*file["added_tokens"], token | flags]}).encode()
    tokenizer = extendable(data, kind_of_file("gpt2"), name="x")
    assert tokenizer.count(["a<turn>b <turn>"]) == Counter({"a": 1, "b": 1, " ": 1})


def merges_of_gpt2() -> list[list[str]]:
    return [list(merge) for merge in json.loads(data_of("gpt2"))["model"]["merges"]]


def counts_of(table: PairTable) -> dict[tuple[int, int], list[int]]:
    used = int(table.used[0])
    found = zip(table.pairs[:used].tolist(), table.counts[:used].tolist(), strict=True)
    return {(pair[0], pair[1]): counts for pair, counts in found if any(counts)}


def recounted(
    words: Sequence[Sequence[int]], weights: Sequence[Sequence[int]]
) -> dict[tuple[int, int], list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for word, own in zip(words, weights, strict=True):
        for pair in pairwise(word):
            found[pair] = [a + b for a, b in zip(found.get(pair, [0, 0]), own, strict=True)]
    return found


def merged(word: list[int], pair: tuple[int, int], symbol: int) -> list[int]:
    found: list[int] = []
    place = 0
    while place < len(word):
        meets = tuple(word[place : place + 2]) == pair
        found.append(symbol if meets else word[place])
        place += 1 + meets
    return found


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=6))
def test_counts_are_those_of_counting_anew_after_every_merge(words: list[list[int]]) -> None:
    weights = [[n + 1, n % 2] for n in range(len(words))]
    sizes = np.array(list(map(len, words)), np.int64)
    flat = np.array([symbol for word in words for symbol in word], np.int32)
    table = pair_table(flat, sizes, np.array(weights, np.int64))
    for symbol in range(3, 20):
        counts = counts_of(table)
        assert counts == recounted(words, weights)
        if not counts:
            break
        pair = max(counts, key=lambda one: (counts[one], one))
        number = table.pairs[: int(table.used[0])].tolist().index(list(pair))
        table, _ = merge_pair(number, symbol, table)
        words = [merged(word, pair, symbol) for word in words]


def learned(words: list[str], wanted: int, longest: int = LONGEST, **rules: bool) -> list[NewPiece]:
    """Return pieces learned from words of the letters a, b and c, and of a character without a piece."""
    letters = {"a": 0, "b": 1, "c": 2, "\ud55c": 3}
    symbols = np.array([letters[one] for word in words for one in word], np.int32)
    sizes = np.array(list(map(len, words)), np.int64)
    old = OldPieces([b"a", b"b", b"c"], ["\ud55c".encode()], {b"bc"}, **{"joins": True, **rules})
    weights = np.array([[1, 0]] * len(words), np.int64)
    limits = PieceLimits(longest)
    return PieceLearner(old, SymbolWords(symbols, sizes, weights), limits).learn(wanted)


def test_a_character_comes_before_the_pairs_that_it_is_in() -> None:
    found = learned(["\ud55ca"] * 3 + ["ab"] * 4, 9)
    assert [piece.content.decode() for piece in found] == ["\ud55c", "ab", "\ud55ca"]
    assert [piece.is_character for piece in found] == [True, False, False]
    assert [piece.times for piece in found] == [3, 4, 3]


def test_no_piece_has_more_characters_than_the_longest_may_have() -> None:
    for longest in (2, 3):
        found = learned(["ab\ud55cab\ud55c"] * 5, 9, longest)
        assert max(len(piece.content.decode()) for piece in found) == longest
    assert "ab\ud55cab\ud55c".encode() in {
        piece.content for piece in learned(["ab\ud55cab\ud55c"] * 5, 9)
    }


def test_no_piece_is_what_a_special_one_is() -> None:
    assert [piece.content for piece in learned(["bc"] * 5 + ["ab"] * 2, 9)] == [b"ab"]


def test_pieces_that_would_change_old_text_are_left_out() -> None:
    symbols = np.array([0, 1, 1, 0], np.int32)
    weights = np.array([[9, 1], [9, 0]], np.int64)
    words = SymbolWords(symbols, np.array([2, 2], np.int64), weights)
    old = OldPieces([b"a", b"b"], (), set(), joins=True)
    kept = PieceLearner(old, words, PieceLimits(max_drift=0.005)).learn(9)
    assert [piece.content for piece in kept] == [b"ba"]
    every = PieceLearner(old, words, PieceLimits(max_drift=8.0)).learn(9)
    assert [piece.content for piece in every] == [b"ab", b"ba"]


def test_words_end_where_the_rules_of_the_model_end_pieces() -> None:
    text = "\u2581the\u2581cat3\u2581\ud55c\uad6d\uc5b4a.\ne\u0301x\u2581\u30ab\u3042\u6f22"
    words = ["\u2581the", "\u2581cat", "3", "\u2581\ud55c\uad6d\uc5b4", "a", ".", "e\u0301x"]
    words.append("\u2581\u30ab\u3042\u6f22")
    assert count_words([text], WordRules()) == Counter(words)
    assert count_words(["\u2581a12"], WordRules(single_digits=True)) == Counter(["\u2581a", "1", "2"])
    assert count_words(["\u2581a12"], WordRules(by_number=False)) == Counter(["\u2581a12"])
    assert count_words(["a\u2581b"], WordRules(space_behind=True)) == Counter(["a\u2581", "b"])
    assert count_words(["a\ud55c"], WordRules(by_script=False)) == Counter(["a\ud55c"])
    assert count_words(["", "\u2581\u2581", "\n"], WordRules()) == Counter()
    rules = rules_of(SentencePieceModel(data_of("llama-model")))
    assert rules == WordRules(), "the defaults of the library"


def test_words_without_a_character_of_the_language_are_left_out_of_its_own() -> None:
    old = Counter({"\u2581the": 90, "\u2581Office": 10, "\u2581total": 50})
    own = Counter({"\u2581\ud55c\uad6d": 9, "\u2581Office": 5, "\u2581Office\uc5d0": 3})
    assert own_words(own, old) == {"\u2581\ud55c\uad6d": 9, "\uc5d0": 3}
    finnish = Counter({"\u2581talo": 9, "\u2581y\u00f6": 1})
    assert own_words(finnish, old) == finnish


def test_new_scores_are_below_all_old_ones_though_these_are_very_low() -> None:
    low = append_pieces(SentencePieceModel(data_of("llama-model")), [(b"zzzz", -1e9)])
    model = SentencePieceModel(low)
    scores = scores_below(model, 3)
    assert scores == [-1e9 - 64, -1e9 - 128, -1e9 - 192]
    again = SentencePieceModel(append_pieces(model, [(b"qq", scores[0])]))
    assert again.texts[-2:] == [b"zzzz", b"qq"]
    assert again.data.count(b"zzzz") == 1
    library = sentencepiece.SentencePieceProcessor(model_proto=again.data)
    assert library.get_piece_size() == len(model.types) + 1


def test_drift_counts_tokens_that_lie_elsewhere_or_are_others() -> None:
    sizes = np.array([1, 1, 2, 3, 1], np.int64)  # a, b, ab, aba, c
    old = joined_ids([np.array(ids, np.int32) for ids in ([0, 1, 4], [0, 1, 0, 4, 0, 1], [])], INT32)
    new = joined_ids([np.array(ids, np.int32) for ids in ([0, 1, 4], [3, 4, 2], [])], INT32)
    drift = Drift()
    drift.add(old, new, sizes)
    assert (drift.documents, drift.same_documents) == (3, 2)
    assert (drift.tokens_before, drift.tokens_after, drift.changed_tokens) == (9, 6, 5)
    assert drift.stretches == {((0, 1, 0), (3,)): 1, ((0, 1), (2,)): 1}
    assert (drift + drift).changed_tokens == 10
