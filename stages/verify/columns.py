"""Columns: what must hold of the columns of every row, whatever was drawn for it.

    unshifted   labels[t] is input_ids[t] or none; none on padding; none in a prefix, and only there
    masked      a label is an ordinary id; a changed input is the mask or an ordinary id
    targets     decoder_input_ids are the labels, one place later; both ends say EOS, padding is pad
    replaced    labels say where input_ids differ from original_ids, which differ only where selected
    pairs       views are as long as they say, the rest is padding

These are the promises of docs/format.md to whoever reads the columns, held row by row: they need no
draw to be repeated. What is drawn by lot follows the binomial law, within 5 sigma (masking.py).
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from stages.objectives.clm import IGNORED, segment_starts
from stages.objectives.electra import ReplacedTokens
from stages.objectives.fim import FIM, fim_ids
from stages.objectives.mlm import MaskedLM, Selection
from stages.objectives.prefix_lm import PrefixLM
from stages.objectives.rows import Columns, StoredRows, bodies
from stages.objectives.sentence_pairs import NextSentence, SentenceOrder, SentencePairs, label_name
from stages.objectives.table import PAIRS, TARGETS, Objective, traits_of
from stages.objectives.vocabulary import Vocabulary
from stages.verify.drawn import Items
from stages.verify.masking import binomial, deviation
from stages.verify.mechanics import Finding

LAWS = {
    "positions": "rows whose positions do not count each segment from 0",
    "segment_ids": "rows whose segment_ids are not their segments",
    "label_on_padding": "rows with a label on padding",
    "label_is_pad": "rows with the pad id as a label",
    "label_alignment": "rows with a label that is not the input at its place",
    "label_missing": "rows without a label where there is to be one, or with one where there is none",
    "prefix": "rows whose prefix_length leads out of the row",
    "special_shown": "rows that show special ids where a token was replaced",
    "decoder_inputs": "rows whose decoder inputs are not the labels, one place later",
    "lengths": "rows whose inputs or labels are not as long as they say",
    "eos": "rows whose inputs or targets do not end in EOS",
    "replaced": "rows whose labels are not where inputs differ from the original ids",
    "original_ids": "rows whose original ids are not the stored ones",
    "pair_label": "rows with a label that what is laid out cannot have",
}
"""What each check counts."""
Broken = Iterable[tuple[str, NDArray[np.bool_]]]
"""Laws, and which rows break each: (N,)."""


class ColumnTally:
    """What is wrong with columns, counted part by part; `findings` says it at the end.

    Args:
        objective: as the manifest has it.
        vocabulary: of the tokenizer.
    """

    def __init__(self, objective: Objective, vocabulary: Vocabulary) -> None:
        self._objective = objective
        self._vocabulary = vocabulary
        self._wrong: Counter[str] = Counter()
        self._lots: Counter[str] = Counter()

    def add(self, stored: StoredRows, columns: Columns) -> None:
        """Look at the next rows, as stored and as the loader gives them."""
        for law, rows in _broken(stored, columns, self._objective, self._vocabulary):
            self._wrong[law] += int(np.count_nonzero(rows))
        self._lots.update(_lots(columns, self._objective, self._vocabulary))

    def watch(self, items: Iterable[Items]) -> Iterator[Items]:
        """Give items as they come, each looked at."""
        for part in items:
            for columns in part.epochs:
                self.add(part.rows, columns)
            yield part

    def findings(self) -> list[Finding]:
        """Give what was found."""
        found = [Finding(law, f"{count:,} {LAWS[law]}") for law, count in self._wrong.items() if count]
        for what, probability in _rates(self._objective, self._vocabulary).items():
            number, of = self._lots[what], self._lots[f"of {what}"]
            mean, variance = binomial(of, probability)
            if abs(number - mean) > deviation(variance):
                law = f"the law says {mean:,.1f} +- {deviation(variance):,.1f}"
                found.append(Finding("rate", f"{number:,} of {of:,} {what}; {law}"))
        return found


def _broken(
    stored: StoredRows, columns: Columns, objective: Objective, vocabulary: Vocabulary
) -> Broken:
    convention = traits_of(objective).label_convention
    if "segment_ids" in columns:
        yield from _segments(stored, columns, objective)
    pad = vocabulary.named("pad")
    if "labels" in columns and convention != "replaced" and pad != vocabulary.named("eos"):
        yield "label_is_pad", (columns["labels"] == pad).any(axis=1)
    if convention == TARGETS:
        yield from _targets(columns, vocabulary)
    elif convention == PAIRS:
        yield from _views(columns, vocabulary)
    elif convention == "unshifted":
        yield from _unshifted(stored, columns, objective, vocabulary)
    elif convention == "masked":
        yield from _masked(stored, columns, vocabulary)
        if isinstance(objective, NextSentence | SentenceOrder):
            yield "pair_label", _pairs_mislabelled(stored, columns, objective, vocabulary)
    else:
        yield from _replaced(stored, columns, vocabulary)


def _segments(stored: StoredRows, columns: Columns, objective: Objective) -> Broken:
    """Segments count up from 0 without a gap, positions count each of them from 0."""
    segment, position = columns["segment_ids"], columns["position_ids"]
    covered = segment >= 0
    opens = covered.copy()
    opens[:, 1:] &= segment[:, 1:] != segment[:, :-1]
    places = np.arange(segment.shape[1])
    begun = np.maximum.accumulate(np.where(opens, places, 0), axis=1)
    wanted = np.where(covered, np.cumsum(opens, axis=1) - 1, -1)
    gaps = covered[:, 1:] & ~covered[:, :-1]
    wrong = (wanted != segment).any(axis=1) | gaps.any(axis=1)
    one = isinstance(objective, NextSentence | SentenceOrder)
    counts = np.minimum(np.diff(stored.segment_ptr), 1) if one else np.diff(stored.segment_ptr)
    wrong |= np.count_nonzero(opens, axis=1) != counts
    if not one and not isinstance(objective, FIM):  # of these, rows are longer than the stored ones
        borders = np.zeros(segment.shape, np.bool_)
        borders[segment_starts(stored)] = True
        wrong |= (borders != opens).any(axis=1) | (covered != stored.covered).any(axis=1)
    yield "segment_ids", wrong
    yield "positions", (position != np.where(covered, places - begun, 0)).any(axis=1)


def _unshifted(
    stored: StoredRows, columns: Columns, objective: Objective, vocabulary: Vocabulary
) -> Broken:
    ids, labels, covered = columns["input_ids"], columns["labels"], _covered(stored, columns)
    labelled = labels != IGNORED
    yield "label_on_padding", (labelled & ~covered).any(axis=1)
    yield "label_alignment", (labelled & (labels != ids)).any(axis=1)
    if isinstance(objective, PrefixLM):
        filled, prefix = np.count_nonzero(covered, axis=1), columns["prefix_length"]
        yield "prefix", (prefix < np.minimum(filled, 1)) | (prefix > filled)
        silent = np.arange(ids.shape[1]) < prefix[:, None]
        yield "label_missing", (labelled != (covered & ~silent)).any(axis=1)
    if isinstance(objective, FIM):
        marks = fim_ids(vocabulary)[:3]
        silent = np.isin(ids, marks) & (not objective.train_on_sentinels)
        yield "label_missing", (labelled != (covered & ~silent)).any(axis=1)


def _masked(stored: StoredRows, columns: Columns, vocabulary: Vocabulary) -> Broken:
    ids, labels, covered = columns["input_ids"], columns["labels"], _covered(stored, columns)
    labelled = labels != IGNORED
    yield "label_on_padding", (labelled & ~covered).any(axis=1)
    shown = labelled & vocabulary.special(ids) & (ids != vocabulary.named("mask"))
    special = labelled & vocabulary.special(np.where(labelled, labels, 0))
    yield "special_shown", (shown | special).any(axis=1)
    yield "label_missing", (~labelled & (ids == vocabulary.named("mask"))).any(axis=1)


def _pairs_mislabelled(
    stored: StoredRows, columns: Columns, objective: SentencePairs, vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Say of which rows the label is none that the stored row can have: (N,) bool.

    A row of two segments is a pair, whichever half comes first; only one with room for another
    document's text can have its second half from there; all others are no pair, and have no label.
    """
    label = columns[label_name(objective)]
    first = np.append(stored.segment_length, 0)[stored.segment_ptr[:-1]]
    own = bodies(stored, vocabulary.named("eos")) > np.where(np.diff(stored.segment_ptr) > 0, first, 0)
    if isinstance(objective, NextSentence):
        assert stored.room is not None, "packed for another objective"
        can_be = {0: own, 1: stored.room != 0, IGNORED: ~own}
    else:
        can_be = {0: own, 1: own, IGNORED: ~own}
    return np.asarray(~np.any([(label == value) & rows for value, rows in can_be.items()], axis=0))


