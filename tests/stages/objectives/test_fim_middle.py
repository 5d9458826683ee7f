"""What a loss on the middle alone promises.

Of a transformed segment the middle and the EOS behind it have labels, in both orders, and nothing else
has; plain segments keep theirs; inputs are those of a loss on all tokens. A wrong label breaks a law.
"""

from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.objectives.fim import config as fim
from stages.objectives.fim import kernel as compiled
from stages.objectives.fim.config import FIM, GROWTH, fim_ids
from stages.objectives.fim.laws import count_fim, wrong_middles
from stages.objectives.laws.draws import Draws
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from tests.campaign import examples
from tests.stages.objectives.built_rows import (
    DTYPES,
    EOS,
    ORDINARY,
    SPECIAL,
    VOCABULARY,
    copies,
    keyed,
    shown,
    stored,
)

VERSIONS = pytest.mark.parametrize("module", [fim, compiled], ids=["plain", "compiled"])
PRE, MID, SUF = (SPECIAL[name] for name in ("fim_prefix", "fim_middle", "fim_suffix"))
CONFIGS = st.builds(
    FIM,
    loss=st.just("middle"),
    fim_rate=st.sampled_from([0.0, 0.5, 1.0]),
    fim_spm_rate=st.sampled_from([0.0, 0.5, 1.0]),
    train_on_sentinels=st.booleans(),
)


@st.composite
def any_rows(draw: st.DrawFn) -> StoredRows:
    """Rows of up to four segments of text, some closed by EOS, with room to grow."""
    segment = st.tuples(st.lists(ORDINARY, max_size=12), st.sampled_from([[], [EOS]])).map(
        lambda pair: [*pair[0], *pair[1]] or [EOS]
    )
    rows = draw(st.lists(st.lists(segment, max_size=4), max_size=5))
    return draw(keyed(stored(rows, length=4 * (13 + GROWTH), dtype=draw(DTYPES))))


def drawn(module: ModuleType, rows: StoredRows, config: FIM) -> Columns:
    """Return the columns of rows."""
    length = rows.input_ids.shape[1]
    columns: Columns = module.fill_in_middle(rows, config, VOCABULARY, Widths(length, length, length))
    return columns


def segments(columns: Columns) -> list[tuple[list[int], list[int]]]:
    """Return the ids and the labels of each segment."""
    found = []
    for row in range(len(columns["input_ids"])):
        numbers = columns["segment_ids"][row]
        for number in range(int(numbers.max(initial=-1)) + 1):
            inside = numbers == number
            found.append(tuple(columns[name][row][inside].tolist() for name in ("input_ids", "labels")))
    return found


@VERSIONS
@settings(deadline=None, max_examples=examples(150))
@given(any_rows(), CONFIGS)
def test_labels_are_the_middle_and_its_eos_and_all_of_a_plain_segment(
    module: ModuleType, rows: StoredRows, config: FIM
) -> None:
    columns = drawn(module, rows, config)
    assert not wrong_middles(columns, fim_ids(VOCABULARY)).any()
    usual = drawn(module, rows, config.model_copy(update={"loss": "all", "train_on_sentinels": True}))
    prefix_first = drawn(module, rows, config.model_copy(update={"fim_spm_rate": 0.0}))
    for name in ("input_ids", "segment_ids", "position_ids"):
        assert np.array_equal(columns[name], usual[name])
    for (ids, labels), (other, _) in zip(segments(columns), segments(prefix_first), strict=True):
        if MID not in ids:
            assert labels == ids
            continue
        wanted = other[other.index(MID) + 1 :]  # of the same cuts
        assert ids[len(ids) - len(wanted) :] == wanted
        assert labels == [IGNORED] * (len(ids) - len(wanted)) + wanted


@VERSIONS
def test_rows_written_out(module: ModuleType) -> None:
    rows = stored([[[10, 11, 12, 13, EOS]]], length=8)
    found = {}
    for rate in (0.0, 1.0):
        config = FIM(loss="middle", fim_rate=1.0, fim_spm_rate=rate)
        found[rate] = segments(drawn(module, rows, config))[0]
    ids, labels = found[0.0]
    begin = ids.index(MID) + 1
    assert labels == [IGNORED] * begin + ids[begin:]
    assert ids[-1] == EOS
    turned, silent = found[1.0]
    assert turned[:2] == [PRE, SUF]
    assert silent == [IGNORED] * begin + turned[begin:]


@settings(deadline=None, max_examples=examples(100))
@given(any_rows(), CONFIGS, st.data())
def test_a_label_too_many_or_too_few_breaks_the_law(
    rows: StoredRows, config: FIM, data: st.DataObject
) -> None:
    columns = {name: column.copy() for name, column in drawn(compiled, rows, config).items()}
    places = np.argwhere(columns["segment_ids"] >= 0).tolist()
    if not places:
        return
    row, place = data.draw(st.sampled_from(places))
    labels, ids = columns["labels"], columns["input_ids"]
    added = labels[row, place] == IGNORED
    labels[row, place] = ids[row, place] if added else IGNORED
    number = (
        int((columns["segment_ids"][row, : place + 1] >= 0).any()) and columns["segment_ids"][row, place]
    )
    inside = np.flatnonzero(columns["segment_ids"][row] == number)
    spm = PRE in ids[row, inside] and ids[row, inside[1]] == SUF
    behind = spm and place > inside[0] + int(np.flatnonzero(ids[row, inside] == MID)[0])
    if not behind:  # where a middle begins behind <MID> and A, ids do not say
        assert wrong_middles(columns, fim_ids(VOCABULARY))[row]


def test_draws_of_middles_hold_and_those_of_another_law_do_not() -> None:
    config = FIM(loss="middle", fim_rate=1.0)
    rows = copies(stored([[[*range(8, 36), EOS]]], length=29 + GROWTH), 4_000)
    made = drawn(compiled, rows, config)
    columns = {
        name: column.astype(np.int64) for name, column in made.items()
    }  # as the loader gives them
    draws = Draws()
    count_fim(draws, config, shown(rows, columns))
    lines = {line.law: line for line in draws.lines()}
    assert lines["middle of n"].n == 4_000
    assert [str(line) for line in lines.values() if not line.passed] == []
    labels = columns["labels"].copy()
    first = np.argmax(labels != IGNORED, axis=1)
    spm = columns["input_ids"][:, 1] == SUF
    labels[np.flatnonzero(spm), first[spm]] = IGNORED  # middles of SPM are a token shorter
    wrong = Draws()
    count_fim(wrong, config, shown(rows, {**columns, "labels": labels}))
    assert not all(line.passed for line in wrong.lines())
