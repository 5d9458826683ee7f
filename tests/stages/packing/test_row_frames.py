"""What frames of rows promise.

Each row begins and ends as it should, whatever strategy packs it. Between the two lie the documents'
own tokens, each once, in order. The end of a document is the end of its row, so that a document which
fits with it is not cut, and no row ends twice.
"""

from itertools import chain
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.packing.layout import Layout, Strategy, shuffle_rows
from stages.packing.row_frames import (
    begins_of,
    frame_rows,
    framed_prompts,
    own_layout,
    own_parts,
    pack_closed,
)
from stages.packing.single import pack_single
from stages.packing.strategies import PACKINGS
from stages.ragged import Ragged, ragged_of
from tests.campaign import examples

BEGIN, END, PAD = 1, 2, 0
TEXT = 10
"""The first id of texts."""
QUICK = settings(deadline=None, derandomize=True, max_examples=examples(100))
DOCUMENTS = st.lists(st.lists(st.integers(1, 15), min_size=1, max_size=6), max_size=16)
"""Tokens of the sentences of each document, its end in the last of them."""
SINGLE = "single"
WAYS = [*Strategy, SINGLE]


class Rows(NamedTuple):
    """Documents laid into rows that are framed."""

    ids: NDArray[np.int64]
    layout: Layout
    added_end: NDArray[np.uint8]
    own: Layout


def texts_of(lengths: list[int]) -> list[list[int]]:
    """Return documents of these lengths, no two tokens of them the same but their ends."""
    first, found = TEXT, []
    for length in lengths:
        found.append([*range(first, first + length - 1), END])
        first += length
    return found


def laid(way: str, lengths: NDArray[np.int64], sentences: Ragged, row_length: int) -> Layout:
    """Lay documents out with room for an end behind each piece."""
    if way == SINGLE:
        return pack_single(lengths, row_length=row_length)
    packer = PACKINGS[Strategy(way)].packer()
    return pack_closed(packer, lengths, row_length=row_length, sentences=sentences)


def framed(way: str, documents: list[list[int]], row_length: int, *, begins: int) -> Rows:
    """Lay documents of some sentences into framed rows, and write these out."""
    lengths = np.array([sum(sentences) for sentences in documents], np.int64)
    ends = ragged_of([np.cumsum(sentences, dtype=np.int64).tolist() for sentences in documents])
    plain = laid(way, lengths, ends, row_length - begins)
    layout, added = frame_rows(plain, lengths, row_length=row_length, begins=begins)
    own = own_layout(layout, added, begins=begins)
    ids = np.full((layout.num_rows, row_length), PAD, np.int64)
    texts = texts_of(lengths.tolist())
    parts = zip(own.segment_rows(), own.start, own.length, own.doc, own.doc_offset, strict=True)
    for row, start, length, doc, offset in parts:
        assert (ids[row, start : start + length] == PAD).all(), "nothing lies there twice"
        ids[row, start : start + length] = texts[doc][offset : offset + length]
    if begins:
        assert (ids[:, 0] == PAD).all()
        ids[:, 0] = BEGIN
    filled = np.array([layout.length[a:b].sum() for a, b in zip(*pairs(layout), strict=True)], np.int64)
    cut = np.flatnonzero(added)
    assert (ids[cut, filled[cut] - 1] == PAD).all()
    ids[cut, filled[cut] - 1] = END
    return Rows(ids, layout, added, own)


def joined(parts: list[list[int]]) -> list[int]:
    """Return all of them, one behind the other."""
    return list(chain.from_iterable(parts))


def pairs(layout: Layout) -> tuple[list[int], list[int]]:
    """Return the first segment of each row, and the one behind its last."""
    return layout.row_ptr[:-1].tolist(), layout.row_ptr[1:].tolist()


def drawn(rows: Rows) -> str:
    """Draw rows with letters for documents, [ and ] for what is added, E for ends of documents."""
    signs = {BEGIN: "[", PAD: "."}
    lines = []
    for row, added in zip(rows.ids.tolist(), rows.added_end.tolist(), strict=True):
        line = [signs.get(token, "E" if token == END else "a") for token in row]
        if added:
            line[max(place for place, token in enumerate(row) if token == END)] = "]"
        lines.append("".join(line))
    return " ".join(lines)


@pytest.mark.parametrize(
    ("way", "lengths", "row_length", "begins", "picture"),
    [
        ("document", [5], 6, 1, "[aaaaE"),
        ("document", [6], 6, 1, "[aaaa] [aE..."),
        ("document", [5], 5, 0, "aaaaE"),
        ("document", [6, 2], 5, 0, "aaaa] aE... aE..."),
        ("document", [1], 5, 1, "[E..."),
        ("concat", [6, 2], 6, 1, "[aaaa] [aEaE."),
        ("concat", [3, 3], 6, 1, "[aaEa] [aE..."),
        ("concat", [5, 3], 6, 1, "[aaaaE [aaE.."),
        ("concat", [4, 3], 6, 1, "[aaaE. [aaE.."),
        ("concat", [1, 1, 1], 4, 1, "[E.. [E.. [E.."),
        ("best_fit", [9, 2, 3], 6, 1, "[aaaa] [aaaaE [aaEaE"),
        ("best_fit", [10, 3], 6, 1, "[aaaa] [aaaa] [aaEaE"),
        ("full", [5, 3], 6, 1, "[aaaaE [aaE.."),
        ("full", [7], 5, 1, "[aaa] [aaaE"),
        ("single", [8], 6, 1, "[aaa]. [aaaaE"),
    ],
)
def test_rows_are_framed_like_this(
    way: str, lengths: list[int], row_length: int, begins: int, picture: str
) -> None:
    rows = framed(way, [[length] for length in lengths], row_length, begins=begins)
    assert drawn(rows) == picture


