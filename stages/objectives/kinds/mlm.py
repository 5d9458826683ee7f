"""Masked language modelling, as the program knows it."""

from collections.abc import Iterator

from stages.objectives.kind import Draw, Kind
from stages.objectives.laws.chance import Lot
from stages.objectives.laws.masks import MaskTally
from stages.objectives.laws.rows import Broken, masked, no_label_is_pad, segments
from stages.objectives.learning import MASKED_TOKENS
from stages.objectives.mlm import MaskedLM, Selection, mask_tokens, restore_mlm
from stages.objectives.questions import Form, Questions
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.traits import Traits
from stages.objectives.vocabulary import Vocabulary


def needs_words(config: MaskedLM) -> bool:
    """Return whether masks need to know which ids begin a word."""
    return config.selection in (Selection.WHOLE_WORD, Selection.NGRAM)


def _compiled() -> Draw[MaskedLM]:
    from stages.objectives.kernels import mlm  # noqa: PLC0415  # numba takes half a second

    return mlm.mask_tokens


def _laws(rows: StoredRows, columns: Columns, config: MaskedLM, vocabulary: Vocabulary) -> Broken:
    del config
    yield from segments(rows, columns)
    yield from no_label_is_pad(columns, vocabulary)
    yield from masked(rows, columns, vocabulary)


def mask_lots(columns: Columns, config: MaskedLM, vocabulary: Vocabulary) -> Iterator[Lot]:
    """Return what labelled positions show, drawn by lot."""
    ids, labels = columns["input_ids"], columns["labels"]
    labelled, shows_mask = labels != IGNORED, ids == vocabulary.named("mask")
    yield Lot("labels show the mask", labelled & shows_mask, labelled, config.mask_share)
    other = config.random_share * (1 - 1 / len(vocabulary.ordinary))
    yield Lot("labels show another id", labelled & ~shows_mask & (ids != labels), labelled, other)


def _tally(config: MaskedLM, vocabulary: Vocabulary, convention: str) -> MaskTally | None:
    """Return the tally of positions that are selected alone, so that counts follow the binomial law."""
    del convention
    alone = config.selection in (Selection.BERNOULLI, Selection.EXACT)
    return MaskTally(config, vocabulary) if alone else None


MLM = Kind(
    config=MaskedLM,
    traits=lambda config: Traits("bidirectional_within_document", "masked", words=needs_words(config)),
    widths=lambda _, seq_len: Widths(seq_len, seq_len, seq_len),
    special_names=lambda _: ("mask",),
    draw=mask_tokens,
    compiled=_compiled,
    restore=restore_mlm,
    learning=lambda _: MASKED_TOKENS,
    questions=lambda _: Questions(Form.MASK, Form.MASK),
    laws=_laws,
    lots=mask_lots,
    tally=_tally,
    mixes=True,
)
