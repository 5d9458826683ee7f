"""What `SeenChunks` promises: a piece is seen if its first 32 tokens stand in a row, anywhere."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.continuing.training import WINDOW, SeenChunks
from stages.verify.rows import PADDING, LabelledRows
from tests.campaign import examples


def rows_of(*documents: NDArray[np.int64], width: int) -> LabelledRows:
    """Return one row of some documents."""
    lengths = [len(one) for one in documents]
    padding = width - sum(lengths)
    ids = np.concatenate([*documents, np.zeros(padding, np.int64)])[None]
    segments = np.repeat([*range(len(documents)), PADDING], [*lengths, padding])[None].astype(np.int32)
    positions = np.concatenate([*(np.arange(n) for n in lengths), np.zeros(padding)])[None]
    return LabelledRows(ids, ids.copy(), segments, positions.astype(np.int32))


def test_a_piece_is_found_where_it_stands_and_not_where_a_token_differs() -> None:
    draws = np.random.default_rng(1)
    known, other, short = (draws.integers(0, 9, length) for length in (50, 40, WINDOW - 1))
    seen = SeenChunks(rows_of(known, other, short, width=128))
    assert seen.share == 0
    changed = known.copy()
    changed[WINDOW - 1] += 1
    seen.look(rows_of(draws.integers(0, 9, 17), changed, width=90))
    assert seen.share == 0
    seen.look(rows_of(draws.integers(0, 9, 17), known[:WINDOW], width=49))
    assert seen.share == 0.5
    seen.look(rows_of(other, width=40))
    seen.look(rows_of(short, width=40))
    assert seen.share == 1


def test_pieces_that_are_too_short_say_nothing() -> None:
    for width in (WINDOW - 1, 200):
        seen = SeenChunks(rows_of(np.arange(WINDOW - 1), width=width))
        seen.look(rows_of(np.arange(WINDOW - 1), width=WINDOW - 1))
        assert seen.share is None


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 1 << 30), st.integers(2, 4), st.integers(32, 70))
def test_seen_is_what_a_plain_search_finds(seed: int, ids: int, length: int) -> None:
    draws = np.random.default_rng(seed)
    pieces = [draws.integers(0, ids, length) for _ in range(3)]
    start = int(draws.integers(0, length - 30))
    trained = np.concatenate([draws.integers(0, ids, 9), pieces[0][start:], pieces[1], pieces[2][:31]])
    seen = SeenChunks(rows_of(*pieces, width=3 * length + 5))
    seen.look(rows_of(trained, width=len(trained)))
    text = trained.astype(np.uint8).tobytes()
    found = [piece[:WINDOW].astype(np.uint8).tobytes() in text for piece in pieces]
    assert seen.share == np.mean(found)
    assert found[1]
