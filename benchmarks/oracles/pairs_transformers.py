"""Sentence pairs against the code of transformers, by chi-square over 100,000 documents of each law.

    pip install transformers==4.44.2 torch numba xxhash pydantic scipy      in an environment of its own
    PYTHONPATH=. python benchmarks/oracles/pairs_transformers.py [--documents 100000]

Compared are, of `TextDatasetForNextSentencePrediction`, which version 5 has no more: the first pair of
each document (how long both halves are and whether the second is borrowed, from which document and which
of its sentences on), with short targets; and without them all pairs of a document, one after the other,
which says that what was put back behind a cut comes next. Everything is seeded.

The documents are such that both programs mean the same. Chunks of transformers pass their target, ours
are closed before; with sentences of one token, or documents that fit a row, that is no difference. Its
targets are drawn for a document, ours for a chunk: so first pairs alone have short ones here. Not
compared are masks, which are drawn elsewhere, and halves that are too long, for nothing is done to
them: rows get longer than the block, a fault that is shown. So is that of a lone document the second
half comes from itself and is called another's. More than half of the pairs are borrowed in both, for a
single sentence has no other.
"""

import argparse
import random
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from chi_square import Report, numbered
from transformers import (  # of an environment of its own
    BertTokenizer,
    TextDatasetForNextSentencePrediction,
)

from stages.objectives.mlm.config import MaskedLM
from stages.objectives.rows import StoredRows
from stages.objectives.sentence_pairs.config import ENDS, NextSentence, PairTag, make_pairs, pair_widths
from stages.objectives.vocabulary import vocabulary_of
from stages.objectives.whole_shard import WholeShard
from stages.packing.pairs import PairRules, pack_pairs
from stages.ragged import ragged_of
from stages.seeding import Key

IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4, "eos": 5}
FIRST = len(IDS)
SIZE = 60_000
VOCABULARY = vocabulary_of(SIZE, IDS)
FULL, SENTENCES, LENDERS = 12, 16, 20
"""Tokens of a pair's two halves, sentences of one token in a document, different documents."""
ASKED = 0.5
"""Share of the pairs that are to be borrowed."""
BARE = MaskedLM(mask_probability=1e-9)
"""Masks that are never drawn."""
Document = list[list[int]]
"""Sentences of ids."""


