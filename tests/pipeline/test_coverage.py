"""What coverage promises: the units of a file have read all of it, each part once, or the run fails."""

from pathlib import Path
from typing import Any

import pytest

from pipeline.inputs.files import InputFile
from pipeline.steps.ingest.check import (
    Covered,
    require_chain,
    require_chains,
    require_whole_files,
)
from pipeline.steps.ingest.record import PartRecord
from stages.errors import VerificationError

NAME = "sources.web: /corpus/a.jsonl"


@pytest.mark.parametrize(
    ("units", "end"),
    [
        ([(0, 100)], 100),
        ([(0, 40), (40, 100)], 100),
        ([(0, 40), (40, 100)], None),
        ([(0, 0)], 0),
        ([], 0),
    ],
)
def test_units_that_follow_each_other_to_the_end_are_whole(
    units: list[Covered], end: int | None
) -> None:
    require_chain(units, end=end, name=NAME)


@pytest.mark.parametrize(
    ("units", "end", "found"),
    [
        ([(0, 40), (50, 100)], 100, "positions 40 to 50 were read by no unit"),
        ([(0, 40), (50, 100)], None, "positions 40 to 50 were read by no unit"),
        ([(10, 100)], 100, "positions 0 to 10 were read by no unit"),
        ([(0, 40)], 100, "positions 40 to 100 were read by no unit"),
        ([], 100, "positions 0 to 100 were read by no unit"),
        ([], None, "was read by no unit"),
        ([(0, 50), (40, 100)], 100, "positions 40 to 50 were read twice"),
        ([(0, 100), (0, 100)], 100, "positions 0 to 100 were read twice"),
        ([(0, 110)], 100, "positions 100 to 110 were read twice"),
    ],
)
def test_a_gap_and_an_overlap_are_named(units: list[Covered], end: int | None, found: str) -> None:
    with pytest.raises(VerificationError) as caught:
        require_chain(units, end=end, name=NAME)
    assert str(caught.value).startswith(f"{NAME}: {found}")


def read(covered: dict[str, Covered], source: str = "web") -> PartRecord:
    """Return the record of a unit, as far as it is about coverage."""
    said: dict[str, Any] = {"covered": covered, "source": source}
    return PartRecord.model_construct(**said)


def test_records_of_a_finished_run_are_chains_wherever_their_files_end() -> None:
    whole = [
        read({"a": (40, 90), "b": (0, 7)}),
        read({"a": (0, 40)}),
        read({"a": (0, 5)}, source="other"),
    ]
    require_chains(whole)
    for wrong, said in (
        (read({"a": (91, 95)}), "a: positions 90 to 91 were read by no unit"),
        (read({"b": (6, 9)}), "b: positions 6 to 7 were read twice"),
        (
            read({"c": (1, 9)}),
            "c: positions 0 to 1 were read by no unit; if no record of ingest was changed",
        ),
    ):
        with pytest.raises(VerificationError, match=said):
            require_chains([*whole, wrong])


def test_each_file_is_held_to_its_own_units() -> None:
    files = [
        InputFile("web", path, Path("/corpus") / path, 9, "", end=end)
        for path, end in (("a.jsonl", 9), ("b.jsonl", 5))
    ]
    units = [read({"a.jsonl": (0, 9), "b.jsonl": (0, 0)}), read({}), read({"b.jsonl": (0, 5)})]
    require_whole_files(files, units)
    units[2] = read({"b.jsonl": (0, 5)}, source="books")
    with pytest.raises(VerificationError, match=r"b\.jsonl: positions 0 to 5 were read by no unit"):
        require_whole_files(files, units)
