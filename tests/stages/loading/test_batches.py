"""What a walk in batches promises.

All ranks together get every row of an epoch once, whatever becomes of the last ones; a saved place goes
on with any other batch size, number of ranks and number of workers, and gives the remaining rows and no
other; the state is small, plain, and refused for other rows.
"""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.errors import ConfigError
from stages.loading.batches import Batches, Last, padded
from stages.loading.dataset import Batch, ShardDataset, open_dataset
from stages.loading.torch_loader import Loader
from tests.campaign import some_of
from tests.stages.loading.test_dataset import EOS, PAD, ROW_LENGTH, write_dataset
from tests.stages.loading.test_masked_rows import SPECIAL_IDS, write_masked

CHANGES: dict[str, dict[str, object]] = {
    "mlm": {},
    "span_corruption": {
        "objective": {"kind": "span_corruption", "form": "row"},
        "attention": "encoder_decoder",
        "seq_len": ROW_LENGTH + 1,
        "label_convention": "targets",
        "special_ids": {**SPECIAL_IDS, **{f"sentinel_{n}": 299 - n for n in range(10)}},
    },
}
CASES = 200
WITH_WORKERS = some_of(range(0, CASES, 10), 6)
"""Cases that may have worker processes, which take most of the time."""


def numbered(root: Path, rows: int) -> ShardDataset:
    """Write rows that each begin with their own number, and open them."""
    documents = [[[10 + number, EOS]] for number in range(rows)]
    cut = rows // 3
    return open_dataset(write_dataset(root, (documents[:cut], documents[cut:])))


def numbers(batch: Batch) -> list[int]:
    """Return the numbers of a batch's rows; of padding None is given."""
    ids: list[int] = batch["input_ids"][:, 0].tolist()
    return [first - 10 for first in ids if first != PAD]


def order(rows: ShardDataset, epoch: int) -> list[int]:
    """Return the numbers of all rows in the order of an epoch."""
    return numbers(rows.at(epoch, np.arange(len(rows))))


def together(walks: list[Iterator[Batch]]) -> list[int]:
    """Return the numbers that the ranks get, step by step."""
    return [number for step in zip(*walks, strict=True) for batch in step for number in numbers(batch)]


def ranks(rows: ShardDataset, size: int, world: int, last: Last = "drop") -> list[Batches]:
    return [Batches(rows, size, rank=rank, world_size=world, last=last) for rank in range(world)]


def test_rows_of_padding_have_ids_of_padding_and_no_label_of_any_kind() -> None:
    fills = {
        "input_ids": PAD,
        "decoder_input_ids": PAD,
        "original_ids": PAD,
        "labels": -100,
        "next_sentence_label": -100,
        "sentence_order_label": -100,
        "segment_ids": -1,
        "position_ids": 0,
        "input_length": 0,
        "selected": 0,
    }
    batch = {name: np.full((1, 2), 9) for name in fills}
    whole = padded(batch, 3, pad=PAD)
    assert whole.pop("padding_row").tolist() == [0, 1, 1]
    assert {name: column.tolist() for name, column in whole.items()} == {
        name: [[9, 9], [fill, fill], [fill, fill]] for name, fill in fills.items()
    }
    assert {column.dtype for column in whole.values()} == {np.dtype(np.int64)}


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_all_ranks_together_get_an_epoch_in_its_order(tmp_path: Path, size: int, world: int) -> None:
    rows = numbered(tmp_path, 29)
    whole = 29 // (size * world) * size * world
    assert whole
    got = together([iter(walk) for walk in ranks(rows, size, world)])
    assert got == order(rows, 0)[:whole]
    got = together([iter(walk) for walk in ranks(rows, size, world, "pad")])
    assert got == order(rows, 0)


def test_epochs_follow_each_other(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 10)
    walk = Batches(rows, 3)
    passes = [[number for batch in walk for number in numbers(batch)] for _ in range(3)]
    assert passes == [order(rows, epoch)[:9] for epoch in range(3)]
    assert walk.epoch == 3
    walk = Batches(rows, 3, last="carry")
    passes = [[number for batch in walk for number in numbers(batch)] for _ in range(3)]
    endless = [number for epoch in range(4) for number in order(rows, epoch)]
    assert passes == [endless[:12], endless[12:21], endless[21:30]]
    assert walk.place() == (3, 0)


