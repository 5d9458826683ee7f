"""Prefix language modelling: given the beginning of a text, say the rest.

    tokens           The  quick  brown  fox  jumps </s>       a prefix of 2 tokens
    decoder only
      input_ids      The  quick  brown  fox  jumps </s>  .    attention both ways within the prefix
      labels          .     .    brown  fox  jumps </s>  .    unshifted; . is -100
      prefix_length  2
    encoder-decoder
      inputs         The  quick  </s>                         seq2seq.py: the columns
      targets        brown  fox  jumps  </s>

Of n tokens, the first k are the prefix. Its length is drawn when rows are read, another for each epoch,
as a function of (seed, epoch, shard, row):

    k   tag 12, draw 0: s + floor(u (n - s) / 2**64), one of s .. n - 1
    s   max(1, R((1 - 2 target_density) (n - 1)))

R rounds to the nearest integer, halves to the even one, of a product in IEEE double. So the targets are
`target_density` of the tokens on average. The tokens are the row's own, an EOS at its end included, for
a decoder alone; for an encoder-decoder they are its body, less that EOS: inputs and targets have one
each, and no sentinel stands between. Of fewer than two tokens nothing is drawn: all are prefix,
and there is no label.

Rows of `pack_documents` hold several such texts, each split by itself, as the last part says.

With split = "source" nothing is drawn of a document whose source names its target: k is where that
begins. A document too long for a row is cut as ever: a part of its prompt alone has no label, and one
of its target alone has a prefix of one token.

Source: Raffel et al. 2020, section 3.2.3 (arXiv 1910.10683), with the lengths of its code
(`random_prefix_noise_mask` of t5.data.preprocessors), which rounds in float32.

Prefix language modelling of packed rows: each document of a row has a prefix and a rest of its own.

    tokens         How many ? Two </s>  Who ? Me </s>  .       two documents, prefixes of 3 and 2 tokens
    in_prefix       1   1   1  0   0     1  1  0   0   0       attention both ways within each prefix
    labels          .   .   . Two </s>   .  . Me </s>  .       unshifted; . is -100

No token sees another document, and the first token of each has no label, so that no label is predicted
across a border. Of a segment of n tokens the first k are the prefix:

    k   what its source names, if it names a target; else what the first part draws for a row of n
        tokens, by tag 12, draw s for segment s of the row, from 0

A document that is cut into rows is a segment in each: one within the prompt has no label, one behind it
has a prefix of one token.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from stages.errors import ConfigError
from stages.objectives.rows import (
    IGNORED,
    Columns,
    Restored,
    StoredRows,
    Widths,
    lengths_without_eos,
    segment_starts,
)
from stages.objectives.seq2seq import columns_of, ids_without_ends, refuse_overflow, rows_in_order
from stages.objectives.span_corruption.config import ModeToken
from stages.objectives.traits import Objective
from stages.objectives.vocabulary import Vocabulary
from stages.seeding import Tag, draw_u64, scale

_SMALLEST = 2
"""Tokens of the shortest text that has a prefix and a rest."""


class PrefixTag(Tag):
    """What the draws of prefixes are for."""

    LENGTH = 12
    """Where a prefix ends."""


class PrefixLM(Objective):
    """Prefix language modelling."""

    kind: Literal["prefix_lm"] = "prefix_lm"
    """Names the objective."""
    architecture: Literal["decoder_only", "encoder_decoder"] = "decoder_only"
    """`decoder_only` keeps a row together, with attention in both directions inside its prefix.
    `encoder_decoder` makes inputs of the prefix and targets of the rest."""
    target_density: float = Field(0.5, gt=0.0, le=0.5)
    """Mean share of the tokens after the prefix; the prefix has at least 1 - 2 target_density."""
    mode_token: ModeToken | None = None
    """Put before the inputs of an encoder-decoder; none by default."""
    pack_rows: bool = False
    """Split packed rows, which hold several documents. Without it, each document has its own rows."""
    pack_documents: bool = False
    """Pack several documents into a row. They do not see each other, and each has its own prefix. Only
    with `architecture = "decoder_only"`."""
    split: Literal["drawn", "source"] = "drawn"
    """With `drawn`, each epoch draws the length of the prefix. With `source`, the last section is the
    target and the sections before it are the prompt, in sources with `section_columns`. For documents of
    other sources the length is drawn."""

    @model_validator(mode="after")
    def _mode_token_has_inputs(self) -> "PrefixLM":
        if self.mode_token and self.architecture == "decoder_only":
            raise ValueError(
                f"mode_token = {self.mode_token!r}: rows of architecture = 'decoder_only' stay as they"
                " are; leave it out, or set architecture to 'encoder_decoder'"
            )
        return self

    @model_validator(mode="after")
    def _a_split_has_rows_of_its_own(self) -> "PrefixLM":
        if self.split == "source" and self.pack_rows:
            raise ValueError(
                "pack_rows = true: a packed row holds several prompts and targets; set pack_documents"
                " instead, or split to 'drawn'"
            )
        return self

    @model_validator(mode="after")
    def _documents_are_packed_in_one_way(self) -> "PrefixLM":
        if self.pack_documents and self.pack_rows:
            raise ValueError(
                "pack_documents = true: pack_rows splits the row as a whole, pack_documents each of its"
                " documents; leave out one of them"
            )
        if self.pack_documents and self.architecture != "decoder_only":
            raise ValueError(
                "pack_documents = true: inputs and targets of an encoder-decoder are one document's;"
                " leave it out, or set architecture to 'decoder_only'"
            )
        return self


def shortest_prefixes(n: NDArray[np.int64], config: PrefixLM) -> NDArray[np.int64]:
    """Return the least prefix of texts of n tokens, n at least 2.

    [2 3 512] at target_density 0.25 -> [1 1 256]
    """
    share = 1.0 - 2.0 * config.target_density
    shortest: NDArray[np.int64] = np.maximum(np.rint(share * (n - 1)).astype(np.int64), 1)
    return shortest


def prefix_widths(config: PrefixLM, seq_len: int) -> Widths:
    """Return the widths for inputs of `seq_len` tokens; every row of `stored` tokens fits.

    encoder_decoder of 512 -> stored 512, inputs 512, labels 512; with a mode token 511, 512, 511

    Raises:
        ConfigError: not even two tokens fit.
    """
    if config.architecture == "decoder_only":
        return Widths(seq_len, seq_len, seq_len)
    body = seq_len - (config.mode_token is not None)
    if body < _SMALLEST:
        raise ConfigError(
            f"seq_len = {seq_len:,}: inputs of prefix_lm take at least"
            f" {seq_len - body + _SMALLEST} tokens, EOS included; raise it"
        )
    least = 1 if config.split == "source" else int(shortest_prefixes(np.array([body]), config)[0])
    longest = body - least
    return Widths(stored=body, inputs=seq_len, labels=longest + 1)


def split_prefixes(
    rows: StoredRows, config: PrefixLM, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the columns of rows as they are stored.

    Returns:
        decoder_only: `input_ids` (N, L) as stored, `labels` (N, L) and `prefix_length` (N,) int32;
        encoder_decoder: those of `seq2seq.columns_of`.

    Raises:
        FormatError: a row that does not fit its columns.
    """
    n = split_lengths(rows, config, vocabulary, widths)
    prefix = with_prompts(rows.prompt, n, _prefixes(rows, n, config))
    if config.architecture == "decoder_only":
        position = np.arange(rows.input_ids.shape[1])
        said = (position >= prefix[:, None]) & (position < n[:, None])
        return {
            "input_ids": rows.input_ids,
            "labels": np.where(said, rows.input_ids.astype(np.int32), np.int32(IGNORED)),
            "prefix_length": prefix.astype(np.int32),
        }
    first = [vocabulary.named(config.mode_token)] if config.mode_token else []
    eos = [vocabulary.named("eos")]
    pairs = []
    for body, end, length in zip(rows.input_ids.astype(np.int64), prefix, n, strict=True):
        rest = [*body[end:length], *eos] if end < length else []
        pairs.append((np.array([*first, *body[:end], *eos]), np.array(rest, np.int64)))
    return columns_of(pairs, dtype=rows.input_ids.dtype, widths=widths, vocabulary=vocabulary)


