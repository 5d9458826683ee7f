"""What the guarded paths work on: a few hundred kilobytes of the bundled corpus, in memory.

    web pages  ->  texts  ->  ids of a small BPE model, trained here  ->  rows of any objective

All of it follows from the corpus alone, so that each run of the guard does the same work.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import sentencepiece
from contest_material import EXAMPLES, ROW_LENGTH
from numpy.typing import NDArray

from pipeline.steps.shard.merge import MergedGroup, MixFlow
from stages.cleaning.text import clean_text
from stages.ledger import Tally, tally_of
from stages.objectives.rows import StoredRows, Widths
from stages.objectives.table import components_of, resolve
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary, vocabulary_of
from stages.packing.best_fit import pack_best_fit
from stages.packing.layout import Layout
from stages.packing.single import pack_single
from stages.reading.decompress import stream_chunks
from stages.reading.jsonl import parse_line
from stages.reading.lines import split_lines
from stages.reading.records import FieldMapping, LanguageColumn, RawDocument
from stages.store.token_store import TokenUnit
from stages.tokenizer.codec import Tokenizer
from stages.tokenizer.encode import trained_tokenizer
from stages.tokenizer.sampling import cut_parts
from stages.tokenizer.sentencepiece_model import SentencePieceModel
from stages.tokenizer.train import TrainConfig, train_model

PAGES = EXAMPLES / "corpus" / "text" / "web-pages-major.jsonl.zst"
FIELDS = FieldMapping(language=LanguageColumn(column="lang"))
MAX_LINE = 1 << 24
JSON_BYTES = 1 << 20
"""Size of the JSON lines, about."""
LANGUAGE_BYTES = 60_000
"""Text taken of each language."""
CHINESE = "zh"
SPACED = ("de", "en", "es", "fr", "hi", "pl", "ru", "tr")
MODEL = TrainConfig(vocab_size=4096, character_coverage=0.98)
MODEL_BYTES = 24_000
"""Text of each language that the model is trained on: a quarter of a second."""
ROWS = 256


@dataclass(frozen=True)
class GuardMaterial:
    """Small inputs of the guarded paths, each made when it is first asked for."""

    folder: Path
    """Where a small dataset may be written."""

    @cached_property
    def chunks(self) -> list[bytes]:
        """Part of the file of web pages, as JSON lines."""
        whole = b"".join(stream_chunks(PAGES))
        return [whole[: whole.index(b"\n", JSON_BYTES) + 1]]

    @cached_property
    def languages(self) -> dict[str, list[str]]:
        """The first texts of each language, cleaned."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        sizes: defaultdict[str, int] = defaultdict(int)
        for line in split_lines(stream_chunks(PAGES), max_bytes=MAX_LINE):
            document = parse_line(line, FIELDS)
            assert isinstance(document, RawDocument)
            if sizes[document.language] < LANGUAGE_BYTES:
                text = clean_text(document.text)
                found[document.language].append(text)
                sizes[document.language] += len(text.encode())
        return dict(found)

    @cached_property
    def spaced(self) -> list[str]:
        """Texts of languages that write spaces between words."""
        return [text for name in SPACED for text in self.languages[name]]

    @cached_property
    def chinese(self) -> list[str]:
        """Texts in Chinese."""
        return self.languages[CHINESE]

    @cached_property
    def texts(self) -> list[str]:
        """Texts of all languages."""
        return [text for name in sorted(self.languages) for text in self.languages[name]]

    @cached_property
    def model(self) -> SentencePieceModel:
        """A small BPE model of these texts."""
        parts = ["".join(texts)[:MODEL_BYTES] for _, texts in sorted(self.languages.items())]
        sample = [(piece, 1) for part in parts for piece in cut_parts(part)]
        return SentencePieceModel(train_model(sample, MODEL))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """That model, loaded."""
        return trained_tokenizer(sentencepiece.SentencePieceProcessor(model_proto=self.model.data))

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """Its ids as objectives need them."""
        tokenizer = self.tokenizer
        return vocabulary_of(tokenizer.vocab_size, tokenizer.special_ids, tokenizer.codec.word_starts())

    @cached_property
    def group(self) -> MergedGroup:
        """The texts as one group of the token store, in two units."""
        ids = [self._closed(row) for row in self.tokenizer.encode(self.texts)]
        lengths = np.array(list(map(len, ids)), np.int64)
        units, count = np.arange(len(ids)) % 2, len(ids)
        begins, stores = np.zeros(count, np.int64), []
        for unit in range(2):
            members = np.flatnonzero(units == unit)
            offsets = np.cumsum([0, *lengths[members]])
            begins[members] = offsets[:-1]
            held = np.concatenate([ids[number] for number in members])
            places = np.column_stack([offsets[:-1], offsets[1:]])
            stores.append(TokenUnit(self.folder, held, places, np.array([0, len(members)])))
        number = np.arange(count)
        names = np.zeros((count, 16), np.uint8)
        ranges = tuple((0, len(store.places)) for store in stores)
        mixed = MixFlow(tally_of(names, tokens=int(lengths.sum())), Tally(), Tally())
        copies = np.zeros(count, np.int32)
        return MergedGroup(
            0, (), tuple(stores), units, begins, lengths, names, number, number, copies, mixed, ranges
        )

    def _closed(self, ids: NDArray[np.integer]) -> NDArray[np.uint16]:
        return np.append(ids, self.tokenizer.eos).astype(np.uint16)

    def widths(self, objective: Objective) -> Widths:
        """Return how long the rows of an objective are."""
        return resolve(objective, ROW_LENGTH).widths

    def layout(self, objective: Objective) -> Layout:
        """Return the layout of the group as an objective's rows, all short enough for each component."""
        known = resolve(objective, ROW_LENGTH)
        length = min(part.widths.stored for part in known.parts or (known,))
        if known.traits.single:
            return pack_single(self.group.lengths, row_length=length)
        return pack_best_fit(self.group.lengths, row_length=length, growth=known.traits.growth)

    def rows(self, objective: Objective) -> StoredRows:
        """Return the first rows of an objective, as a shard stores them."""
        layout = self.layout(objective)
        ids = assembled(layout, self.group, pad=self.tokenizer.pad)
        parts = len(components_of(objective))
        number = np.arange(layout.num_rows)
        rows = StoredRows(
            ids,
            layout.row_ptr,
            layout.length.astype(np.int64),
            number,
            seed=7,
            epoch=0,
            shard=0,
            components=(number % parts).astype(np.uint8) if parts else None,
        )
        assert layout.num_rows >= ROWS
        return rows.take(np.arange(ROWS))


def assembled(layout: Layout, group: MergedGroup, *, pad: int) -> NDArray[np.uint16]:
    """Return the rows of a layout, (R, L)."""
    rows = np.full((layout.num_rows, layout.row_length), pad, np.uint16)
    group.copy(
        rows.reshape(-1),
        layout.doc,
        offsets=layout.doc_offset,
        places=layout.segment_rows() * layout.row_length + layout.start,
        lengths=layout.length,
    )
    return rows
