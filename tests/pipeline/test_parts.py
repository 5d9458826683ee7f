"""What the parts of a file promise: every record once, whichever worker reads which part."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import Ingest
from pipeline.steps.pairs import RUN_BYTES, unit_runs
from pipeline.steps.parts import Part, part_after, records_of
from pipeline.steps.units import Unit
from pipeline.steps.unreadable import BAD, check_readable
from stages.columns import DropReason
from stages.errors import DataError
from stages.reading.records import FieldMapping

UNIT = 4096
LINES = {
    "shorter than a unit": [f"{n:050}" for n in range(400)],
    "of a length that ends where a unit does": [f"{n:0{256 - 12}}" for n in range(80)],
    "longer than three units": [f"{n}" * (1 if n % 5 else 9 * UNIT) for n in range(1, 20)],
}


def part_of(path: Path, number: int) -> Part:
    """Return a part of a chain."""
    return Part(
        source="s",
        path=path.name,
        place=path,
        key="s/0",
        number=number,
        fields=FieldMapping(),
        ingest=Ingest(unit_size=UNIT),
        minhash=None,
    )


def texts_of(path: Path, *, keep: bool) -> list[str]:
    """Return the texts of a chain, read by one worker or each part by a new one."""
    texts: list[str] = []
    cache: dict[str, Any] = {}
    number: int | None = 0
    while number is not None:
        cache = cache if keep else {}
        part = part_of(path, number)
        found = [str(getattr(record, "text", None)) for record in records_of(cache, part)]
        assert found, f"part {number} holds nothing"
        texts += found
        number = part_after(cache, part)
    return texts


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("lines", LINES.values(), ids=LINES)
def test_a_chain_gives_every_record_once_and_no_part_is_empty(
    lines: list[str],
    keep: bool,  # noqa: FBT001  # a parameter of the test
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.jsonl.gz"
    content = "".join(f'{{"text":"{text}"}}\n' for text in lines)
    path.write_bytes(gzip.compress(content.encode()))
    assert len(content) > 4 * UNIT
    assert texts_of(path, keep=keep) == lines


def test_a_worker_that_holds_the_stream_of_one_file_opens_the_next(tmp_path: Path) -> None:
    cache: dict[str, Any] = {}
    for name in "ab":
        path = tmp_path / f"{name}.jsonl.gz"
        path.write_bytes(gzip.compress(f'{{"text":"{name}"}}\n'.encode() * 500))
        part = Part(**{**vars(part_of(path, 0)), "key": f"s/{name}"})
        assert {getattr(record, "text", None) for record in records_of(cache, part)} == {name}
        assert part_after(cache, part) == 1


@pytest.mark.parametrize("reason", BAD)
def test_as_many_records_may_be_unreadable_as_the_bound_says(reason: DropReason) -> None:
    check_readable(100, {reason: 5}, [], 0.05)
    with pytest.raises(DataError, match=r"max_bad_fraction = 0\.05: 6 of 100 records are unreadable"):
        check_readable(100, {reason: 6}, [], 0.05)


def test_a_short_or_empty_text_is_no_broken_input() -> None:
    check_readable(100, {reason: 99 for reason in DropReason if reason not in BAD}, [], 0.0)
    assert {DropReason.BAD_JSON, DropReason.BAD_UTF8, DropReason.TOO_LARGE} < BAD


@pytest.mark.parametrize(
    ("mebibytes", "runs"),
    [
        ([], []),
        ([100], [(0, 1)]),
        ([100, 100], [(0, 1), (1, 2)]),
        ([30, 34, 1], [(0, 2), (2, 3)]),
        ([0, 0, 200, 0], [(0, 2), (2, 3), (3, 4)]),
    ],
)
def test_units_are_cut_into_runs_none_of_which_is_empty(
    mebibytes: list[int], runs: list[tuple[int, int]]
) -> None:
    units = [
        Unit(f"s/{n}", "s", "p", first=n, documents=1, text_bytes=m << 20)
        for n, m in enumerate(mebibytes)
    ]
    assert RUN_BYTES == 64 << 20
    assert unit_runs(units) == runs
