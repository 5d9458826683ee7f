"""Mechanics: what must hold exactly of a shard, whatever its manifest says.

Each check takes arrays and gives findings: the check's name, what is wrong, and how much of it. An
empty list means that the law holds. None of them trusts a digest: a shard that was damaged before its
manifest was signed is caught all the same.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stages.findings import Finding
from stages.store.ranges import copy_ranges

BLOCK_TOKENS = 1 << 20
"""Tokens of rows that are looked at together."""


@dataclass(frozen=True)
class SegmentedRows:
    """The arrays of a shard: R rows of L tokens, S segments."""

    input_ids: NDArray[np.integer]
    """(R, L)."""
    segments: Mapping[str, NDArray[np.int64]]
    """row_ptr (R + 1,); start, length, doc, doc_offset (S,)."""


def check_ids(rows: SegmentedRows, *, vocab_size: int) -> list[Finding]:
    """Every id is one of the vocabulary's."""
    count, first = 0, ""
    for start, ids in _row_blocks(rows.input_ids):
        bad = np.argwhere((ids < 0) | (ids >= vocab_size))
        if len(bad) and not count:
            row, place = bad[0]
            first = f"id {ids[row, place]:,}, stands in row {start + row}, position {place}"
        count += len(bad)
    if not count:
        return []
    return [
        Finding(
            "ids_in_range",
            f"{count:,} ids are not below vocab_size = {vocab_size:,}; the first, {first}",
        )
    ]


def _row_blocks(input_ids: NDArray[np.integer]) -> Iterator[tuple[int, NDArray[np.integer]]]:
    """Yield a shard's rows in blocks, each with the number of its first row."""
    step = max(1, BLOCK_TOKENS // max(1, input_ids.shape[1]))
    for start in range(0, len(input_ids), step):
        yield start, np.asarray(input_ids[start : start + step])


def check_segments(rows: SegmentedRows, *, documents: int) -> list[Finding]:
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
            "segments that overlap, leave gaps, leave their row or name no document:"
            f" {np.count_nonzero(wrong):,}; the first is segment {segment} in row {row}",
        )
    ]


def check_padding(rows: SegmentedRows, *, pad: int, closes: bool = False) -> list[Finding]:
    """Padding is the pad id, stands where no segment lies, and nowhere else; segments are sound.

    With `closes` the pad id is EOS too, so it stands in segments; where, is a matter of the documents.
    """
    row_ptr, length = rows.segments["row_ptr"], rows.segments["length"]
    filled = np.add.reduceat(length, row_ptr[:-1]) if len(length) else length
    places = np.arange(rows.input_ids.shape[1])
    counts, firsts = [0, 0], ["", ""]
    for start, ids in _row_blocks(rows.input_ids):
        covered = places < filled[start : start + len(ids), None]
        inside = covered & (ids == pad) & (not closes)
        for kind, wrong in enumerate((~covered & (ids != pad), inside)):
            bad = np.argwhere(wrong)
            if len(bad) and not counts[kind]:
                firsts[kind] = f"row {start + bad[0][0]}, position {bad[0][1]}"
            counts[kind] += len(bad)
    what = ("tokens lie outside of any segment", "pads are in one")
    return [
        Finding("padding", f"{count:,} {text}; the first in {first}")
        for count, text, first in zip(counts, what, firsts, strict=True)
        if count
    ]


def check_coverage(rows: SegmentedRows, *, lengths: NDArray[np.int64]) -> list[Finding]:
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


def check_unigram(
    rows: SegmentedRows, counted: NDArray[np.int64], *, special: NDArray[np.integer]
) -> list[Finding]:
    """The table of frequencies counts the ordinary ids of the rows up.

    Args:
        rows: a shard's rows, which hold each of its tokens once.
        counted: (V,) how many tokens have an ordinary id of at most this one.
        special: the ids that are not counted.
    """
    found = np.zeros(len(counted), np.int64)
    for _, ids in _row_blocks(rows.input_ids):
        known = ids[(ids >= 0) & (ids < len(counted))]
        found += np.bincount(known, minlength=len(counted))
    found[special] = 0
    wrong = int(np.count_nonzero(np.diff(counted, prepend=0) != found))
    if not wrong:
        return []
    return [Finding("unigram", f"{wrong:,} ids stand in the rows another number of times than it says")]


