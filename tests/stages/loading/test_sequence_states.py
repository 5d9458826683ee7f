"""What stages promise at their end, and what keys their states have.

When all batches are given, the next loop ends at once and a second one is refused. A state has the same
keys at every step, and one with those of begun stages alone, of an earlier version, is known.
"""

import pytest

from stages.errors import ConfigError
from stages.loading.dataset import ShardDataset
from stages.loading.sequence import Sequence
from stages.loading.stage import Stage
from stages.loading.torch_loader import Loader
from tests.stages.loading.test_blend import numbered
from tests.stages.loading.test_sequence import SIZES, firsts, named


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> list[ShardDataset]:
    """Three datasets whose rows begin with 100 and more, 200 and more, 300 and more."""
    root = tmp_path_factory.mktemp("states")
    return [numbered(root / str(n), rows, 100 * n) for n, rows in enumerate(SIZES, 1)]


def test_a_sequence_that_is_through_ends_loops_at_once_and_refuses_a_second_one(
    datasets: list[ShardDataset],
) -> None:
    stages = named([Stage(datasets[0], 3), Stage(datasets[1], 2)])
    sequence = Sequence(stages)
    given = firsts(sequence)
    assert len(given) == sequence.total == 5
    assert (len(sequence), sequence.current_pass) == (0, 1)
    assert firsts(sequence) == []
    said = "stages stage0, stage1: all 5 batches were given, .* set its max_steps"
    for _ in range(2):
        with pytest.raises(ConfigError, match=said):
            firsts(sequence)
    sequence.restart()
    assert firsts(sequence) == given
    resumed = Loader(Sequence(stages))
    resumed.load_state_dict(sequence.state_dict())
    assert firsts(resumed) == []  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=said):
        firsts(resumed)  # type: ignore[arg-type]


def test_a_state_has_the_same_keys_from_the_first_step_to_the_last(
    datasets: list[ShardDataset],
) -> None:
    sequence = Sequence(named([Stage(rows, 2, steps=3) for rows in datasets]))
    keys = {tuple(sequence.state_dict(step)) for step in range(len(sequence) + 1)}
    assert len(keys) == 1


def test_states_that_name_only_the_stages_that_were_begun_are_known(
    datasets: list[ShardDataset],
) -> None:
    sequence = Sequence(named([Stage(rows, 2, steps=3) for rows in datasets]))
    for step in range(len(sequence)):
        state = sequence.state_dict(step)
        begun = {f"{name}_{n}" for name in ("rows", "lasts") for n in range(int(state["stage"]) + 1)}
        earlier = {
            name: state[name] for name in ("version", "stage", "epoch", "position", "step", *begun)
        }
        assert len(earlier) <= len(state)
        again = Sequence(named([Stage(rows, 2, steps=3) for rows in datasets]))
        again.load_state_dict(earlier)
        assert again.place() == sequence.place(step)
