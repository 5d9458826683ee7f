"""What BART's sentence permutation promises.

Inputs hold the same sentences in another order, labels the row as it was; each order is as likely as any
other; sentences stay in their segment and an EOS at its end.
"""

from collections import Counter
from dataclasses import replace
from itertools import groupby
from math import factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.objectives.bart import config as bart
from stages.objectives.bart.config import BART, widths_bart
from stages.objectives.bart.permuted_sentences import permute_and_add_noise, permute_sentences
from stages.objectives.rows import StoredRows
from stages.objectives.whole_shard import WholeShard
from stages.packing.concat import pack_concat
from tests.campaign import examples
from tests.stages.objectives.built_rows import sigmas
from tests.stages.objectives.built_shards import (
    EOS,
    SPECIAL,
    VOCABULARY,
    Sentences,
    any_documents,
    lengths_of,
    rows_of,
    shard_of,
)

ALWAYS = BART(mask_ratio=0.0, permute_probability=1.0)


def packed(documents: Sentences, length: int) -> tuple[StoredRows, WholeShard]:
    shard = shard_of(documents, pack_concat(lengths_of(documents), row_length=length))
    return rows_of(shard), shard


@settings(deadline=None, max_examples=examples(150))
@given(any_documents, st.integers(4, 60))
def test_each_segment_keeps_its_sentences_and_its_end(documents: Sentences, length: int) -> None:
    rows, shard = packed(documents, length)
    permuted = permute_sentences(rows, ALWAYS, shard, eos=EOS)
    ends = [set(np.cumsum([0, *map(len, document)]).tolist()) for document in documents]
    for number, row in enumerate(shard.segment_rows):
        start, size = int(shard.segments["start"][number]), int(shard.segments["length"][number])
        before = rows.input_ids[row, start : start + size].tolist()
        after = permuted.input_ids[row, start : start + size].tolist()
        doc, offset = int(shard.segments["doc"][number]), int(shard.segments["doc_offset"][number])
        text = before[:-1] if before[-1] == EOS else before
        cuts = sorted({place - offset for place in ends[doc] if 0 < place - offset < len(text)})
        parts = [part.tolist() for part in np.split(np.array(text, np.int64), cuts)]
        assert after[len(text) :] == before[len(text) :]
        assert Counter(after) == Counter(before)
        left = after[: len(text)]
        for part in sorted(parts, key=len, reverse=True):
            assert any(left[n : n + len(part)] == part for n in range(len(left) - len(part) + 1))
    assert (permuted.input_ids[~rows.covered] == rows.input_ids[~rows.covered]).all()


@st.composite
def told_apart(draw: st.DrawFn) -> Sentences:
    """Documents no two of whose tokens are the same."""
    sizes = draw(st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=7), min_size=1, max_size=5))
    ends = iter(np.cumsum([0, *(size for document in sizes for size in document)]).tolist())
    begin = next(ends)
    documents: Sentences = []
    for document in sizes:
        documents.append([])
        for _ in document:
            begin, before = next(ends), begin
            documents[-1].append(list(range(len(SPECIAL) + before, len(SPECIAL) + begin)))
    return documents


@settings(deadline=None, max_examples=examples(80))
@given(told_apart(), st.integers(4, 60))
def test_a_segment_is_its_sentences_in_some_order_and_one_alone_stays_as_it_was(
    documents: Sentences, length: int
) -> None:
    rows, shard = packed(documents, length)
    permuted = permute_sentences(rows, ALWAYS, shard, eos=EOS)
    sentence_of = {
        token: (number, place)
        for number, document in enumerate(documents)
        for place, sentence in enumerate(document)
        for token in sentence
    }
    for number, row in enumerate(shard.segment_rows):
        start, size = int(shard.segments["start"][number]), int(shard.segments["length"][number])
        before = rows.input_ids[row, start : start + size].tolist()
        after = permuted.input_ids[row, start : start + size].tolist()
        wanted, found = (
            [list(part) for _, part in groupby(tokens, lambda token: sentence_of.get(token, EOS))]
            for tokens in (before, after)
        )
        assert sorted(found) == sorted(wanted)
        assert len(wanted) > 1 or found == wanted
        assert (after[-1] == EOS) == (before[-1] == EOS)


@settings(deadline=None, max_examples=examples(60))
@given(any_documents, st.sampled_from([0.0, 0.3]))
def test_labels_are_the_row_as_it_was(documents: Sentences, ratio: float) -> None:
    config = BART(mask_ratio=ratio, permute_probability=0.7, pack_rows=True)
    widths = widths_bart(config, 34)
    rows, shard = packed(documents, widths.stored)
    columns = permute_and_add_noise(
        rows, config, VOCABULARY, widths, shard=shard, add_noise=bart.add_noise
    )
    plain = bart.add_noise(rows, config, VOCABULARY, widths)
    for name in ("labels", "decoder_input_ids", "label_length"):
        assert columns[name].tolist() == plain[name].tolist()
    permuted = permute_sentences(rows, config, shard, eos=EOS)
    noisy = bart.add_noise(permuted, config, VOCABULARY, widths)
    assert columns["input_ids"].tolist() == noisy["input_ids"].tolist()


@pytest.mark.slow
def test_every_order_is_as_likely_and_the_share_of_rows_is_the_asked_one() -> None:
    rows, shard = packed([[[11], [12], [13], [14]]], 5)
    many = replace(
        rows.take(np.zeros(1, np.int64)),
    )
    orders: Counter[tuple[int, ...]] = Counter()
    kept = 0
    half = BART(mask_ratio=0.0, permute_probability=0.5)
    for epoch in range(6000):
        now = replace(many, epoch=epoch)
        orders[tuple(permute_sentences(now, ALWAYS, shard, eos=EOS).input_ids[0, :4].tolist())] += 1
        kept += permute_sentences(now, half, shard, eos=EOS).input_ids[0, :4].tolist() == [
            11,
            12,
            13,
            14,
        ]
    assert len(orders) == factorial(4)
    for count in orders.values():
        assert sigmas(count, 6000, 1 / 24) < 5
    assert sigmas(kept, 6000, 0.5 + 0.5 / 24) < 5


def test_the_preset_of_mbart_gives_way_to_what_is_given() -> None:
    preset = BART.model_validate({"kind": "bart", "preset": "mbart"})
    assert (preset.mask_ratio, preset.poisson_lambda, preset.permute_probability) == (0.35, 3.5, 1.0)
    other = BART.model_validate({"kind": "bart", "preset": "mbart", "permute_probability": 0.0})
    assert (other.mask_ratio, other.permute_probability) == (0.35, 0.0)
    assert BART.model_validate(preset.model_dump()) == preset
