"""What the laws of columns promise: each is broken by its own fault, by name, and by no sound row."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.objectives.electra.config import ReplacedTokens, replace_tokens
from stages.objectives.fim.config import FIM
from stages.objectives.laws.rows import LAWS
from stages.objectives.mlm.config import MaskedLM
from stages.objectives.prefix_lm.config import PrefixLM
from stages.objectives.rows import IGNORED, StoredRows
from stages.objectives.sentence_pairs.config import NextSentence
from stages.objectives.simcse.config import SimCSE
from stages.objectives.span_corruption.config import SpanCorruption
from stages.objectives.table import resolve
from stages.objectives.traits import Objective
from stages.verify.columns import ColumnTally, DrawCounter
from tests.stages.objectives.built_rows import (
    BOS,
    EOS,
    MASK,
    PAD,
    SPECIAL,
    VOCABULARY,
    copies,
    shown,
    stored,
)

Column = NDArray[np.int64]
_ = IGNORED
FIM_PREFIX = SPECIAL["fim_prefix"]
ROW = stored([[[10, 11, EOS], [12, 13, EOS]]], length=8)
SEGMENTS = {"segment_ids": [0, 0, 0, 1, 1, 1, -1, -1], "position_ids": [0, 1, 2, 0, 1, 2, 0, 0]}
STORED = [10, 11, EOS, 12, 13, EOS, PAD, PAD]
MASKED = {"input_ids": [10, MASK, EOS, 12, 13, EOS, PAD, PAD], "labels": [_, 11, _, _, _, _, _, _]}
SOUND: dict[str, tuple[Objective, dict[str, object]]] = {
    "mlm": (MaskedLM(), {**MASKED, **SEGMENTS}),
    "nsp": (NextSentence(), {**MASKED, "next_sentence_label": 1}),
    "prefix_lm": (
        PrefixLM(),
        {"input_ids": STORED, "labels": [_, _, EOS, 12, 13, EOS, _, _], "prefix_length": 2},
    ),
    "packed prefix_lm": (
        PrefixLM(pack_documents=True),
        {
            **SEGMENTS,
            "input_ids": STORED,
            "labels": [_, 11, EOS, _, _, EOS, _, _],
            "in_prefix": [1, 0, 0, 1, 1, 0, 0, 0],
        },
    ),
    "fim": (
        FIM(train_on_sentinels=True),
        {
            **SEGMENTS,
            "input_ids": [FIM_PREFIX, *STORED[1:]],
            "labels": [FIM_PREFIX, 11, EOS, 12, 13, EOS, _, _],
        },
    ),
    "fim without loss on marks": (
        FIM(train_on_sentinels=False),
        {
            **SEGMENTS,
            "input_ids": [FIM_PREFIX, *STORED[1:]],
            "labels": [_, 11, EOS, 12, 13, EOS, _, _],
        },
    ),
    "span_corruption": (
        SpanCorruption(),
        {
            "input_ids": [10, 30, EOS, PAD],
            "labels": [30, 11, EOS, _],
            "decoder_input_ids": [PAD, 30, 11, PAD],
            "input_length": 3,
            "label_length": 3,
        },
    ),
    "electra": (
        ReplacedTokens(),
        {
            "input_ids": [10, 20, EOS, 12, 13, EOS, PAD, PAD],
            "original_ids": STORED,
            "labels": [0, 1, 0, 0, 0, 0, _, _],
            "selected": [0, 1, 0, 0, 1, 0, 0, 0],
        },
    ),
    "simcse": (
        SimCSE(),
        {"input_ids": [[10, 11, EOS, PAD], [10, 11, EOS, PAD]], "input_length": [3, 3]},
    ),
}
FAULTS: list[tuple[str, str, str, tuple[int, ...], int]] = [
    ("segment_ids", "mlm", "segment_ids", (3,), 0),
    ("segment_ids", "mlm", "segment_ids", (6,), 2),
    ("positions", "mlm", "position_ids", (4,), 2),
    ("label_on_padding", "mlm", "labels", (6,), 10),
    ("label_is_pad", "mlm", "labels", (0,), PAD),
    ("special_shown", "mlm", "labels", (2,), EOS),
    ("special_shown", "mlm", "input_ids", (1,), BOS),
    ("label_missing", "mlm", "labels", (1,), _),
    ("pair_label", "nsp", "room", (), 0),
    ("label_on_padding", "prefix_lm", "labels", (7,), PAD),
    ("label_alignment", "prefix_lm", "labels", (4,), 14),
    ("label_missing", "prefix_lm", "labels", (4,), _),
    ("label_missing", "prefix_lm", "labels", (1,), 11),
    ("prefix", "prefix_lm", "prefix_length", (), 0),
    ("prefix", "prefix_lm", "prefix_length", (), 7),
    ("prefix", "packed prefix_lm", "in_prefix", (0,), 0),
    ("prefix", "packed prefix_lm", "in_prefix", (3,), 0),
    ("prefix", "packed prefix_lm", "in_prefix", (2,), 1),
    ("prefix", "packed prefix_lm", "in_prefix", (6,), 1),
    ("label_missing", "packed prefix_lm", "in_prefix", (5,), 1),
    ("label_missing", "packed prefix_lm", "labels", (3,), 12),
    ("label_missing", "packed prefix_lm", "labels", (1,), _),
    ("label_alignment", "packed prefix_lm", "labels", (5,), 13),
    ("label_on_padding", "packed prefix_lm", "labels", (7,), PAD),
    ("label_missing", "fim", "labels", (0,), _),
    ("label_missing", "fim without loss on marks", "labels", (0,), FIM_PREFIX),
    ("label_missing", "fim without loss on marks", "labels", (4,), _),
    ("decoder_inputs", "span_corruption", "decoder_input_ids", (0,), BOS),
    ("decoder_inputs", "span_corruption", "decoder_input_ids", (3,), EOS),
    ("lengths", "span_corruption", "input_length", (), 4),
    ("lengths", "span_corruption", "label_length", (), 2),
    ("eos", "span_corruption", "input_ids", (2,), 11),
    ("eos", "span_corruption", "labels", (2,), 11),
    ("replaced", "electra", "labels", (1,), 0),
    ("replaced", "electra", "labels", (4,), 1),
    ("replaced", "electra", "selected", (1,), 0),
    ("original_ids", "electra", "original_ids", (0,), 11),
    ("label_on_padding", "electra", "labels", (7,), 0),
    ("special_shown", "electra", "input_ids", (1,), MASK),
    ("lengths", "simcse", "input_length", (1,), 4),
    ("lengths", "simcse", "input_ids", (0, 3), 11),
]
"""A law, the rows that it is broken in, and what is put where."""


def found(rows: StoredRows, columns: Mapping[str, Column], objective: Objective) -> set[str]:
    """Return the laws that are found broken."""
    tally = ColumnTally(objective, VOCABULARY)
    tally.add(rows, columns)
    return {finding.check for finding in tally.findings()}


def built(name: str) -> tuple[StoredRows, dict[str, Column], Objective]:
    """Return one sound row."""
    objective, columns = SOUND[name]
    return (
        replace(ROW, room=np.array([2], np.int32)),
        {column: np.array([values], np.int64) for column, values in columns.items()},
        objective,
    )


@pytest.mark.parametrize("name", SOUND)
def test_sound_columns_break_no_law(name: str) -> None:
    assert found(*built(name)) == set()


@pytest.mark.parametrize(("law", "name", "column", "place", "value"), FAULTS)
def test_a_fault_breaks_its_law_in_its_row(
    law: str, name: str, column: str, place: tuple[int, ...], value: int
) -> None:
    rows, columns, objective = built(name)
    if column == "room":
        rows = replace(rows, room=np.array([value], np.int32))
    else:
        assert columns[column][(0, *place)] != value
        columns[column][(0, *place)] = value
    assert law in found(rows, columns, objective)


def test_every_law_has_a_fault_that_breaks_it() -> None:
    assert {law for law, *_ in FAULTS} == set(LAWS)


@pytest.mark.parametrize("claimed", [0.15, 0.1, 0.2])
def test_more_or_fewer_than_the_law_of_chance_allows_are_found(claimed: float) -> None:
    rows, config = copies(ROW, 3000), ReplacedTokens(mask_probability=0.15)
    epochs = [
        replace_tokens(replace(rows, epoch=epoch), config, VOCABULARY, resolve(config, 8).widths)
        for epoch in range(2)
    ]
    counter = DrawCounter(config.model_copy(update={"mask_probability": claimed}))
    counter.add(shown(rows, *epochs))
    wrong = {line.law for line in counter.lines() if not line.passed}
    expected = {"selected of eligible tokens", "selected in both epochs"} if claimed != 0.15 else set()
    assert wrong == expected
