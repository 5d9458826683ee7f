"""What the parts of a file promise: every record once, whichever worker reads which part."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.inputs.bundles import Bundle
from pipeline.inputs.files import Blocks, FoundFile, InputFile
from pipeline.inputs.places import place_status
from pipeline.run_file.config import Ingest
from pipeline.steps.dedup.unit_groups import GROUP_BYTES, unit_groups
from pipeline.steps.ingest.reading import InputPart, Reading
from pipeline.steps.ingest.record import ColumnCounts, PartRecord
from pipeline.steps.ingest.unreadable import MIN_RECORDS, UnreadableCounter, check_readable
from pipeline.steps.scan.files import scan_file
from pipeline.steps.units import Unit
from stages.columns import UNREADABLE, DropReason
from stages.errors import DataError
from stages.filtering.table import FILTERS
from stages.reading.reader import TextSplit
from stages.reading.records import FieldMapping
from stages.store.digests import xxh3_file

UNIT = 4096
LINES = {
    "shorter than a unit": [f"{n:050}" for n in range(400)],
    "of a length that ends where a unit does": [f"{n:0{256 - 12}}" for n in range(80)],
    "longer than three units": [f"{n}" * (1 if n % 5 else 9 * UNIT) for n in range(1, 20)],
}


def part_of(workspace: Workspace, path: Path, number: int) -> InputPart:
    """Return a part of a chain, of a file that is scanned."""
    status, fields = place_status(path, key="s"), FieldMapping()
    found = FoundFile("s", path.name, path, status, fields, TextSplit.FILE, UNIT)
    scanned, digests = scan_file(found, "")
    key = f"{path.name}-blocks.npy"
    np.save(workspace.root / key, digests)
    blocks = Blocks(key, xxh3_file(workspace.root / key), 0, scanned.blocks)
    return InputPart(
        source="s",
        files=(InputFile("s", path.name, path, scanned.size, "", blocks=blocks),),
        label=path.name,
        key=f"s/{path.name}",
        number=number,
        fields=fields,
        ingest=Ingest(unit_size=UNIT),
        minhash=None,
    )


def texts_of(workspace: Workspace, path: Path, *, keep: bool) -> list[str]:
    """Return the texts of a chain, read by one worker or each part by a new one."""
    texts: list[str] = []
    number: int | None = 0
    while number is not None:
        if not keep:
            workspace.cache.clear()
        reading = Reading(workspace, part_of(workspace, path, number))
        found = [str(getattr(record, "text", None)) for record in reading.records()]
        assert found, f"part {number} holds nothing"
        texts += found
        number = reading.next
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
    assert texts_of(Workspace(tmp_path, tmp_path), path, keep=keep) == lines


def test_a_worker_that_holds_the_stream_of_one_file_opens_the_next(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, tmp_path)
    for name in "ab":
        path = tmp_path / f"{name}.jsonl.gz"
        path.write_bytes(gzip.compress(f'{{"text":"{name}"}}\n'.encode() * 500))
    for name, number in (("a", 0), ("b", 0), ("a", 1)):  # the stream of b is left at part 1 too
        reading = Reading(workspace, part_of(workspace, tmp_path / f"{name}.jsonl.gz", number))
        assert {getattr(record, "text", None) for record in reading.records()} == {name}
        assert reading.next == (None if number else 1)


@pytest.mark.parametrize("reason", sorted(UNREADABLE))
def test_as_many_records_may_be_unreadable_as_the_bound_says(reason: str) -> None:
    check_readable(100, {reason: 5}, [], 0.05)
    with pytest.raises(DataError, match=r"max_bad_fraction = 0\.05: 6 of 100 records are unreadable"):
        check_readable(100, {reason: 6}, [], 0.05)


def test_records_over_several_lines_count_as_their_lines_whichever_of_them_are_unreadable() -> None:
    check_readable(100, {DropReason.BAD_RECORD: 10}, [], 0.05, further=(100, 0))
    for bad, further in ((11, (100, 0)), (1, (100, 10))):
        with pytest.raises(DataError, match=r": 11 of 200 lines are unreadable"):
            check_readable(100, {DropReason.BAD_RECORD: bad}, [], 0.05, further=further)


def record_of(read: int, bad: int, *, further_lines: int, further_unreadable: int) -> PartRecord:
    """Return what is reported of a file that is one part, some records of which are broken."""
    none = ColumnCounts(records=0, absent={}, first={}, there=(), textless=0, untaken={}, first_wrong={})
    return PartRecord(
        source="s",
        label="a.csv",
        part=0,
        next=None,
        covered={},
        columns=none,
        read=read,
        documents=read - bad,
        text_bytes=read - bad,
        sections=1,
        cleaned=0,
        drops={DropReason.BAD_RECORD: bad},
        named=(),
        further_lines=further_lines,
        further_unreadable=further_unreadable,
    )


def test_a_run_stops_early_for_lines_of_unreadable_records_and_not_for_those_of_whole_ones() -> None:
    bundles = [Bundle((InputFile("s", name, Path(name), 9, ""),)) for name in ("a.csv", "b.csv")]
    far = MIN_RECORDS
    good = record_of(far, 50, further_lines=9 * far, further_unreadable=450)
    so_far = UnreadableCounter(bundles, 0.05)
    so_far.add(bundles[0].key, 0, good)
    bad = record_of(far, 50, further_lines=9 * far, further_unreadable=451)
    with pytest.raises(DataError, match="1,001 of the first 20,000 lines are unreadable"):
        so_far.add(bundles[1].key, 0, bad)


def test_a_short_or_empty_text_is_no_broken_input() -> None:
    dropped = {reason: 99 for one in FILTERS.values() for reason in one.reasons}
    assert len(dropped) > 1
    check_readable(100, dropped, [], 0.0)


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
    assert GROUP_BYTES == 64 << 20
    found = unit_groups(units)
    assert [run.units for run in found] == [tuple(units[start:end]) for start, end in runs]
    assert [run.number for run in found] == list(range(len(runs)))
