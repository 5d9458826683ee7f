"""Replaced token detection, as the program knows it."""

import numpy as np

from stages.objectives.electra.config import Generator, ReplacedTokens, replace_tokens, restore_electra
from stages.objectives.electra.generated import replace_by_model
from stages.objectives.kind import Draw, EpochDraws, Kind, MatchedRows
from stages.objectives.laws.rows import BrokenLaws, replaced, segments
from stages.objectives.learning import LearningSettings
from stages.objectives.material import Material
from stages.objectives.mlm.config import select_positions
from stages.objectives.mlm.laws import count_electra
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.traits import Questions, Traits
from stages.objectives.vocabulary import Vocabulary

_REPLACED = LearningSettings(max_ids=1024, labelled_tokens=100_000, learning_rate=5e-3, min_gain=0.03)
_LIKELY = _REPLACED.model_copy(update={"gated": False})
"""Of replacements that are frequent ids or a model's: minutes teach a tiny model too little of them
(gains of 0.004 to 0.023 nats over 5 seeds)."""


def _traits(config: ReplacedTokens) -> Traits:
    return Traits(
        "bidirectional_within_document",
        "replaced",
        unigram=config.generator is Generator.UNIGRAM,
        written_for="a model draws the replacements" if config.model else "",
        model=config.model or "",
        may_begin=True,
    )


def _compiled() -> Draw[ReplacedTokens]:
    from stages.objectives.electra import kernel  # noqa: PLC0415  # numba takes half a second

    return kernel.replace_tokens


def _draw_with(
    rows: StoredRows,
    config: ReplacedTokens,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    material: Material,
    plainly: bool,
) -> Columns:
    del widths, plainly
    assert material.generate is not None, config.model
    return replace_by_model(rows, config, vocabulary, generate=material.generate)


def _matches(
    rows: StoredRows,
    columns: Columns,
    config: ReplacedTokens,
    vocabulary: Vocabulary,
    *,
    material: Material,
) -> MatchedRows:
    """Compare what a model drew: at the positions drawn, told by the labels, and no special id."""
    del material
    differ = columns["input_ids"] != columns["original_ids"]
    selected = np.zeros(differ.shape, np.bool_)
    selected[select_positions(rows, config, vocabulary)] = True
    right = np.where(rows.covered, differ, IGNORED) == columns["labels"]
    right &= (columns["selected"] != 0) == selected
    right &= selected | ~differ
    right &= ~(differ & vocabulary.special(columns["input_ids"]))
    return np.asarray(right.all(axis=1)) & rows.match(restore_electra(columns, config, vocabulary))


def _laws(
    rows: StoredRows, columns: Columns, config: ReplacedTokens, vocabulary: Vocabulary
) -> BrokenLaws:
    del config
    yield from segments(rows, columns)
    yield from replaced(rows, columns, vocabulary)


ELECTRA = Kind(
    config=ReplacedTokens,
    traits=_traits,
    widths=lambda _, seq_len: Widths(seq_len, seq_len, seq_len),
    special_names=lambda config: ("mask",) if config.generator is Generator.MODEL else (),
    draw=replace_tokens,
    compiled=_compiled,
    restore=restore_electra,
    learning=lambda config: _REPLACED if config.generator is Generator.UNIFORM else _LIKELY,
    questions=lambda _: Questions(),
    epoch_draws=EpochDraws(draw=_draw_with, matches=_matches),
    laws=_laws,
    draws=count_electra,
    category="fill-mask",
    mixes=True,
)