def test_a_batch_larger_than_an_epoch_goes_on_through_several(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 4)
    endless = [number for epoch in range(6) for number in order(rows, epoch)]
    assert numbers(Batches(rows, 10, last="carry")[1]) == endless[10:20]


def test_a_batch_ahead_is_the_one_that_will_come(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 11)
    lasts: tuple[Last, ...] = ("drop", "pad", "carry")
    for last in lasts:
        walk = Batches(rows, 2, rank=1, world_size=2, last=last)
        ahead = [numbers(walk[step]) for step in range(9)]
        states = [walk.state_dict(step) for step in range(9)]
        for step in range(9):
            assert walk.state_dict() == states[step]
            assert numbers(walk[0]) == ahead[step]
            walk.advance()


def test_rows_of_padding_are_marked_counted_and_have_no_label(tmp_path: Path) -> None:
    walks = ranks(numbered(tmp_path, 9), 4, 2, "pad")
    assert [walk.padding_rows(step) for walk in walks for step in (0, 1, 2)] == [0, 7, 0] * 2
    first, second = (walk[1] for walk in walks)
    assert first["padding_row"].tolist() == [0, 1, 1, 1]
    assert second["padding_row"].tolist() == [1, 1, 1, 1]
    assert walks[0][0]["padding_row"].tolist() == [0, 0, 0, 0]
    expected = {"input_ids": PAD, "labels": -100, "segment_ids": -1, "position_ids": 0}
    for name, value in expected.items():
        assert second[name].tolist() == [[value] * ROW_LENGTH] * 4
        assert first[name][1:].tolist() == [[value] * ROW_LENGTH] * 3
    assert numbers(first)[0] == order(walks[0].rows, 0)[8]  # type: ignore[arg-type]  # a dataset


