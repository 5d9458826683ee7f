"""What is promised of comparing ids with texts: whatever differs is found, and told apart."""

import numpy as np
import pytest

from stages.pieces import Pieces
from stages.tokenizer.spelling import OTHER_IDS, OTHER_TEXT, SAME, PieceBytes, StoredIds, compare_texts
from stages.tokenizer.texts import joined_ids, joined_texts

PIECES = Pieces([b"", b"a", b"b", b"ab", "\u732b".encode(), b"\xe7", b"\x8c", b"\xab"])
TEXT = "ab\u732bb"
IDS = [3, 4, 2]


def verdict(ids: list[int], *, text: str = TEXT, again: list[int] | None = None) -> int:
    """Return what is found of a text and its stored ids, which stand between those of two others."""
    texts = joined_texts([b"a", text.encode(), b"b"])
    every = np.array([1, *ids, 2, 0, 0], np.int32)
    ends = np.array([1, 1 + len(ids), 2 + len(ids)])
    stored = StoredIds(every, np.concatenate([[0], ends[:-1]]), ends)
    encoded = joined_ids([np.array(part) for part in ([1], again or IDS, [2])], np.dtype(np.int32))
    spelling = PieceBytes(PIECES.data, PIECES.begins, PIECES.sizes)
    before, found, after = compare_texts(stored, texts, encoded, spelling).tolist()
    assert (before, after) == (SAME, SAME)
    return int(found)


def test_the_ids_of_a_text_spell_it() -> None:
    assert verdict(IDS) == SAME
    assert verdict([], text="", again=[]) == OTHER_IDS, "the encoder is asked, too"


@pytest.mark.parametrize(
    "ids",
    [[3, 4], [3, 4, 2, 2], [4, 3, 2], [3, 4, 1], [3, 4, 8], [3, 4, -1], [3, 5, 6, 2], [], [3, 4, 2, 4]],
    ids=[
        "fewer",
        "more",
        "moved",
        "another",
        "past the last",
        "below 0",
        "no character",
        "none",
        "long",
    ],
)
def test_ids_that_spell_another_text_are_found(ids: list[int]) -> None:
    assert verdict(ids, again=ids) == OTHER_TEXT, "even if the encoder gives the same"
    assert verdict(ids) == OTHER_TEXT


def test_an_id_past_the_last_is_no_piece_though_the_memory_behind_would_spell_the_text() -> None:
    texts, ids = joined_texts([b"a"]), np.array([7], np.int32)
    stored = StoredIds(ids, np.array([0]), np.array([1]))
    encoded = joined_ids([ids], np.dtype(np.int32))
    begins, sizes = np.zeros(8, PIECES.begins.dtype), np.ones(8, PIECES.sizes.dtype)
    found = [
        compare_texts(
            stored, texts, encoded, PieceBytes(np.array([97], np.uint8), begins[:n], sizes[:n])
        )
        for n in (8, 7)
    ]
    assert [one.tolist() for one in found] == [[SAME], [OTHER_TEXT]]


@pytest.mark.parametrize("ids", [[1, 2, 4, 2], [3, 5, 6, 7, 2], [0, 3, 4, 2], [3, 4, 2, 0]])
def test_other_ids_that_spell_the_text_are_found(ids: list[int]) -> None:
    assert verdict(ids) == OTHER_IDS
    assert verdict(ids, again=ids) == SAME