def _covered(stored: StoredRows, columns: Columns) -> NDArray[np.bool_]:
    """Say where text stands: of rows that are longer than the stored ones their own segments know."""
    own = columns.get("segment_ids")
    return stored.covered if own is None else np.asarray(own >= 0)


def _targets(columns: Columns, vocabulary: Vocabulary) -> Broken:
    eos, pad = vocabulary.named("eos"), vocabulary.named("pad")
    labels, decoder = columns["labels"], columns["decoder_input_ids"]
    wanted = np.full(decoder.shape, pad)
    wanted[:, 1:] = np.where(labels[:, 1:] == IGNORED, pad, labels[:, :-1])
    yield "decoder_inputs", (decoder != wanted).any(axis=1)
    inputs = columns["input_ids"]
    input_length, label_length = columns["input_length"], columns["label_length"]
    wrong = ((inputs != pad) != _before(inputs, input_length)).any(axis=1)
    yield "lengths", wrong | ((labels != IGNORED) != _before(labels, label_length)).any(axis=1)
    yield (
        "eos",
        (_last(inputs, input_length) != eos)
        | ((label_length > 0) & (_last(labels, label_length) != eos)),
    )


def _before(column: NDArray[np.integer], length: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Say which places of each row lie before a length: (N, L)."""
    return np.asarray(np.arange(column.shape[1]) < length[:, None])


def _last(column: NDArray[np.integer], length: NDArray[np.integer]) -> NDArray[np.integer]:
    """Give what stands last of so many places of each row: (N,)."""
    places = np.clip(length.astype(np.int64) - 1, 0, column.shape[1] - 1)
    return np.asarray(column[np.arange(len(column)), places])


def _views(columns: Columns, vocabulary: Vocabulary) -> Broken:
    ids, length = columns["input_ids"], columns["input_length"]
    inside = np.arange(ids.shape[2]) < length[:, :, None]
    yield "lengths", ((ids != vocabulary.named("pad")) != inside).any(axis=(1, 2))


def _replaced(stored: StoredRows, columns: Columns, vocabulary: Vocabulary) -> Broken:
    ids, original, labels = columns["input_ids"], columns["original_ids"], columns["labels"]
    differ = ids != original
    yield "original_ids", (original != stored.input_ids).any(axis=1)
    yield "label_on_padding", ((labels != IGNORED) & ~stored.covered).any(axis=1)
    wrong = (labels != np.where(stored.covered, differ, IGNORED)).any(axis=1)
    yield "replaced", wrong | (differ & (columns["selected"] == 0)).any(axis=1)
    yield "special_shown", (differ & vocabulary.special(ids)).any(axis=1)


def _rates(objective: Objective, vocabulary: Vocabulary) -> dict[str, float]:
    """Give how likely each thing is that is drawn by lot."""
    rates: dict[str, float] = {}
    if isinstance(objective, ReplacedTokens) and objective.selection is Selection.BERNOULLI:
        rates["positions are selected"] = objective.mask_probability
    if isinstance(objective, SentenceOrder):
        rates["pairs have changed places"] = objective.swap_rate
    if isinstance(objective, FIM) and objective.level == "token":
        rates["segments are transformed"] = objective.fim_rate
    mask = objective if isinstance(objective, MaskedLM) else getattr(objective, "mask", None)
    if isinstance(mask, MaskedLM):
        rates["labels show the mask"] = mask.mask_share
        same = 1 - 1 / len(vocabulary.ordinary)
        rates["labels show another id"] = mask.random_share * same
    return rates


def _lots(columns: Columns, objective: Objective, vocabulary: Vocabulary) -> dict[str, int]:
    """Count what is drawn by lot, and of how many."""
    counts: dict[str, int] = {}

    def count(what: str, number: NDArray[np.bool_], of: NDArray[np.bool_]) -> None:
        counts[what] = int(np.count_nonzero(number))
        counts[f"of {what}"] = int(np.count_nonzero(of))

    if isinstance(objective, ReplacedTokens):
        maskable = (columns["labels"] != IGNORED) & ~vocabulary.special(columns["original_ids"])
        count("positions are selected", columns["selected"] != 0, maskable)
    if isinstance(objective, SentenceOrder):
        label = columns["sentence_order_label"]
        count("pairs have changed places", label == 1, label != IGNORED)
    if isinstance(objective, FIM):
        ids, segment = columns["input_ids"], columns["segment_ids"]
        opens = segment >= 0
        opens[:, 1:] &= segment[:, 1:] != segment[:, :-1]
        opens &= ids != vocabulary.named("eos")  # nothing of an empty text is filled in
        count("segments are transformed", opens & (ids == vocabulary.named("fim_prefix")), opens)
    if traits_of(objective).label_convention == "masked":
        ids, labels = columns["input_ids"], columns["labels"]
        labelled, masked = labels != IGNORED, ids == vocabulary.named("mask")
        count("labels show the mask", labelled & masked, labelled)
        count("labels show another id", labelled & ~masked & (ids != labels), labelled)
    return counts
