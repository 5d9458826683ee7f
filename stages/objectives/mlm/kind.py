"""Masked language modelling, as the program knows it."""

from stages.objectives.kind import Draw, Kind
from stages.objectives.laws.rows import BrokenLaws, masked, no_label_is_pad, segments
from stages.objectives.learning import MASKED_TOKENS
from stages.objectives.mlm.config import MaskedLM, Selection, mask_tokens, restore_mlm
from stages.objectives.mlm.laws import count_masks
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.traits import Form, Questions, Traits
from stages.objectives.vocabulary import Vocabulary


def needs_words(config: MaskedLM) -> bool:
    """Return whether masks need to know which ids begin a word."""
    return config.selection in (Selection.WHOLE_WORD, Selection.NGRAM)


def _compiled() -> Draw[MaskedLM]:
    from stages.objectives.mlm import kernel  # noqa: PLC0415  # numba takes half a second

    return kernel.mask_tokens


def _laws(rows: StoredRows, columns: Columns, config: MaskedLM, vocabulary: Vocabulary) -> BrokenLaws:
    del config
    yield from segments(rows, columns)
    yield from no_label_is_pad(columns, vocabulary)
    yield from masked(rows, columns, vocabulary)


MLM = Kind(
    config=MaskedLM,
    traits=lambda config: Traits(
        "bidirectional_within_document", "masked", words=needs_words(config), may_begin=True
    ),
    widths=lambda _, seq_len: Widths(seq_len, seq_len, seq_len),
    special_names=lambda _: ("mask",),
    draw=mask_tokens,
    compiled=_compiled,
    restore=restore_mlm,
    learning=lambda _: MASKED_TOKENS,
    questions=lambda _: Questions(Form.MASK, Form.MASK),
    laws=_laws,
    draws=count_masks,
    category="fill-mask",
    mixes=True,
)