class Reassembly:
    """Documents put together again from rows with sound segments, some at a time.

    Args:
        rows: a shard's rows.
        lengths: (D,) tokens that each document should have.
    """

    def __init__(self, rows: SegmentedRows, lengths: NDArray[np.int64]) -> None:
        self._rows = rows
        self._lengths = lengths
        row_ptr, doc = rows.segments["row_ptr"], rows.segments["doc"]
        row = np.repeat(np.arange(len(row_ptr) - 1), np.diff(row_ptr))
        self._begin = row * rows.input_ids.shape[1] + rows.segments["start"]
        self._order = np.argsort(doc, kind="stable")
        self._ptr = np.searchsorted(doc[self._order], np.arange(len(lengths) + 1))

    def tokens(self, first: int, last: int) -> NDArray[np.integer]:
        """Return the ids of documents [first, last), end to end; 0 where the rows hold none."""
        lengths = self._lengths[first:last]
        ends = np.cumsum(lengths)
        flat = np.zeros(int(ends[-1]) if len(ends) else 0, self._rows.input_ids.dtype)
        chosen = self._order[self._ptr[first] : self._ptr[last]]
        doc = self._rows.segments["doc"][chosen] - first
        offset, length = (self._rows.segments[name][chosen] for name in ("doc_offset", "length"))
        skipped = np.maximum(-offset, 0)  # a broken offset may lead out of its document
        length = np.minimum(offset + length, lengths[doc]) - np.maximum(offset, 0)
        places = (ends - lengths)[doc] + np.maximum(offset, 0)
        copy_ranges(
            np.asarray(self._rows.input_ids).reshape(-1),
            flat,
            self._begin[chosen] + skipped,
            places,
            np.maximum(length, 0),
        )
        return flat


@dataclass
class DocumentTally:
    """What is wrong with documents, counted batch by batch; `findings` says it at the end.

    Args:
        eos: the id that closes each document.
        begin: the id that begins each, if one does.
        inside: whether both may stand inside of documents too, as they begin and close turns.
    """

    eos: int
    begin: int | None = None
    inside: bool = False
    documents: int = 0
    num_eos: int = 0
    num_inside: int = 0
    """Of the token store's, those that close no document."""
    num_begin: int = 0
    num_begin_inside: int = 0
    wrong: dict[str, list[int]] = field(default_factory=dict)
    """Of each check: how many documents fail it, and the first of them."""

    def add(
        self, found: NDArray[np.integer], stored: NDArray[np.integer], ends: NDArray[np.int64]
    ) -> None:
        """Compare the next documents' tokens with those of the token store, and look at their EOS.

        Args:
            found: (T,) ids as the rows hold them, document after document.
            stored: (T,) as the token store does.
            ends: (N,) where each document ends.
        """
        self.num_eos += int(np.count_nonzero(found == self.eos))
        if self.inside:
            self.num_inside += int(np.count_nonzero(stored == self.eos)) - len(ends)
        starts = np.concatenate([[0], ends[:-1]])
        empty = ends == starts
        last = np.full(len(ends), -1, np.int64)
        last[~empty] = found[ends[~empty] - 1]
        self._note("eos", last != self.eos)
        if self.begin is not None:
            self.num_begin += int(np.count_nonzero(found == self.begin))
            if self.inside:
                self.num_begin_inside += int(np.count_nonzero(stored == self.begin)) - len(ends)
            first = np.full(len(ends), -1, np.int64)
            first[~empty] = found[starts[~empty]]
            self._note("begin", first != self.begin)
        differ = np.concatenate([[0], np.cumsum(found != stored)])
        self._note("tokens", differ[ends] != differ[starts])
        self.documents += len(ends)

    def _note(self, check: str, wrong: NDArray[np.bool_]) -> None:
        if wrong.any():
            first = self.documents + int(np.argmax(wrong))
            self.wrong.setdefault(check, [0, first])[0] += int(np.count_nonzero(wrong))

    def findings(self) -> list[Finding]:
        """Return what was found: each document has its own tokens in its one frame."""
        whole = f"of {self.documents:,} documents"
        said = {
            "eos": f"do not end in EOS (id {self.eos})",
            "begin": f"do not begin with the id {self.begin}, which is to begin each",
            "tokens": "have other tokens in the rows than in the token store",
        }
        found = [
            Finding(check, f"{count:,} {whole} {said[check]}; the first is document {first}")
            for check, (count, first) in self.wrong.items()
        ]
        if self.num_eos != self.documents + self.num_inside:
            inside = f" and {self.num_inside:,} answers" if self.inside else ""
            message = (
                f"{self.num_eos:,} EOS for {self.documents:,} documents{inside}; they must be one to one"
            )
            found.append(Finding("eos", message))
        if self.begin is not None and self.num_begin != self.documents + self.num_begin_inside:
            inside = f" and {self.num_begin_inside:,} turns" if self.inside else ""
            message = f"the id {self.begin}, which begins each of {self.documents:,} documents{inside},"
            found.append(Finding("begin", f"{message} stands {self.num_begin:,} times"))
        return found
