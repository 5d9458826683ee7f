"""What the choice of texts promises: all models are asked about the same documents."""

import numpy as np

from stages.comparing.texts import RunTexts, choose_texts


def beginnings(**starts: int) -> dict[bytes, np.ndarray]:
    """Texts by the names of documents; two with the same start are the same."""
    return {name.encode(): np.arange(start, start + 10) for name, start in starts.items()}


RAW = RunTexts(beginnings(a=10, copy=10, b=20, lent=30), beginnings(x=70, y=30, z=90))
CLEAN = RunTexts(beginnings(a=10, b=20), beginnings(x=70, y=30, z=90, w=50))


def test_texts_are_what_all_runs_held_out_or_all_trained_on() -> None:
    chosen = choose_texts([RAW, CLEAN], most=10)
    assert chosen.fresh == (b"x", b"z")
    assert chosen.repeated == (b"a",)
    assert chosen.once == (b"b",)


def test_a_heldout_text_that_stands_in_training_is_not_fresh() -> None:
    assert b"y" in choose_texts([CLEAN], most=10).fresh
    assert b"y" not in choose_texts([RAW], most=10).fresh


def test_the_order_of_runs_and_of_documents_is_of_no_effect() -> None:
    turned = RunTexts(dict(reversed(RAW.training.items())), dict(reversed(RAW.heldout.items())))
    assert choose_texts([CLEAN, turned], most=10) == choose_texts([RAW, CLEAN], most=10)


def test_short_texts_and_more_than_are_wanted_are_left_out() -> None:
    short = RunTexts({}, {b"s": np.arange(3), **beginnings(x=70, z=90)})
    assert choose_texts([short], most=10).fresh == (b"x", b"z")
    assert choose_texts([short], most=1).fresh == (b"x",)
