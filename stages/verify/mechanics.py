"""Mechanics: what must hold exactly of a shard, whatever its manifest says.

Each check takes arrays and gives findings: the check's name, what is wrong, and how much of it. An
empty list means that the law holds. None of them trusts a digest: a shard that was damaged before its
manifest was signed is caught all the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.objectives.clm import IGNORED


@dataclass(frozen=True)
class Finding:
    """One broken law."""

    check: str
    message: str


@dataclass(frozen=True)
class Rows:
    """The arrays of a shard: R rows of L tokens, S segments."""

    input_ids: NDArray[np.integer]
    """(R, L)."""
    segments: Mapping[str, NDArray[np.int64]]
    """row_ptr (R + 1,); start, length, doc, doc_offset (S,)."""


def check_ids(rows: Rows, *, vocab_size: int) -> list[Finding]:
    """Every id is one of the vocabulary's."""
    bad = np.argwhere((rows.input_ids < 0) | (rows.input_ids >= vocab_size))
    if not len(bad):
        return []
    row, place = bad[0]
    return [
        Finding(
            "ids_in_range",
            f"{len(bad):,} ids are not below vocab_size = {vocab_size:,}; the first, id"
            f" {rows.input_ids[row, place]:,}, stands in row {row}, position {place}",
        )
    ]


def check_segments(rows: Rows, *, documents: int) -> list[Finding]:
    """Segments lie in their rows, left to right without gap or overlap, and name real documents."""
    row_ptr, start, length, doc = (rows.segments[name] for name in ("row_ptr", "start", "length", "doc"))
    num_rows, row_length = rows.input_ids.shape
    if len(row_ptr) != num_rows + 1 or row_ptr[0] != 0 or row_ptr[-1] != len(start):
        return [Finding("segments", f"row_ptr does not lead from 0 to {len(start):,} segments")]
    if (np.diff(row_ptr) < 1).any():
        row = int(np.argmin(np.diff(row_ptr)))
        return [Finding("segments", f"row {row} has no segment")]
    expected = np.zeros(len(start), np.int64)
    expected[1:] = start[:-1] + length[:-1]
    expected[row_ptr[:-1]] = 0
    wrong = (start != expected) | (length < 1) | (start + length > row_length)
    wrong |= (doc < 0) | (doc >= documents)
    if not wrong.any():
        return []
    segment = int(np.argmax(wrong))
    row = int(np.searchsorted(row_ptr, segment, side="right")) - 1
    return [
        Finding(
            "segments",
            f"{np.count_nonzero(wrong):,} segments overlap, leave gaps, leave their row or name no"
            f" document; the first is segment {segment} in row {row}",
        )
    ]


def check_padding(rows: Rows, *, covered: NDArray[np.bool_], pad: int) -> list[Finding]:
    """Padding is the pad id, stands where no segment lies, and nowhere else."""
    findings = []
    outside = np.argwhere(~covered & (rows.input_ids != pad))
    inside = np.argwhere(covered & (rows.input_ids == pad))
    for bad, what in ((outside, "tokens lie outside of any segment"), (inside, "pads are in one")):
        if len(bad):
            row, place = bad[0]
            findings.append(
                Finding("padding", f"{len(bad):,} {what}; the first in row {row}, position {place}")
            )
    return findings


def check_coverage(rows: Rows, *, lengths: NDArray[np.int64]) -> list[Finding]:
    """Every token of every document stands in the rows once: none lost, none repeated."""
    doc, offset, length = (rows.segments[name] for name in ("doc", "doc_offset", "length"))
    order = np.lexsort((offset, doc))
    doc, offset, length = doc[order], offset[order], length[order]
    expected = np.zeros(len(doc), np.int64)
    same = doc[1:] == doc[:-1]
    expected[1:][same] = (offset + length)[:-1][same]
    findings = []
    breaks = np.flatnonzero(offset != expected)
    if len(breaks):
        first = breaks[0]
        findings.append(
            Finding(
                "coverage",
                f"{len(np.unique(doc[breaks])):,} documents have tokens that stand twice or not at"
                f" all; the first is document {doc[first]} at its token {expected[first]}",
            )
        )
    found = np.bincount(doc, weights=length, minlength=len(lengths)).astype(np.int64)
    wrong = np.flatnonzero(found != lengths)
    if len(wrong):
        findings.append(
            Finding(
                "token_conservation",
                f"{len(wrong):,} documents have another number of tokens than they should; the first"
                f" is document {wrong[0]}: {found[wrong[0]]:,} in rows, {lengths[wrong[0]]:,} stored",
            )
        )
    return findings


