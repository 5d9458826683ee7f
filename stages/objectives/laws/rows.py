"""Row laws: what must hold of the columns of every row, whatever was drawn for it.

    unshifted   labels[t] is input_ids[t] or none; none on padding
    masked      a label is an ordinary id; a changed input is the mask or an ordinary id
    targets     decoder_input_ids are the labels, one place later; both ends say EOS, padding is pad
    replaced    labels say where input_ids differ from original_ids, which differ only where selected
    views       views are as long as they say, the rest is padding

These are the promises of docs/format.md to whoever reads the columns, held row by row: they need no
draw to be repeated. A kind puts together those that are its own.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stages.objectives.rows import IGNORED, Columns, StoredRows, segment_starts
from stages.objectives.vocabulary import Vocabulary

LAWS = {
    "positions": "rows whose positions do not count each segment from 0",
    "segment_ids": "rows whose segment_ids are not their segments",
    "label_on_padding": "rows with a label on padding",
    "label_is_pad": "rows with the pad id as a label",
    "label_alignment": "rows with a label that is not the input at its place",
    "label_missing": "rows without a label where there is to be one, or with one where there is none",
    "prefix": "rows whose prefix_length leads out of the row, or with a prefix that begins no document",
    "special_shown": "rows that show special ids where a token was replaced",
    "decoder_inputs": "rows whose decoder inputs are not the labels, one place later",
    "lengths": "rows whose inputs or labels are not as long as they say",
    "eos": "rows whose inputs or targets do not end in EOS",
    "replaced": "rows whose labels are not where inputs differ from the original ids",
    "original_ids": "rows whose original ids are not the stored ones",
    "pair_label": "rows with a label that what is laid out cannot have",
}
"""What each check counts."""
BrokenLaws = Iterator[tuple[str, NDArray[np.bool_]]]
"""Laws, and which rows break each: (N,)."""


def segments(
    stored: StoredRows, columns: Columns, *, whole: bool = True, single: bool = False
) -> BrokenLaws:
    """Segments count up from 0 without a gap, positions count each of them from 0.

    Args:
        stored: the rows.
        columns: what was made of them; nothing is said of columns without segments.
        whole: whether segments lie where they are stored; those that grow do not.
        single: whether the segments of a stored row are shown as one.
    """
    if "segment_ids" not in columns:
        return
    from stages.objectives.laws.kernels import check_segments  # noqa: PLC0415  # numba takes half a second

    counts = np.diff(stored.segment_ptr)
    borders = np.zeros(stored.covered.shape if whole else (0, 0), np.bool_)
    if whole:
        borders[segment_starts(stored)] = True
    wrong = np.zeros((2, len(counts)), np.bool_)
    check_segments(
        columns["segment_ids"],
        columns["position_ids"],
        np.minimum(counts, 1) if single else counts,
        borders,
        stored.covered,
        wrong,
    )
    yield "segment_ids", wrong[0]
    yield "positions", wrong[1]


def no_label_is_pad(columns: Columns, vocabulary: Vocabulary) -> BrokenLaws:
    """No label is the pad id, unless EOS is the pad id too."""
    pad = vocabulary.named("pad")
    if pad != vocabulary.named("eos"):
        yield "label_is_pad", (columns["labels"] == pad).any(axis=1)


def unshifted(stored: StoredRows, columns: Columns) -> BrokenLaws:
    """A label is the input at its place, and none lies on padding."""
    ids, labels = columns["input_ids"], columns["labels"]
    labelled = labels != IGNORED
    yield "label_on_padding", (labelled & ~covered_of(stored, columns)).any(axis=1)
    yield "label_alignment", (labelled & (labels != ids)).any(axis=1)


def masked(stored: StoredRows, columns: Columns, vocabulary: Vocabulary) -> BrokenLaws:
    """A label is an ordinary id; its input is the mask or an ordinary id; a mask has a label."""
    ids, labels = columns["input_ids"], columns["labels"]
    labelled = labels != IGNORED
    yield "label_on_padding", (labelled & ~covered_of(stored, columns)).any(axis=1)
    shown = labelled & vocabulary.special(ids) & (ids != vocabulary.named("mask"))
    special = labelled & vocabulary.special(np.where(labelled, labels, 0))
    yield "special_shown", (shown | special).any(axis=1)
    yield "label_missing", (~labelled & (ids == vocabulary.named("mask"))).any(axis=1)


def targets(stored: StoredRows, columns: Columns, vocabulary: Vocabulary) -> BrokenLaws:
    """Decoder inputs are the labels, one place later; inputs and labels are as long as they say."""
    del stored
    yield from no_label_is_pad(columns, vocabulary)
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


def views(columns: Columns, vocabulary: Vocabulary) -> BrokenLaws:
    """Views are as long as they say, and padding behind."""
    ids, length = columns["input_ids"], columns["input_length"]
    inside = np.arange(ids.shape[2]) < length[:, :, None]
    yield "lengths", ((ids != vocabulary.named("pad")) != inside).any(axis=(1, 2))


def replaced(stored: StoredRows, columns: Columns, vocabulary: Vocabulary) -> BrokenLaws:
    """Labels say where inputs differ from the original ids, which are the stored ones."""
    ids, original, labels = columns["input_ids"], columns["original_ids"], columns["labels"]
    differ = ids != original
    yield "original_ids", (original != stored.input_ids).any(axis=1)
    yield "label_on_padding", ((labels != IGNORED) & ~stored.covered).any(axis=1)
    wrong = (labels != np.where(stored.covered, differ, IGNORED)).any(axis=1)
    yield "replaced", wrong | (differ & (columns["selected"] == 0)).any(axis=1)
    yield "special_shown", (differ & vocabulary.special(ids)).any(axis=1)


def covered_of(stored: StoredRows, columns: Columns) -> NDArray[np.bool_]:
    """Return where text stands, (N, L) bool: of rows longer than the stored ones their segments say."""
    own = columns.get("segment_ids")
    return stored.covered if own is None else np.asarray(own >= 0)


def _before(column: NDArray[np.integer], length: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return which places of each row lie before a length: (N, L)."""
    return np.asarray(np.arange(column.shape[1]) < length[:, None])


def _last(column: NDArray[np.integer], length: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return what stands last of so many places of each row: (N,)."""
    places = np.clip(length.astype(np.int64) - 1, 0, column.shape[1] - 1)
    return np.asarray(column[np.arange(len(column)), places])
