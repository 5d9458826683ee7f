"""Guarded paths: the hottest work of a run, each as a call that takes some ten milliseconds of CPU.

A path takes the material and returns the call that is timed. The call does what the step of the run
does with its input, without the disk.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from contest_material import NUM_PERM, ROW_LENGTH, SHINGLE
from guard_material import FIELDS, MAX_LINE, GuardMaterial, assembled
from loader_material import write_dataset

from stages.cleaning.text import cleaned
from stages.dedup.buckets import BucketFiller, shared_keys
from stages.dedup.exact import exact_duplicates
from stages.dedup.jaccard import similarities
from stages.dedup.lsh import band_keys, band_shape
from stages.dedup.minhash import signatures
from stages.dedup.shingle_sets import shingle_sets
from stages.filtering.length import LengthFilter, length_verdict
from stages.findings import Finding
from stages.identity import document_id, utf8_digest
from stages.loading.dataset import open_dataset
from stages.objectives.clm.config import CausalLM
from stages.objectives.drawing import draw_columns
from stages.objectives.fim.config import FIM
from stages.objectives.laws.shown import ShardContext, ShownRows
from stages.objectives.mlm.config import MaskedLM
from stages.objectives.rows import segment_starts
from stages.objectives.span_corruption.config import SpanCorruption
from stages.objectives.table import traits_of
from stages.objectives.traits import Objective
from stages.objectives.ul2.kind import UL2
from stages.objectives.whole_shard import WholeShard
from stages.packing.best_fit import pack_best_fit
from stages.packing.layout import shuffle_rows
from stages.reading.columns_seen import ColumnsSeen
from stages.reading.jsonl import JsonLines
from stages.reading.records import Record
from stages.seeding import Key, OrderTag, permutation
from stages.tokenizer.bpe.merging import word_scratch
from stages.tokenizer.bpe.tables import tables_of
from stages.tokenizer.bpe.word_cache import remembered
from stages.tokenizer.bpe.words import encode_texts
from stages.tokenizer.spelling import PieceBytes, StoredIds, compare_texts
from stages.tokenizer.texts import joined_texts
from stages.verify.drawn import label_findings
from stages.verify.mechanics import DocumentTally, Reassembly, SegmentedRows

Call = Callable[[], object]
Prepare = Callable[[GuardMaterial], Call]

_ID = np.dtype(np.uint16)
_FEW_SLOTS = 64


def read(material: GuardMaterial) -> Call:
    """JSON lines to documents."""
    lines, chunks = JsonLines(FIELDS, MAX_LINE), material.chunks

    def call() -> list[Record]:
        columns = ColumnsSeen(FIELDS)
        return [lines.parse(piece, columns) for piece in lines.lines(chunks)]

    return call


def clean(material: GuardMaterial) -> Call:
    """Texts cleaned and filtered."""
    texts, config = material.texts, LengthFilter(min_chars=200)
    return lambda: [length_verdict(cleaned(text).data, config) for text in texts]


def digest(material: GuardMaterial) -> Call:
    """Texts to ids and digests, and digests to exact duplicates."""
    data = [text.encode() for text in material.texts]
    documents = np.arange(20_000)
    halves = np.random.default_rng(1).integers(0, 18_000, (len(documents), 1), np.uint64)
    digests = np.repeat(halves * np.uint64(0x9E3779B97F4A7C15), 2, axis=1)

    def call() -> object:
        for number, text in enumerate(data):
            document_id("pages", "pages.jsonl", number)
            utf8_digest(text)
        return exact_duplicates(digests, documents)

    return call


def sign(material: GuardMaterial) -> Call:
    """Texts to shingles and MinHash signatures."""
    texts = joined_texts([text.encode() for text in material.texts])
    return lambda: signatures(texts.data, texts.offsets, size=SHINGLE, num_perm=NUM_PERM)


def bands(_: GuardMaterial) -> Call:
    """Signatures to the buckets of two bands; a fifth of the documents repeats another's."""
    rows = band_shape(0.8, NUM_PERM)[1]
    matrix = np.random.default_rng(1).integers(0, 1 << 32, (2 * rows, 20_000), np.uint32)
    matrix[:, ::5] = matrix[:, 1::5]
    numbers = np.arange(matrix.shape[1])

    def call() -> int:
        found = 0
        for band in (matrix[:rows], matrix[rows:]):
            block = (band_keys(band), numbers)
            filler = BucketFiller(shared_keys([block], room=len(numbers)), 64)
            found += sum(len(members) for members in filler.place([block]))
        return found

    return call


def similarity(material: GuardMaterial) -> Call:
    """Pairs of shingle sets to their Jaccard similarity."""
    texts = joined_texts([text.encode() for text in material.spaced])
    sets = next(shingle_sets(texts.data, texts.offsets, size=SHINGLE))
    rows = np.tile(np.arange(len(sets.ptr) - 2), 4)
    return lambda: similarities(sets, sets, rows=(rows, rows + 1), threshold=0.0)


