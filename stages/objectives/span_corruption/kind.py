"""Span corruption, as the program knows it."""

from stages.objectives.kind import Draw, Kind
from stages.objectives.laws.rows import BrokenLaws, targets
from stages.objectives.laws.targets import count_spans
from stages.objectives.learning import TARGET_TOKENS
from stages.objectives.rows import Columns, StoredRows
from stages.objectives.span_corruption.config import (
    SpanCorruption,
    corrupt_spans,
    refuse_sentinels,
    restore_span_corruption,
    span_lengths,
)
from stages.objectives.traits import TARGETS, Form, Questions, Traits
from stages.objectives.vocabulary import Vocabulary


def _special_names(config: SpanCorruption) -> tuple[str, ...]:
    """Name the first sentinel: of how many there must be `refuse` knows."""
    return ("sentinel_0", *([config.mode_token] if config.mode_token else []))


def _compiled() -> Draw[SpanCorruption]:
    from stages.objectives.span_corruption import kernel  # noqa: PLC0415  # numba takes half a second

    return kernel.corrupt_spans


def _laws(
    rows: StoredRows, columns: Columns, config: SpanCorruption, vocabulary: Vocabulary
) -> BrokenLaws:
    del config
    yield from targets(rows, columns, vocabulary)


SPAN_CORRUPTION = Kind(
    config=SpanCorruption,
    traits=lambda config: Traits("encoder_decoder", TARGETS, single=not config.pack_rows),
    widths=span_lengths,
    special_names=_special_names,
    draw=corrupt_spans,
    compiled=_compiled,
    restore=restore_span_corruption,
    learning=lambda _: TARGET_TOKENS,
    questions=lambda _: Questions(Form.SPAN, Form.SPAN),
    refuse=refuse_sentinels,
    laws=_laws,
    draws=count_spans,
    category="text-generation",
    mixes=True,
)
