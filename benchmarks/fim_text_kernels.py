"""The contest of fill in the middle between characters, against decode, split, encode by documents."""

from functools import partial

import numpy as np
import sentencepiece
from contest_material import MEGA, Material
from contests import Contest, Way
from fim_kernels import LENGTH, packed
from numpy.typing import NDArray

from stages.objectives.fim.characters import GROWTH, Spelling, check_text, fill_in_text
from stages.objectives.fim.config import FIM
from stages.objectives.rows import StoredRows, Widths
from stages.objectives.vocabulary import vocabulary_of
from stages.objectives.whole_shard import WholeShard
from stages.tokenizer.encode import load_trained
from stages.tokenizer.special import special_ids


def infilling_text(material: Material) -> Contest:
    """Rows of documents of 300 tokens on average; half are transformed, half of those suffix first."""
    rows = packed(material.tokens, growth=GROWTH)
    tokenizer = load_trained(material.model)
    vocabulary = vocabulary_of(tokenizer.vocab_size, special_ids())
    encode = partial(tokenizer.verbatim().encode, dtype=rows.input_ids.dtype)
    spelling, shard = Spelling(tokenizer.codec.piece_bytes(), encode), shard_of(rows)
    widths, config, amount = (
        Widths(LENGTH, LENGTH, LENGTH),
        FIM(level="character"),
        rows.filled.sum() / MEGA,
    )
    fill = partial(fill_in_text, rows, config, vocabulary, widths, shard=shard, spelling=spelling)
    assert check_text(rows, fill(), vocabulary, spelling.pieces).all()
    processor = sentencepiece.SentencePieceProcessor(model_file=str(material.model))
    segments = [shard.segment(number) for number in range(len(rows.segment_length))]

    def encode_alone() -> list[list[int]]:
        found: list[list[int]] = processor.encode(halves, num_threads=1)
        return found

    halves = processor.decode([ids.tolist() for ids in segments[::2]])
    return Contest(
        "fill in the middle of text, rows of 1,024",
        "million tokens",
        Way("ours", fill, amount),
        [
            Way("decode, split, encode", lambda: permute_texts(segments, processor), amount),
            Way("limit: encoding half of the texts", encode_alone, amount),
        ],
    )


def shard_of(rows: StoredRows) -> WholeShard:
    """Return the shard that the rows are all of, a document for each segment."""
    counts = np.diff(rows.segment_ptr)
    ends = np.cumsum(rows.segment_length)
    row = np.repeat(np.arange(len(counts)), counts)
    first = np.concatenate([[0], ends])[rows.segment_ptr[:-1]]
    size = len(rows.segment_length)
    segments = {
        "row_ptr": rows.segment_ptr,
        "start": ends - rows.segment_length - first[row],
        "length": rows.segment_length,
        "doc": np.arange(size),
        "doc_offset": np.zeros(size, np.int64),
    }
    return WholeShard(rows.input_ids, segments, size)


def permute_texts(
    segments: list[NDArray[np.integer]], processor: sentencepiece.SentencePieceProcessor
) -> list[list[int]]:
    """Return the ids of documents in the manner of public loaders, which know nothing of rows."""
    state = np.random.RandomState(7)  # what these loaders use
    ids = special_ids()
    prefix, suffix, middle = (ids[f"fim_{name}"] for name in ("prefix", "suffix", "middle"))
    found = []
    for tokens in segments:
        if not state.binomial(1, 0.5):
            found.append(tokens.tolist())
            continue
        text = processor.decode(tokens.tolist())
        c1, c2 = sorted(state.randint(low=0, high=len(text) + 1, size=2))
        before, between, after = (processor.encode(part) for part in (text[:c1], text[c1:c2], text[c2:]))
        if state.binomial(1, 0.5):
            found.append([prefix, suffix, *after, middle, *before, *between, ids["eos"]])
        else:
            found.append([prefix, *before, suffix, *after, middle, *between, ids["eos"]])
    return found
