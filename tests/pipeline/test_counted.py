"""What a report counted is read again only while it is of the same files and the same program."""

import json
from pathlib import Path

import pytest

from pipeline.report.counted import COUNTED, REPORT, Counted


def _counted(output: Path, of: str | None, value: int) -> int:
    """Return a value as a report would have it, and keep it."""
    counted = Counted(output)
    found = counted.once("number", of, int, lambda: value)
    counted.write(whole=True)
    return found


def test_a_value_is_counted_again_once_it_is_of_something_else(tmp_path: Path) -> None:
    assert _counted(tmp_path, "first", 1) == 1
    assert _counted(tmp_path, "first", 2) == 1
    assert _counted(tmp_path, "second", 3) == 3
    assert _counted(tmp_path, "first", 4) == 4


def test_what_is_not_whole_or_empty_is_not_kept(tmp_path: Path) -> None:
    for of, value in ((None, 1), ("first", 0)):
        assert _counted(tmp_path, of, value) == value
        assert json.loads((tmp_path / REPORT / COUNTED).read_text())["counted"] == {}
    assert _counted(tmp_path, "first", 5) == 5


def test_a_report_of_a_part_forgets_nothing_and_an_audit_counts_anew(tmp_path: Path) -> None:
    _counted(tmp_path, "first", 1)
    for whole, wanted in ((False, 1), (True, 7)):
        Counted(tmp_path).write(whole=whole)
        assert _counted(tmp_path, "first", 7) == wanted
    assert Counted(tmp_path).once("number", "first", int, lambda: 8, anew=True) == 8


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text.replace('"shardmill": "', '"shardmill": "9'),
        lambda text: text.replace('"value": 1', '"value": "one"'),
        lambda text: text.replace('{"of": "first", "value": 1}', "[]"),
        lambda text: text[: len(text) // 2],
        lambda _: "[]",
    ],
)
def test_of_a_damaged_file_or_another_version_nothing_is_taken(tmp_path: Path, damage: object) -> None:
    assert callable(damage)
    _counted(tmp_path, "first", 1)
    place = tmp_path / REPORT / COUNTED
    text = place.read_text()
    place.write_text(damage(text))
    assert place.read_text() != text
    assert _counted(tmp_path, "first", 2) == 2