@pytest.mark.parametrize("case", range(CASES))
def test_what_is_left_comes_whole_and_once_with_other_ranks_and_workers(
    tmp_path: Path, case: int
) -> None:
    draw = random.Random(case)  # noqa: S311  # cases of a test
    rows = numbered(tmp_path, draw.randint(30, 90))
    last: Last = draw.choice(["drop", "pad", "carry"])
    before = ranks(rows, draw.randint(1, 5), draw.randint(1, 4), last)
    per_epoch = len(before[0])
    steps = draw.randrange(2 * per_epoch + 1)
    given = [number for step in range(steps) for walk in before for number in numbers(walk[step])]
    state = json.loads(json.dumps(before[0].state_dict(steps)))
    assert all(walk.state_dict(steps) == state for walk in before)
    size, world = draw.randint(1, 5), draw.randint(1, 4)
    after = ranks(rows, size, world, last)
    for walk in after:
        walk.load_state_dict(state)
    workers = draw.choice([0, 0, 0, 1, 2]) if case in WITH_WORKERS else 0
    loaders = [Loader(walk, num_workers=workers) for walk in after]
    left = together(
        [({n: c.numpy() for n, c in batch.items()} for batch in loader) for loader in loaders]
    )
    epoch, position = state["epoch"], state["position"]
    remaining = order(rows, epoch)[position:]
    if last == "carry":
        assert left[: len(remaining)] == remaining
        assert left[len(remaining) :] == order(rows, epoch + 1)[: len(left) - len(remaining)]
        expected = [n for past in range(epoch) for n in order(rows, past)] + order(rows, epoch)[
            :position
        ]
        assert given == expected
    elif len(remaining) < size * world and last == "drop":
        assert left == order(rows, epoch + 1)[: len(rows) // (size * world) * size * world]
    else:
        dropped = len(remaining) % (size * world) if last == "drop" else 0
        assert left == remaining[: len(remaining) - dropped]
        this_epoch = given[len(given) - position :] if position else []
        assert this_epoch == order(rows, epoch)[:position]
        assert not set(this_epoch) & set(left)


def test_the_state_is_small_and_plain(tmp_path: Path) -> None:
    walk = Batches(numbered(tmp_path, 50), 1, last="carry")
    text = json.dumps(walk.state_dict(2**37))
    assert len(text) < 1000
    walk.load_state_dict(json.loads(text))
    assert walk.place() == divmod(2**37, 50)


def test_a_walk_that_is_told_its_own_epoch_stays_where_it_is(tmp_path: Path) -> None:
    walk = Batches(numbered(tmp_path, 20), 2)
    walk.advance(3)
    walk.set_epoch(0)
    assert walk.place() == (0, 6)
    walk.set_epoch(4)
    assert walk.place() == (4, 0)


class Made:
    """Rows of no dataset, as many as a test wants."""

    fingerprint, pad, epoch, shuffle, sorted_by_draws = "few", PAD, 0, True, False
    window = None

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __len__(self) -> int:
        """Rows."""
        return self.rows

    def sound_epoch(self, epoch: int) -> int:
        """Take any."""
        return epoch

    def at(self, epoch: int, positions: NDArray[np.int64]) -> Batch:
        """Return rows that say where they stand."""
        return {"input_ids": positions + epoch}


def test_a_state_of_as_many_rows_again_by_the_same_name_is_refused() -> None:
    """A blend has as many as it is told to have, and its name does not say how many."""
    state = Batches(Made(40), 4).state_dict(3)
    with pytest.raises(ConfigError, match=r"state: of 40 rows of few, but these are 20 of few"):
        Batches(Made(20), 4).load_state_dict(state)


def test_a_walk_takes_all_rows_in_one_step_if_they_are_as_many() -> None:
    assert len(Batches(Made(12), 3, world_size=4)) == 1


def test_an_epoch_too_far_to_be_numbered_is_refused() -> None:
    walk = Batches(Made(1 << 40), 8)
    walk.set_epoch((1 << 23) - 1)
    assert walk.place() == ((1 << 23) - 1, 0)
    with pytest.raises(
        ConfigError, match=r"epoch = 8388608: must be below 8,388,608 for 1,099,511,627,776"
    ):
        walk.set_epoch(1 << 23)
    assert walk.epoch == (1 << 23) - 1


def test_a_state_with_too_few_rows_left_for_a_step_goes_on_in_the_next_epoch() -> None:
    walk = Batches(Made(10), 4)
    walk.load_state_dict({**Batches(Made(10), 1).state_dict(8)})
    assert (walk.epoch, walk.place(), len(walk)) == (1, (1, 0), 2)
    assert [batch["input_ids"].tolist() for batch in walk] == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_what_cannot_be_walked_is_refused(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 10)
    with pytest.raises(ConfigError, match=r"batch_size = 4: 3 ranks take 12 rows a step.*has 10"):
        Batches(rows, 4, world_size=3)
    with pytest.raises(ConfigError, match="rank = 2: must be at least 0 and below world_size = 2"):
        Batches(rows, 1, rank=2, world_size=2)
    with pytest.raises(ConfigError, match="batch_size = 0"):
        Batches(rows, 0)
    with pytest.raises(IndexError):
        Batches(rows, 2)[-1]
    with pytest.raises(ConfigError, match='last = \'bogus\': must be one of "drop", "pad", "carry"'):
        Batches(rows, 2, last="bogus")  # type: ignore[arg-type]  # what it refuses
    for name in ("batch_size", "rank", "world_size"):
        with pytest.raises(ConfigError, match=f"{name} = 1.5: must be a whole number"):
            Batches(rows, **{"batch_size": 2, name: 1.5})  # type: ignore[arg-type]  # likewise
    lasts: tuple[Last, ...] = ("drop", "pad", "carry")
    for last in lasts:
        with pytest.raises(ConfigError, match="an epoch has none to walk over"):
            Batches(numbered(tmp_path / last, 0), 2, last=last)


def test_numbers_of_numpy_are_taken_as_pythons(tmp_path: Path) -> None:
    walk = Batches(numbered(tmp_path, 10), np.uint8(2), world_size=np.uint8(200), last="pad")  # type: ignore[arg-type]  # they are integers
    assert len(walk) == 1
    walk = Batches(walk.rows, np.int64(2))  # type: ignore[arg-type]  # likewise
    walk.set_epoch(np.int64(3))  # type: ignore[arg-type]  # likewise
    walk.advance(np.int64(2))  # type: ignore[arg-type]  # likewise
    state = json.loads(json.dumps(walk.state_dict(np.int64(1))))  # type: ignore[arg-type]  # likewise
    assert (state["epoch"], state["position"]) == (3, 6)


def test_a_state_of_other_rows_is_refused(tmp_path: Path) -> None:
    state = Batches(numbered(tmp_path / "a", 10), 2).state_dict()
    walk = Batches(numbered(tmp_path / "b", 11), 2)
    with pytest.raises(ConfigError, match=r"state: of 10 rows of .*, but these are 11 of"):
        walk.load_state_dict(state)
    with pytest.raises(ConfigError, match="version 9"):
        walk.load_state_dict({**walk.state_dict(), "version": 9})


def test_a_state_of_another_order_of_few_rows_is_refused_and_its_epoch_begun_again(
    tmp_path: Path,
) -> None:
    rows = numbered(tmp_path, 10)
    walk = Batches(rows, 2)
    walk.set_epoch(3)
    old = {**walk.state_dict(2), "version": 2}
    again = Batches(rows, 2)
    message = (
        r"state is from version 2; the row order .* changed since. Restart that epoch: set_epoch\(3\)"
    )
    with pytest.raises(ConfigError, match=message):
        again.load_state_dict(old)
    again.set_epoch(3)
    assert again.state_dict(2) == walk.state_dict(2)
    stored = Batches(open_dataset(tmp_path / "clm", shuffle=False), 2)
    stored.load_state_dict({**old, "shuffle": 0})
    assert stored.place() == (3, 4)
    many = Batches(numbered(tmp_path / "many", 1030), 2)
    many.load_state_dict({**many.state_dict(7), "version": 2})
    assert many.place() == (0, 14)


def test_an_order_that_the_state_was_not_saved_with_is_refused(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 10)
    stored = open_dataset(tmp_path / "clm", shuffle=False)
    with pytest.raises(
        ConfigError, match="state: of rows with shuffle=False, but these have shuffle=True"
    ):
        Batches(rows, 2).load_state_dict(Batches(stored, 2).state_dict())


def test_a_state_that_is_not_whole_is_refused_by_its_field(tmp_path: Path) -> None:
    walk = Batches(numbered(tmp_path, 10), 2)
    state = walk.state_dict(3)
    for name in state:
        with pytest.raises(ConfigError, match=f"state: (no )?{name}"):
            walk.load_state_dict({key: value for key, value in state.items() if key != name})
    for name in ("rows", "shuffle", "epoch", "position"):
        wrongs: tuple[object, ...] = (None, "3", 1.5, [], True)
        for wrong in wrongs:
            with pytest.raises(ConfigError, match=f"state: {name} = .*must be a whole number"):
                walk.load_state_dict({**state, name: wrong})  # type: ignore[dict-item]  # what it refuses
    nothings: tuple[object, ...] = (None, [], "state")
    for nothing in nothings:
        with pytest.raises(ConfigError, match="must be what state_dict"):
            walk.load_state_dict(nothing)  # type: ignore[arg-type]  # likewise
    assert walk.place() == (0, 0)


@pytest.mark.parametrize(("epoch", "position"), [(-1, 0), (0, -2), (0, 10), (3, 99), (1 << 32, 0)])
def test_a_place_that_is_none_is_refused(tmp_path: Path, epoch: int, position: int) -> None:
    walk = Batches(numbered(tmp_path, 10), 2)
    with pytest.raises(ConfigError, match=f"state: epoch {epoch}, position {position}"):
        walk.load_state_dict({**walk.state_dict(), "epoch": epoch, "position": position})
    assert walk.place() == (0, 0)
    for none in (-1, 1.5, 1 << 32):
        with pytest.raises(ConfigError, match=f"epoch = {none}: must be"):
            walk.set_epoch(none)  # type: ignore[arg-type]  # what it refuses


def test_a_walk_begins_in_the_epoch_of_its_rows_and_leaves_them_there(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 10)
    rows.set_epoch(2)
    walk = Batches(rows, 5)
    passes = [[number for batch in walk for number in numbers(batch)] for _ in range(2)]
    assert passes == [order(rows, 2), order(rows, 3)]
    assert passes[0] != passes[1]
    assert rows.epoch == 2
    assert numbers(rows.batch(np.arange(10))) == passes[0]


@pytest.mark.parametrize("kind", ["mlm", "span_corruption"])
def test_a_batch_that_is_all_padding_has_the_columns_of_its_objective(tmp_path: Path, kind: str) -> None:
    rows = open_dataset(write_masked(tmp_path, changes=CHANGES[kind]))
    size = len(rows)
    whole, nothing = (Batches(rows, size, rank=n, world_size=2, last="pad")[0] for n in (0, 1))
    assert {n: c.shape for n, c in nothing.items()} == {n: c.shape for n, c in whole.items()}
    assert whole["padding_row"].tolist() == [0] * size
    assert nothing["padding_row"].tolist() == [1] * size
    assert np.unique(nothing["labels"]).tolist() == [-100]
    assert np.unique(nothing["input_ids"]).tolist() == [PAD]
