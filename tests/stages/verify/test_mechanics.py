"""What the mechanics checks promise.

A sound shard gives no finding; every fault that can be planted in one gives a finding under the name
of the law it breaks, and no check trusts another's word.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

from stages.findings import Finding
from stages.objectives.clm.laws import check_labels, copy_shares
from stages.objectives.rows import IGNORED
from stages.packing.best_fit import pack_best_fit
from stages.packing.concat import pack_concat
from stages.store.manifest import SEGMENT_COLUMNS
from stages.store.ranges import copy_ranges
from stages.verify import mechanics
from stages.verify.mechanics import (
    DocumentTally,
    Reassembly,
    SegmentedRows,
    check_coverage,
    check_ids,
    check_padding,
    check_segments,
    check_unigram,
)

EOS, PAD, VOCAB_SIZE, ROW_LENGTH = 2, 3, 300, 5
DOCUMENTS = [[10, 11, EOS], [12, 13, 14, 15, 16, 17, EOS], [18, EOS], [19, 20, 21, EOS], [22, 23, EOS]]


@dataclass
class Shard:
    """A shard and what it should hold."""

    rows: SegmentedRows
    labels: NDArray[np.int64]
    stored: list[NDArray[np.int32]]

    def segment(self, name: str) -> NDArray[np.int64]:
        """Return one column of the segments, to be changed in place."""
        return self.rows.segments[name]


def covered_of(rows: SegmentedRows) -> NDArray[np.bool_]:
    """Return which positions a segment covers, in a plain loop."""
    covered = np.zeros(rows.input_ids.shape, np.bool_)
    row_ptr = rows.segments["row_ptr"]
    for row in range(len(covered)):
        for segment in range(row_ptr[row], row_ptr[row + 1]):
            start, length = rows.segments["start"][segment], rows.segments["length"][segment]
            covered[row, start : start + length] = True
    return covered


def sound(packer: Callable[..., object] = pack_best_fit) -> Shard:
    """Return a sound shard: B B B B B | D D D D . | A A A B B | E E E C C by best fit."""
    assert packer in (pack_best_fit, pack_concat)
    lengths = np.array([len(document) for document in DOCUMENTS])
    layout = (pack_best_fit if packer is pack_best_fit else pack_concat)(lengths, row_length=ROW_LENGTH)
    tokens = np.array([number for document in DOCUMENTS for number in document], np.int32)
    document_ptr = np.concatenate([[0], np.cumsum(lengths)])
    input_ids = np.full((layout.num_rows, ROW_LENGTH), PAD, np.int32)
    copy_ranges(
        tokens,
        input_ids.reshape(-1),
        document_ptr[layout.doc] + layout.doc_offset,
        layout.segment_rows() * ROW_LENGTH + layout.start,
        layout.length.astype(np.int64),
    )
    segments = {name: getattr(layout, name).astype(np.int64) for name in SEGMENT_COLUMNS}
    rows = SegmentedRows(input_ids, segments)
    labels = np.where(covered_of(rows), input_ids, IGNORED)
    return Shard(rows, labels, [np.array(document, np.int32) for document in DOCUMENTS])


def findings(shard: Shard) -> list[Finding]:
    """Return what all checks find, in the order in which the verify step asks."""
    rows, lengths = shard.rows, np.array([len(ids) for ids in shard.stored])
    found = [*check_ids(rows, vocab_size=VOCAB_SIZE)]
    broken = check_segments(rows, documents=len(lengths))
    if broken:
        return [*found, *broken]
    covered = covered_of(rows)
    found += check_padding(rows, pad=PAD)
    found += check_coverage(rows, lengths=lengths)
    tally, reassembly = DocumentTally(EOS), Reassembly(rows, lengths)
    for first in range(0, len(lengths), 2):
        last = min(first + 2, len(lengths))
        stored = np.concatenate(shard.stored[first:last])
        tally.add(reassembly.tokens(first, last), stored, np.cumsum(lengths[first:last]))
    found += tally.findings()
    found += check_labels(
        rows.input_ids.astype(np.int64),
        shard.labels,
        covered=covered,
        declared_offset=0,
        every_token=True,
    )
    return found


def broken_laws(shard: Shard) -> set[str]:
    """Return the names of the checks that find something."""
    return {finding.check for finding in findings(shard)}


@pytest.mark.parametrize("packer", [pack_best_fit, pack_concat])
def test_a_sound_shard_gives_no_finding(packer: Callable[..., object]) -> None:
    shard = sound(packer)
    assert (shard.rows.input_ids == PAD).any()
    assert np.bincount(shard.segment("doc")).max() > 1
    assert findings(shard) == []


def roll_rows(shard: Shard) -> None:
    """Move every token one place to the right, labels along with it."""
    shard.rows.input_ids[:] = np.roll(shard.rows.input_ids, 1, axis=1)
    shard.labels[:] = np.roll(shard.labels, 1, axis=1)


def swap_rows(shard: Shard) -> None:
    """Change two rows, not their segments."""
    shard.rows.input_ids[[0, 2]] = shard.rows.input_ids[[2, 0]]


def repeat_row(shard: Shard) -> None:
    """Return row 2 the content of row 0, segments and all."""
    repeat = np.r_[0:1, 1:2, 0:1, 4:6]
    shard.rows = SegmentedRows(
        shard.rows.input_ids[[0, 1, 0, 3]],
        {
            "row_ptr": np.array([0, 1, 2, 3, 5]),
            **{name: shard.segment(name)[repeat] for name in ("start", "length", "doc", "doc_offset")},
        },
    )
    shard.labels = shard.labels[[0, 1, 0, 3]]


def drop_document(shard: Shard) -> None:
    """Take document D, alone in row 1, out of the shard."""
    keep = np.array([0, 2, 3, 4, 5])
    shard.rows = SegmentedRows(
        shard.rows.input_ids[[0, 2, 3]],
        {
            "row_ptr": np.array([0, 1, 3, 5]),
            **{name: shard.segment(name)[keep] for name in ("start", "length", "doc", "doc_offset")},
        },
    )
    shard.labels = shard.labels[[0, 2, 3]]


def shuffle_tokens(shard: Shard) -> None:
    """Change two tokens of a document, labels along with them."""
    shard.rows.input_ids[0, :2] = shard.rows.input_ids[0, 1::-1]
    shard.labels[0, :2] = shard.labels[0, 1::-1]


def put(name: str, segment: int, value: int) -> Callable[[Shard], None]:
    """Return a fault: one number of the segments changed."""

    def plant(shard: Shard) -> None:
        assert shard.segment(name)[segment] != value
        shard.segment(name)[segment] = value

    return plant


def put_token(row: int, place: int, value: int, *, label: int | None = None) -> Callable[[Shard], None]:
    """Return a fault: one token changed, its label along with it unless said otherwise."""

    def plant(shard: Shard) -> None:
        shard.rows.input_ids[row, place] = value
        shard.labels[row, place] = value if label is None else label

    return plant


def put_label(row: int, place: int, value: int) -> Callable[[Shard], None]:
    """Return a fault: one label changed."""

    def plant(shard: Shard) -> None:
        assert shard.labels[row, place] != value
        shard.labels[row, place] = value

    return plant


def shift_labels(shard: Shard) -> None:
    """Return the labels that a shifted convention would have."""
    shard.labels[:, :-1] = shard.labels[:, 1:]
    shard.labels[:, -1] = IGNORED


FAULTS: dict[str, tuple[Callable[[Shard], None], set[str]]] = {
    "id past the vocabulary": (put_token(0, 1, VOCAB_SIZE), {"ids_in_range", "tokens"}),
    "negative id": (put_token(0, 1, -1), {"ids_in_range", "tokens"}),
    "rows rolled": (roll_rows, {"padding", "eos", "tokens", "label_on_padding", "label_missing"}),
    "rows swapped": (swap_rows, {"eos", "tokens", "label_alignment"}),
    "EOS missing": (put_token(1, 3, 99), {"eos", "tokens"}),
    "EOS extra": (put_token(0, 1, EOS), {"eos", "tokens"}),
    "tokens shuffled": (shuffle_tokens, {"tokens"}),
    "row repeated": (repeat_row, {"coverage", "token_conservation", "eos", "tokens"}),
    "document dropped": (drop_document, {"token_conservation", "eos", "tokens"}),
    "token on padding": (put_token(1, 4, 99, label=IGNORED), {"padding"}),
    "pad in a document": (put_token(0, 0, PAD), {"padding", "tokens"}),
    "label on padding": (put_label(1, 4, PAD), {"label_on_padding"}),
    "label 0 on padding": (put_label(1, 4, 0), {"label_on_padding", "label_alignment"}),
    "labels shifted": (shift_labels, {"label_alignment", "label_missing"}),
    "one label wrong": (put_label(2, 1, 99), {"label_alignment"}),
    "segments overlap": (put("length", 2, 4), {"segments"}),
    "gap between segments": (put("length", 2, 2), {"segments"}),
    "segment past its row": (put("length", 3, 3), {"segments"}),
    "empty segment": (put("length", 5, 0), {"segments"}),
    "segment not from the row's start": (put("start", 0, 1), {"segments"}),
    "negative start": (put("start", 1, -1), {"segments"}),
    "document that is not": (put("doc", 0, 5), {"segments"}),
    "negative document": (put("doc", 0, -1), {"segments"}),
    "row without segment": (put("row_ptr", 2, 1), {"segments"}),
    "row_ptr not from 0": (put("row_ptr", 0, 1), {"segments"}),
    "row_ptr too short": (put("row_ptr", 4, 5), {"segments"}),
    "last token in no segment": (
        put("length", 1, 3),
        {"padding", "token_conservation", "eos", "tokens", "label_on_padding"},
    ),
    "offset repeated": (put("doc_offset", 3, 0), {"coverage", "eos", "tokens"}),
    "offset negative": (put("doc_offset", 3, -2), {"coverage", "eos", "tokens"}),
    "offset past the document": (put("doc_offset", 3, 6), {"coverage", "eos", "tokens"}),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_planted_fault_is_found_under_its_name(name: str) -> None:
    plant, expected = FAULTS[name]
    shard = sound()
    plant(shard)
    assert broken_laws(shard) == expected


def test_findings_say_how_many_and_where() -> None:
    shard = sound()
    put_token(2, 1, VOCAB_SIZE)(shard)
    put_token(3, 0, VOCAB_SIZE + 7)(shard)
    (finding,) = check_ids(shard.rows, vocab_size=VOCAB_SIZE)
    assert finding.message == (
        "2 ids are not below vocab_size = 300; the first, id 300, stands in row 2, position 1"
    )


def test_a_segment_finding_names_its_row() -> None:
    shard = sound()
    put("start", 5, 4)(shard)
    (finding,) = check_segments(shard.rows, documents=5)
    assert "segment 5 in row 3" in finding.message


def test_a_shard_without_rows_is_sound() -> None:
    empty = np.empty(0, np.int64)
    segments = dict.fromkeys(SEGMENT_COLUMNS, empty) | {"row_ptr": np.zeros(1, np.int64)}
    rows = SegmentedRows(np.empty((0, ROW_LENGTH), np.int32), segments)
    shard = Shard(rows, np.empty((0, ROW_LENGTH), np.int64), [])
    shard.rows = replace(rows)
    assert check_ids(rows, vocab_size=VOCAB_SIZE) == []
    assert check_segments(rows, documents=0) == []
    assert check_coverage(rows, lengths=empty) == []
    assert check_padding(rows, pad=PAD) == []
    assert Reassembly(rows, empty).tokens(0, 0).tolist() == []
    assert DocumentTally(EOS).findings() == []


@pytest.mark.parametrize("packer", [pack_best_fit, pack_concat])
def test_reassembled_documents_are_the_documents(packer: Callable[..., object]) -> None:
    shard = sound(packer)
    lengths = np.array([len(document) for document in DOCUMENTS])
    reassembly = Reassembly(shard.rows, lengths)
    assert [reassembly.tokens(n, n + 1).tolist() for n in range(len(lengths))] == DOCUMENTS
    assert reassembly.tokens(1, 4).tolist() == [number for ids in DOCUMENTS[1:4] for number in ids]


def test_copy_shares_are_counted_over_labelled_positions() -> None:
    input_ids = np.array([[1, 2, 3, 4], [5, 6, 7, 8]])
    labels = np.array([[1, 2, 3, IGNORED], [6, 7, 8, IGNORED]])
    assert copy_shares(input_ids, labels, range(2)) == {0: 0.5, 1: 0.5}
    assert copy_shares(input_ids, np.full((2, 4), IGNORED), [0]) == {0: 0.0}


def test_labels_at_a_declared_offset_are_checked_there() -> None:
    shard = sound(pack_concat)
    input_ids, covered = shard.rows.input_ids.astype(np.int64), covered_of(shard.rows)
    assert (
        check_labels(input_ids, shard.labels, covered=covered, declared_offset=0, every_token=False)
        == []
    )
    (wrong,) = check_labels(
        input_ids, shard.labels, covered=covered, declared_offset=1, every_token=False
    )
    assert wrong.check == "label_alignment"
    assert "best is offset 0 with 100.00%" in wrong.message
    shift_labels(shard)
    assert (
        check_labels(input_ids, shard.labels, covered=covered, declared_offset=1, every_token=False)
        == []
    )


def test_a_token_without_a_label_is_found() -> None:
    shard = sound(pack_concat)
    shard.labels[0, 1] = IGNORED
    assert broken_laws(shard) == {"label_missing"}


def test_documents_of_other_tokens_are_counted_over_all_batches() -> None:
    tally = DocumentTally(EOS)
    for found, stored in (([9], [9]), ([8, 7], [9, 6])):
        ids, others = (np.array([[n, EOS] for n in body]).reshape(-1) for body in (found, stored))
        tally.add(ids, others, np.arange(2, len(ids) + 1, 2))
    (finding,) = tally.findings()
    assert finding.check == "tokens"
    assert finding.message.startswith("2 of 3 documents")
    assert "document 1" in finding.message


def test_each_document_begins_with_the_id_that_is_to_begin_it_and_has_it_once() -> None:
    sound, late, twice, empty = [7, 9, EOS], [9, 7, EOS], [7, 7, EOS], list[int]()
    tally = DocumentTally(EOS, begin=7)
    for document in (sound, sound):
        tally.add(np.array(document), np.array(document), np.array([3]))
    assert tally.findings() == []
    for document in (late, twice):
        tally.add(np.array(document), np.array(document), np.array([3]))
    tally.add(np.array(empty, np.int64), np.array(empty, np.int64), np.array([0]))
    said = [finding.message for finding in tally.findings() if finding.check == "begin"]
    wrong = (
        "2 of 5 documents do not begin with the id 7, which is to begin each; the first is document 2"
    )
    assert said == [wrong]
    tally.add(np.array(twice), np.array(twice), np.array([3]))
    _, counted = (finding.message for finding in tally.findings() if finding.check == "begin")
    assert counted == "the id 7, which begins each of 6 documents, stands 7 times"


@pytest.mark.parametrize("name", FAULTS)
def test_findings_do_not_depend_on_the_size_of_blocks(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = sound()
    FAULTS[name][0](shard)
    whole = findings(shard)
    monkeypatch.setattr(mechanics, "BLOCK_TOKENS", ROW_LENGTH)
    assert findings(shard) == whole != []


def test_one_wrong_label_of_ten_thousand_is_found() -> None:
    ids = np.arange(10_000).reshape(10, 1_000) % 97
    labels, covered = ids.copy(), np.ones(ids.shape, np.bool_)
    assert check_labels(ids, labels, covered=covered, declared_offset=0, every_token=True) == []
    labels[7, 7] += 1
    (found,) = check_labels(ids, labels, covered=covered, declared_offset=0, every_token=True)
    assert found.check == "label_alignment"


def test_a_table_of_frequencies_counts_ordinary_ids_alone() -> None:
    ids = np.array([[5, 6, 5, 2], [7, 2, 3, 3]])
    rows = SegmentedRows(ids, {})
    counted = np.cumsum([0, 0, 0, 0, 0, 2, 1, 1, 0])
    special = np.array([2, 3])
    assert check_unigram(rows, counted, special=special) == []
    with_special = np.cumsum([0, 0, 2, 2, 0, 2, 1, 1, 0])
    (found,) = check_unigram(rows, with_special, special=special)
    assert found.message.startswith("2 ids stand in the rows another number of times")


def test_an_eos_that_closes_an_answer_is_counted_as_the_token_store_has_it() -> None:
    documents, ends = np.array([5, EOS, 6, EOS, 7, EOS]), np.array([4, 6])
    tally = DocumentTally(EOS, inside=True)
    tally.add(documents, documents, ends)
    assert tally.findings() == []
    tally.add(np.array([5, EOS, EOS]), np.array([5, 6, EOS]), np.array([3]))
    said = [finding.message for finding in tally.findings() if finding.check == "eos"]
    assert said == ["5 EOS for 3 documents and 1 answers; they must be one to one"]
    strict = DocumentTally(EOS)
    strict.add(documents, documents, ends)
    assert [finding.check for finding in strict.findings()] == ["eos"]
