"""What bundles promise: small files share units, and nobody can tell by the records."""

import gzip
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from pipeline.engine.tasks import Workspace
from pipeline.inputs import bundles
from pipeline.inputs.bundles import MEAN, MEAN_FILES, MOST, SMALL, Bundle, bundles_of
from pipeline.inputs.files import Blocks, FoundFile, InputFile
from pipeline.inputs.places import place_status
from pipeline.run_file.config import Ingest
from pipeline.steps.ingest.reading import InputPart, Reading
from pipeline.steps.scan.files import ScanWork, scan_files
from stages.reading.reader import TextSplit
from stages.reading.records import FieldMapping
from stages.reading.slices import Slice
from stages.store.digests import xxh3_file

UNIT = 64 << 20


def file_of(path: str, size: int = 1000, *, source: str = "s") -> InputFile:
    """Return a file that nobody reads."""
    return InputFile(source, path, Path("/in") / path, size, path)


def many(count: int, size: int = 1000) -> list[InputFile]:
    """Return files in canonical order."""
    return [file_of(f"{number:06}.txt", size) for number in range(count)]


def lengths_of(bundles: Sequence[Bundle]) -> list[int]:
    """Return the files of each bundle."""
    return [len(bundle.files) for bundle in bundles]


def test_bundles_are_neighbours_and_hold_every_file_once() -> None:
    files = many(5_000)
    found = bundles_of(files, UNIT)
    assert [file for bundle in found for file in bundle.files] == files
    assert 0.5 < 5_000 / MEAN_FILES / len(found) < 2


def test_bundles_of_larger_files_have_about_as_many_bytes() -> None:
    size = UNIT // SMALL // 2
    found = bundles_of(many(4_000, size), UNIT)
    mean = 4_000 * size / len(found)
    assert 0.7 < mean / (UNIT // MEAN) < 1.3
    assert UNIT // MOST * 0.9 < max(lengths_of(found)) * size <= UNIT // MOST


def test_no_bundle_has_more_files_than_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundles, "MOST_FILES", 10)
    found = bundles_of(many(1_000), UNIT)
    assert max(lengths_of(found)) == 10
    assert sum(lengths_of(found)) == 1_000


def test_compressed_files_count_several_times() -> None:
    size = UNIT // SMALL // 4
    assert lengths_of(bundles_of([file_of("1.txt.gz", size), file_of("2.txt.gz", size)], UNIT)) == [2]
    assert lengths_of(bundles_of([file_of("1.txt.gz", size + 1), file_of("2.txt.gz")], UNIT)) == [1, 1]
    assert lengths_of(bundles_of([file_of("1.txt", size + 1), file_of("2.txt")], UNIT)) == [2]


