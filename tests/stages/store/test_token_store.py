"""What the token store promises.

A unit gives back every document's ids and rows, group by group; arrays that contradict each other
are refused by name.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from stages.columns import STORED_DOCUMENTS
from stages.errors import FormatError
from stages.ragged import ragged_of
from stages.store.arrays import write_array
from stages.store.token_store import TokenUnit, write_sections, write_unit

DOCUMENTS = [[10, 11, 2], [12, 2], [13, 14, 15, 2], [2]]
GROUP_PTR = np.array([0, 2, 2, 4])


def table_of(documents: list[list[int]]) -> pa.Table:
    """Return the rows of some documents."""
    rows = [
        {
            "id": bytes([number]) * 16,
            "own_id": f"n{number}" if number % 2 else None,
            "language": "en",
            "path": f"{number}.txt",
            "position": number * 100,
            "digest": bytes([number + 100]) * 16,
            "order": 2**64 - 1 - number,
            "tokens": len(ids),
        }
        for number, ids in enumerate(documents)
    ]
    return pa.Table.from_pylist(rows, schema=STORED_DOCUMENTS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of a written unit."""
    ids = [np.array(document, "<u2") for document in DOCUMENTS]
    write_unit(
        tmp_path / "unit", [table_of(DOCUMENTS)], ids=ids, dtype=np.dtype("<u2"), group_ptr=GROUP_PTR
    )
    return tmp_path / "unit"


def test_every_group_gives_its_documents(folder: Path) -> None:
    unit = TokenUnit.open(folder)
    for number, expected in enumerate([DOCUMENTS[:2], [], DOCUMENTS[2:]]):
        ids, lengths = unit.group(number)
        assert ids.tolist() == [number for document in expected for number in document]
        assert lengths.tolist() == [len(document) for document in expected]
    assert unit.ids.dtype == np.dtype("<u2")


def test_every_group_gives_its_rows(folder: Path) -> None:
    unit = TokenUnit.open(folder)
    rows = table_of(DOCUMENTS).to_pylist()
    assert unit.documents(0).to_pylist() == rows[:2]
    assert unit.documents(1).to_pylist() == []
    assert unit.documents(2).to_pylist() == rows[2:]
    assert unit.documents(2).schema == STORED_DOCUMENTS


def test_a_unit_without_documents_has_empty_groups(tmp_path: Path) -> None:
    write_unit(tmp_path, [], ids=[], dtype=np.dtype("<u2"), group_ptr=np.zeros(3, np.int64))
    unit = TokenUnit.open(tmp_path)
    for number in range(2):
        ids, lengths = unit.group(number)
        assert len(ids) == len(lengths) == unit.documents(number).num_rows == 0


@pytest.mark.parametrize("name", ["ids", "offsets", "group_ptr"])
def test_a_missing_file_is_refused_by_name(folder: Path, name: str) -> None:
    (folder / f"{name}.npy").unlink()
    with pytest.raises(FormatError, match=f"{name}.npy"):
        TokenUnit.open(folder)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("ids", np.arange(9, dtype="<u2")),
        ("ids", np.zeros(10, "<f8")),
        ("offsets", np.array([0, 3, 5, 9], "<i8")),
        ("offsets", np.array([0, 3, 5, 9, 10], "<i4")),
        ("offsets", np.empty(0, "<i8")),
        ("offsets", np.array([0, 5, 3, 9, 10], "<i8")),
        ("offsets", np.array([1, 3, 5, 9, 10], "<i8")),
        ("group_ptr", np.array([0, 2, 2, 5], "<i8")),
        ("group_ptr", np.empty(0, "<i8")),
        ("group_ptr", np.array([0, 3, 2, 4], "<i8")),
        ("group_ptr", np.array([1, 2, 2, 4], "<i8")),
    ],
)
def test_arrays_that_contradict_each_other_are_refused_by_name(
    folder: Path, name: str, array: NDArray[np.generic]
) -> None:
    write_array(folder / f"{name}.npy", array)
    with pytest.raises(FormatError) as error:
        TokenUnit.open(folder)
    assert str(folder) in str(error.value)


def test_as_many_groups_as_there_are_shards_are_enough_and_one_less_is_not(folder: Path) -> None:
    assert len(TokenUnit.open(folder, groups=3).group_ptr) == 4
    with pytest.raises(FormatError, match="3 groups, but there are 4 shards or more"):
        TokenUnit.open(folder, groups=4)


