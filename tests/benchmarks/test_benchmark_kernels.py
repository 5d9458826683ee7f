"""What contests promise: rates and ratios of work done in turns that favour nobody, on real texts."""

from pathlib import Path

import numpy as np
import pytest
from array_kernels import copying, first_fit, packing, similarities
from contest_material import Material, read_documents
from contests import Contest, Way, digits, hold, markdown
from numpy.typing import NDArray

from stages.packing.best_fit import pack_best_fit


class _Work:
    """Work that takes the seconds it says, on a clock of its own, and notes its turns."""

    def __init__(self) -> None:
        self.now = 0.0
        self.turns: list[str] = []

    def way(self, name: str, seconds: float, amount: float) -> Way:
        def call() -> None:
            self.now += seconds
            if self.turns[-1:] != [name]:
                self.turns.append(name)

        return Way(name, call, amount)


def test_rates_are_of_the_amount_and_ratios_of_ours_to_theirs() -> None:
    work = _Work()
    others = [work.way("slow", 0.25, 20.0), work.way("small", 1 / 64, 5.0)]
    contest = Contest("sum", "numbers", work.way("ours", 1 / 16, 20.0), others)
    slow, small = hold(contest, repeats=3, clock=lambda: work.now)
    assert (slow["ours"], slow["other"], slow["ratio"]) == (320.0, 80.0, 4.0)
    assert (small["ours"], small["other"], small["ratio"]) == (320.0, 320.0, 1.0)
    assert slow["spread"] == (4.0, 4.0)
    assert work.turns[3:] == ["ours", "slow", "small", "slow", "small", "ours", "small", "ours", "slow"]


def test_the_table_shows_three_digits() -> None:
    shown = [digits(value) for value in (0.012345, 1.0, 12.345, 123.4, 12345.0)]
    assert shown == ["0.0123", "1.00", "12.3", "123", "12,300"]
    row = {"kernel": "k", "unit": "MB", "ours": 2.0, "against": "p", "other": 1.0, "ratio": 2.0}
    table = markdown([{**row, "spread": (1.5, 2.5)}])
    assert table.splitlines()[-1] == "| k | MB | 2.00 | p | 1.00 | 2.00 | 1.50, 2.50 |"


class _Small(Material):
    """A few real texts, their bytes for tokens: what contests of arrays need, without a run."""

    @property
    def texts(self) -> list[str]:
        return [document.text for document in read_documents(self.files[0])][:40]

    @property
    def tokens(self) -> list[NDArray[np.uint16]]:
        return [np.frombuffer(text.encode(), np.uint8).astype(np.uint16) for text in self.texts]


@pytest.mark.parametrize("contest", [copying, packing, similarities])
def test_contests_do_the_same_work_in_every_way(contest: object) -> None:
    assert callable(contest)
    found = contest(_Small(Path("no-run")))
    assert found.ours.amount > 0
    assert all(way.amount == found.ours.amount for way in found.others)
    rows = hold(found, repeats=1)
    assert len(rows) == len(found.others) > 1


def test_the_plain_packing_that_we_compare_with_is_first_fit() -> None:
    assert first_fit([300, 300, 200, 512, 600]) == [12, 124, 0, 0]
    lengths = np.array([300, 300, 200, 512, 600])
    assert pack_best_fit(lengths, row_length=512).num_rows == 4
