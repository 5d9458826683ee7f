"""What sentence pairs promise.

A pair is <cls> A <sep> B <sep>; both halves are texts of the shard, the label says whether they belong
together, and what was borrowed is another document's; without masks and what was borrowed the row is the
stored one; shares are those asked for, and batches change no bit.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.objectives.mlm.config import MaskedLM, Selection, expected_counts
from stages.objectives.rows import IGNORED, Columns, StoredRows, lengths_without_eos
from stages.objectives.sentence_pairs.config import (
    NextSentence,
    SentenceOrder,
    SentencePairs,
    check_borrowed,
    label_name,
    make_pairs,
    pair_widths,
    restore_pairs,
)
from stages.objectives.whole_shard import WholeShard
from tests.campaign import examples
from tests.stages.objectives.built_rows import chi_square_sigmas, sigmas
from tests.stages.objectives.built_shards import (
    EOS,
    PAD,
    SPECIAL,
    VOCABULARY,
    Sentences,
    any_documents,
    at_epoch,
    ids,
    paired,
)

SEQ_LEN = 30
WIDTHS = pair_widths(SEQ_LEN)
CLS, SEP = SPECIAL["cls"], SPECIAL["sep"]
BARE = MaskedLM(mask_probability=1e-9)
"""Masks that are never drawn."""
kinds = st.sampled_from([NextSentence(), SentenceOrder(), NextSentence(random_rate=1.0)])


def made(documents: Sentences, config: SentencePairs) -> tuple[StoredRows, WholeShard, Columns]:
    """Return the rows of documents, their shard and columns."""
    borrow = config.random_rate if isinstance(config, NextSentence) else 0.0
    rows, shard = paired(documents, row_length=WIDTHS.stored, borrow_rate=borrow)
    return rows, shard, make_pairs(rows, config, VOCABULARY, WIDTHS, shard=shard)


def halves(shown: list[int]) -> tuple[list[int], list[int]]:
    """Return A and B of a row without masks."""
    assert shown[0] == CLS
    first, *others = [place for place, token in enumerate(shown) if token == SEP]
    return shown[1:first], shown[first + 1 : others[0]] if others else []


@settings(deadline=None, max_examples=examples(200))
@given(any_documents, kinds)
def test_rows_are_two_texts_between_their_special_ids(
    documents: Sentences, config: SentencePairs
) -> None:
    rows, _, columns = made(documents, config.model_copy(update={"mask": BARE}))
    texts = [[token for sentence in document for token in sentence] for document in documents]
    spelled = [" ".join(map(str, text)) + " " for text in texts]
    name = label_name(config)
    for row, shown in enumerate(columns["input_ids"].tolist()):
        length = int((columns["segment_ids"][row] == 0).sum())
        assert shown[length:] == [PAD] * (SEQ_LEN - length)
        a, b = halves(shown[:length])
        label, types = int(columns[name][row]), columns["token_type_ids"][row].tolist()
        assert types == [0] * (len(a) + 2) + [1] * (len(b) + 1 if b else 0) + [0] * (SEQ_LEN - length)
        assert columns["position_ids"][row].tolist() == [*range(length), *[0] * (SEQ_LEN - length)]
        assert (columns["labels"][row] == IGNORED).all()
        assert label in ((0, 1) if b else (IGNORED,))
        own = [token for token in rows.input_ids[row].tolist() if token not in (EOS, PAD)]
        if label == 0:
            assert a + b == own
        elif label == 1 and isinstance(config, SentenceOrder):
            assert b + a == own
        else:
            assert a == own
        if b and label == 1 and isinstance(config, NextSentence):
            lender, begin = int(columns["borrowed_doc"][row]), int(columns["borrowed_offset"][row])
            assert texts[lender][begin : begin + len(b)] == b
            sentences = np.cumsum([0, *map(len, documents[lender])]).tolist()
            assert begin in sentences
            assert any(" ".join(map(str, b)) in text for text in spelled)


@settings(deadline=None, max_examples=examples(200))
@given(any_documents, kinds)
def test_the_stored_text_comes_back(documents: Sentences, config: SentencePairs) -> None:
    rows, shard, columns = made(documents, config)
    clean, lengths = restore_pairs(columns, config, VOCABULARY)
    assert lengths.tolist() == lengths_without_eos(rows, EOS).tolist()
    for row, length in enumerate(lengths.tolist()):
        assert clean[row, :length].tolist() == rows.input_ids[row, :length].tolist()
    if isinstance(config, NextSentence):
        assert check_borrowed(rows, columns, config, VOCABULARY, shard).all()


@settings(deadline=None, max_examples=examples(60))
@given(any_documents, kinds, st.data())
def test_a_row_is_the_same_whatever_is_read_along_with_it(
    documents: Sentences, config: SentencePairs, data: st.DataObject
) -> None:
    rows, shard, columns = made(documents, config)
    chosen = np.array(data.draw(st.lists(st.integers(0, len(rows.numbers) - 1), max_size=4)), np.int64)
    again = make_pairs(rows.take(chosen), config, VOCABULARY, WIDTHS, shard=shard)
    for name, column in columns.items():
        assert again[name].tolist() == column[chosen].tolist(), name
        assert again[name].dtype == column.dtype, name


@settings(deadline=None, max_examples=examples(60))
@given(
    any_documents,
    kinds,
    st.builds(
        MaskedLM,
        mask_probability=st.sampled_from([0.15, 0.5, 1.0]),
        selection=st.sampled_from([Selection.BERNOULLI, Selection.EXACT]),
    ),
)
def test_masks_of_any_pair_lie_on_its_texts_and_labels_say_what_stood_there(
    documents: Sentences, config: SentencePairs, mask: MaskedLM
) -> None:
    _, _, columns = made(documents, config.model_copy(update={"mask": mask}))
    _, _, bare = made(documents, config.model_copy(update={"mask": BARE}))
    clean, selected = bare["input_ids"], columns["labels"] != IGNORED
    able = ~np.isin(clean, list(SPECIAL.values()))
    assert not (selected & ~able).any()
    assert np.array_equal(columns["labels"][selected], clean[selected])
    assert np.array_equal(columns["input_ids"][~selected], clean[~selected])
    if mask.selection is Selection.EXACT:
        wanted = expected_counts(able.sum(axis=1), mask.mask_probability)
        assert selected.sum(axis=1).tolist() == wanted.tolist()
    for name in columns.keys() - {"input_ids", "labels"}:
        assert np.array_equal(columns[name], bare[name]), name


any_sentence = st.lists(ids, min_size=1, max_size=12)
any_document = st.lists(any_sentence, min_size=1, max_size=8)
no_text: st.SearchStrategy[list[list[int]]] = st.just([[]])


@settings(deadline=None, max_examples=examples(60))
@given(any_document, st.integers(0, 3), st.sampled_from([0.5, 1.0]))
def test_any_document_alone_or_among_empty_ones_makes_no_pair_up(
    document: list[list[int]], empty: int, rate: float
) -> None:
    nothing: Sentences = [[[]]]
    documents = [document, *nothing * empty]
    rows, _, columns = made(documents, NextSentence(random_rate=rate, mask=BARE))
    second = np.diff(rows.segment_ptr) > 1
    assert columns["next_sentence_label"].tolist() == np.where(second, 0, IGNORED).tolist()
    assert set(columns["borrowed_doc"].tolist()) == {-1}
    assert set(columns["borrowed_offset"].tolist()) == {-1}


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(any_document | no_text, min_size=1, max_size=6), kinds)
def test_documents_without_text_lend_none_and_come_back_empty(
    documents: Sentences, config: SentencePairs
) -> None:
    rows, shard, columns = made(documents, config)
    clean, lengths = restore_pairs(columns, config, VOCABULARY)
    assert lengths.tolist() == lengths_without_eos(rows, EOS).tolist()
    for row, length in enumerate(lengths.tolist()):
        assert clean[row, :length].tolist() == rows.input_ids[row, :length].tolist()
    nothing = lengths == 0
    assert nothing.sum() == documents.count([[]])
    assert (columns[label_name(config)][nothing] == IGNORED).all()
    if isinstance(config, NextSentence):
        assert check_borrowed(rows, columns, config, VOCABULARY, shard).all()
        assert all(
            documents[lender] != [[]] for lender in columns["borrowed_doc"].tolist() if lender >= 0
        )


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.lists(any_sentence, min_size=1, max_size=1), min_size=2, max_size=6))
def test_documents_of_one_sentence_always_borrow_and_have_no_order(documents: Sentences) -> None:
    _, _, columns = made(documents, NextSentence(random_rate=1e-9))
    assert columns["next_sentence_label"].tolist() == [1] * len(documents)
    assert (columns["borrowed_doc"] >= 0).all()
    _, _, columns = made(documents, SentenceOrder())
    assert columns["sentence_order_label"].tolist() == [IGNORED] * len(documents)


def corpus(count: int) -> Sentences:
    """Documents of 12 sentences of 4 tokens; each token names its document."""
    return [[[10 + number % 50] * 4] * 12 for number in range(count)]


def test_nobody_is_its_own_stranger_and_all_others_are_as_likely() -> None:
    config = NextSentence(random_rate=1.0)
    documents = corpus(8)
    rows, shard, _ = made(documents, config)
    counts = np.zeros((8, 8), np.int64)
    for epoch in range(200):
        columns = make_pairs(at_epoch(rows, epoch), config, VOCABULARY, WIDTHS, shard=shard)
        own = shard.segments["doc"][shard.segments["row_ptr"][:-1]]
        np.add.at(counts, (own, columns["borrowed_doc"]), 1)
    assert counts.sum() > 9_000
    assert np.diag(counts).tolist() == [0] * 8
    for number, row in enumerate(counts):
        for count in np.delete(row, number):
            assert sigmas(int(count), int(row.sum()), 1 / 7) < 5


def test_another_epoch_borrows_from_another_document_independently() -> None:
    config = NextSentence(random_rate=1.0, mask=BARE)
    rows, shard, _ = made(corpus(8), config)
    own = shard.segments["doc"][shard.segments["row_ptr"][:-1]]
    steps = [
        (
            make_pairs(at_epoch(rows, epoch), config, VOCABULARY, WIDTHS, shard=shard)["borrowed_doc"]
            - own
        )
        % 8
        for epoch in range(200)
    ]
    pairs = np.zeros((8, 8), np.int64)
    for one, other in zip(steps[::2], steps[1::2], strict=True):
        np.add.at(pairs, (one, other), 1)
    assert pairs.sum() == pairs[1:, 1:].sum() > 4_000
    assert chi_square_sigmas(pairs[1:, 1:].ravel(), np.full(49, pairs.sum() / 49)) < 5


def test_borrowed_texts_begin_at_every_sentence_alike() -> None:
    config = NextSentence(random_rate=1.0)
    rows, shard, _ = made(corpus(8), config)
    offsets = np.concatenate(
        [
            make_pairs(at_epoch(rows, epoch), config, VOCABULARY, WIDTHS, shard=shard)["borrowed_offset"]
            for epoch in range(100)
        ]
    )
    counts = np.bincount(offsets // 4, minlength=12)
    assert (offsets % 4 == 0).all()
    for count in counts:
        assert sigmas(int(count), len(offsets), 1 / 12) < 5


def test_half_of_the_pairs_change_places_in_each_epoch_anew() -> None:
    config = SentenceOrder()
    rows, shard, _ = made(corpus(400), config)
    labels = [
        make_pairs(at_epoch(rows, epoch), config, VOCABULARY, WIDTHS, shard=shard)[
            "sentence_order_label"
        ]
        for epoch in range(2)
    ]
    paired_ = labels[0] != IGNORED
    assert paired_.sum() > 500
    for part in labels:
        assert sigmas(int((part[paired_] == 1).sum()), int(paired_.sum()), 0.5) < 5
    both = (labels[0] == 1) & (labels[1] == 1)
    assert sigmas(int(both.sum()), int(paired_.sum()), 0.25) < 5


def test_how_full_a_row_is_does_not_tell_that_it_borrows() -> None:
    """Sentences of 4 tokens in rows of 27: whichever half, whole sentences alone."""
    rows, shard, _ = made(corpus(200), NextSentence(short_rate=0.0, mask=BARE))
    columns = make_pairs(rows, NextSentence(mask=BARE), VOCABULARY, WIDTHS, shard=shard)
    lengths = (columns["segment_ids"] == 0).sum(axis=1) - 3
    inside = shard.segments["doc_offset"][shard.segments["row_ptr"][:-1]] < 4 * 6
    by_label = [lengths[inside & (columns["next_sentence_label"] == label)] for label in (0, 1)]
    for found in by_label:
        assert len(found) > 100
        assert (found % 4 == 0).all()
    assert by_label[0].max() == by_label[1].max() == 24


def test_one_document_has_nobody_to_borrow_from() -> None:
    rows, _, columns = made(corpus(1), NextSentence(random_rate=1.0))
    assert len(rows.numbers) > 2
    assert set(columns["next_sentence_label"].tolist()) == {IGNORED}
    assert set(columns["borrowed_doc"].tolist()) == {-1}


def test_a_single_sentence_has_no_order() -> None:
    _, _, columns = made([[[11, 12, 13]]], SentenceOrder())
    assert columns["sentence_order_label"].tolist() == [IGNORED]


def test_what_was_not_borrowed_there_is_found() -> None:
    config = NextSentence(random_rate=1.0, mask=BARE)
    rows, shard, columns = made(corpus(8), config)
    assert check_borrowed(rows, columns, config, VOCABULARY, shard).all()
    own = shard.segments["doc"][shard.segments["row_ptr"][:-1]].astype(np.int32)
    for change in (
        {"borrowed_doc": own},
        {"borrowed_doc": (columns["borrowed_doc"] + 1) % 8},
        {"next_sentence_label": 1 - columns["next_sentence_label"]},
    ):
        assert not check_borrowed(rows, {**columns, **change}, config, VOCABULARY, shard).any()


@pytest.mark.parametrize("config", [NextSentence(), SentenceOrder()])
def test_masks_are_those_of_mlm_and_never_on_special_ids(config: SentencePairs) -> None:
    _, _, columns = made(corpus(50), config)
    selected = columns["labels"] != IGNORED
    assert 0.1 < selected.sum() / (columns["segment_ids"] == 0).sum() < 0.2
    assert not np.isin(columns["labels"][selected], list(SPECIAL.values())).any()
