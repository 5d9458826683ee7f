"""What words of the command line are read as, and which are refused: to the bounds themselves."""

from collections.abc import Callable
from typing import Any

import pytest
import typer

from pipeline.commands.options import integer, rate, share, some_share, whole

READ: list[tuple[Callable[[Any], float], object, float]] = [
    (integer, "12", 12),
    (integer, "-3", -3),
    (whole(1), "1", 1),
    (whole(0, 4), "0", 0),
    (whole(0, 4), 4, 4),
    (share, "0", 0),
    (share, "0.05", 0.05),
    (share, "5%", 0.05),
    (share, "100%", 1),
    (share, 1.0, 1),
    (some_share, "0.001%", 0.00001),
    (rate, "0.0003", 0.0003),
    (rate, "3e4", 30_000),
]
REFUSED: list[tuple[Callable[[Any], float], str, str]] = [
    (integer, "1.5", "1.5 is not a whole number"),
    (whole(1), "0", "0: must be at least 1"),
    (whole(0, 4), "5", "5: must be from 0 to 4"),
    (whole(0, 4), "-1", "-1: must be from 0 to 4"),
    (whole(0, 4), "many", "many is not a whole number"),
    (share, "half", "half is not a share; write 0.05, or 5%"),
    (share, "1.01", "1.01: a share is from 0 to 1, or from 0% to 100%"),
    (share, "-1%", "-1%: a share is from 0 to 1, or from 0% to 100%"),
    (share, "nan", "nan: a share is from 0 to 1, or from 0% to 100%"),
    (some_share, "0%", "0%: reads nothing; a share is above 0, such as 0.01, or 1%"),
    (some_share, "101%", "101%: a share is from 0 to 1, or from 0% to 100%"),
    *((rate, text, f"{text}: must be a number above 0") for text in ("0", "-1", "inf", "nan", "fast")),
]


@pytest.mark.parametrize(("parser", "given", "expected"), READ)
def test_a_value_is_read(parser: Callable[[Any], float], given: object, expected: float) -> None:
    assert parser(given) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("parser", "given", "said"), REFUSED)
def test_a_value_out_of_bounds_is_refused(parser: Callable[[Any], float], given: str, said: str) -> None:
    with pytest.raises(typer.BadParameter) as error:
        parser(given)
    assert str(error.value).startswith(said)
