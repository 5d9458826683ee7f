"""What the table of special ids promises: with those that it names rows are drawn, and with no fewer."""

import numpy as np
import pytest

from stages.errors import FormatError
from stages.objectives.drawing import draw_plainly, matches
from stages.objectives.electra.config import Generator, ReplacedTokens
from stages.objectives.rows import StoredRows
from stages.objectives.sentence_pairs.config import NextSentence, SentenceOrder
from stages.objectives.table import resolve, special_names, traits_of
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from tests.stages.objectives.test_every_kind import OBJECTIVES, SEQ_LEN, UNIGRAM

SIZE = 600
EOS, PAD, TEXT = 3, 7, 300


def rows_of(objective: Objective) -> StoredRows:
    """Return a row of text and EOS for each component."""
    widths = resolve(objective, SEQ_LEN).widths
    holds = [part.widths.stored for part in resolve(objective, SEQ_LEN).parts] or [widths.stored]
    ids = np.full((len(holds), widths.stored), PAD, np.uint16)
    lengths = [hold - traits_of(objective).growth for hold in holds]
    for row, length in enumerate(lengths):
        ids[row, :length] = np.arange(TEXT, TEXT + length)
        ids[row, length - 1] = EOS
    count = len(holds)
    return StoredRows(
        ids,
        np.arange(count + 1, dtype=np.int64),
        np.array(lengths, np.int64),
        np.arange(count),
        seed=7,
        epoch=0,
        shard=0,
        components=np.arange(count, dtype=np.uint8) if resolve(objective, SEQ_LEN).parts else None,
        unigram=UNIGRAM,
        loss_mask=np.ones(ids.shape, np.uint8) if traits_of(objective).loss_mask else None,
    )


def vocabulary(names: list[str]) -> Vocabulary:
    """Return a vocabulary that has these special ids, EOS and padding, and no others."""
    sentinels = [f"sentinel_{number}" for number in range(100)] if "sentinel_0" in names else []
    ids = {name: 10 + number for number, name in enumerate(dict.fromkeys([*names, *sentinels]))}
    return vocabulary_of(SIZE, {"eos": EOS, "pad": PAD, **ids}, np.arange(SIZE) % 3 != 0)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_rows_are_drawn_with_the_special_ids_that_the_table_names_and_with_no_fewer(name: str) -> None:
    objective = OBJECTIVES[name]
    rows, widths = rows_of(objective), resolve(objective, SEQ_LEN).widths
    names = list(dict.fromkeys(special_names(objective)))
    whole = vocabulary(names)
    columns = draw_plainly(rows, objective, whole, widths)
    assert matches(rows, columns, objective, whole).all()
    for missing in names:
        fewer = vocabulary([other for other in names if other != missing])
        with pytest.raises(FormatError, match="special_ids"):
            draw_plainly(rows, objective, fewer, widths)


def test_kinds_that_need_more_than_rows_name_theirs_too() -> None:
    pair = ("cls", "sep", "mask")
    assert special_names(NextSentence()) == special_names(SentenceOrder()) == pair
    model = ReplacedTokens(generator=Generator.MODEL, model="some.module:load")
    assert special_names(model) == ("mask",)
