"""What stages one after the other promise.

Each stage gives its rows in their order, for exactly as long as it lasts, in batches of its own size; no
batch has rows of two stages; a saved place goes on with other ranks, sizes and workers; what is through
is compared when a state is loaded, what is ahead is free.
"""

import json
import pickle
import random
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.errors import ConfigError
from stages.loading.batches import Batches, Last
from stages.loading.blend import Blend
from stages.loading.dataset import Batch, ShardDataset, open_dataset
from stages.loading.sequence import Sequence, open_sequence
from stages.loading.stage import Stage
from stages.loading.torch_loader import Loader
from stages.store.manifest import TokenizerFile
from tests.campaign import examples
from tests.stages.loading.test_blend import PERMUTED, numbered
from tests.stages.loading.test_dataset import EOS, PAD, ROW_LENGTH, write_dataset
from tests.stages.loading.test_drawn_epochs import with_epochs

LASTS: tuple[Last, ...] = ("drop", "pad", "carry")
SIZES = (11, 5, 7)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> list[ShardDataset]:
    """Three datasets whose rows begin with 100 and more, 200 and more, 300 and more."""
    root = tmp_path_factory.mktemp("stages")
    return [numbered(root / str(n), rows, 100 * n) for n, rows in enumerate(SIZES, 1)]


def firsts(batches: Iterable[Batch]) -> list[list[int]]:
    """Return the first ids of the rows of each batch, without those of padding."""
    columns = [np.asarray(batch["input_ids"])[:, 0].tolist() for batch in batches]
    return [[first for first in column if first != PAD] for column in columns]