SECTIONS = [[1, 3], [0, 2], [2, 4], [1, 1]]
"""Of each document two ends, the second of which is its length."""


def sectioned(folder: Path, ends: list[list[int]], ptr: list[int] | None = None) -> TokenUnit:
    """Write ends of sections into a unit, and open it."""
    write_array(folder / "sections" / "ptr.npy", np.array(ptr or [0, 2, 4, 6, 8], "<i8"))
    write_array(folder / "sections" / "ends.npy", np.array([e for own in ends for e in own], "<i8"))
    return TokenUnit.open(folder)


def test_sections_are_those_of_the_group(folder: Path) -> None:
    found = sectioned(folder, SECTIONS).sections(2, count=2)
    assert [found[number].tolist() for number in range(2)] == SECTIONS[2:]


@pytest.mark.parametrize(
    ("ends", "ptr", "message"),
    [
        ([[1, 2], *SECTIONS[1:]], None, "the last one its length"),
        ([[1, 4], *SECTIONS[1:]], None, "the last one its length"),
        ([[4, 3], *SECTIONS[1:]], None, "2 rising ends"),
        (SECTIONS, [0, 3, 4, 6, 8], "2 rising ends"),
        (SECTIONS, [0, 4, 2, 6, 8], "the pointers lead elsewhere"),
        (SECTIONS, [-2, 0, 2, 4, 6], "the pointers lead elsewhere"),
        (SECTIONS, [0, 2, 9, 9, 9], "the pointers lead elsewhere"),
    ],
)
def test_ends_that_are_none_of_the_documents_are_refused(
    folder: Path, ends: list[list[int]], ptr: list[int] | None, message: str
) -> None:
    with pytest.raises(FormatError, match=message):
        sectioned(folder, ends, ptr).sections(0, count=2)


def test_a_document_of_one_section_ends_with_it_whatever_lies_on_disk(folder: Path) -> None:
    for unit in (TokenUnit.open(folder), sectioned(folder, SECTIONS[::-1])):
        found = unit.sections(2, count=1)
        assert [found[number].tolist() for number in range(2)] == [[4], [1]]


RAGGED = [[1, 3], [2], [0, 2, 4], [1]]
"""Of each document as many ends as it has."""
LEARNED = [False, True, True, False, True, False, True]


def dialogues(folder: Path, ptr: list[int], learned: list[bool] = LEARNED) -> TokenUnit:
    """Write dialogues into a unit, and open it."""
    write_array(folder / "sections" / "learned.npy", np.array(learned, "|b1"))
    return sectioned(folder, RAGGED, ptr)


def test_dialogues_have_any_number_of_sections_and_say_which_are_learned(folder: Path) -> None:
    unit = dialogues(folder, [0, 2, 3, 6, 7])
    for group, documents, flags in ((0, RAGGED[:2], LEARNED[:3]), (2, RAGGED[2:], LEARNED[3:])):
        found = unit.sections(group, count=0)
        assert [found[number].tolist() for number in range(2)] == documents
        assert unit.learned(group).tolist() == flags
    assert unit.learned(1).tolist() == []


def test_what_is_written_of_dialogues_comes_back(tmp_path: Path) -> None:
    ids = [np.array(document, "<u2") for document in DOCUMENTS]
    write_unit(
        tmp_path,
        [table_of(DOCUMENTS)],
        ids=ids,
        dtype=np.dtype("<u2"),
        group_ptr=GROUP_PTR,
    )
    write_sections(tmp_path, ragged_of(RAGGED), learned=np.array(LEARNED))
    unit = TokenUnit.open(tmp_path)
    assert unit.sections(0, count=0).values.tolist() == [1, 3, 2]
    assert unit.learned(2).tolist() == LEARNED[3:]


@pytest.mark.parametrize(
    ("ptr", "group"), [([0, 2, 2, 6, 7], 0), ([0, 3, 3, 6, 7], 0), ([0, 2, 3, 5, 7], 2)]
)
def test_a_dialogue_without_a_section_or_with_another_s_is_refused(
    folder: Path, ptr: list[int], group: int
) -> None:
    unit = dialogues(folder, ptr)
    with pytest.raises(FormatError, match="some rising ends"):
        unit.sections(group, count=0)


def test_flags_of_other_sections_are_refused(folder: Path) -> None:
    with pytest.raises(FormatError, match=r"learned\.npy"):
        dialogues(folder, [0, 2, 3, 6, 7], LEARNED[1:]).learned(0)