def split_lengths(
    rows: StoredRows, config: PrefixLM, vocabulary: Vocabulary, widths: Widths
) -> NDArray[np.int64]:
    """Return how many tokens of each row are split: (N,) int64.

    Raises:
        FormatError: a row that does not fit its columns, whatever its prefix.
    """
    if config.architecture == "decoder_only":
        return rows.filled
    n = lengths_without_eos(rows, vocabulary.named("eos"))
    split = n >= _SMALLEST
    shortest = with_prompts(rows.prompt, n, shortest_prefixes(n, config))
    split &= shortest < n
    inputs = np.where(split, n, n + 1) + (config.mode_token is not None)
    targets = np.where(split, n - shortest + 1, 0)
    refuse_overflow(inputs, targets, widths=widths, numbers=rows.numbers)
    return n


def with_prompts(
    prompt: NDArray[np.int32] | None, n: NDArray[np.int64], drawn: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the prefixes of texts of n tokens: those that their sources name, else those drawn."""
    if prompt is None:
        return drawn
    named = np.minimum(prompt.astype(np.int64), n)
    return np.where(prompt > 0, named, drawn)


def _prefixes(rows: StoredRows, n: NDArray[np.int64], config: PrefixLM) -> NDArray[np.int64]:
    """Return the length of each row's prefix."""
    shortest = shortest_prefixes(n, config)
    draws = draw_u64(rows.key(PrefixTag.LENGTH), rows.numbers.astype(np.uint64))[:, 0]
    prefix = n.copy()
    for row in np.flatnonzero(n >= _SMALLEST):
        prefix[row] = shortest[row] + scale(draws[row : row + 1], int(n[row] - shortest[row]))[0]
    return prefix


def keeps_prompts(
    rows: StoredRows, columns: Columns, config: PrefixLM, vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Say of which rows the prefix is the prompt that their source names, if it names one: (N,) bool."""
    assert rows.prompt is not None
    if config.architecture == "decoder_only":
        shown, longest = columns["prefix_length"], rows.filled
    else:
        ends = 1 + (config.mode_token is not None)
        shown, longest = (
            columns["input_length"] - ends,
            lengths_without_eos(rows, vocabulary.named("eos")),
        )
    kept: NDArray[np.bool_] = (rows.prompt == 0) | (shown == np.minimum(rows.prompt, longest))
    return kept


def unsaid_ends(learned: NDArray[np.bool_], columns: Columns) -> NDArray[np.bool_]:
    """Return where the last token of a row is neither prefix nor to be said: (N, L) bool.

    Such an end closes a row that is framed, and no document.

    Args:
        learned: where a prefix or a label stands.
        columns: of which `segment_ids`, if they are there, say how far a row is filled.
    """
    own = columns.get("segment_ids")
    if own is None:
        return np.zeros_like(learned)
    filled = np.count_nonzero(own >= 0, axis=1)
    is_last: NDArray[np.bool_] = np.arange(learned.shape[1]) == filled[:, None] - 1
    return is_last & ~learned


def restore_prefix_lm(
    columns: Columns, config: PrefixLM, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Return the rows' tokens back: the prefix as it is shown, the rest as it is to be said.

    Returns:
        (N, W) ids, padded, and (N,) int64 lengths; of an encoder-decoder an EOS that ended a stored row
        is not among them.
    """
    labels, pad = columns["labels"], vocabulary.named("pad")
    if config.architecture == "decoder_only":
        shown = np.arange(labels.shape[1]) < columns["prefix_length"][:, None]
        said = labels != IGNORED
        added = unsaid_ends(said | shown, columns)
        ids = np.where(said, labels, np.where(shown | added, columns["input_ids"], pad))
        lengths = columns["prefix_length"] + np.count_nonzero(said | added, axis=1)
        return ids.astype(columns["input_ids"].dtype), lengths.astype(np.int64)
    eos = vocabulary.named("eos")
    first = vocabulary.named(config.mode_token) if config.mode_token else None
    inputs = columns["input_ids"].astype(np.int32)
    before = ids_without_ends(inputs, columns["input_length"], eos=eos, first=first)
    after = ids_without_ends(labels, columns["label_length"], eos=eos)
    counts = np.stack([np.count_nonzero(each, axis=1) for each in (before, after)])
    values = np.concatenate([inputs[before], labels[after]])
    return rows_in_order(
        values.astype(columns["input_ids"].dtype),
        counts,
        np.repeat([0, 1], counts.sum(axis=1)),
        pad=pad,
    )


def split_documents(
    rows: StoredRows, config: PrefixLM, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Return the columns of packed rows, plainly.

    Returns:
        `input_ids` (N, L) as stored, `labels` (N, L) int32 and `in_prefix` (N, L) bool.
    """
    del vocabulary, widths
    row, start = segment_starts(rows)
    n = rows.segment_length
    prefix = with_prompts(rows.segment_prompt, n, _drawn_prefixes(rows, config))
    said = _marked(rows, row, start + prefix, n - prefix)
    return {
        "input_ids": rows.input_ids,
        "labels": np.where(said, rows.input_ids.astype(np.int32), np.int32(IGNORED)),
        "in_prefix": _marked(rows, row, start, prefix),
    }


def _drawn_prefixes(rows: StoredRows, config: PrefixLM) -> NDArray[np.int64]:
    """Return the length of each segment's prefix, as it is drawn: (S,)."""
    counts, n = np.diff(rows.segment_ptr), rows.segment_length
    within = np.arange(len(n)) - np.repeat(rows.segment_ptr[:-1], counts)
    numbers = np.repeat(rows.numbers, counts).astype(np.uint64)
    blocks = draw_u64(
        rows.key(PrefixTag.LENGTH), numbers, block=within.astype(np.uint64) // np.uint64(2)
    )
    draws = blocks[np.arange(len(n)), within % 2]
    shortest, prefix = shortest_prefixes(n, config), n.copy()
    for one in np.flatnonzero(n >= _SMALLEST):
        prefix[one] = shortest[one] + scale(draws[one : one + 1], int(n[one] - shortest[one]))[0]
    return prefix


def _marked(
    rows: StoredRows, row: NDArray[np.int64], start: NDArray[np.int64], length: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return where runs of tokens stand: (N, L) bool."""
    count, width = rows.input_ids.shape
    changes = np.zeros((count, width + 1), np.int64)
    np.add.at(changes, (row, start), 1)
    np.add.at(changes, (row, start + length), -1)
    return np.asarray(changes.cumsum(axis=1)[:, :width] > 0)


def prefixes_shown(rows: StoredRows, columns: Columns) -> NDArray[np.int64]:
    """Return how many tokens of each segment are shown as its prefix: (S,)."""
    row, start = segment_starts(rows)
    begin = row * rows.input_ids.shape[1] + start
    sums = np.concatenate([[0], np.cumsum(columns["in_prefix"] != 0)])
    shown: NDArray[np.int64] = sums[begin + rows.segment_length] - sums[begin]
    return shown


def documents_keep_prompts(rows: StoredRows, columns: Columns) -> NDArray[np.bool_]:
    """Say of which rows each prefix is the prompt that its source names, if it names one: (N,) bool."""
    assert rows.segment_prompt is not None
    named = np.minimum(rows.segment_prompt, rows.segment_length)
    wrong = (rows.segment_prompt > 0) & (prefixes_shown(rows, columns) != named)
    row, _ = segment_starts(rows)
    return np.asarray(np.bincount(row[wrong], minlength=len(rows.numbers)) == 0)


def restore_documents(columns: Columns, config: PrefixLM, vocabulary: Vocabulary) -> Restored:
    """Return the rows' tokens back: prefixes as they are shown, the rest as it is to be said."""
    del config
    labels, shown = columns["labels"], columns["in_prefix"] != 0
    said = labels != IGNORED
    shown |= unsaid_ends(said | shown, columns)
    ids = np.where(said, labels, np.where(shown, columns["input_ids"], vocabulary.named("pad")))
    lengths = np.count_nonzero(said | shown, axis=1)
    return ids.astype(columns["input_ids"].dtype), lengths.astype(np.int64)