class Pair(NamedTuple):
    """One row."""

    label: int
    """1: the second half is borrowed."""
    a: tuple[int, ...]
    b: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the row, with CLS and two SEP."""
        return len(self.a) + len(self.b) + ENDS


def documents_of(sizes: list[list[int]]) -> list[Document]:
    """Return documents of sentences of so many tokens; no id occurs twice."""
    ids = iter(range(FIRST, SIZE))
    return [[[next(ids) for _ in range(size)] for size in document] for document in sizes]


def theirs(documents: list[Document], copies: int, *, block: int, short_rate: float) -> list[list[Pair]]:
    """Return the pairs of each document as transformers makes them, of a file of the documents."""
    random.seed(7)
    with tempfile.TemporaryDirectory() as folder:
        names = [f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK", "unused0")]
        vocabulary, text = Path(folder, "vocab.txt"), Path(folder, "text.txt")
        vocabulary.write_text("\n".join([*names, *(f"w{number}" for number in range(FIRST, SIZE))]))
        lines = [
            "\n".join(" ".join(f"w{id_}" for id_ in sentence) for sentence in document)
            for document in documents
        ]
        text.write_text("\n\n".join(lines))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # that it will go
            dataset = TextDatasetForNextSentencePrediction(
                BertTokenizer(vocabulary), str(text), block, short_seq_probability=short_rate
            )
    assert dataset.documents == documents, "read as written"
    dataset.documents = documents * copies
    found = []
    for number, document in enumerate(dataset.documents):
        dataset.examples = []
        dataset.create_examples_from_document(document, number, block)
        found.append([_pair(example) for example in dataset.examples])
    return found


def _pair(example: Any) -> Pair:
    ids, label = example["input_ids"].tolist(), int(example["next_sentence_label"])
    middle = ids.index(IDS["sep"])
    assert sum(example["token_type_ids"].tolist()) == len(ids) - middle - 1, "B and its SEP"
    return Pair(label, tuple(ids[1:middle]), tuple(ids[middle + 1 : -1]))


def ours(documents: list[Document], copies: int, *, block: int, short_rate: float) -> list[list[Pair]]:
    """Return the pairs of each document as ours makes them, of one shard."""
    config = NextSentence(short_rate=short_rate, mask=BARE)
    widths, rules = pair_widths(block), PairRules(short_rate, config.random_rate)
    texts = [[*(id_ for sentence in document for id_ in sentence), IDS["eos"]] for document in documents]
    ends = [np.cumsum([len(sentence) for sentence in document]).tolist() for document in documents]
    sentences = ragged_of([[*part[:-1], part[-1] + 1] for part in ends] * copies)
    lengths = np.array([len(text) for text in texts] * copies)
    key = Key(7, 0, 0, PairTag.CHUNKS)
    packed = pack_pairs(lengths, sentences, row_length=widths.stored, rules=rules, key=key)
    layout = packed.layout
    ids = np.full((layout.num_rows, widths.stored), IDS["pad"], np.uint16)
    segments = zip(
        layout.segment_rows().tolist(),
        *(part.tolist() for part in (layout.start, layout.length, layout.doc, layout.doc_offset)),
        strict=True,
    )
    for row, start, length, doc, offset in segments:
        ids[row, start : start + length] = texts[doc % len(texts)][offset : offset + length]
    names = ("row_ptr", "start", "length", "doc", "doc_offset")
    shard = WholeShard(
        ids, {name: getattr(layout, name) for name in names}, len(lengths), sentences=sentences
    )
    rows = StoredRows(
        ids,
        layout.row_ptr,
        layout.length.astype(np.int64),
        np.arange(layout.num_rows),
        seed=7,
        epoch=0,
        shard=0,
        room=packed.room,
    )
    columns = make_pairs(rows, config, VOCABULARY, widths, shard=shard)
    found: list[list[Pair]] = [[] for _ in lengths]
    for row, label, doc in zip(
        columns["input_ids"].tolist(),
        columns["next_sentence_label"].tolist(),
        layout.doc[layout.row_ptr[:-1]].tolist(),
        strict=True,
    ):
        first, *rest = (place for place, id_ in enumerate(row) if id_ == IDS["sep"])
        b = row[first + 1 : rest[0]] if rest else []
        found[doc].append(Pair(label, tuple(row[1:first]), tuple(b)))
    return found


MAKERS: tuple[tuple[str, Callable[..., list[list[Pair]]]], ...] = (
    ("transformers", theirs),
    ("ours", ours),
)


def compare_first(report: Report, number: int) -> None:
    """Compare the first pair of each document."""
    documents = documents_of([[1] * SENTENCES] * LENDERS)
    copies = -(-number // LENDERS)
    found = [
        [pairs[0] for pairs in make(documents, copies, block=FULL + ENDS, short_rate=0.1)]
        for _, make in MAKERS
    ]
    name = f"first pairs of sentences of one token, {FULL} at most"
    for (who, _), pairs in zip(MAKERS, found, strict=True):
        label = np.array([pair.label for pair in pairs])
        report.mean(f"{name}: {who} borrows", label, expected=ASKED)
        full = np.array([pair.tokens == FULL + ENDS for pair in pairs if not pair.label])
        report.mean(f"{name}: {who} not short", full, expected=1 - 0.1 * (FULL - 2) / (FULL - 1))
        cut = np.array([len(p.a) for p in pairs if not p.label and p.tokens == FULL + ENDS])
        report.mean(f"{name}: {who} cut of full rows", cut, expected=FULL / 2)
    own, borrowed = ([[p for p in pairs if p.label == label] for pairs in found] for label in (0, 1))
    report.compare(f"{name}: label", *(np.array([p.label for p in pairs]) for pairs in found))
    report.compare(f"{name}: target", *(np.array([p.tokens for p in pairs]) for pairs in own))
    for target in (FULL, FULL // 2):
        cuts = [np.array([len(p.a) for p in pairs if p.tokens == target + ENDS]) for pairs in own]
        report.compare(f"{name}: cut of {target}", *cuts)
    report.compare(f"{name}: cut if borrowed", *(np.array([len(p.a) for p in ps]) for ps in borrowed))
    begins = [np.array([pair.b[0] for pair in pairs]) - FIRST for pairs in borrowed]
    report.compare(f"{name}: lender", *(each // SENTENCES for each in begins))
    report.compare(f"{name}: first sentence borrowed", *(each % SENTENCES for each in begins))
    a, b = numbered(*([(p.label, len(p.a), len(p.b)) for p in pairs] for pairs in found))
    report.compare(f"{name}: label and both lengths", a, b)


def compare_chains(report: Report, number: int) -> None:
    """Compare all pairs of a document, one after the other."""
    for name, sizes, block in (
        ("documents of 1 to 6 sentences that fit a row", [[2] * k for k in range(1, 7)], 32),
        ("documents of 7 sentences, 3 a row", [[1] * 7] * 6, 3 + ENDS),
    ):
        documents = documents_of(sizes)
        copies = -(-number // len(documents))
        found = [make(documents, copies, block=block, short_rate=0.0) for _, make in MAKERS]
        for (who, _), chains in zip(MAKERS, found, strict=True):
            labels = np.array([chain[0].label for chain in chains])
            counts = np.array([len(sentences) for sentences in sizes * copies])
            report.mean(f"{name}: {who} borrows", labels[counts > 1], expected=ASKED)
            if 1 in counts:
                single = labels[counts == 1]
                report.mean(f"{name}: {who} borrows for one sentence", single, expected=1.0)
        a, b = numbered(
            *(
                [tuple((p.label, p.a, p.b[:0] if p.label else p.b) for p in chain) for chain in chains]
                for chains in found
            )
        )
        report.compare(f"{name}: all pairs", a, b)


def show_faults(report: Report) -> None:
    """Show what the code of transformers does, and that ours does not."""
    draws, block = np.random.default_rng(5), 64
    sizes = [draws.integers(3, 41, draws.integers(1, 12)).tolist() for _ in range(100)]
    for (who, make), holds in zip(MAKERS, (False, True), strict=True):
        chains = make(documents_of(sizes), 40, block=block, short_rate=0.1)
        pairs = [pair for chain in chains for pair in chain]
        longer = sum(pair.tokens > block for pair in pairs)
        fault = "ours" if holds else f"fault of {who}' code"
        report.say(
            f"{fault}: rows longer than a block of {block}",
            f"{longer:,} of n = {len(pairs):,}, longest {max(pair.tokens for pair in pairs)}",
            holds=(longer == 0) == holds,
        )
        share = float(np.mean([pair.label == 1 for pair in pairs]))
        over = f"{share:.4f} of n = {len(pairs):,}, for a single sentence has no other"
        report.say(f"{who}: borrowed halves", over, holds=share > ASKED)
    for (who, make), holds in zip(MAKERS, (False, True), strict=True):
        (pairs,) = make(documents_of([[1] * 20_000]), 1, block=FULL + ENDS, short_rate=0.1)
        false = sum(pair.label == 1 for pair in pairs)
        fault = "ours" if holds else f"fault of {who}' code"
        report.say(
            f"{fault}: a lone document's own text called another's",
            f"{false:,} of n = {len(pairs):,}",
            holds=(false == 0) == holds,
        )


def main() -> int:
    """Compare, show, and give the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--documents", type=int, default=100_000, metavar="N", help="of a law [default: 100,000]"
    )
    number, report = parser.parse_args().documents, Report()
    compare_first(report, number)
    compare_chains(report, number)
    show_faults(report)
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
