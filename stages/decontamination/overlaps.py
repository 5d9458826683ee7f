"""Overlaps: how much of an item stands in a document, and whether that is evidence.

    word of the overlap    counts with the documents of the most common n-gram that it stands in
    evidence               for some d up to `max_documents`, at least `words_per_document` x d words
                           count with d documents or fewer; or four fifths of a text of at least
                           `whole_words` words count with `max_documents` or fewer

So a phrase that stands in many documents is none, nor is a boilerplate text with a changed word in it; a
sentence that stands in one document is, and so is a long text that stands in several.

Source: the limit on documents is that of Brown et al. 2020, "Language models are few-shot learners",
appendix C (arXiv 2005.14165), in which nothing depends on length.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.decontamination.config import DecontaminationRule
from stages.decontamination.index import EvaluationIndex
from stages.decontamination.search import BEGIN, DOCUMENT, END, GRAM, WORD
from stages.kernels import lean_kernel
from stages.ragged import ranges_of

_WHOLE = (4, 5)
"""Share of a text that is as good as all of it."""


@dataclass(frozen=True, eq=False)
class Overlaps:
    """What documents have in common with items, N of them, each a document and an item."""

    document: NDArray[np.int64]
    passage: NDArray[np.int64]
    """The passage of the item that has the most words in common."""
    words: NDArray[np.int64]
    """Of the passage, those that stand in the document."""
    counted: NDArray[np.int64]
    """Of these, those in no n-gram of more than `max_documents` documents."""
    grams: NDArray[np.int64]
    """N-grams of the passage in the document."""
    documents: NDArray[np.int64]
    """In how many documents the rarest of these n-grams stands."""
    begin: NDArray[np.int64]
    """Where the longest rare part begins in the document, in bytes."""
    end: NDArray[np.int64]
    """Where it ends."""
    contaminated: NDArray[np.bool_]
    """Whether it is evidence."""


_DOCUMENT, _PASSAGE, _WORDS, _COUNTED, _GRAMS, _DOCUMENTS, _BEGIN, _END, _ENOUGH = range(9)
"""Columns of overlaps while they are weighed; the last is whether enough words count."""


def overlaps_of(
    hits: NDArray[np.int64],
    counts: NDArray[np.int64],
    index: EvaluationIndex,
    rule: DecontaminationRule,
) -> Overlaps:
    """Return the overlaps of documents with items, by document, then by item.

    Args:
        hits: (H, 5) all of the documents, as `Searcher.search` returns them.
        counts: (G,) in how many documents each n-gram stands.
        index: of the evaluation sets.
        rule: what is evidence.
    """
    passages = index.passages
    grams = hits[:, GRAM]
    number = np.diff(passages.place_ptr)[grams]
    places = passages.places[ranges_of(passages.place_ptr[grams], number)]
    hit = np.repeat(np.arange(len(hits)), number)
    owner = np.searchsorted(passages.ptr, places, side="right") - 1
    order = np.lexsort((places, owner, hits[hit, DOCUMENT]))
    hit, places, owner = hit[order], places[order], owner[order]
    longest = int(np.diff(passages.ptr).max(initial=0))
    changes = (np.diff(owner) != 0) | (np.diff(hits[hit, DOCUMENT]) != 0)
    found = np.zeros((np.count_nonzero(changes) + min(len(hit), 1), _ENOUGH + 1), np.int64)
    bounds = rule.max_documents, rule.words_per_document
    size = index.grams.lengths[hits[:, GRAM]]
    _weigh(hits, hit, places, owner, counts[grams], size, np.empty(longest, np.int64), bounds, found)
    return _best(found, passages.item, passages.usable, rule)


def _best(
    found: NDArray[np.int64],
    item: NDArray[np.int64],
    usable: NDArray[np.int64],
    rule: DecontaminationRule,
) -> Overlaps:
    """Keep the passage of each document and item that says most."""
    text = usable[found[:, _PASSAGE]]
    whole = (text >= rule.whole_words) & (_WHOLE[1] * found[:, _COUNTED] >= _WHOLE[0] * text)
    enough = (found[:, _ENOUGH] > 0) | whole
    evidence = enough & (found[:, _WORDS] / text >= rule.min_share)  # 0.56 * 25 > 14
    items = item[found[:, _PASSAGE]]
    order = np.lexsort(
        (
            found[:, _PASSAGE],
            -found[:, _WORDS],
            -found[:, _COUNTED],
            ~evidence,
            items,
            found[:, _DOCUMENT],
        )
    )
    found, evidence, items = found[order], evidence[order], items[order]
    first = np.ones(len(found), np.bool_)
    first[1:] = (np.diff(found[:, _DOCUMENT]) != 0) | (np.diff(items) != 0)
    own = found[first]
    return Overlaps(
        own[:, _DOCUMENT],
        own[:, _PASSAGE],
        own[:, _WORDS],
        own[:, _COUNTED],
        own[:, _GRAMS],
        own[:, _DOCUMENTS],
        own[:, _BEGIN],
        own[:, _END],
        evidence[first],
    )


@lean_kernel
def _weigh(  # noqa: PLR0913  # the tables of a kernel are arrays, not values
    hits: NDArray[np.int64],
    hit: NDArray[np.int64],
    places: NDArray[np.int64],
    owner: NDArray[np.int64],
    counts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    most: NDArray[np.int64],
    bounds: tuple[int, int],
    found: NDArray[np.int64],
) -> None:
    """Weigh the overlap of each document with each passage.

    Args:
        hits: of the documents.
        hit: (R,) the hit of each place, by document, passage and place.
        places: (R,) of the stream.
        owner: (R,) the passage of each.
        counts: (H,) documents of each hit's n-gram.
        sizes: (H,) its words.
        most: scratch, as long as the longest passage.
        bounds: `max_documents` and `words_per_document`.
        found: (N, 9) zeros, filled.
    """
    total, row = 0, 0
    while row < len(hit):
        document, passage = hits[hit[row], DOCUMENT], owner[row]
        last = row
        while last < len(hit) and hits[hit[last], DOCUMENT] == document and owner[last] == passage:
            last += 1
        out = found[total]
        out[_DOCUMENT], out[_PASSAGE], out[_GRAMS] = document, passage, last - row
        _count_words(hit[row:last], places[row:last], counts, sizes, most, bounds, out)
        _find_part(hits, hit[row:last], places[row:last], counts, bounds[0], out)
        total, row = total + 1, last


@lean_kernel
def _count_words(
    hit: NDArray[np.int64],
    places: NDArray[np.int64],
    counts: NDArray[np.int64],
    sizes: NDArray[np.int64],
    most: NDArray[np.int64],
    bounds: tuple[int, int],
    out: NDArray[np.int64],
) -> None:
    """Count the words of an overlap by the documents that each counts with."""
    first = places[0]
    span = 0
    for row in range(len(hit)):
        after = places[row] - first + sizes[hit[row]]
        for place in range(span, after):
            most[place] = 0
        span = max(span, after)
        for place in range(places[row] - first, after):
            most[place] = max(most[place], counts[hit[row]])
    size = sizes[hit[0]]
    for place in range(span):
        out[_WORDS] += most[place] > 0
        out[_COUNTED] += 0 < most[place] <= bounds[0]
    for documents in range(1, bounds[0] + 1):
        words = 0
        for place in range(span):
            words += 0 < most[place] <= documents
        wanted = documents * bounds[1]
        if documents == 1:
            wanted = min(wanted, size)
        if words >= max(wanted, 1):
            out[_ENOUGH] = 1
            return
        if words == out[_COUNTED]:
            return


@lean_kernel
def _find_part(
    hits: NDArray[np.int64],
    hit: NDArray[np.int64],
    places: NDArray[np.int64],
    counts: NDArray[np.int64],
    max_documents: int,
    out: NDArray[np.int64],
) -> None:
    """Find the part of the document that has the most rare n-grams of the passage in a row."""
    begin, rare, best = 0, 0, -1
    out[_DOCUMENTS] = counts[hit[0]]
    for row in range(len(hit)):
        out[_DOCUMENTS] = min(out[_DOCUMENTS], counts[hit[row]])
        follows = (
            row > 0
            and places[row] == places[row - 1] + 1
            and hits[hit[row], WORD] == hits[hit[row - 1], WORD] + 1
        )
        if not follows:
            begin, rare = row, 0
        rare += counts[hit[row]] <= max_documents
        if rare > best or (follows and rare == best and out[_BEGIN] == hits[hit[begin], BEGIN]):
            best = rare
            out[_BEGIN], out[_END] = hits[hit[begin], BEGIN], hits[hit[row], END]
