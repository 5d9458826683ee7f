"""Prefix language modelling, as the program knows it."""

import numpy as np
from numpy.typing import NDArray

from stages.objectives.kind import Documents, Draw, Kind, LaidOutRows, MatchedRows
from stages.objectives.laws.rows import (
    BrokenLaws,
    covered_of,
    no_label_is_pad,
    segments,
    targets,
    unshifted,
)
from stages.objectives.laws.targets import count_prefixes
from stages.objectives.learning import PROMPTED_TOKENS, TARGET_TOKENS
from stages.objectives.prefix_lm.config import (
    PrefixLM,
    documents_keep_prompts,
    keeps_prompts,
    prefix_widths,
    restore_documents,
    restore_prefix_lm,
    split_documents,
    split_prefixes,
)
from stages.objectives.rows import (
    IGNORED,
    Columns,
    Restored,
    StoredRows,
    Widths,
    lengths_without_eos,
    segment_starts,
)
from stages.objectives.traits import TARGETS, Form, Questions, Traits
from stages.objectives.vocabulary import Vocabulary
from stages.packing.sections import prompt_lengths
from stages.packing.single import pack_single
from stages.store.manifest import PROMPT, Column


def _is_decoder_only(config: PrefixLM) -> bool:
    return config.architecture == "decoder_only"


def _attention(config: PrefixLM) -> str:
    if config.pack_documents:
        return "prefix_within_document"
    return "prefix" if _is_decoder_only(config) else "encoder_decoder"


def _traits(config: PrefixLM) -> Traits:
    return Traits(
        _attention(config),
        "unshifted" if _is_decoder_only(config) else TARGETS,
        single=not (config.pack_rows or config.pack_documents),
        sections=-1 if config.split == "source" else 0,
        takes_dialogues=config.split != "source",
        may_begin=_is_decoder_only(config),
        segment_prompts=config.split == "source" and config.pack_documents,
    )


def _draw(rows: StoredRows, config: PrefixLM, vocabulary: Vocabulary, widths: Widths) -> Columns:
    draw = split_documents if config.pack_documents else split_prefixes
    return _without_added_ends(rows, draw(rows, config, vocabulary, widths))


def _without_added_ends(rows: StoredRows, columns: Columns) -> Columns:
    """Return columns in which nobody is to say an end that closes a row and no document."""
    if rows.added_end is None:
        return columns
    labels = columns["labels"].copy()
    labels[rows.added_ends] = IGNORED
    return {**columns, "labels": labels}


def _compiled() -> Draw[PrefixLM]:
    from stages.objectives.prefix_lm import kernel  # noqa: PLC0415  # numba takes half a second

    def draw(rows: StoredRows, config: PrefixLM, vocabulary: Vocabulary, widths: Widths) -> Columns:
        split = kernel.split_documents if config.pack_documents else kernel.split_prefixes
        return _without_added_ends(rows, split(rows, config, vocabulary, widths))

    return draw


def _restore(columns: Columns, config: PrefixLM, vocabulary: Vocabulary) -> Restored:
    restore = restore_documents if config.pack_documents else restore_prefix_lm
    return restore(columns, config, vocabulary)


def _matches(
    rows: StoredRows, columns: Columns, config: PrefixLM, vocabulary: Vocabulary
) -> MatchedRows:
    """Compare tokens, and prefixes with the prompts that sources name."""
    counts = None if _is_decoder_only(config) else lengths_without_eos(rows, vocabulary.named("eos"))
    same = rows.match(_restore(columns, config, vocabulary), counts)
    if rows.segment_prompt is not None:
        same &= documents_keep_prompts(rows, columns)
    if rows.prompt is not None:
        same &= keeps_prompts(rows, columns, config, vocabulary)
    return same


def _laws(rows: StoredRows, columns: Columns, config: PrefixLM, vocabulary: Vocabulary) -> BrokenLaws:
    if not _is_decoder_only(config):
        yield from targets(rows, columns, vocabulary)
        return
    yield from segments(rows, columns)
    yield from no_label_is_pad(columns, vocabulary)
    yield from unshifted(rows, columns)
    covered = covered_of(rows, columns)
    if config.pack_documents:
        silent = columns["in_prefix"] != 0
        yield "prefix", _not_leading(rows, silent, covered)
    else:
        prefix, filled = columns["prefix_length"], np.count_nonzero(covered, axis=1)
        yield "prefix", (prefix < np.minimum(filled, 1)) | (prefix > filled)
        silent = np.arange(covered.shape[1]) < prefix[:, None]
    silent[rows.added_ends] = True
    yield "label_missing", ((columns["labels"] != IGNORED) != (covered & ~silent)).any(axis=1)


def _not_leading(
    rows: StoredRows, shown: NDArray[np.bool_], covered: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Say of which rows a prefix is not the first tokens of its document, one at least: (N,) bool."""
    opens = np.zeros(shown.shape, np.bool_)
    opens[segment_starts(rows)] = True
    wrong = (opens & ~shown) | (shown & ~covered)
    wrong[:, 1:] |= shown[:, 1:] & ~shown[:, :-1] & ~opens[:, 1:]
    return np.asarray(wrong.any(axis=1))


def _lay_out(documents: Documents, config: PrefixLM, widths: Widths) -> LaidOutRows | None:
    """Lay out documents whose sources name a target: a row for each, with the length of its prompt."""
    if config.split != "source" or config.pack_documents:
        return None
    assert documents.sections is not None
    layout = pack_single(documents.lengths, row_length=widths.stored)
    return LaidOutRows(layout, {PROMPT: prompt_lengths(layout, documents.sections)})


def _stored_columns(config: PrefixLM, widths: Widths) -> dict[str, Column]:
    del widths
    if config.split != "source" or config.pack_documents:
        return {}
    meaning = "tokens before the target that the source names; 0 if it names none"
    return {PROMPT: Column(dtype="<i4", shape=(), meaning=meaning)}


PREFIX_LM = Kind(
    config=PrefixLM,
    traits=_traits,
    widths=prefix_widths,
    special_names=lambda config: (config.mode_token,) if config.mode_token else (),
    draw=_draw,
    compiled=_compiled,
    restore=_restore,
    learning=lambda config: PROMPTED_TOKENS if _is_decoder_only(config) else TARGET_TOKENS,
    questions=lambda config: Questions(Form.PREFIX if _is_decoder_only(config) else Form.REST),
    matches=_matches,
    lay_out=_lay_out,
    stored_columns=_stored_columns,
    laws=_laws,
    draws=count_prefixes,
    category="text-generation",
    mixes=True,
)