@pytest.mark.parametrize("begins", [0, 1])
@pytest.mark.parametrize("way", WAYS)
@QUICK
@given(documents=DOCUMENTS, room=st.integers(2, 24))
def test_between_the_ends_of_rows_lie_the_documents_once_and_in_order(
    way: str, begins: int, documents: list[list[int]], room: int
) -> None:
    rows = framed(way, documents, room + begins, begins=begins)
    texts = texts_of([sum(sentences) for sentences in documents])
    stream: list[list[int]] = []
    for ids, added in zip(rows.ids.tolist(), rows.added_end.tolist(), strict=True):
        held = [token for token in ids if token != PAD]
        assert ids[: len(held)] == held, "padding stands behind all else"
        assert held[-1] == END
        assert held[:begins] == [BEGIN] * begins
        assert BEGIN not in held[begins:]
        own = held[begins : len(held) - added]
        assert own, "no row is a frame alone"
        assert added != (own[-1] == END), "an end is added where there is none"
        stream.append(own)
    if way in (Strategy.CONCAT, Strategy.FULL, Strategy.DOCUMENT, SINGLE):
        assert joined(stream) == joined(texts)
    assert sorted(joined(stream)) == sorted(joined(texts))
    assert int(rows.layout.length.sum()) == (
        sum(map(len, texts)) + begins * len(rows.ids) + int(rows.added_end.sum())
    )
    parts = rows.own
    order = np.lexsort((parts.doc_offset, parts.doc))
    places = parts.segment_rows()[order] * (room + begins) + parts.start[order]
    again = [
        rows.ids.reshape(-1)[place : place + length].tolist()
        for place, length in zip(places.tolist(), parts.length[order].tolist(), strict=True)
    ]
    assert joined(again) == joined(texts)


@pytest.mark.parametrize("way", WAYS)
@QUICK
@given(documents=DOCUMENTS, room=st.integers(2, 24))
def test_no_document_is_cut_that_a_row_can_hold_alone(
    way: str, documents: list[list[int]], room: int
) -> None:
    if way in (Strategy.CONCAT, Strategy.FULL):  # they cut wherever a row, or a sentence, ends
        return
    rows = framed(way, documents, room + 1, begins=1)
    pieces = np.bincount(rows.own.doc, minlength=len(documents))
    for count, sentences in zip(pieces.tolist(), documents, strict=True):
        text = max(sum(sentences) - 1, 1)
        assert count == -(-text // (room - 1))


@QUICK
@given(documents=DOCUMENTS, room=st.integers(2, 24))
def test_concat_leaves_no_room_but_for_one_token(documents: list[list[int]], room: int) -> None:
    documents = [[2, *sentences] for sentences in documents]  # of an end alone there is another rule
    rows = framed("concat", documents, room + 1, begins=1)
    padding = np.count_nonzero(rows.ids == PAD, axis=1)
    assert (padding[:-1] <= 1).all()
    assert not (padding[:-1] & rows.added_end[:-1]).any(), "a row that goes on is full"


@QUICK
@given(documents=DOCUMENTS, room=st.integers(2, 24))
def test_full_cuts_within_a_sentence_only_if_no_row_holds_it(
    documents: list[list[int]], room: int
) -> None:
    own = framed("full", documents, room + 1, begins=1).own
    for doc, offset in zip(own.doc.tolist(), own.doc_offset.tolist(), strict=True):
        ends = np.cumsum(documents[doc])
        if offset and offset not in ends:
            begin = int(ends[ends < offset].max(initial=0))
            size = int(ends[ends > offset].min()) - begin
            assert size - (begin + size == ends[-1]) > room - 1


def test_frames_stay_with_their_rows_when_these_are_shuffled() -> None:
    rows = framed("concat", [[9], [2], [12]], 6, begins=1)
    order = np.arange(rows.layout.num_rows)[::-1].copy()
    layout = shuffle_rows(rows.layout, order)
    own = own_layout(layout, rows.added_end[order], begins=1)
    assert own.length.sum() == 9 + 2 + 12
    assert (own.start[layout.row_ptr[:-1]] == 1).all()


def test_parts_without_frames_leave_what_they_are_made_of_as_it_is() -> None:
    segments = {
        "row_ptr": np.array([0, 2, 3], np.int32),
        "start": np.array([0, 3, 0], np.int32),
        "length": np.array([3, 3, 6], np.int32),
        "doc": np.array([0, 1, 1], np.int32),
    }
    own = own_parts(segments, np.array([1, 0], np.uint8), begins=1)
    assert own["start"].tolist() == [1, 3, 1]
    assert own["length"].tolist() == [2, 2, 5]
    assert own["doc"] is segments["doc"]
    assert segments["length"].tolist() == [3, 3, 6]


def test_a_prompt_shows_what_begins_its_row_and_none_stays_none() -> None:
    prompts = np.array([3, 2, 0, 1], np.int32)
    assert framed_prompts(prompts, np.array([0, 2]), begins=1).tolist() == [4, 2, 0, 1]
    assert framed_prompts(prompts, np.array([0, 2]), begins=0).tolist() == [3, 2, 0, 1]
    assert prompts.tolist() == [3, 2, 0, 1]


def test_a_frame_begins_rows_with_one_id_or_none() -> None:
    assert begins_of(None) == 0
    assert begins_of({"end": 2}) == 0
    assert begins_of({"begin": 1, "end": 2}) == 1