def stream(rows: ShardDataset, length: int) -> list[int]:
    """Return the first ids of so many rows, epoch after epoch."""
    epochs = range(rows.epoch, rows.epoch + length // len(rows) + 1)
    orders = [rows.at(epoch, np.arange(len(rows)))["input_ids"][:, 0].tolist() for epoch in epochs]
    return [first for order in orders for first in order][:length]


def named(stages: Iterable[Stage]) -> list[Stage]:
    return [replace(stage, name=f"stage{n}") for n, stage in enumerate(stages)]


@pytest.mark.parametrize("last", LASTS)
@pytest.mark.parametrize(("rank", "world"), [(0, 1), (1, 2)])
def test_stages_of_an_epoch_are_the_batches_of_each_dataset_one_after_the_other(
    datasets: list[ShardDataset], last: Last, rank: int, world: int
) -> None:
    stages = named(Stage(rows, size) for rows, size in zip(datasets, (3, 1, 2), strict=True))
    walk = Sequence(stages, rank=rank, world_size=world, last=last)
    expected = [
        (stage.name, batch)
        for stage in stages
        for batch in Batches(stage.rows, stage.batch_size, rank=rank, world_size=world, last=last)
    ]
    assert [walk.stage_of(n) for n in range(len(walk))] == [name for name, _ in expected]
    ahead = [walk[n] for n in range(len(walk))]
    got = [(walk.stage, batch) for batch in walk]
    assert len(got) == len(expected) == len(ahead)
    for (name, batch), (stage, other), same in zip(expected, got, ahead, strict=True):
        assert name == stage
        assert batch.keys() == other.keys() == same.keys()
        for column in batch:
            np.testing.assert_array_equal(other[column], batch[column])
            np.testing.assert_array_equal(same[column], batch[column])
    assert len(walk) == 0
    assert list(walk) == []
    with pytest.raises(IndexError, match="batch 0: 0 are left of the stages"):
        _ = walk[0]


@pytest.mark.parametrize(
    ("length", "rows", "given"),
    [
        ({}, 11, {"drop": 8, "pad": 11, "carry": 12}),
        ({"epochs": 2.5}, 28, {"drop": 28, "pad": 28, "carry": 28}),
        ({"epochs": 0.3}, 4, {"drop": 4, "pad": 4, "carry": 4}),
        ({"steps": 5}, 20, {"drop": 20, "pad": 20, "carry": 20}),
        ({"tokens": 5 * ROW_LENGTH}, 5, {"drop": 4, "pad": 5, "carry": 8}),
        ({"tokens": 5 * ROW_LENGTH + 1}, 6, {"drop": 4, "pad": 6, "carry": 8}),
    ],
)
def test_a_stage_lasts_as_long_as_it_says(
    datasets: list[ShardDataset], length: dict[str, Any], rows: int, given: dict[Last, int]
) -> None:
    for last in LASTS:
        walks = [
            Sequence([Stage(datasets[0], 2, **length)], rank=rank, world_size=2, last=last)
            for rank in range(2)
        ]
        assert [len(walk) for walk in walks] == [-(-given[last] // 4)] * 2
        if last == "pad":
            assert walks[0].padding_rows(len(walks[0]) - 1) == -rows % 4
            assert set(walks[0][0]) >= {"padding_row"}
        got = [first for step in zip(*walks, strict=True) for part in firsts(step) for first in part]
        assert got == stream(datasets[0], given[last])


def lengths() -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.fixed_dictionaries({"epochs": st.sampled_from([1, 2, 0.5, 1.3])}),
        st.fixed_dictionaries({"steps": st.integers(1, 6)}),
        st.fixed_dictionaries({"tokens": st.integers(4 * ROW_LENGTH, 90)}),
    )


@settings(deadline=None, max_examples=examples(20))
@given(st.lists(lengths(), min_size=1, max_size=4), st.sampled_from(LASTS), st.randoms())
def test_a_walk_that_is_stopped_anywhere_and_goes_on_with_others_misses_no_row(
    datasets: list[ShardDataset], wanted: list[dict[str, Any]], last: Last, rng: random.Random
) -> None:
    state, steps = None, [0] * len(wanted)
    got: list[list[int]] = [[] for _ in wanted]
    ends = [(0, 0)] * len(wanted)
    for begun in range(10):
        world = rng.randint(1, 2) if last != "drop" else 1
        sizes = [rng.randint(1, 2) for _ in wanted]
        stages = named(
            Stage(datasets[n % 3], size, **length)
            for n, (size, length) in enumerate(zip(sizes, wanted, strict=True))
        )
        walks = [Sequence(stages, rank=rank, world_size=world, last=last) for rank in range(world)]
        if state is not None:
            for walk in walks:
                walk.load_state_dict(json.loads(state))
        taken = min(len(walks[0]), rng.randint(0, 5) if begun < 9 else len(walks[0]))
        ahead = json.dumps(walks[0].state_dict(taken))
        for _ in range(taken):
            step = [next(iter(walk)) for walk in walks]
            number = walks[0].stages.index(walks[0].stage)
            steps[number] += 1
            got[number] += [first for part in firsts(step) for first in part]
            ends[number] = (len(got[number]), world * sizes[number])
        state = json.dumps(walks[0].state_dict())
        assert state == ahead
    assert not len(walks[0])
    for number, length in enumerate(wanted):
        rows = datasets[number % 3]
        assert got[number] == stream(rows, len(got[number]))
        given, together = ends[number]
        if "steps" in length:
            assert steps[number] == length["steps"]
            continue
        epochs, tokens = length.get("epochs"), length.get("tokens", 0)
        whole = -(-tokens // ROW_LENGTH) if epochs is None else -(-int(epochs * 10) * len(rows) // 10)
        if last == "pad":
            assert given == whole
        elif last == "carry":
            assert whole <= given < whole + together
        else:
            assert whole - 2 < given <= whole


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_give_the_same_across_stages_and_states(
    datasets: list[ShardDataset], workers: int
) -> None:
    def walk(size: int) -> Sequence:
        return Sequence(
            [Stage(datasets[0], size), Stage(Blend(datasets[1:], [2, 1]), 2, steps=4, name="blend")]
        )

    expected = firsts(walk(3))
    loader = Loader(walk(3), num_workers=workers)
    assert len(loader) == len(expected) == 7
    got = []
    for batch in loader:
        got.append(batch["input_ids"][:, 0].tolist())
        if len(got) == 4:
            break
    state = loader.state_dict()
    assert (state["stage"], loader.batches.place()) == (1, (1, 2, 1))
    again = Loader(walk(2), num_workers=workers)
    again.load_state_dict(json.loads(json.dumps(state)))
    assert got + firsts(again) == expected  # type: ignore[arg-type]
    assert got + firsts(loader) == expected  # type: ignore[arg-type]
    assert firsts(loader) == []  # type: ignore[arg-type]
    with pytest.raises(
        ConfigError, match="stages clm, blend: all 7 batches were given, and a trainer asks"
    ):
        firsts(loader)  # type: ignore[arg-type]
    loader.load_state_dict(state)
    assert got + firsts(loader) == expected  # type: ignore[arg-type]


def test_a_copy_stands_where_the_walk_stood(datasets: list[ShardDataset]) -> None:
    walk = Sequence(named([Stage(datasets[0], 4, epochs=2), Stage(datasets[1], 1)]))
    walk.advance(6)
    assert walk.stage == "stage1"
    assert firsts(pickle.loads(pickle.dumps(walk))) == firsts(walk)  # noqa: S301  # it is ours


def test_the_stage_is_that_of_the_batch_given_last_and_stage_of_looks_ahead(
    datasets: list[ShardDataset],
) -> None:
    walk = Sequence(named([Stage(datasets[0], 5), Stage(datasets[1], 5)]))
    assert (walk.stages, walk.stage, len(walk)) == (("stage0", "stage1"), "stage0", 3)
    assert [walk.stage_of(n) for n in range(3)] == ["stage0", "stage0", "stage1"]
    walk.advance(2)
    assert (walk.stage, walk.stage_of(0)) == ("stage0", "stage1"), "at a border, until it goes on"
    assert [stage for _ in walk for stage in [walk.stage]] == ["stage1"]
    with pytest.raises(IndexError, match="batch 1: 0 are left"):
        walk.advance()
    with pytest.raises(IndexError, match="batch -1: batches count from the current"):
        _ = walk[-1]


def test_a_stage_begins_in_the_epoch_that_its_dataset_is_in(tmp_path: Path) -> None:
    rows = numbered(tmp_path, 5, 100)
    first = firsts(Sequence([Stage(rows, 5)]))
    rows.set_epoch(1)
    again = Sequence([Stage(rows, 5)])
    with pytest.raises(ConfigError, match=r"5 rows of \w{16}, shuffled, from epoch 0, but"):
        again.load_state_dict(Sequence([Stage(open_dataset(tmp_path / "clm"), 5)]).state_dict())
    assert firsts(again) == [stream(rows, 5)] != first


def saved(stages: list[Stage], steps: int) -> dict[str, int | str]:
    return Sequence(named(stages)).state_dict(steps)


def test_what_is_ahead_of_a_state_may_change_and_what_is_through_may_not(
    datasets: list[ShardDataset],
) -> None:
    a, b, c = datasets
    state = saved([Stage(a, 1), Stage(b, 1), Stage(c, 1)], 13)  # two rows of b are through
    for ahead in ([], [Stage(c, 1, epochs=3)], [Stage(a, 2), Stage(c, 1)]):
        for length in ({}, {"epochs": 4}, {"tokens": 2 * ROW_LENGTH}):
            walk = Sequence(named([Stage(a, 1), Stage(b, 1, **length), *ahead]))  # type: ignore[arg-type]
            walk.load_state_dict(state)
            left = {"": 3, "epochs": 18, "tokens": 0}["".join(length)]
            got = [first for batch in firsts(walk) for first in batch]
            assert got[:left] == stream(b, left + 2)[2:]
            assert len(got) == left + sum(int(s.epochs or 1) * len(s.rows) for s in ahead) - (
                1 if len(ahead) == 2 else 0
            )
    for stages, said in (
        ([Stage(b, 1), Stage(a, 1)], r"stage 0 has 11 rows of \w+, shuffled, .* 'stage0' has 5 rows of"),
        ([Stage(a, 1), Stage(c, 1)], "stage 1 has 5 rows of .* but 'stage1' has 7 rows"),
        ([Stage(a, 1, epochs=2), Stage(b, 1)], "stage 0 lasted epochs = 1 and is through, but 'stage0'"),
        ([Stage(a, 1)], "is in stage 1, but there are 1, counted from 0: stage0"),
        (
            [Stage(a, 1), Stage(b, 1, tokens=1)],
            "'stage1' has given 2 rows already, more than tokens = 1",
        ),
        ([Stage(a, 1), Stage(b, 1, steps=9)], "lasted epochs = 1, so its steps were not counted"),
    ):
        with pytest.raises(ConfigError, match=said):
            Sequence(named(stages)).load_state_dict(state)


def test_a_sequence_that_ended_goes_on_when_it_gets_longer(datasets: list[ShardDataset]) -> None:
    for last in LASTS:
        state = Sequence([Stage(datasets[0], 4, steps=5)], last=last).state_dict(5)
        longer = Sequence([Stage(datasets[0], 2, steps=7)], last=last)
        longer.load_state_dict(state)
        got = [first for batch in firsts(longer) for first in batch]
        assert got == stream(datasets[0], 24)[20:]
        more = Sequence(named([Stage(datasets[0], 4, steps=5), Stage(datasets[1], 5)]), last=last)
        more.load_state_dict(state)
        assert [sorted(batch) for batch in firsts(more)] == [list(range(200, 205))]
    dropped = Sequence([Stage(datasets[0], 4)]).state_dict(2)
    smaller = Sequence(named([Stage(datasets[0], 1), Stage(datasets[1], 5)]))
    smaller.load_state_dict(dropped)
    assert len(smaller) == 1, "rows that were left out stay so, whatever the batches are now"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"version": 3}, "version 3, stage 0; this reader knows states of a Sequence, version 1"),
        ({"stage": -1}, "is in stage -1, but there are 1"),
        ({"position": 11}, "epoch 0, position 11, step 0: is no place"),
        ({"epoch": -1}, "epoch -1, position 4, step 0: is no place"),
        ({"step": 1}, "'clm' are no place of it"),
        ({"epoch": 1 << 62}, "epoch 4611686018427387904, position 4, step 0: is no place"),
        ({"position": "4"}, "position = '4': must be a whole number"),
        ({"rows_0": None}, "state: no rows_0; it was cut short"),
    ],
)
def test_a_state_that_is_none_is_refused(
    datasets: list[ShardDataset], change: dict[str, object], said: str
) -> None:
    walk = Sequence([Stage(datasets[0], 4)])
    state = {**walk.state_dict(1), **change}
    state = {name: value for name, value in state.items() if value is not None}
    with pytest.raises(ConfigError, match=said):
        walk.load_state_dict(state)  # type: ignore[arg-type]
    assert walk.place() == (0, 0, 0)
    with pytest.raises(ConfigError, match=r"state = \[\]: must be what"):
        walk.load_state_dict([])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="this reader knows states of a Sequence"):
        walk.load_state_dict(Batches(datasets[0], 4).state_dict())


