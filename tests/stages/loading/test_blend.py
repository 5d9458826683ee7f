"""What a blend promises.

Each dataset gets exactly its share of every period and never a row more or less than that by much; its
own rows come in its own order, epoch by epoch; a walk over a blend is saved and goes on like any other.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stages.errors import ConfigError
from stages.loading import split_reader
from stages.loading.batches import Batches
from stages.loading.blend import Blend, blended, whole_weights
from stages.loading.dataset import ShardDataset, open_dataset
from stages.loading.order import MAX_SORTED
from stages.store.manifest import TokenizerFile
from tests.stages.loading.test_dataset import EOS, ROW_LENGTH, write_dataset
from tests.stages.loading.test_drawn_epochs import with_epochs

PERMUTED: dict[str, object] = {
    "objective": {"kind": "bart", "form": "materialised", "permute_probability": 0.5},
    "attention": "encoder_decoder",
    "label_convention": "targets",
    "seq_len": ROW_LENGTH + 2,
}
"""Rows of which no epochs can be drawn but those that stand on disk."""
WEIGHTS = st.lists(st.integers(1, 50), min_size=1, max_size=6)


def numbered(root: Path, rows: int, first: int) -> ShardDataset:
    """Write rows that begin with consecutive numbers, and open them."""
    documents = [[[first + number, EOS]] for number in range(rows)]
    return open_dataset(write_dataset(root, (documents,)))


def pair(root: Path) -> tuple[ShardDataset, ShardDataset]:
    return numbered(root / "a", 7, 100), numbered(root / "b", 5, 200)


@given(WEIGHTS, st.integers(0, 1000))
def test_every_period_has_exactly_the_weights(weights: list[int], period: int) -> None:
    total = sum(weights)
    owners, _ = blended(np.arange(period * total, (period + 1) * total), weights)
    assert np.bincount(owners, minlength=len(weights)).tolist() == weights


@given(WEIGHTS)
def test_each_dataset_gives_its_rows_one_after_the_other(weights: list[int]) -> None:
    owners, numbers = blended(np.arange(500), weights)
    for dataset in range(len(weights)):
        own = numbers[owners == dataset]
        assert own.tolist() == list(range(len(own)))


@given(WEIGHTS)
def test_no_prefix_is_off_by_more_than_a_row_for_each_dataset(weights: list[int]) -> None:
    owners, _ = blended(np.arange(500), weights)
    for dataset, weight in enumerate(weights):
        had = np.cumsum(owners == dataset)
        assert np.abs(had - np.arange(1, 501) * weight / sum(weights)).max() <= len(weights)


def test_a_position_alone_is_what_it_is_among_others() -> None:
    owners, numbers = blended(np.arange(60), [3, 2, 7])
    alone = [blended(np.array([n]), [3, 2, 7]) for n in range(60)]
    assert [int(owner[0]) for owner, _ in alone] == owners.tolist()
    assert [int(number[0]) for _, number in alone] == numbers.tolist()


def test_far_positions_do_not_overflow() -> None:
    owners, numbers = blended(np.arange(10) + 10 * (1 << 40), [7, 2, 1])
    assert np.bincount(owners).tolist() == [7, 2, 1]
    assert int(numbers[owners == 0][0]) == 7 * (1 << 40)


def test_weights_are_proportions() -> None:
    assert whole_weights([0.7, 0.2, 0.1]) == (7, 2, 1)
    assert whole_weights([4, 2]) == (2, 1)
    assert whole_weights([1 / 3, 2 / 3]) == (1, 2)
    assert whole_weights(np.array([0.5, 0.25])) == (2, 1)  # type: ignore[arg-type]  # as good as a list
    for wrong in ([], [1.0, 0.0], [-1.0], [float("nan")], [float("inf")], [True, 1], [None]):
        with pytest.raises(ConfigError, match="above 0"):
            whole_weights(wrong)  # type: ignore[arg-type]  # what it refuses
    with pytest.raises(ConfigError, match="round them"):
        whole_weights([0.1234567, 0.7654321])


def test_rows_are_those_of_the_datasets_each_in_epochs_of_its_own(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    blend = Blend([one, two], [2, 1])
    got = blend.at(0, np.arange(60))["input_ids"][:, 0]
    first, second = got[got < 200], got[got >= 200]
    assert (len(first), len(second)) == (40, 20)
    orders = [one.at(epoch, np.arange(7))["input_ids"][:, 0] for epoch in range(6)]
    assert first.tolist() == np.concatenate(orders)[:40].tolist()
    orders = [two.at(epoch, np.arange(5))["input_ids"][:, 0] for epoch in range(4)]
    assert second.tolist() == np.concatenate(orders).tolist()


def test_a_walk_over_a_blend_goes_on_from_its_state(tmp_path: Path) -> None:
    datasets = pair(tmp_path)
    walk = Batches(Blend(datasets, [0.75, 0.25]), 3, last="carry")
    expected = [walk[step]["input_ids"].tolist() for step in range(12)]
    again = Batches(Blend(datasets, [3, 1]), 3, last="carry")
    again.load_state_dict(walk.state_dict(5))
    assert [again[step]["input_ids"].tolist() for step in range(7)] == expected[5:]
    other = Batches(Blend(datasets, [1, 1]), 3, last="carry")
    with pytest.raises(ConfigError, match="state: of 12 rows"):
        other.load_state_dict(walk.state_dict(5))


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    with pytest.raises(ConfigError, match="weights has 1 entry, but there are 2 datasets"):
        Blend([one, two], [1])
    with pytest.raises(ConfigError, match=r"weights has 2 entries, but there is 1 dataset$"):
        Blend([one], [2, 3])
    with pytest.raises(ConfigError, match="no rows to blend"):
        Blend([one, numbered(tmp_path / "c", 0, 1)], [1, 1])
    other = open_dataset(write_dataset(tmp_path / "d"))
    object.__setattr__(other, "manifest", other.manifest.model_copy(update={"attention": "causal"}))
    with pytest.raises(ConfigError, match=r"attention = 'causal_within_document', but .* 'causal'"):
        Blend([one, other], [1, 1])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seq_len": 7}, "seq_len = 6, but .* has 7"),
        ({"label_convention": "masked"}, "label_convention = 'unshifted', but .* 'masked'"),
        ({"attention": "causal"}, "attention = 'causal_within_document', but .* 'causal'"),
        ({"tokenizer": TokenizerFile(file="tokenizer.model", sha256="01")}, "ids of another tokenizer"),
    ],
)
def test_datasets_that_differ_in_anything_a_batch_shares_are_refused(
    tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    one, two = pair(tmp_path)
    two.manifest = two.manifest.model_copy(update=changes)
    with pytest.raises(ConfigError, match=said):
        Blend([one, two], [1, 1])


def test_rows_of_other_widths_are_refused(tmp_path: Path) -> None:
    """Two settings of a kind may share all that a manifest names, but not the width of labels."""
    one, two = pair(tmp_path)
    two.widths = replace(two.widths, labels=two.widths.labels + 1)
    with pytest.raises(ConfigError, match="rows of other widths"):
        Blend([one, two], [1, 1])


@pytest.mark.parametrize(("weights", "epochs"), [([1, 1], 8), ([3, 1], 5), ([1, 3], 5)])
def test_an_epoch_of_a_blend_needs_the_epochs_that_its_rows_are_of(
    tmp_path: Path, weights: list[int], epochs: int
) -> None:
    """240 rows of each dataset stand on disk; of 60 positions one takes 30, or 45 and the other 15."""
    folders = [with_epochs(tmp_path / name, changes=PERMUTED) for name in ("a", "b")]
    blend = Blend([open_dataset(folder) for folder in folders], weights, rows=60)
    walk = Batches(blend, 4)
    for epoch in range(epochs):
        assert blend.sound_epoch(epoch) == epoch
        walk.set_epoch(epoch)
        assert len(list(walk)) == 15
    with pytest.raises(ConfigError, match="2 epochs stand on disk"):
        Batches(blend, 4).set_epoch(epochs)
    with pytest.raises(ConfigError, match="epoch = -1"):
        blend.sound_epoch(-1)


def test_a_blend_is_shuffled_and_sorted_if_any_of_its_datasets_is(tmp_path: Path) -> None:
    one, _ = pair(tmp_path)
    stored = open_dataset(tmp_path / "b" / "clm", shuffle=False)
    many = open_dataset(write_dataset(tmp_path / "c", ([[[10, EOS]]] * (MAX_SORTED + 1),)))
    blends = [Blend(datasets, [1, 1]) for datasets in ([one, stored], [stored, many], [stored, stored])]
    assert [(blend.shuffle, blend.sorted_by_draws) for blend in blends] == [
        (True, True),
        (True, False),
        (False, False),
    ]


@pytest.mark.parametrize("rows", [0, -5, 2.5, True])
def test_an_epoch_of_no_rows_is_refused(tmp_path: Path, rows: int) -> None:
    with pytest.raises(ConfigError, match=f"rows = {rows}: must be"):
        Blend(pair(tmp_path), [1, 1], rows=rows)


def test_no_position_gives_no_row_of_every_column(tmp_path: Path) -> None:
    blend = Blend(pair(tmp_path), [1, 1])
    nothing = blend.at(0, np.empty(0, np.int64))
    assert set(nothing) == set(blend.at(0, np.arange(1)))
    assert {column.shape for column in nothing.values()} == {(0, 6)}


def test_datasets_with_other_columns_are_refused_by_name(tmp_path: Path) -> None:
    one, _ = pair(tmp_path)
    other = open_dataset(tmp_path / "b" / "clm", columns=["input_ids", "labels"])
    with pytest.raises(ConfigError, match="only one of them has position_ids, segment_ids"):
        Blend([one, other], [1, 1])
    same = open_dataset(tmp_path / "a" / "clm", columns=["labels", "input_ids"])
    assert set(Blend([same, other], [1, 1]).at(0, np.arange(4))) == {"input_ids", "labels"}


def test_datasets_of_a_blend_share_the_files_that_one_may_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_reader, "MAX_OPEN_SHARDS", 6)
    datasets = [
        open_dataset(write_dataset(tmp_path / f"{first}", tuple([[[first + n, EOS]]] for n in range(9))))
        for first in (100, 120, 140)
    ]
    blend = Blend(datasets, [1, 1, 1])
    got = blend.at(1, np.arange(27))["input_ids"][:, 0]
    assert sorted(got.tolist()) == [first + n for first in (100, 120, 140) for n in range(9)]
    assert [len(dataset.reader._mapped) for dataset in datasets] == [2, 2, 2]  # noqa: SLF001  # the bound itself


def test_another_order_of_any_dataset_is_another_blend(tmp_path: Path) -> None:
    """Which of them are shuffled is no sum: two blends of which one is each are two."""
    pair(tmp_path)
    walks = {}
    for shuffles in product((True, False), repeat=2):
        named = zip(("a", "b"), shuffles, strict=True)
        datasets = [open_dataset(tmp_path / name / "clm", shuffle=shuffle) for name, shuffle in named]
        walks[shuffles] = Batches(Blend(datasets, [1, 1]), 2)
    states = {shuffles: walk.state_dict(2) for shuffles, walk in walks.items()}
    for one, other in product(walks, repeat=2):
        if one == other:
            walks[one].load_state_dict(states[other])
        else:
            with pytest.raises(ConfigError, match="state: of"):
                walks[one].load_state_dict(states[other])


def test_other_weights_or_another_sequence_are_another_blend(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    blends = [Blend([one, two], [2, 1]), Blend([two, one], [2, 1]), Blend([one, two], [1, 2])]
    assert len({blend.fingerprint for blend in blends}) == 3
    assert Blend([one, two], [0.5, 0.25]).fingerprint == blends[0].fingerprint


def test_a_state_of_a_blend_that_was_not_shuffled_is_refused(tmp_path: Path) -> None:
    one, two = pair(tmp_path)
    stored = [open_dataset(tmp_path / name / "clm", shuffle=False) for name in ("a", "b")]
    walk = Batches(Blend([one, two], [1, 1]), 2)
    with pytest.raises(ConfigError, match="state: of"):
        walk.load_state_dict(Batches(Blend(stored, [1, 1]), 2).state_dict())


def test_a_batch_that_is_all_padding_has_the_columns_of_the_blend(tmp_path: Path) -> None:
    walk = Batches(Blend(pair(tmp_path), [1, 1], rows=5), 5, rank=1, world_size=2, last="pad")
    batch = walk[0]
    assert batch.pop("padding_row").tolist() == [1] * 5
    assert set(batch) == {"input_ids", "labels", "position_ids", "segment_ids"}
    assert {column.shape for column in batch.values()} == {(5, 6)}
