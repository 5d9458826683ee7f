"""What the label of a pair promises: it says where the shown texts stand in their documents.

Every token here names its document and place, so what a row shows tells alone which label is right,
whatever the code that made the row holds to be true.
"""

from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stages.objectives.mlm import kernel as compiled
from stages.objectives.mlm.config import MaskedLM, mask_tokens
from stages.objectives.rows import IGNORED, Columns
from stages.objectives.sentence_pairs.config import (
    Mask,
    NextSentence,
    SentenceOrder,
    SentencePairs,
    label_name,
    make_pairs,
    pair_widths,
)
from stages.objectives.vocabulary import vocabulary_of
from tests.campaign import examples
from tests.stages.objectives.built_shards import SPECIAL, Sentences, at_epoch, paired

FIRST, PLACES = 100, 200
"""The id of a document's first token, and how many ids each document has."""
VOCABULARY = vocabulary_of(FIRST + PLACES * 12, SPECIAL)
WIDTHS = pair_widths(30)
LENGTHS = st.lists(st.lists(st.integers(1, 14), min_size=1, max_size=9), min_size=1, max_size=8)
MANY = [[4, 7, 1, 12, 3, 3, 9, 2]] * 9 + [[2]] * 2
CONFIGS = [
    NextSentence(mask=MaskedLM(mask_probability=0.4)),
    NextSentence(random_rate=1.0),
    SentenceOrder(mask=MaskedLM(mask_probability=0.4)),
    SentenceOrder(swap_rate=1.0),
]
Text = tuple[int, int, int]
"""A document, its first token shown, and the one behind its last."""


def documents_of(lengths: list[list[int]]) -> Sentences:
    """Return documents of sentences of these lengths, in which each token is another."""
    documents: Sentences = []
    for number, sentences in enumerate(lengths):
        ends = list(accumulate(sentences, initial=FIRST + PLACES * number))
        documents.append([[*range(a, b)] for a, b in pairwise(ends)])
    return documents


def text(tokens: list[int]) -> Text:
    """Return where tokens stand; they must be neighbours in one document."""
    assert tokens == list(range(tokens[0], tokens[0] + len(tokens)))
    document, begin = divmod(tokens[0] - FIRST, PLACES)
    assert (tokens[-1] - FIRST) // PLACES == document
    return document, begin, begin + len(tokens)


def shown(columns: Columns, row: int) -> list[Text]:
    """Return the texts of a row: between its special ids, as they stood before the masks."""
    labels = columns["labels"][row]
    ids = np.where(labels != IGNORED, labels, columns["input_ids"][row])[
        columns["segment_ids"][row] >= 0
    ]
    assert ids[0] == SPECIAL["cls"]
    assert ids[-1] == SPECIAL["sep"]
    parts: list[list[int]] = [[]]
    for token in ids[1:-1].tolist():
        if token == SPECIAL["sep"]:
            parts.append([])
        else:
            parts[-1].append(token)
    return [text(part) for part in parts]


def right_label(texts: list[Text], config: SentencePairs) -> int:
    """Return the label that the documents give."""
    if len(texts) == 1:
        return IGNORED
    (document, begin, end), (other, other_begin, other_end) = texts
    if document == other and end == other_begin:
        return 0
    if isinstance(config, NextSentence):
        assert document != other
    else:
        assert (document, begin) == (other, other_end)
    return 1


def labels_seen(lengths: list[list[int]], config: SentencePairs, mask: Mask, epoch: int) -> set[int]:
    """Hold the labels of all rows of documents to these; give those that there are."""
    borrowed = config.random_rate if isinstance(config, NextSentence) else 0.0
    rows, shard = paired(documents_of(lengths), row_length=WIDTHS.stored, borrow_rate=borrowed)
    drawn = at_epoch(rows, epoch)
    columns = make_pairs(drawn, config, VOCABULARY, WIDTHS, shard=shard, mask=mask)
    wanted = [right_label(shown(columns, row), config) for row in range(len(rows.numbers))]
    assert columns[label_name(config)].tolist() == wanted
    return set(wanted)


@pytest.mark.parametrize("mask", [mask_tokens, compiled.mask_tokens])
@settings(deadline=None, max_examples=examples(80))
@given(lengths=LENGTHS, config=st.sampled_from(CONFIGS), epoch=st.integers(0, 5))
def test_a_label_says_where_the_shown_texts_stand(
    mask: Mask, lengths: list[list[int]], config: SentencePairs, epoch: int
) -> None:
    labels_seen(lengths, config, mask, epoch)


SEEN = [{0, 1}, {1}, {0, 1, IGNORED}, {1, IGNORED}]


@pytest.mark.parametrize(("config", "seen"), list(zip(CONFIGS, SEEN, strict=True)))
def test_many_documents_show_every_label_there_is(config: SentencePairs, seen: set[int]) -> None:
    assert labels_seen(MANY, config, mask_tokens, 1) == seen