def test_stages_that_are_none_are_refused(datasets: list[ShardDataset], tmp_path: Path) -> None:
    a, other = datasets[0], numbered(tmp_path / "other", 5, 100)
    tokenizer = TokenizerFile(file="tokenizer.model", sha256="01")
    other.manifest = other.manifest.model_copy(update={"tokenizer": tokenizer})
    for stages, said in (
        ([], "stages: there is none"),
        ([Stage(a, 1), Stage(a, 1)], "two are named 'clm'; give one a name"),
        ([Stage(a, 1), Stage(other, 1, name="other")], "'other': ids of another tokenizer than"),
        ([Stage(a, 0)], "stage 0 'clm': batch_size = 0: must be at least 1"),
        ([Stage(a, 1, epochs=1, steps=1)], "'clm': epochs and steps are given; a stage lasts one"),
        ([Stage(a, 1, epochs=0)], "epochs = 0: must be a number above 0"),
        ([Stage(a, 1, epochs=float("nan"))], "epochs = nan: must be"),
        ([Stage(a, 1, steps=0)], "steps = 0: must be at least 1"),
        ([Stage(a, 1, tokens=1.5)], "tokens = 1.5: must be a whole number"),  # type: ignore[arg-type]
        ([Stage(a, 12)], "epochs = 1: 11 rows, but 1 ranks take 12 a step; let it last longer"),
        ([Stage(a, 1, steps=1 << 35)], "have numbers for"),
        ([Stage(a, 1, epochs=1 << 33)], "stage 0 'clm': epoch = .*: must be at least 0 and below"),
    ):
        with pytest.raises(ConfigError, match=said):
            Sequence(stages)
    with pytest.raises(ConfigError, match="last = 'all': must be one of"):
        Sequence([Stage(a, 1)], last="all")  # type: ignore[arg-type]


