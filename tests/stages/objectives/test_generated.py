"""What replacements drawn from a model promise.

They follow the model's probabilities, special ids left out; labels say what changed; the model sees the
mask at the asked share of the selected positions; a model that cannot be had is refused by name.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from stages.errors import ConfigError, DataError
from stages.objectives.electra import generated
from stages.objectives.electra.config import Generator, ReplacedTokens
from stages.objectives.electra.generated import load_generator, replace_by_model
from stages.objectives.mlm.config import Positions, Selection
from stages.objectives.rows import IGNORED, StoredRows
from tests.campaign import examples
from tests.laws.tiny_generator import make_generator
from tests.stages.objectives.built_rows import (
    EOS,
    MASK,
    SPECIAL,
    VOCABULARY,
    any_rows,
    chi_square_sigmas,
    copies,
    sigmas,
    stored,
)

NAME = "tests.laws.tiny_generator:make_generator"
CONFIG = ReplacedTokens(generator=Generator.MODEL, model=NAME, mask_probability=0.3)
ROW = [[[*range(10, 30), EOS], [*range(12, 30)]]]


def rows_of(count: int) -> StoredRows:
    return copies(stored(ROW, length=45), count)


def test_replacements_follow_the_probabilities_of_the_model() -> None:
    law = np.linspace(0.0, 3.0, VOCABULARY.size)
    law[list(SPECIAL.values())] = 9.0

    def generate(
        seen: NDArray[np.int64], covered: NDArray[np.bool_], selected: Positions
    ) -> NDArray[np.floating]:
        assert (seen[covered] > 0).all()
        return np.tile(law, (len(selected[0]), 1))

    columns = replace_by_model(rows_of(500), CONFIG, VOCABULARY, generate=generate)
    drawn = columns["input_ids"][columns["selected"].astype(np.bool_)]
    shares = np.exp(law[VOCABULARY.ordinary])
    counts = np.bincount(drawn, minlength=VOCABULARY.size)[VOCABULARY.ordinary]
    assert counts.sum() == len(drawn) > 4000
    assert chi_square_sigmas(counts, len(drawn) * shares / shares.sum()) < 5


def test_labels_say_what_changed() -> None:
    rows = rows_of(100)
    columns = replace_by_model(rows, CONFIG, VOCABULARY, generate=make_generator(VOCABULARY))
    changed = columns["input_ids"] != rows.input_ids
    assert np.array_equal(columns["labels"] == 1, changed)
    assert np.array_equal(columns["labels"] == IGNORED, ~rows.covered)
    assert not (changed & ~columns["selected"].astype(np.bool_)).any()
    assert not np.isin(columns["input_ids"][changed], list(SPECIAL.values())).any()
    assert np.array_equal(columns["original_ids"], rows.input_ids)
    assert changed.sum() > 500


@settings(deadline=None, max_examples=examples(80))
@given(
    any_rows(),
    st.sampled_from([0.15, 0.5, 1.0]),
    st.sampled_from([Selection.BERNOULLI, Selection.EXACT]),
)
def test_labels_of_any_rows_say_what_changed_and_special_ids_never_do(
    rows: StoredRows, probability: float, selection: Selection
) -> None:
    config = CONFIG.model_copy(update={"mask_probability": probability, "selection": selection})
    before = rows.input_ids.copy()
    able = rows.covered & ~VOCABULARY.is_special[before]
    asked: list[int] = []

    def generate(
        seen: NDArray[np.int64], covered: NDArray[np.bool_], at: Positions
    ) -> NDArray[np.floating]:
        asked.append(len(at[0]))
        assert np.array_equal(covered, rows.covered)
        untouched = np.ones(seen.shape, np.bool_)
        untouched[at] = False
        assert np.array_equal(seen[untouched], before[untouched])
        assert np.isin(seen[at], [MASK, *before[at].tolist()]).all()
        return make_generator(VOCABULARY)(seen, covered, at)

    columns = replace_by_model(rows, config, VOCABULARY, generate=generate)
    inputs, selected = columns["input_ids"], columns["selected"]
    assert np.array_equal(rows.input_ids, before)
    assert np.array_equal(columns["original_ids"], before)
    assert np.array_equal(columns["labels"], np.where(rows.covered, inputs != before, IGNORED))
    assert not (selected & ~able).any()
    assert np.array_equal(inputs[~selected], before[~selected])
    assert not VOCABULARY.is_special[inputs[selected]].any()
    assert asked == ([int(selected.sum())] if selected.any() else [])
    assert probability < 1.0 or np.array_equal(selected, able)


def test_the_model_sees_the_mask_at_most_selected_positions() -> None:
    seen_masks = []

    def generate(
        seen: NDArray[np.int64], covered: NDArray[np.bool_], selected: Positions
    ) -> NDArray[np.floating]:
        assert covered.shape == seen.shape
        seen_masks.append(seen[selected] == MASK)
        return np.zeros((len(selected[0]), VOCABULARY.size), np.float32)

    replace_by_model(rows_of(300), CONFIG, VOCABULARY, generate=generate)
    masks = np.concatenate(seen_masks)
    assert sigmas(int(masks.sum()), len(masks), 0.85) < 5


def test_batches_change_no_bit() -> None:
    rows, generate = rows_of(9), make_generator(VOCABULARY)
    whole = replace_by_model(rows, CONFIG, VOCABULARY, generate=generate)
    for chosen in ([0], [5, 3], list(range(9))):
        part = replace_by_model(rows.take(np.array(chosen)), CONFIG, VOCABULARY, generate=generate)
        for name, column in whole.items():
            assert part[name].tolist() == column[chosen].tolist()
    other = replace_by_model(replace(rows, epoch=1), CONFIG, VOCABULARY, generate=generate)
    assert other["input_ids"].tolist() != whole["input_ids"].tolist()


@pytest.mark.parametrize("shape", [(3, 4), (0, VOCABULARY.size)])
def test_logits_of_another_shape_are_refused(shape: tuple[int, int]) -> None:
    with pytest.raises(DataError, match="gave logits of shape"):
        replace_by_model(rows_of(2), CONFIG, VOCABULARY, generate=lambda *_: np.zeros(shape))


def test_logits_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="finite"):
        replace_by_model(
            rows_of(2),
            CONFIG,
            VOCABULARY,
            generate=lambda _, __, at: np.full((len(at[0]), VOCABULARY.size), np.nan),
        )


def test_a_model_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="importable wherever a worker runs"):
        load_generator("no_such_module:make", VOCABULARY)


def test_a_model_that_is_declared_and_not_there_is_refused(tmp_path: Path) -> None:
    refused = pytest.raises(ConfigError, match="importable wherever a worker runs")
    with module(tmp_path, "declared_alone", 'SHARDMILL_GENERATORS = ["make"]\n'), refused:
        load_generator("declared_alone:make", VOCABULARY)


NO_GENERATOR = "declare that make makes a generator; if it does, write SHARDMILL_GENERATORS = "


@pytest.mark.parametrize("declared", ["[]", '["other"]', '"make"'])
def test_what_its_module_does_not_declare_a_generator_is_not_called(
    declared: str, tmp_path: Path
) -> None:
    text = f"SHARDMILL_GENERATORS = {declared}\ndef make(vocabulary):\n    raise SystemExit('called')\n"
    refused = pytest.raises(ConfigError, match=NO_GENERATOR)
    with module(tmp_path, "strange_module", text), refused:
        load_generator("strange_module:make", VOCABULARY)


@pytest.mark.parametrize("name", ["os:system", "builtins:exec", "subprocess:run", "os.path:join"])
def test_what_is_no_generator_is_refused_before_it_is_called(name: str) -> None:
    with pytest.raises(ConfigError, match=f"objective.model = '{name}': .* does not declare that"):
        load_generator(name, VOCABULARY)


@contextmanager
def module(folder: Path, name: str, text: str) -> Iterator[None]:
    """Let a module be imported from a folder, and forget it afterwards."""
    (folder / f"{name}.py").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    sys.modules.pop(name, None)


@pytest.mark.parametrize("content", [{"generator": "model"}, {"model": NAME}])
def test_a_model_is_named_if_and_only_if_it_is_asked(content: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="name the model"):
        ReplacedTokens.model_validate(content)


def test_an_id_of_no_probability_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least of all draws, with all of the probability on the last id."""
    rows = rows_of(3)

    def least(_rows: StoredRows, _tag: object, row: NDArray[np.int64], _: object) -> NDArray[np.uint64]:
        return np.zeros((len(row), 4), np.uint64)

    def generate(_: object, __: object, selected: Positions) -> NDArray[np.floating]:
        return np.tile(np.where(np.arange(VOCABULARY.size) == 39, 0.0, -1e6), (len(selected[0]), 1))

    monkeypatch.setattr(generated, "draw_blocks", least)
    columns = replace_by_model(rows, CONFIG, VOCABULARY, generate=generate)
    drawn = columns["input_ids"][columns["selected"].astype(np.bool_)]
    assert len(drawn)
    assert set(drawn.tolist()) == {39}


def test_a_model_is_asked_of_one_row_at_a_time_where_its_logits_take_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generated, "_AT_ONCE", 1)
    asked = []

    def generate(seen: NDArray[np.int64], _: object, selected: Positions) -> NDArray[np.floating]:
        asked.append(len(seen))
        return np.zeros((len(selected[0]), VOCABULARY.size))

    replace_by_model(rows_of(5), CONFIG, VOCABULARY, generate=generate)
    assert asked == [1] * 5