def encode_spaced(material: GuardMaterial) -> Call:
    """Texts with spaces to BPE ids, words remembered."""
    texts = joined_texts([text.encode() for text in material.spaced])
    return lambda: material.tokenizer.encode_texts(texts, dtype=_ID)


def encode_chinese(material: GuardMaterial) -> Call:
    """Chinese texts to BPE ids, nearly every word merged: a few slots remember nothing for long."""
    texts = joined_texts([text.encode() for text in material.chinese])
    tables = tables_of(material.model)
    assert tables is not None
    ids, ends = np.empty(int(texts.offsets[-1]), _ID), np.empty(len(texts.offsets) - 1, np.int64)
    known, scratch = remembered(_FEW_SLOTS), word_scratch()
    return lambda: encode_texts(texts, 0, ids, ends, tables, known, scratch)


def spell(material: GuardMaterial) -> Call:
    """Stored ids against their texts."""
    pieces = material.tokenizer.codec.spelling
    spelling = PieceBytes(pieces.data, pieces.begins, pieces.sizes)
    texts = joined_texts([text.encode() for text in material.texts])
    encoded = material.tokenizer.encode_texts(texts, dtype=_ID)
    stored = StoredIds(encoded.ids.copy(), encoded.ends - encoded.counts, encoded.ends)
    assert not compare_texts(stored, texts, encoded, spelling).any()
    return lambda: compare_texts(stored, texts, encoded, spelling)


def pack(material: GuardMaterial) -> Call:
    """Lengths to a layout of rows, best fit."""
    lengths = np.tile(material.group.lengths, 20)
    return lambda: pack_best_fit(lengths, row_length=ROW_LENGTH)


def assemble(material: GuardMaterial) -> Call:
    """A layout and the token store to shuffled rows."""
    group, layout, pad = material.group, material.layout(CausalLM()), material.tokenizer.pad

    def call() -> object:
        order = permutation(Key(7, 0, 0, OrderTag.ROWS), layout.num_rows)
        return assembled(shuffle_rows(layout, order), group, pad=pad)

    return call


def restore(material: GuardMaterial) -> Call:
    """Rows to documents again, held to the token store."""
    group, layout = material.group, material.layout(CausalLM())
    eos, count = material.tokenizer.eos, len(group.lengths)
    names = ("row_ptr", "start", "length", "doc", "doc_offset")
    segments = {name: np.asarray(getattr(layout, name), np.int64) for name in names}
    rows = SegmentedRows(assembled(layout, group, pad=material.tokenizer.pad), segments)
    ends = np.cumsum(group.lengths)

    def call() -> object:
        tally = DocumentTally(eos)
        tally.add(Reassembly(rows, group.lengths).tokens(0, count), group.tokens(0, count), ends)
        return tally.findings()

    assert not call()
    return call


def _drawing(objective: Objective) -> Prepare:
    def prepare(material: GuardMaterial) -> Call:
        rows, widths = material.rows(objective), material.widths(objective)
        vocabulary = material.vocabulary
        return lambda: draw_columns(rows, objective, vocabulary, widths)

    return prepare


def check_labels(material: GuardMaterial) -> Call:
    """Masked rows of two epochs held to the laws of their labels."""
    objective = MaskedLM()
    rows, widths, vocabulary = material.rows(objective), material.widths(objective), material.vocabulary
    epochs = tuple(
        draw_columns(replace(rows, epoch=epoch), objective, vocabulary, widths) for epoch in range(2)
    )
    row, start = segment_starts(rows)
    segments = {
        "row_ptr": rows.segment_ptr,
        "start": start,
        "length": rows.segment_length,
        "doc": np.arange(len(row)),
        "doc_offset": np.zeros(len(row), np.int64),
    }
    whole = WholeShard(rows.input_ids, segments, len(row))
    shown = ShownRows(rows, epochs, vocabulary, ShardContext(whole))
    convention = traits_of(objective).label_convention

    def call() -> list[Finding]:
        return label_findings(
            objective, [shown], convention=convention, vocabulary=vocabulary, widths=widths
        )

    assert not call()
    return call


def batch(material: GuardMaterial) -> Call:
    """Stored rows to the batches of a trainer."""
    folder = write_dataset(material.folder / "clm", shards=2, rows=512, seq_len=ROW_LENGTH)
    dataset = open_dataset(folder)
    positions = np.arange(512).reshape(8, 64)
    return lambda: [dataset.batch(some) for some in positions]


PATHS: dict[str, Prepare] = {
    "read": read,
    "clean": clean,
    "digest": digest,
    "sign": sign,
    "bands": bands,
    "jaccard": similarity,
    "encode": encode_spaced,
    "encode-chinese": encode_chinese,
    "spell": spell,
    "pack": pack,
    "assemble": assemble,
    "restore": restore,
    "mask": _drawing(MaskedLM()),
    "spans": _drawing(SpanCorruption()),
    "fim": _drawing(FIM()),
    "ul2": _drawing(UL2()),
    "labels": check_labels,
    "batch": batch,
}
"""Every guarded path by its name."""
