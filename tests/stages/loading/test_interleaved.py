"""What an epoch of dealt rows promises.

It is a permutation, another in each epoch, of which any position can be computed alone, and every window
of it has the sources' shares. A walk that is resumed by other ranks goes on with the same rows. Datasets
of several generations are dealt together.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.interleaving import LEVELS
from stages.loading.batches import Batches
from stages.loading.dataset import open_dataset
from stages.loading.grown import open_dataset as open_grown
from stages.loading.interleaved import InterleavedOrder, InterleavedRows, class_seed
from stages.loading.order import MAX_SORTED, Permutations, shuffled
from stages.store.manifest import MANIFEST_NAME, Manifest, read_manifest, write_manifest
from stages.verify.source_rows import epoch_rows
from tests.campaign import examples
from tests.stages.loading.test_dataset import EOS, write_dataset

Shards = Sequence[Mapping[str, Sequence[int]]]
FULL = LEVELS - 1


def rows_of(full: int, part: int = 0) -> tuple[int, ...]:
    """Return the numbers of rows of a source of which so many are full, and so many a half or less."""
    odd = part // 3
    less = {LEVELS // 4: part - odd, LEVELS // 2 - 1: odd}
    return (*(less.get(level, 0) for level in range(FULL)), full)


SHARDS: Shards = (
    {"web": rows_of(1400, 30), "wiki": rows_of(300), "code": rows_of(0, 7)},
    {"web": rows_of(900), "chat": rows_of(1)},
    {},
    {"wiki": rows_of(450, 2), "code": rows_of(260, 40)},
)
GOLDEN = {
    0: [1737, 1649, 946, 3256, 805, 2194, 3386, 2355],
    1: [1737, 841, 506, 2639, 1010, 204, 3082, 1460],
}
SOME_SHARDS = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "b", "ö", "web"]),
        st.tuples(st.sampled_from([0, 1, 2, 9, 40, 700]), st.sampled_from([0, 0, 1, 20])).filter(any),
    ),
    min_size=1,
    max_size=4,
)


def epoch_of(shards: Shards, epoch: int = 0, *, seed: int = 7) -> NDArray[np.int64]:
    """Return a whole epoch."""
    dealt = InterleavedRows(shards)
    order = InterleavedOrder(dealt, seed=seed, epoch=epoch)
    return order.rows(np.arange(int(dealt.first_rows[-1])))


def sources_in_order(shards: Shards) -> NDArray[np.int64]:
    """Return the number of the source of each stored row, counted from the deal of each shard."""
    names = sorted({name for shard in shards for name in shard})
    found = []
    for shard in shards:
        dealt = InterleavedRows([shard])
        places = np.arange(int(dealt.first_rows[-1]))
        classes, _ = dealt.of_all.items(np.zeros_like(places), places)
        own = np.array([names.index(name) for name in dealt.sources], np.int64)
        found.append(own[classes // LEVELS])
    return np.concatenate(found)


def manifest_like(shards: Shards) -> Manifest:
    """Return what is read of the manifest of such shards."""
    listed = [SimpleNamespace(source_rows=s, rows=sum(map(sum, s.values()))) for s in shards]
    return cast("Manifest", SimpleNamespace(seed=7, interleave="exact", shards=listed))


@pytest.mark.parametrize("epoch", [0, 1])
def test_it_is_golden(epoch: int) -> None:
    assert epoch_of(SHARDS, epoch)[:8].tolist() == GOLDEN[epoch]


@settings(max_examples=examples(40))
@given(SOME_SHARDS, st.integers(0, 3))
@example([{"web": (40, 20)}, {"a": (700, 20), "web": (9, 20)}], 1)
def test_an_epoch_has_every_row_once_as_counted_one_by_one(
    shards: list[dict[str, tuple[int, int]]], epoch: int
) -> None:
    whole = [{name: rows_of(*rows) for name, rows in shard.items()} for shard in shards]
    rows = epoch_of(whole, epoch)
    assert sorted(rows.tolist()) == list(range(len(rows)))
    at = list(range(0, len(rows), max(1, len(rows) // 7)))
    assert epoch_rows(manifest_like(whole), at, epoch=epoch) == rows[at].tolist()


def test_a_position_alone_gives_the_row_it_gives_among_others() -> None:
    rows, dealt = epoch_of(SHARDS, 1), InterleavedRows(SHARDS)
    for position in (0, 1, 77, 1500, len(rows) - 1):
        alone = InterleavedOrder(dealt, seed=7, epoch=1).rows(np.array([position]))
        assert alone.tolist() == [rows[position]]


def test_every_epoch_and_every_seed_has_its_own_order_of_the_same_sources() -> None:
    orders = [epoch_of(SHARDS, 0), epoch_of(SHARDS, 1), epoch_of(SHARDS, 0, seed=8)]
    sources = sources_in_order(SHARDS)
    for one, other in pairwise(orders):
        assert np.count_nonzero(one == other) < len(one) // 50
        assert np.array_equal(sources[one], sources[other])


def test_every_window_has_the_shares_of_all_rows() -> None:
    sources, window = sources_in_order(SHARDS), 500
    assert len(sources) > 3000
    for order in (epoch_of(SHARDS, 3), np.arange(1737)):  # an epoch, and the rows of a shard as stored
        own = sources[order]
        for source in np.unique(own).tolist():
            had = np.concatenate([[0], np.cumsum(own == source)])
            meant = window * had[-1] / len(own)
            assert np.abs(had[window:] - had[:-window] - meant).max() < 3


def test_rows_of_one_source_have_an_order_of_their_own() -> None:
    size = MAX_SORTED + 5
    rows = epoch_of([{"only": rows_of(size)}], 2)
    order = shuffled(np.arange(size), size, seed=class_seed("only", FULL, seed=7), epoch=2)
    step = 635  # 1,029 times the golden section, and coprime to it
    assert [row * step % size for row in rows.tolist()] == order[np.arange(size) * step % size].tolist()


def test_permutations_that_are_looked_up_together_are_those_of_each() -> None:
    sizes, seeds = [1, 5, MAX_SORTED, MAX_SORTED + 1, 4096, 5000], [3, 1, 4, 1, 5, 2**64 - 1]
    members = np.repeat(np.arange(len(sizes)), sizes)
    places = np.concatenate([np.arange(size) for size in sizes])
    mixed = np.argsort(places, kind="stable")
    found = Permutations(sizes, seeds=seeds, epoch=2).rows(members[mixed], places[mixed])
    for number, (size, seed) in enumerate(zip(sizes, seeds, strict=True)):
        wanted = shuffled(np.arange(size), size, seed=seed, epoch=2)
        assert np.array_equal(found[members[mixed] == number], wanted)


def write_dealt(root: Path, shards: Sequence[Mapping[str, int]], *, first: int = 10) -> Path:
    """Write full rows of some sources, in the order of their deal, each of a number of its own.

    Rows of the source that comes k-th by name hold ids with the remainder k modulo 4.
    """
    names = sorted({name for shard in shards for name in shard})
    whole: Shards = [{name: rows_of(n) for name, n in shard.items()} for shard in shards]
    written, at = [], 0
    for own, shard in zip(whole, shards, strict=True):
        rows = sources_in_order([own])
        of_shard = [names.index(name) for name in sorted(shard)]
        written.append(
            [
                [[4 * (first + at + place) + of_shard[row], *[9] * 4, EOS]]
                for place, row in enumerate(rows.tolist())
            ]
        )
        at += len(rows)
    folder = write_dataset(root, tuple(written))
    manifest = read_manifest(folder / "train")
    content = manifest.model_dump()
    content["interleave"] = "exact"
    for said, own in zip(content["shards"], whole, strict=True):
        said["source_rows"] = own
    write_manifest(folder / "train" / MANIFEST_NAME, Manifest.model_validate(content).signed())
    return folder


COUNTS = ({"a": 20, "b": 7, "c": 3}, {"a": 9, "c": 1}, {"b": 8})


def walked(batches: Batches, steps: int) -> list[int]:
    """Return the first ids of the rows of the next batches."""
    return [int(row) for step in range(steps) for row in batches[step]["input_ids"][:, 0]]


def test_a_walk_that_other_ranks_go_on_with_has_the_rows_and_windows_of_the_epoch(
    tmp_path: Path,
) -> None:
    rows = open_dataset(write_dealt(tmp_path, COUNTS))
    epoch = rows.batch(np.arange(48))["input_ids"][:, 0].tolist()
    assert sorted(row // 4 for row in epoch) == list(range(10, 58))
    first = [Batches(rows, 2, rank=rank, world_size=3) for rank in range(3)]
    seen = [row for step in range(3) for walk in first for row in walk[step]["input_ids"][:, 0].tolist()]
    state = first[1].state_dict(3)
    again = open_dataset(tmp_path / "clm")
    later = [Batches(again, 3, rank=rank, world_size=2) for rank in range(2)]
    for walk in later:
        walk.load_state_dict(state)
    seen += [
        row for step in range(5) for walk in later for row in walk[step]["input_ids"][:, 0].tolist()
    ]
    assert seen == epoch
    for source, count in enumerate((29, 15, 4)):
        had = np.concatenate([[0], np.cumsum(np.array(seen) % 4 == source)])
        assert had[-1] == count
        assert np.abs(had[16:] - had[:-16] - 16 * count / 48).max() < 2.5


def test_rows_as_stored_stay_as_stored(tmp_path: Path) -> None:
    rows = open_dataset(write_dealt(tmp_path, COUNTS), shuffle=False)
    assert (rows.batch(np.arange(48))["input_ids"][:, 0] // 4).tolist() == list(range(10, 58))


def test_generations_are_dealt_together(tmp_path: Path) -> None:
    root = tmp_path / "run"
    write_dealt(root / "datasets", COUNTS)
    write_dealt(root / "generations" / "0001" / "datasets", ({"a": 5, "d": 6}, {"d": 3}), first=58)
    rows = open_grown(root / "datasets" / "clm", epoch=1)
    found = rows.batch(np.arange(62))["input_ids"][:, 0] // 4
    wanted = [{k: rows_of(n) for k, n in one.items()} for one in (*COUNTS, {"a": 5, "d": 6}, {"d": 3})]
    assert (found - 10).tolist() == epoch_of(wanted, 1).tolist()
    assert len(open_grown(root / "datasets" / "clm", generations=1)) == 48


def test_a_generation_that_is_not_dealt_leaves_all_rows_to_one_permutation(tmp_path: Path) -> None:
    root = tmp_path / "run"
    write_dealt(root / "datasets", COUNTS)
    later = ([[[4 * 58, EOS]], [[4 * 59, EOS]]],)
    write_dataset(root / "generations" / "0001" / "datasets", later)
    rows = open_grown(root / "datasets" / "clm")
    found = rows.batch(np.arange(50))["input_ids"][:, 0] // 4
    assert (found - 10).tolist() == shuffled(np.arange(50), 50, seed=7, epoch=0).tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"interleave": "shuffle"},
        {"a": rows_of(19)},
        {"d": rows_of(0)},
        {"a": (20,)},
        {"a": (-1, *rows_of(21)[1:])},
        None,
    ],
)
def test_numbers_of_rows_that_cannot_be_are_refused(
    tmp_path: Path, change: dict[str, Any] | None
) -> None:
    folder = write_dealt(tmp_path, COUNTS) / "train"
    manifest = read_manifest(folder)
    shard = manifest.shards[0]
    if change is not None and "interleave" in change:
        broken = manifest.model_copy(update=change)
    else:
        rows = None if change is None else {**(shard.source_rows or {}), **change}
        shards = (shard.model_copy(update={"source_rows": rows}), *manifest.shards[1:])
        broken = manifest.model_copy(update={"shards": shards})
    said = broken.model_dump(mode="json", warnings=False)
    if change == {"interleave": "shuffle"}:  # it would leave the numbers out
        said["shards"][0]["source_rows"] = {"a": rows_of(30)}
    (folder / MANIFEST_NAME).write_text(json.dumps(said))
    with pytest.raises(FormatError, match="source_rows"):
        read_manifest(folder)


def test_manifests_of_shuffled_rows_name_neither(tmp_path: Path) -> None:
    text = (write_dataset(tmp_path) / "train" / MANIFEST_NAME).read_text()
    assert "source_rows" not in text
    assert "interleave" not in text
