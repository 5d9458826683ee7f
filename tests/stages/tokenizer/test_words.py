"""What word starts promise: what is no letter begins a word, as does each character of some scripts."""

import numpy as np
import pytest

from stages.tokenizer.sentences import starts_of_spelled, word_starts

BEGIN = ["▁The", "▁", "▁▁x", ",", "\n", "_x", "猫", "ไ", "<mask>"]
GO_ON = ["ck", "é", "7", "\u0301", "д"]
BYTES_BEGIN = ["<0x20>", "<0x0A>", "<0xE7>"]
BYTES_GO_ON = ["<0x41>", "<0x8C>"]


@pytest.mark.parametrize("piece", [*BEGIN, *GO_ON])
def test_a_piece_begins_a_word_by_its_first_character(piece: str) -> None:
    assert word_starts([piece], np.array([False])).tolist() == [piece in BEGIN]


@pytest.mark.parametrize("byte", [*BYTES_BEGIN, *BYTES_GO_ON])
def test_a_byte_begins_a_word_if_it_begins_a_character_that_does(byte: str) -> None:
    assert word_starts([byte], np.array([True])).tolist() == [byte in BYTES_BEGIN]


def test_every_id_is_answered_for() -> None:
    starts = word_starts(["▁a", "b", "<0xFF>"], np.array([False, False, True]))
    assert starts.tolist() == [True, False, True]
    assert starts.dtype == np.bool_


def test_a_spelled_piece_begins_a_word_by_its_first_character() -> None:
    begin = [b"", b" The", b" ", b",", b"\n", "猫".encode(), "猫".encode()[:2], b"\xff"]
    go_on = [b"ck", "é".encode(), b"7", "猫".encode()[1:], b"\x80"]
    starts = starts_of_spelled([*begin, *go_on])
    assert starts.tolist() == [True] * len(begin) + [False] * len(go_on)