@pytest.mark.parametrize(
    "alone",
    [
        file_of("000001.jsonl", UNIT // SMALL + 1),
        file_of("000001.parquet"),
        file_of("000001.arrow"),
    ],
)
def test_large_files_and_tables_are_read_alone(alone: InputFile) -> None:
    before, after = file_of("000000.txt"), file_of("000002.txt")
    found = bundles_of([before, alone, after], UNIT)
    assert [bundle.files for bundle in found] == [(before,), (alone,), (after,)]


def test_a_file_that_is_larger_than_a_unit_is_read_alone_and_by_slices() -> None:
    slices = (Slice(0, 1024, 0), Slice(1024, 2000, 0))
    files = [replace(file, slices=slices) for file in many(3, 2000)]
    assert [bundle.slices for bundle in bundles_of(files, 1024)] == [slices] * 3
    (bundle,) = bundles_of(files[:2], UNIT)
    assert bundle.slices is None


def test_files_of_two_sources_share_no_bundle() -> None:
    files = [file_of("a.txt", source=source) for source in "xyz"]
    assert lengths_of(bundles_of(files, UNIT)) == [1, 1, 1]


def test_a_bundle_is_called_by_its_first_file() -> None:
    files = [file_of("000001.txt"), file_of("000002.txt"), file_of("000003.txt")]
    (bundle,) = bundles_of(files, UNIT)
    assert bundle.label == "000001.txt and 2 more"
    assert bundle.key == files[0].key
    assert bundles_of(files[:1], UNIT)[0].label == "000001.txt"


def test_a_file_that_is_added_or_grows_changes_its_own_bundle_alone() -> None:
    generator = random.Random(0)  # noqa: S311  # nothing secret
    files = many(1_000)
    before = {bundle.files for bundle in bundles_of(files, UNIT)}
    changed = []
    for trial in range(30):
        place = generator.randrange(len(files))
        if trial % 2:
            other = [*files[: place + 1], file_of(f"{place:06}-new.txt"), *files[place + 1 :]]
        else:
            other = [*files[:place], replace(files[place], size=1500), *files[place + 1 :]]
        changed.append(len(before - {bundle.files for bundle in bundles_of(other, UNIT)}))
    assert max(changed) <= 2  # a file that begins a bundle, or does no more, changes the one before it
    assert changed.count(1) > 25


LINES = (
    "",
    "\n\n",
    '{"text": "a"}',
    '{"text": "ä"}\n',
    '\n{"text": "b"}\n\n{"text": "c"}\r\n',
    "{\n" * 3,
)


def write_files(folder: Path, generator: random.Random) -> list[Path]:
    """Write files of lines, some compressed, some empty, some longer than a unit."""
    paths = []
    for number in range(40):
        text = "".join(generator.choices(LINES, k=generator.randrange(30)))
        text += '\n{"text": "' + "x" * generator.choice([0, 10, 5000]) + '"}'
        text = generator.choice([text, text, ""])
        path = folder / f"{number:02}.jsonl{generator.choice(['', '.gz'])}"
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
        paths.append(path)
    return paths


def scanned(workspace: Workspace, paths: Sequence[Path], unit_size: int) -> tuple[InputFile, ...]:
    """Return files whose blocks are known."""
    found = [
        FoundFile(
            "s", path.name, path, place_status(path, key="s"), FieldMapping(), TextSplit.FILE, unit_size
        )
        for path in paths
    ]
    work = ScanWork("all", found, [""] * len(found))
    record = scan_files(workspace, work)
    xxh3 = xxh3_file(workspace.root / work.blocks)
    return tuple(
        InputFile(
            "s",
            file.path,
            one.place,
            file.size,
            file.digest,
            end=file.end,
            blocks=Blocks(work.blocks, xxh3, file.first_block, file.blocks),
        )
        for one, file in zip(found, record.files, strict=True)
    )


def part_of(files: tuple[InputFile, ...], number: int, unit_size: int) -> InputPart:
    """Return a part of a chain of files."""
    ingest = Ingest.model_validate({"unit_size": unit_size})
    return InputPart("s", files, "files", "s/files", number, FieldMapping(), ingest, None)


Read = tuple[list[tuple[str, object]], list[dict[str, tuple[int, int]]]]


def read_all(
    workspace: Workspace, files: tuple[InputFile, ...], unit_size: int, *, keep: bool = True
) -> Read:
    """Return the records of a chain with their files, and what each part covers.

    Args:
        workspace: of the worker.
        files: of the chain.
        unit_size: of a part.
        keep: whether one worker reads all parts, or each part another.
    """
    records: list[tuple[str, object]] = []
    covered = []
    number: int | None = 0
    while number is not None:
        if not keep:
            workspace.cache.clear()
        reading = Reading(workspace, part_of(files, number, unit_size))
        records += [(reading.file.path, record) for record in reading.records()]
        covered.append(reading.covered)
        assert reading.next is None or reading.next > number
        number = reading.next
    return records, covered


@pytest.mark.parametrize("seed", range(8))
def test_a_bundle_gives_the_records_of_its_files(seed: int, tmp_path: Path) -> None:
    paths = write_files(tmp_path, random.Random(seed))  # noqa: S311  # nothing secret
    workspace = Workspace(tmp_path, tmp_path)
    files = scanned(workspace, paths, UNIT)
    alone = [record for file in files for record in read_all(workspace, (file,), UNIT)[0]]
    assert len(alone) > 100
    for unit_size in (1024, 3000, 10_000, UNIT):
        records, covered = read_all(workspace, files, unit_size)
        assert records == alone
        assert read_all(workspace, files, unit_size, keep=False) == (records, covered)
        for file in files:
            parts = [part[file.path] for part in covered if file.path in part]
            assert parts[0][0] == 0
            assert all(one[1] == other[0] for one, other in pairwise(parts))
            assert file.end in (None, parts[-1][1])
        assert (len(covered) == 1) == (unit_size == UNIT)


def test_a_part_that_failed_is_read_again_from_its_beginning(tmp_path: Path) -> None:
    paths = write_files(tmp_path, random.Random(1))  # noqa: S311  # nothing secret
    workspace = Workspace(tmp_path, tmp_path)
    files = scanned(workspace, paths, UNIT)
    numbers = [0]
    for number in numbers:
        reading = Reading(Workspace(tmp_path, tmp_path), part_of(files, number, 4096))
        whole = list(reading.records())
        for read in (0, 1, len(whole) - 1, len(whole)):
            for before in numbers[: numbers.index(number)]:  # after which the stream is at this part
                list(Reading(workspace, part_of(files, before, 4096)).records())
            records = Reading(workspace, part_of(files, number, 4096)).records()
            for _ in range(read):
                next(records)  # and whoever writes them fails
            again = Reading(workspace, part_of(files, number, 4096))
            assert list(again.records()) == whole
        numbers += [] if reading.next is None else [reading.next]
    assert len(numbers) > 3


def test_a_bundle_is_cut_into_parts_by_its_decompressed_bytes(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.txt.gz" for number in range(4)]
    for path in paths:
        path.write_bytes(gzip.compress(b"x" * 2_000))
    workspace = Workspace(tmp_path, tmp_path)
    files = scanned(workspace, paths, UNIT)
    _, covered = read_all(workspace, files, 3_000)
    assert [list(part) for part in covered] == [["0.txt.gz", "1.txt.gz"], ["2.txt.gz"], ["3.txt.gz"]]
    assert np.all([part[path] == (0, 2_000) for part in covered for path in part])
