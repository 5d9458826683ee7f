"""What prefixes of packed documents promise.

Each document of a row has a prefix and a rest of its own, whatever stands beside it; loss lies on the
rest alone, never on the first token of a document; a prompt that a source names is the prefix; compiled
and plain columns are the same bits, whatever rows are read together.
"""

from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stages.objectives.prefix_lm import config as packed_prefixes
from stages.objectives.prefix_lm import kernel as compiled
from stages.objectives.prefix_lm.config import (
    PrefixLM,
    documents_keep_prompts,
    prefixes_shown,
    restore_documents,
    shortest_prefixes,
    split_prefixes,
)
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.table import traits_of
from stages.packing.layout import layout_of
from stages.packing.sections import prompt_lengths
from stages.ragged import ragged_of
from tests.campaign import examples
from tests.stages.objectives.built_rows import (
    DTYPES,
    EOS,
    ORDINARY,
    PAD,
    VOCABULARY,
    chi_square_sigmas,
    copies,
    keyed,
    stored,
)

WIDTHS = Widths(30, 30, 30)
PACKED = PrefixLM(pack_documents=True)
SOURCE = PrefixLM(pack_documents=True, split="source")
VERSIONS = pytest.mark.parametrize("module", [packed_prefixes, compiled], ids=["plain", "compiled"])
CONFIGS = st.sampled_from(
    [PrefixLM(pack_documents=True, target_density=density) for density in (0.5, 0.25, 0.01)]
)


@st.composite
def any_rows(draw: st.DrawFn, *, prompts: bool | None = None) -> StoredRows:
    """Rows of up to 30 tokens in up to four segments, with prompts that sources name or without."""
    segments = st.lists(st.lists(ORDINARY | st.just(EOS), min_size=1, max_size=7), max_size=4)
    rows = draw(keyed(stored(draw(st.lists(segments, max_size=5)), length=30, dtype=draw(DTYPES))))
    if not (draw(st.booleans()) if prompts is None else prompts):
        return rows
    named = [draw(st.integers(0, length + 1)) for length in rows.segment_length.tolist()]
    return replace(rows, segment_prompt=np.array(named, np.int32))


def pieces(rows: StoredRows) -> list[tuple[int, int, int, int]]:
    """Return (row, first position, tokens, number within the row) of each segment."""
    found = []
    for row in range(len(rows.numbers)):
        first = 0
        lengths = rows.segment_length[rows.segment_ptr[row] : rows.segment_ptr[row + 1]].tolist()
        for number, length in enumerate(lengths):
            found.append((row, first, length, number))
            first += length
    return found


@VERSIONS
@settings(deadline=None, max_examples=examples(100))
@given(any_rows(), CONFIGS)
def test_each_document_has_a_prefix_and_loss_on_its_own_rest_alone(
    module: ModuleType, rows: StoredRows, config: PrefixLM
) -> None:
    columns: Columns = module.split_documents(rows, config, VOCABULARY, WIDTHS)
    labels, shown = (
        np.full((len(rows.numbers), 30), IGNORED),
        np.zeros((len(rows.numbers), 30), np.bool_),
    )
    named = [0] * len(rows.segment_length) if rows.segment_prompt is None else rows.segment_prompt
    for prefix, prompt, (row, first, n, _) in zip(
        prefixes_shown(rows, columns).tolist(), named, pieces(rows), strict=True
    ):
        if prompt:
            assert prefix == min(prompt, n)
        elif n < 2:
            assert prefix == n
        else:
            assert int(shortest_prefixes(np.array([n]), config)[0]) <= prefix < n
        shown[row, first : first + prefix] = True
        labels[row, first + prefix : first + n] = rows.input_ids[row, first + prefix : first + n]
    assert columns["input_ids"] is rows.input_ids
    assert columns["labels"].tolist() == labels.tolist()
    assert columns["in_prefix"].tolist() == shown.tolist()


@settings(deadline=None, max_examples=examples(60))
@given(any_rows(), CONFIGS)
def test_any_row_can_be_restored(rows: StoredRows, config: PrefixLM) -> None:
    columns = packed_prefixes.split_documents(rows, config, VOCABULARY, WIDTHS)
    ids, lengths = restore_documents(columns, config, VOCABULARY)
    assert np.array_equal(lengths, rows.filled)
    assert np.array_equal(ids, np.where(rows.covered, rows.input_ids, PAD))
    assert ids.dtype == rows.input_ids.dtype


@VERSIONS
@settings(deadline=None, max_examples=examples(60))
@given(any_rows(prompts=True), st.data())
def test_a_prompt_is_kept_and_another_is_found(
    module: ModuleType, rows: StoredRows, data: st.DataObject
) -> None:
    columns: Columns = module.split_documents(rows, SOURCE, VOCABULARY, WIDTHS)
    assert documents_keep_prompts(rows, columns).all()
    assert rows.segment_prompt is not None
    longer = [n for n, (_, _, length, _) in enumerate(pieces(rows)) if length > 1]
    if longer:
        one = data.draw(st.sampled_from(longer))
        other, length = rows.segment_prompt.copy(), int(rows.segment_length[one])
        shown = int(prefixes_shown(rows, columns)[one])
        other[one] = 1 + shown % length if shown < length else 1
        kept = documents_keep_prompts(replace(rows, segment_prompt=other), columns)
        assert not kept[pieces(rows)[one][0]]


