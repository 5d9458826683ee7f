"""What the weighing of overlaps promises: the rule as it is written, in plain loops."""

import numpy as np
import pytest

from stages.decontamination.config import DecontaminationRule
from stages.decontamination.index import EvaluationIndex
from stages.decontamination.overlaps import Overlaps, overlaps_of
from stages.decontamination.search import DOCUMENT, GRAM
from tests.campaign import some_of
from tests.stages.decontamination.test_search import hits_in, index_of


def judged(texts: list[str], index: EvaluationIndex, rule: DecontaminationRule) -> Overlaps:
    """Return the overlaps of texts, each of which is a document of the corpus."""
    hits = hits_in(texts, index)
    counts = np.bincount(hits[:, GRAM], minlength=len(index.grams.at))
    return overlaps_of(hits, counts, index, rule)


def plain_verdicts(
    texts: list[str], index: EvaluationIndex, rule: DecontaminationRule
) -> dict[tuple[int, int], bool]:
    """Return of each document and item with words in common whether it is evidence, in plain loops."""
    hits = hits_in(texts, index)
    counts = np.bincount(hits[:, GRAM], minlength=len(index.grams.at))
    passages = index.passages
    verdicts: dict[tuple[int, int], bool] = {}
    for document in range(len(texts)):
        grams = hits[hits[:, DOCUMENT] == document, GRAM].tolist()
        for passage, item in enumerate(passages.item.tolist()):
            first, last = passages.ptr[passage : passage + 2]
            most: dict[int, int] = {}
            size = 0
            for gram in grams:
                for place in passages.places[passages.place_ptr[gram] : passages.place_ptr[gram + 1]]:
                    if first <= place < last:
                        size = int(index.grams.lengths[gram])
                        for word in range(place, place + size):
                            most[word] = max(most.get(word, 0), int(counts[gram]))
            if not most:
                continue
            evidence = False
            for documents in range(1, rule.max_documents + 1):
                wanted = max(1, documents * rule.words_per_document)
                wanted = min(wanted, max(1, size)) if documents == 1 else wanted
                evidence |= sum(count <= documents for count in most.values()) >= wanted
            usable, counted = (
                int(passages.usable[passage]),
                sum(n <= rule.max_documents for n in most.values()),
            )
            evidence |= usable >= rule.whole_words and 5 * counted >= 4 * usable
            evidence &= len(most) / usable >= rule.min_share
            verdicts[document, item] = verdicts.get((document, item), False) or evidence
    return verdicts


@pytest.mark.parametrize("seed", some_of(range(40), 10))
def test_the_verdicts_are_those_of_the_rule_in_plain_loops(seed: int) -> None:
    draw = np.random.default_rng(seed)
    rule = DecontaminationRule(
        ngram=4,
        min_words=3,
        max_items=2,
        max_documents=int(draw.choice([1, 3, 10])),
        words_per_document=int(draw.choice([0, 3, 4])),
        whole_words=int(draw.choice([5, 9])),
        min_share=float(draw.choice([0.0, 0.5])),
    )

    def text(longest: int) -> str:
        return " ".join(draw.choice(list("abcdefgh"), int(draw.integers(1, longest))))

    items = [[text(13) for _ in range(int(draw.integers(1, 4)))] for _ in range(5)]
    index = index_of(items, rule)
    texts = [text(60) for _ in range(12)] + [f"x {items[number][0]} y" for number in range(4)]
    found = judged(texts, index, rule)
    pairs = zip(found.document.tolist(), index.passages.item[found.passage].tolist(), strict=True)
    verdicts = dict(zip(pairs, found.contaminated.tolist(), strict=True))
    assert verdicts == plain_verdicts(texts, index, rule)
    assert len(verdicts) > 0
    assert list(verdicts) == sorted(verdicts)


def test_a_share_that_is_exactly_met_is_enough() -> None:
    item = " ".join(f"w{number}" for number in range(25))
    rule = DecontaminationRule(ngram=14, min_share=0.56)  # 0.56 * 25 > 14
    found = judged([" ".join(item.split()[:14])], index_of([[item]], rule), rule)
    assert found.contaminated.tolist() == [True]


RULE = DecontaminationRule()
ITEM = " ".join(f"w{number}" for number in range(60))
PART = " ".join(ITEM.split()[:40])
PHRASE = " ".join(f"w{number}" for number in range(20, 33))


@pytest.mark.parametrize(
    ("text", "copies", "verdicts"),
    [
        (PHRASE, 1, [True]),
        (PHRASE, 2, [False] * 2),
        (PART, 2, [True] * 2),
        (PART, 3, [False] * 3),
        (ITEM, 10, [True] * 10),
        (ITEM, 11, [False] * 11),
        (ITEM.upper().replace(" ", ", "), 1, [True]),
    ],
)
def test_the_longer_an_overlap_is_the_more_documents_may_have_it(
    text: str, copies: int, verdicts: list[bool]
) -> None:
    found = judged([f"before {text} after {n}" for n in range(copies)], index_of([[ITEM]], RULE), RULE)
    assert found.contaminated.tolist() == verdicts
    assert found.documents.tolist() == [copies] * copies


def test_a_common_text_with_a_changed_word_is_no_evidence() -> None:
    common = ITEM.split()
    changed = [*common[:30], "changed", *common[31:]]
    index = index_of([[" ".join(changed)]], RULE)
    texts = [ITEM] * 20
    assert not judged(texts, index, RULE).contaminated.any()
    assert not judged([*texts, " ".join(changed)], index, RULE).contaminated.any()


def test_an_item_with_a_common_phrase_in_it_is_found_by_the_rest() -> None:
    texts = [PHRASE] * 20
    found = judged([*texts, ITEM], index_of([[ITEM]], RULE), RULE)
    assert found.contaminated.tolist() == [False] * 20 + [True]
    assert found.words[-1] == 60
    assert found.counted[-1] == 60 - 13


def test_the_part_shown_is_the_longest_rare_one() -> None:
    text = f"one {PHRASE} two {' '.join(ITEM.split()[35:60])} three"
    found = judged([text, *[PHRASE] * 20], index_of([[ITEM]], RULE), RULE)
    assert text[found.begin[0] : found.end[0]] == " ".join(ITEM.split()[35:60])
