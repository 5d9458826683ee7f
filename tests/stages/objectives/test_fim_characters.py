"""What filling in the middle between characters promises.

Whatever is cut, the parts decode to the text again, byte for byte, with every character whole; cuts are
uniform over characters; rates are those of the document's source; no segment outgrows its room, and one
that would is counted.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.cleaning.text import clean_text
from stages.objectives.fim.characters import GROWTH, Spelling, check_text, fill_in_text
from stages.objectives.fim.config import FIM, FIMRates, fim_ids
from stages.objectives.fim.laws import wrong_middles
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.objectives.whole_shard import WholeShard
from stages.packing.best_fit import pack_best_fit
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.normalization import Normalization
from stages.tokenizer.special import special_ids
from tests.campaign import examples
from tests.stages.objectives.built_rows import chi_square_sigmas, sigmas
from tests.stages.objectives.built_shards import rows_of
from tests.stages.tokenizer.test_pieces import tokenizer_of

ALWAYS = FIM(level="character", fim_rate=1.0)
SPECIAL = special_ids()
PRE, MID, SUF, EOS = (SPECIAL[name] for name in ("fim_prefix", "fim_middle", "fim_suffix", "eos"))


def spelling_of(tokenizer: Tokenizer) -> tuple[Spelling, Vocabulary]:
    """Return how a tokenizer spells, and its vocabulary."""
    encode = partial(tokenizer.verbatim().encode, dtype=np.dtype(np.uint16))  # the ids of a run
    spelling = Spelling(tokenizer.codec.piece_bytes(), encode)
    return spelling, vocabulary_of(tokenizer.vocab_size, SPECIAL)


def shard_of(texts: list[str], tokenizer: Tokenizer, *, length: int) -> tuple[StoredRows, WholeShard]:
    """Return the rows of texts and their shard, each text closed by EOS."""
    flat = [np.append(ids, EOS) for ids in tokenizer.encode(texts)]
    layout = pack_best_fit(np.array([len(ids) for ids in flat]), row_length=length, growth=GROWTH)
    rows = np.full((layout.num_rows, length), SPECIAL["pad"], np.uint16)
    for number, row in enumerate(layout.segment_rows()):
        start, size, offset = (
            int(getattr(layout, n)[number]) for n in ("start", "length", "doc_offset")
        )
        rows[row, start : start + size] = flat[layout.doc[number]][offset : offset + size]
    segments = {n: getattr(layout, n) for n in ("row_ptr", "start", "length", "doc", "doc_offset")}
    shard = WholeShard(rows, segments, len(texts))
    return rows_of(shard), shard


def filled(
    texts: list[str], config: FIM, *, length: int = 64, rule: Normalization = Normalization.IDENTITY
) -> tuple[StoredRows, WholeShard, Columns, Spelling, Vocabulary]:
    """Return the rows of texts and their columns."""
    tokenizer = tokenizer_of(rule)
    spelling, vocabulary = spelling_of(tokenizer)
    rows, shard = shard_of(texts, tokenizer, length=length)
    widths = Widths(length, length, length)
    columns = fill_in_text(rows, config, vocabulary, widths, shard=shard, spelling=spelling)
    return rows, shard, columns, spelling, vocabulary


def shown_segments(columns: Columns) -> list[list[int]]:
    """Return the tokens of each segment as they are shown, row after row."""
    found = []
    for ids, numbers in zip(columns["input_ids"], columns["segment_ids"], strict=True):
        found += [ids[numbers == number].tolist() for number in range(int(numbers.max()) + 1)]
    return found


def parts_of(tokens: list[int], spelling: Spelling) -> tuple[bytes, bytes, bytes] | None:
    """Return the bytes of A, B and C of a segment prefix first; None if it is plain."""
    if PRE not in tokens:
        return None
    suffix, middle = tokens.index(SUF), tokens.index(MID)
    pieces = (tokens[1:suffix], tokens[middle + 1 :], tokens[suffix + 1 : middle])
    a, b, c = (b"".join(spelling.pieces[i] for i in part) for part in pieces)
    return a, b, c


odd = st.lists(
    st.sampled_from(
        ["the ", "cat", "\n\t", "é", "猫", "👍🏽", "\u0301", "\u2581", "  ", "<fim_prefix>", "x"]
    ),
    min_size=1,
    max_size=25,
).map("".join)
some_texts = st.lists(
    st.builds(clean_text, odd | st.text(min_size=1, max_size=30)).filter(len), min_size=1, max_size=5
)
configs = st.builds(
    FIM,
    level=st.just("character"),
    fim_rate=st.sampled_from([1.0, 0.5]),
    fim_spm_rate=st.sampled_from([0.0, 0.5, 1.0]),
    unit=st.sampled_from(["segment", "document"]),
    train_on_sentinels=st.booleans(),
)


@settings(deadline=None, max_examples=examples(150))
@given(some_texts, configs, st.sampled_from(list(Normalization)), st.sampled_from([20, 33, 64]))
@example(["猫" * 40], ALWAYS, Normalization.IDENTITY, 20)
@example(["a\u2581b" * 9], ALWAYS, Normalization.IDENTITY, 20)
def test_texts_come_back_byte_for_byte(
    texts: list[str], config: FIM, rule: Normalization, length: int
) -> None:
    rows, shard, columns, spelling, vocabulary = filled(texts, config, length=length, rule=rule)
    assert check_text(rows, columns, vocabulary, spelling.pieces).all()
    for number, tokens in enumerate(shown_segments(columns)):
        stored = shard.segment(number).tolist()
        assert len(tokens) <= len(stored) + GROWTH
        parts = parts_of(tokens, spelling)
        if parts is None:
            assert tokens == stored
            continue
        whole = b"".join(spelling.pieces[i] for i in stored)
        assert b"".join(parts) == whole
        assert [tokens.count(mark) for mark in (PRE, SUF, MID)] == [1, 1, 1]
        assert (tokens[-1] == EOS) == (stored[-1] == EOS)
        cut = [len(parts[0]), len(parts[0]) + len(parts[1])]
        assert not any(place < len(whole) and whole[place] in range(0x80, 0xC0) for place in cut) or (
            config.fim_spm_rate > 0
        )


@settings(deadline=None, max_examples=examples(50))
@given(some_texts, configs, st.data())
def test_a_row_is_the_same_whatever_is_read_along_with_it(
    texts: list[str], config: FIM, data: st.DataObject
) -> None:
    rows, shard, columns, spelling, vocabulary = filled(texts, config, length=33)
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows.numbers) - 1), max_size=4)), np.int64)
    widths = Widths(33, 33, 33)
    again = fill_in_text(rows.take(chosen), config, vocabulary, widths, shard=shard, spelling=spelling)
    for name, column in columns.items():
        assert again[name].tolist() == column[chosen].tolist(), name
        assert again[name].dtype == column.dtype, name


def test_columns_are_written_out() -> None:
    config = ALWAYS.model_copy(update={"fim_spm_rate": 0.0, "train_on_sentinels": False})
    _, _, columns, spelling, _ = filled(["the cat sat"], config, length=40)
    (tokens,) = shown_segments(columns)
    a, b, c = parts_of(tokens, spelling) or (b"", b"", b"")
    assert a + b + c == b"the cat sat"
    assert columns["position_ids"][0, : len(tokens)].tolist() == list(range(len(tokens)))
    silent = [
        token for token, label in zip(tokens, columns["labels"][0], strict=False) if label == IGNORED
    ]
    assert silent == [PRE, SUF, MID]


@settings(deadline=None, max_examples=examples(80))
@given(some_texts, configs, st.sampled_from([20, 64]))
def test_a_loss_on_the_middle_alone_is_on_what_was_cut_out(
    texts: list[str], config: FIM, length: int
) -> None:
    middle = config.model_copy(update={"loss": "middle"})
    prefix_first = config.model_copy(update={"fim_spm_rate": 0.0})
    _, _, columns, _, vocabulary = filled(texts, middle, length=length)
    _, _, usual, _, _ = filled(texts, config, length=length)
    _, _, other, _, _ = filled(texts, prefix_first, length=length)
    assert np.array_equal(columns["input_ids"], usual["input_ids"])
    assert not wrong_middles(columns, fim_ids(vocabulary)).any()
    labels = shown_segments({**columns, "input_ids": columns["labels"]})
    for said, tokens, cut in zip(labels, shown_segments(columns), shown_segments(other), strict=True):
        if PRE not in tokens:
            assert said == tokens
            continue
        wanted = cut[cut.index(MID) + 1 :]  # of the same cuts
        assert said == [IGNORED] * (len(tokens) - len(wanted)) + wanted


COUNT = 4000


def test_cuts_are_uniform_over_characters_and_fall_within_words() -> None:
    config = ALWAYS.model_copy(update={"fim_spm_rate": 0.0})
    text = "猫 cat"
    _, _, columns, spelling, _ = filled([text] * COUNT, config)
    pairs = np.zeros((6, 6), np.int64)
    for tokens in shown_segments(columns):
        a, b, _ = parts_of(tokens, spelling) or (b"", b"", b"")
        first = len(a.decode())
        pairs[first, first + len(b.decode())] += 1
    assert pairs.sum() == COUNT
    expected = np.triu(np.full((6, 6), 2 * COUNT / 36)) - np.eye(6) * COUNT / 36
    kept = expected > 0
    assert (pairs[~kept] == 0).all()
    assert chi_square_sigmas(pairs[kept], expected[kept]) < 5


@pytest.mark.parametrize("rule", Normalization)
@pytest.mark.parametrize("text", ["é猫👍🏽a", "\u1100\u1161 \uff21\u00bd", "e\u0301\u2581\n猫"])
@pytest.mark.parametrize("spm_rate", [0.0, 1.0])
def test_every_pair_of_cuts_leaves_characters_whole_under_either_normaliser(
    rule: Normalization, text: str, spm_rate: float
) -> None:
    config = ALWAYS.model_copy(update={"fim_spm_rate": spm_rate})
    rows, _, columns, spelling, vocabulary = filled([text] * 400, config, rule=rule)
    whole = tokenizer_of(rule).normalise(text)
    assert columns["plain"].sum() == 0
    assert check_text(rows, columns, vocabulary, spelling.pieces).all()
    seen = set()
    for tokens in shown_segments(columns):
        found = parts_of(tokens, spelling)
        assert found is not None
        a, b, c = (part.decode() for part in found)
        assert a + b + c == whole
        assert not a or spm_rate == 0.0
        seen.add((len(a), len(a) + len(b)))
    ends = range(len(whole) + 1)
    possible = (
        {(0, last) for last in ends} if spm_rate else {(i, j) for j in ends for i in ends if i <= j}
    )
    assert seen == possible


def two_epochs(text: str, config: FIM) -> Iterator[tuple[Columns, Spelling]]:
    """Yield the columns of a text that stands in `COUNT` rows, in two epochs."""
    tokenizer = tokenizer_of(Normalization.IDENTITY)
    spelling, vocabulary = spelling_of(tokenizer)
    rows, shard = shard_of([text] * COUNT, tokenizer, length=64)
    widths = Widths(64, 64, 64)
    for epoch in range(2):
        part = replace(rows, epoch=epoch)
        yield fill_in_text(part, config, vocabulary, widths, shard=shard, spelling=spelling), spelling


def test_another_epoch_cuts_elsewhere_independently() -> None:
    config = ALWAYS.model_copy(update={"fim_spm_rate": 0.0})
    firsts = []
    for columns, spelling in two_epochs("猫 c", config):
        found = [parts_of(tokens, spelling) or (b"", b"", b"") for tokens in shown_segments(columns)]
        firsts.append([len(a.decode()) for a, _, _ in found])
    pairs = np.zeros((4, 4), np.int64)
    np.add.at(pairs, tuple(firsts), 1)
    shares = (2 * (3 - np.arange(4)) + 1) / 16  # of the lesser of two cuts
    assert pairs.sum() == COUNT
    assert chi_square_sigmas(pairs.ravel(), COUNT * np.outer(shares, shares).ravel()) < 5


def test_rates_are_those_of_the_source() -> None:
    config = ALWAYS.model_copy(
        update={
            "fim_rate": 0.5,
            "fim_spm_rate": 0.5,
            "sources": {"code": FIMRates(fim_rate=0.9), "prose": FIMRates(fim_rate=0.0)},
        }
    )
    names = ["code", "prose", "other"]
    tokenizer = tokenizer_of(Normalization.IDENTITY)
    spelling, vocabulary = spelling_of(tokenizer)
    rows, shard = shard_of(["the cat"] * 3 * COUNT, tokenizer, length=64)
    shard = replace(shard, sources=tuple(names[n % 3] for n in range(3 * COUNT)))
    columns = fill_in_text(rows, config, vocabulary, Widths(64, 64, 64), shard=shard, spelling=spelling)
    shown = shown_segments(columns)
    for name, rate in (("code", 0.9), ("prose", 0.0), ("other", 0.5)):
        chosen = [n for n, doc in enumerate(shard.segments["doc"]) if names[doc % 3] == name]
        fim = [shown[n] for n in chosen if PRE in shown[n]]
        assert len(chosen) == COUNT
        if rate in (0.0, 1.0):
            assert len(fim) == rate * COUNT
            continue
        assert sigmas(len(fim), COUNT, rate) < 5
        # a PSM of an empty prefix, of which there are (2 n + 1) / (n + 1)**2, looks like an SPM
        spm = sum(tokens[1] == SUF for tokens in fim)
        assert sigmas(spm, len(fim), 0.5 + 0.5 * 15 / 64) < 5


def test_the_same_documents_are_eligible_in_each_epoch() -> None:
    config = ALWAYS.model_copy(update={"document_fraction": 0.3})
    found = []
    for columns, _ in two_epochs("the cat", config):
        found.append([PRE in tokens for tokens in shown_segments(columns)])
        assert columns["plain"].sum() == 0
    assert found[0] == found[1]
    assert sigmas(sum(found[0]), COUNT, 0.3) < 5


@pytest.mark.parametrize("turns", [1, 8])
def test_a_document_in_several_rows_stays_plain_as_a_whole(turns: int) -> None:
    texts = ["the cat sat on the mat and then ran " * turns, "the rat"]
    length = 40 if turns > 1 else 32
    _, shard, columns, _, _ = filled(
        texts, ALWAYS.model_copy(update={"unit": "document"}), length=length
    )
    assert turns > 1 or shard.segment_counts[0] == 2
    fim = {int(shard.segments["doc"][n]) for n, t in enumerate(shown_segments(columns)) if PRE in t}
    assert fim == {1}
    _, shard, columns, _, _ = filled(texts, ALWAYS, length=length)
    fim = {int(shard.segments["doc"][n]) for n, t in enumerate(shown_segments(columns)) if PRE in t}
    assert fim == {0, 1}


def test_a_wrong_text_is_found() -> None:
    rows, _, columns, spelling, vocabulary = filled(["the cat sat on the mat"], ALWAYS)
    assert check_text(rows, columns, vocabulary, spelling.pieces).tolist() == [True]
    ids = columns["input_ids"].copy()
    place = int(np.flatnonzero(ids[0] == MID)[0])
    ids[0, [place - 1, place + 1]] = ids[0, [place + 1, place - 1]]
    found = check_text(rows, {**columns, "input_ids": ids}, vocabulary, spelling.pieces)
    assert found.tolist() == [False]


@pytest.mark.parametrize(
    "change", [{"unit": "document"}, {"document_fraction": 0.5}, {"sources": {"a": {"fim_rate": 1.0}}}]
)
def test_what_needs_documents_is_refused_for_tokens(change: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match='set level = "character"'):
        FIM.model_validate({"kind": "fim", **change})


@pytest.mark.parametrize(
    ("first", "last", "is_cut"),
    [
        (b"\x8c\xab", b"\xe7\x8c", True),  # tokens of two bytes of a character
        (b"\x8c\xaba", b"\xe7\x8c", False),  # and of one more
        (b"\x8c\xab", b"a\xe7\x8c", False),
    ],
)
def test_a_segment_is_cut_unless_a_token_has_bytes_of_a_character_and_others(
    first: bytes, last: bytes, *, is_cut: bool
) -> None:
    pieces = [b""] * len(SPECIAL) + [first, b"x", last]
    before, x, behind = range(len(SPECIAL), len(pieces))
    stored = np.full((1, 32), SPECIAL["pad"], np.uint16)
    stored[0, :7] = [before, x, x, x, x, behind, EOS]
    segments = {name: np.zeros(1, np.int64) for name in ("start", "doc", "doc_offset")}
    segments |= {"row_ptr": np.array([0, 1]), "length": np.array([7])}
    shard = WholeShard(stored, segments, 1)
    spelling = Spelling(pieces, lambda texts: [np.full(len(text), x, np.uint16) for text in texts])
    rows, vocabulary = rows_of(shard), vocabulary_of(len(pieces), SPECIAL)
    columns = fill_in_text(rows, ALWAYS, vocabulary, Widths(32, 32, 32), shard=shard, spelling=spelling)
    assert (PRE in columns["input_ids"], columns["plain"].tolist()) == (is_cut, [not is_cut])
    assert check_text(rows, columns, vocabulary, pieces).all()