@VERSIONS
def test_rows_written_out(module: ModuleType) -> None:
    rows = stored([[[10, 11, 12, EOS], [20, 21, EOS], [30]], [[15, 16, EOS]]], length=10)
    rows = replace(rows, segment_prompt=np.array([2, 1, 1, 3], np.int32))
    x = IGNORED
    columns: Columns = module.split_documents(rows, SOURCE, VOCABULARY, WIDTHS)
    assert columns["labels"].tolist() == [[x, x, 12, EOS, x, 21, EOS, x, x, x], [x] * 10]
    assert columns["in_prefix"].astype(int).tolist() == [
        [1, 1, 0, 0, 1, 0, 0, 1, 0, 0],
        [1, 1, 1, 0, 0, 0, 0, 0, 0, 0],
    ]


@VERSIONS
def test_a_row_of_one_document_is_split_as_rows_of_one_text_are(module: ModuleType) -> None:
    lengths = np.random.default_rng(2).integers(0, 29, 60)
    rows = stored([[[*range(8, 8 + n), EOS]] for n in lengths.tolist()], length=30)
    for config in (PrefixLM(), PrefixLM(target_density=0.2)):
        packed = config.model_copy(update={"pack_documents": True})
        columns: Columns = module.split_documents(rows, packed, VOCABULARY, WIDTHS)
        alone = split_prefixes(rows, config, VOCABULARY, WIDTHS)
        assert np.array_equal(columns["labels"], alone["labels"])
        assert np.array_equal(columns["in_prefix"].sum(axis=1), alone["prefix_length"])


@VERSIONS
def test_a_row_has_the_same_columns_whatever_is_read_with_it(module: ModuleType) -> None:
    rows = stored([[[*range(8, 8 + n), EOS], [9] * 5, [n + 8] * 3] for n in range(1, 20)], length=30)
    prompts = np.random.default_rng(1).integers(0, 6, len(rows.segment_length)).astype(np.int32)
    rows = replace(rows, segment_prompt=prompts)
    whole: Columns = module.split_documents(rows, SOURCE, VOCABULARY, WIDTHS)
    for chosen in (np.random.default_rng(1).permutation(19), np.array([7, 7]), np.empty(0, np.int64)):
        some = module.split_documents(rows.take(chosen), SOURCE, VOCABULARY, WIDTHS)
        for name, column in some.items():
            assert np.array_equal(column, whole[name][chosen]), name


def test_documents_of_a_row_draw_apart_and_uniformly() -> None:
    rows = copies(
        stored([[[*range(8, 16), EOS], [*range(8, 16), EOS], [*range(8, 16), EOS]]], length=30), 20_000
    )
    columns = compiled.split_documents(rows, PACKED, VOCABULARY, WIDTHS)
    found = prefixes_shown(rows, columns).reshape(-1, 3)
    for one, two in ((0, 1), (1, 2), (0, 2)):
        counts = np.bincount((found[:, one] - 1) * 8 + found[:, two] - 1, minlength=64)
        assert chi_square_sigmas(counts, np.full(64, 20_000 / 64)) < 4


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=8),
    st.integers(3, 20),
)
def test_prompts_of_pieces_follow_from_where_they_lie(pairs: list[tuple[int, int]], width: int) -> None:
    lengths = np.array([prompt + target for prompt, target in pairs], np.int64)
    sections = ragged_of([[prompt, prompt + target] for prompt, target in pairs])
    starts = np.cumsum(lengths) - lengths
    doc = np.repeat(np.arange(len(pairs)), lengths)  # a layout of segments of a token each, row by row
    place = np.arange(int(lengths.sum()))
    layout = layout_of(
        place // width,
        row_length=width,
        num_rows=-(-len(place) // width),
        start=place % width,
        length=np.ones(len(place), np.int64),
        doc=doc,
        doc_offset=place - starts[doc],
    )
    assert prompt_lengths(layout, sections).tolist() == [1] * len(place)
    whole = layout_of(
        np.arange(len(pairs)),
        row_length=24,
        num_rows=len(pairs),
        start=np.zeros(len(pairs), np.int64),
        length=lengths,
        doc=np.arange(len(pairs)),
        doc_offset=np.zeros(len(pairs), np.int64),
    )
    assert prompt_lengths(whole, sections).tolist() == [prompt for prompt, _ in pairs]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"pack_rows": True}, "leave out one of them"),
        ({"architecture": "encoder_decoder"}, "set architecture to 'decoder_only'"),
    ],
)
def test_what_cannot_be_packed_is_refused(content: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        PrefixLM.model_validate({"pack_documents": True, **content})


def test_packed_documents_are_packed_and_hidden_from_each_other() -> None:
    for config in (PACKED, SOURCE):
        traits = traits_of(config)
        assert not traits.single
        assert traits.attention == "prefix_within_document"
        assert traits.segment_prompts == (config.split == "source")
