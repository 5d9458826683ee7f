"""Numbers of JSON of any size cost no document, and texts that look like one stay as they are."""

import json

import orjson
import pytest

from stages.reading.kept_values import UNWRITABLE, exactly, loaded


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("1e999", 1e300),
        ("-1e999", -1e300),
        (f"1{'0' * 400}", 1e300),
        (f"-1{'0' * 400}.5", -1e300),
        ("1e308", 1e308),
        ("-3", -3),
    ],
)
def test_a_number_that_no_float_holds_is_one_of_the_largest(written: str, found: float) -> None:
    texts = ["1e999", f"a {written} b", f'"{written}\\', "\n"]
    data = f'{{"n": [{written}, 1e999], "texts": {json.dumps(texts)}}}'.encode()
    assert loaded(data) == {"n": [found, 1e300], "texts": texts}


def test_what_is_no_json_is_refused_whatever_numbers_it_has() -> None:
    for data in (b'{"n": 1e999', b'{"n": }', b'{"n": 1e999, "t": "}'):
        with pytest.raises(orjson.JSONDecodeError):
            loaded(data)


@pytest.mark.parametrize(
    ("written", "found"),
    [
        ("36893488147419103233", 36893488147419103233),
        ("-" + "9" * 4_299, -int("9" * 4_299)),
        ("9" * 4_301, UNWRITABLE),
        ("1e999", UNWRITABLE),
        ("-1e999", UNWRITABLE),
        ("1.5", 1.5),
    ],
)
def test_an_integer_has_all_its_digits_or_cannot_be_written(written: str, found: object) -> None:
    assert exactly(f'{{"n": {written}}}'.encode()) == {"n": found}
    assert exactly(f"[{written}]".encode()) is None
    assert exactly(b'{"a": ' + b"[" * 100_000) is None
