"""Causal language modelling, as the program knows it."""

import numpy as np

from stages.objectives.clm.config import CausalLM, label_causally
from stages.objectives.clm.laws import CausalTally
from stages.objectives.kind import Kind, nothing_drawn
from stages.objectives.laws.rows import BrokenLaws, no_label_is_pad, segments, unshifted
from stages.objectives.learning import NEXT_TOKENS, PROMPTED_TOKENS
from stages.objectives.rows import Columns, Restored, StoredRows, Widths
from stages.objectives.traits import Form, Questions, Traits
from stages.objectives.vocabulary import Vocabulary
from stages.store.manifest import LOSS_MASK, Column


def _traits(config: CausalLM) -> Traits:
    targets = config.loss == "targets"
    return Traits(
        "causal_within_document",
        "unshifted",
        dynamic=False,
        sections=-1 if targets else 0,
        loss_mask=targets,
        copied=not targets,
        unlabelled_starts=config.mask_first_token,
        eos_may_pad=True,
        may_begin=True,
        other_conventions=("shifted",),
    )


def _draw(rows: StoredRows, config: CausalLM, vocabulary: Vocabulary, widths: Widths) -> Columns:
    del vocabulary, widths
    return label_causally(rows, config)


def _restore(columns: Columns, config: CausalLM, vocabulary: Vocabulary) -> Restored:
    del config
    ids, pad = columns["input_ids"], vocabulary.named("pad")
    filled = columns["segment_ids"] >= 0 if pad == vocabulary.named("eos") else ids != pad
    return ids, np.count_nonzero(filled, axis=1)


def _laws(rows: StoredRows, columns: Columns, config: CausalLM, vocabulary: Vocabulary) -> BrokenLaws:
    del config
    yield from segments(rows, columns)
    yield from no_label_is_pad(columns, vocabulary)
    yield from unshifted(rows, columns)


def _stored_columns(config: CausalLM, widths: Widths) -> dict[str, Column]:
    if config.loss == "all":
        return {}
    meaning = "1 where a token has a loss, else 0"
    return {LOSS_MASK: Column(dtype="|u1", shape=(widths.stored,), meaning=meaning)}


CLM = Kind(
    config=CausalLM,
    traits=_traits,
    widths=lambda _, seq_len: Widths(seq_len, seq_len, seq_len),
    special_names=lambda _: (),
    draw=_draw,
    compiled=None,
    restore=_restore,
    learning=lambda config: NEXT_TOKENS if config.loss == "all" else PROMPTED_TOKENS,
    questions=lambda _: Questions(Form.NEXT),
    laws=_laws,
    draws=nothing_drawn,
    category="text-generation",
    stored_columns=_stored_columns,
    tally=CausalTally,
    mixes=True,
)