def reassemble(rows: Rows, lengths: NDArray[np.int64]) -> list[NDArray[np.integer]]:
    """Give each document's tokens as the rows hold them; call it on rows with sound segments."""
    row_ptr, start, length, doc, offset = (
        rows.segments[name] for name in ("row_ptr", "start", "length", "doc", "doc_offset")
    )
    row = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
    documents: list[NDArray[np.integer]] = [np.zeros(size, rows.input_ids.dtype) for size in lengths]
    for segment in range(len(doc)):
        piece = rows.input_ids[row[segment], start[segment] : start[segment] + length[segment]]
        target = documents[doc[segment]][offset[segment] : offset[segment] + length[segment]]
        target[:] = piece[: len(target)]
    return documents


def check_eos(documents: Sequence[NDArray[np.integer]], *, eos: int) -> list[Finding]:
    """Each document ends in its one EOS."""
    missing = [n for n, ids in enumerate(documents) if not len(ids) or ids[-1] != eos]
    total = sum(int(np.count_nonzero(ids == eos)) for ids in documents)
    findings = []
    if missing:
        findings.append(
            Finding(
                "eos",
                f"{len(missing):,} of {len(documents):,} documents do not end in EOS (id {eos}); the"
                f" first is document {missing[0]}",
            )
        )
    if total != len(documents):
        findings.append(
            Finding("eos", f"{total:,} EOS for {len(documents):,} documents; they must be one to one")
        )
    return findings


def check_tokens(
    documents: Sequence[NDArray[np.integer]], stored: Sequence[NDArray[np.integer]]
) -> list[Finding]:
    """Each document's tokens are those of the token store, in their order."""
    wrong = [
        n for n, (a, b) in enumerate(zip(documents, stored, strict=True)) if not np.array_equal(a, b)
    ]
    if not wrong:
        return []
    return [
        Finding(
            "tokens",
            f"{len(wrong):,} of {len(stored):,} documents have other tokens in the rows than in the"
            f" token store; the first is document {wrong[0]}",
        )
    ]


def check_texts(decoded: Sequence[bytes], expected: Sequence[bytes]) -> list[Finding]:
    """Rows decode to the documents' own texts, byte for byte, compared by their digests."""
    wrong = [n for n, (a, b) in enumerate(zip(decoded, expected, strict=True)) if a != b]
    if not wrong:
        return []
    return [
        Finding(
            "text",
            f"{len(wrong):,} of {len(expected):,} documents do not decode to their text; the first is"
            f" document {wrong[0]}",
        )
    ]


def copy_shares(
    input_ids: NDArray[np.int64], labels: NDArray[np.int64], offsets: Sequence[int]
) -> dict[int, float]:
    """Give, for each offset k, the share of labels that equal the input k positions on.

    Unshifted labels have share 1 at k = 0; labels shifted once have it at k = 1.

    Args:
        input_ids: (N, L).
        labels: (N, L), -100 where there is no loss.
        offsets: each at least 0.
    """
    shares: dict[int, float] = {}
    for offset in offsets:
        ahead = input_ids[:, offset:]
        label = labels[:, : labels.shape[1] - offset]
        labelled = label != IGNORED
        equal = int(np.count_nonzero(labelled & (label == ahead)))
        shares[offset] = equal / max(1, int(np.count_nonzero(labelled)))
    return shares


def check_labels(
    input_ids: NDArray[np.int64],
    labels: NDArray[np.int64],
    *,
    covered: NDArray[np.bool_],
    declared_offset: int,
    every_token: bool,
) -> list[Finding]:
    """Labels are the inputs at the declared offset, none lies on padding, and none is missing."""
    findings = []
    missing = int(np.count_nonzero(covered & (labels == IGNORED))) if every_token else 0
    if missing:
        findings.append(Finding("label_missing", f"{missing:,} tokens have no label"))
    on_padding = int(np.count_nonzero(~covered & (labels != IGNORED)))
    if on_padding:
        findings.append(Finding("label_on_padding", f"{on_padding:,} labels lie on padding"))
    shares = copy_shares(input_ids, labels, range(3))
    if shares[declared_offset] < 1.0:
        best = max(shares, key=lambda offset: shares[offset])
        findings.append(
            Finding(
                "label_alignment",
                f"labels[t] equals input_ids[t + {declared_offset}] for"
                f" {shares[declared_offset]:.2%} of labels instead of all; best is offset {best} with"
                f" {shares[best]:.2%}",
            )
        )
    return findings
