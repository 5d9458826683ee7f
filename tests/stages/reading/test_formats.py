"""What slices promise: they cover a file without gap or overlap, and each knows what is before it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.reading.formats import ENDINGS, Format, Slice, byte_slices, format_of, run_slices


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.jsonl", Format.JSONL),
        ("deep/a.b.jsonl.gz", Format.JSONL),
        ("s3://bucket/a.parquet", Format.PARQUET),
        ("a.feather", Format.ARROW),
        ("a.txt.zst", Format.TEXT),
        ("a.JSONL", None),
        ("a.parquet.gz", None),
        ("a.json", None),
        ("jsonl", None),
    ],
)
def test_the_ending_of_a_name_says_what_a_file_holds(name: str, kind: Format | None) -> None:
    assert format_of(name) is kind


def test_every_format_has_an_ending() -> None:
    assert set(ENDINGS.values()) == set(Format)
    assert all(format_of(f"x{ending}") is kind for ending, kind in ENDINGS.items())


@pytest.mark.parametrize(
    ("size", "line_feeds", "slices"),
    [
        (0, [0], [Slice(0, 0, 0)]),
        (9, [2], [Slice(0, 9, 0)]),
        (10, [2], [Slice(0, 10, 0)]),
        (25, [2, 3, 1], [Slice(0, 10, 0), Slice(10, 20, 2), Slice(20, 25, 5)]),
    ],
)
def test_a_plain_file_is_cut_by_bytes(size: int, line_feeds: list[int], slices: list[Slice]) -> None:
    assert byte_slices(size, 10, line_feeds) == slices


@pytest.mark.parametrize(
    ("pieces", "slices"),
    [
        ([], [Slice(0, 0, 0)]),
        ([(0, 0)], [Slice(0, 1, 0)]),
        ([(5, 40), (5, 40), (9, 300)], [Slice(0, 2, 0), Slice(2, 3, 10)]),
        ([(1, 300), (5, 40), (0, 0), (5, 60)], [Slice(0, 1, 0), Slice(1, 4, 1)]),
    ],
)
def test_row_groups_are_joined_to_runs(pieces: list[tuple[int, int]], slices: list[Slice]) -> None:
    assert run_slices(pieces, 100) == slices


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 250)), max_size=12))
def test_runs_cover_all_pieces_and_only_a_single_piece_passes_the_bound(
    pieces: list[tuple[int, int]],
) -> None:
    slices = run_slices(pieces, 100)
    numbers = [number for part in slices for number in range(part.first, part.last)]
    assert numbers == list(range(len(pieces)))
    for part in slices:
        run = pieces[part.first : part.last]
        assert part.before == sum(rows for rows, _ in pieces[: part.first])
        assert len(run) <= 1 or sum(size for _, size in run) <= 100
