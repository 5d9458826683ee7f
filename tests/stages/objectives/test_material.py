"""What of materialised kinds is counted apart, and what a row of theirs is held to.

Counts are those of columns written out; each single change of a sound row's columns is found.
"""

import numpy as np

from stages.objectives.clm.config import CausalLM
from stages.objectives.drawing import count_drawn, draw_material, matches
from stages.objectives.electra.config import Generator, ReplacedTokens
from stages.objectives.fim.config import FIM
from stages.objectives.material import Material
from stages.objectives.rows import IGNORED, Columns
from stages.objectives.sentence_pairs.config import NextSentence, SentenceOrder
from stages.objectives.table import resolve
from stages.objectives.whole_shard import WholeShard
from tests.laws.tiny_generator import make_generator
from tests.stages.objectives.built_rows import MASK, VOCABULARY, stored

MODEL = "tests.laws.tiny_generator:make_generator"
ASKED = ReplacedTokens(generator=Generator.MODEL, model=MODEL, mask_probability=0.5)
X = IGNORED
TYPES = [
    [0, 0, 0, 1, 1, 1, 0],
    [0, 0, 0, 0, 1, 1, 0],
    [0, 0, 0, 1, 1, 1, 1],
    [0, 0, 0, 0, 0, 0, 0],
]
"""Which half tokens belong to: the second one's three, two and four, its SEP among them, or none."""


def test_what_is_borrowed_is_counted_without_the_special_id_behind_it() -> None:
    columns: Columns = {
        "token_type_ids": np.array(TYPES, np.uint8),
        "next_sentence_label": np.array([1, 0, 1, X], np.int32),
    }
    assert count_drawn(columns, NextSentence()) == {"rows_without_a_pair": 1, "borrowed_tokens": 2 + 3}


def test_rows_without_a_pair_are_counted() -> None:
    columns: Columns = {
        "token_type_ids": np.array(TYPES, np.uint8),
        "sentence_order_label": np.array([X, 0, 1, X], np.int32),
    }
    assert count_drawn(columns, SentenceOrder()) == {"rows_without_a_pair": 2}


def test_segments_without_room_are_counted_one_by_one() -> None:
    columns: Columns = {"plain": np.array([0, 3, 1, 0], np.int32)}
    assert count_drawn(columns, FIM(level="character")) == {"segments_without_room": 4}
    assert count_drawn(columns, FIM()) == {}
    assert count_drawn(columns, CausalLM()) == {}


def changed(columns: Columns, **values: tuple[tuple[int, int], int]) -> Columns:
    """Return columns with one value of some of them another."""
    found = {name: column.copy() for name, column in columns.items()}
    for name, (place, value) in values.items():
        found[name][place] = value
    return found


def test_each_change_of_what_a_model_replaced_is_found_in_its_row() -> None:
    rows = stored([[[*range(10, 39), *range(10, 21)]]] * 3, length=45)
    shard = WholeShard(rows.input_ids, {}, 1)
    material = Material(shard, generate=make_generator(VOCABULARY))
    columns = draw_material(rows, ASKED, VOCABULARY, resolve(ASKED, 45).widths, material=material)

    def right(found: Columns) -> list[bool]:
        verdicts = matches(rows, found, ASKED, VOCABULARY, material=material)
        return [bool(verdict) for verdict in verdicts]

    assert right(columns) == [True] * 3
    selected = np.asarray(columns["selected"][1]) != 0
    inside, outside = ((1, int(np.flatnonzero(where)[0])) for where in (selected, ~selected))
    other = int(rows.input_ids[outside]) + 1
    changes: dict[str, dict[str, tuple[tuple[int, int], int]]] = {
        "a special id was drawn": {"input_ids": (inside, MASK), "labels": (inside, 1)},
        "a token that was not selected is another": {
            "input_ids": (outside, other),
            "labels": (outside, 1),
        },
        "a label says the opposite": {"labels": (outside, 1)},
        "padding has a label": {"labels": ((1, 44), 0)},
        "it is said to be selected": {"selected": (outside, 1)},
        "it is said not to be": {"selected": (inside, 0)},
        "it is said to have been another": {
            "original_ids": (inside, other),
            "labels": (inside, int(columns["input_ids"][inside] != other)),
        },
    }
    for said, change in changes.items():
        assert right(changed(columns, **change)) == [True, False, True], said