def test_epochs_that_cannot_be_read_are_refused_before_the_first_step(tmp_path: Path) -> None:
    rows = open_dataset(with_epochs(tmp_path, changes=PERMUTED))
    assert len(Sequence([Stage(rows, 1, epochs=2)])) == 2 * len(rows)
    said = "epoch = 2: bart cannot be drawn when it is read, .* 2 epochs stand on disk"
    with pytest.raises(ConfigError, match=f"stage 0 'clm': {said}"):
        Sequence([Stage(rows, 1, epochs=2.1)])
    size = len(rows) + 1
    assert len(Sequence([Stage(rows, size, epochs=2)], last="pad")) == 2
    with pytest.raises(ConfigError, match=said):
        Sequence([Stage(rows, size, epochs=2)], last="carry")


def test_files_of_a_stage_that_is_through_are_let_go(tmp_path: Path) -> None:
    one, two = numbered(tmp_path / "1", 3, 100), numbered(tmp_path / "2", 3, 200)
    walk = Sequence(named([Stage(one, 1), Stage(Blend([two], [1]), 1)]))
    readers = one.reader, two.reader
    mapped = [[len(reader._mapped) for reader in readers] for _ in walk]  # noqa: SLF001  # what is tested
    assert mapped == [[1, 1]] * 3 + [[0, 1]] * 3  # a blend looks at the columns when it is made


def test_datasets_of_a_run_are_opened_as_stages(tmp_path: Path) -> None:
    for name in ("general", "anneal"):
        write_dataset(tmp_path / name, ([[[10, EOS]], [[11, EOS]]],))
        (tmp_path / "datasets").mkdir(exist_ok=True)
        (tmp_path / name / "clm").rename(tmp_path / "datasets" / name)
    with pytest.raises(ConfigError, match="two are named 'clm'"):  # as their manifests call them
        open_sequence(tmp_path, ["general", "anneal"], 1)
    walk = open_sequence(str(tmp_path), ["general"], [2])
    assert (len(walk), walk.stages) == (1, ("clm",))
    with pytest.raises(ConfigError, match="datasets = 'general': must be a list"):
        open_sequence(tmp_path, "general", 1)
    with pytest.raises(ConfigError, match=r"batch_size = \[1, 2\]: 1 stages need one number"):
        open_sequence(tmp_path, ["general"], [1, 2])
