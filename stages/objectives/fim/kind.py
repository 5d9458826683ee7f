"""Filling in the middle, as the program knows it."""

import numpy as np

from stages.objectives.fim.characters import GROWTH as CHARACTER_GROWTH
from stages.objectives.fim.characters import check_text, fill_in_text
from stages.objectives.fim.config import FIM, GROWTH, fill_in_middle, fim_ids, restore_fim
from stages.objectives.fim.laws import count_fim, wrong_middles
from stages.objectives.kind import Draw, EpochDraws, Kind, MatchedRows
from stages.objectives.laws.rows import (
    BrokenLaws,
    covered_of,
    no_label_is_pad,
    segments,
    unshifted,
)
from stages.objectives.learning import NEXT_TOKENS
from stages.objectives.material import Material
from stages.objectives.rows import IGNORED, Columns, StoredRows, Widths
from stages.objectives.traits import Form, Questions, Traits
from stages.objectives.vocabulary import Vocabulary


def _traits(config: FIM) -> Traits:
    by_characters = config.level == "character"
    return Traits(
        "causal_within_document",
        "unshifted",
        growth=CHARACTER_GROWTH if by_characters else GROWTH,
        written_for="parts of the text are encoded anew by the tokenizer" if by_characters else "",
        takes_dialogues=False,
        sources=tuple(config.sources),
        encodes_text=by_characters,
    )


def _compiled() -> Draw[FIM]:
    from stages.objectives.fim import kernel  # noqa: PLC0415  # numba takes half a second

    return kernel.fill_in_middle


def _draw_with(
    rows: StoredRows,
    config: FIM,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    material: Material,
    plainly: bool,
) -> Columns:
    del plainly
    assert material.spelling is not None, config.level
    shard, spelling = material.shard, material.spelling
    return fill_in_text(rows, config, vocabulary, widths, shard=shard, spelling=spelling)


def _matches(
    rows: StoredRows, columns: Columns, config: FIM, vocabulary: Vocabulary, *, material: Material
) -> MatchedRows:
    """Compare bytes: parts that are encoded anew may be other tokens of the same text."""
    assert material.spelling is not None, config.level
    return check_text(rows, columns, vocabulary, material.spelling.pieces)


def _count(columns: Columns, config: FIM) -> dict[str, int]:
    """Count the segments that were to be transformed, and stayed plain."""
    del config
    return {"segments_without_room": int(columns["plain"].sum())}


def _laws(rows: StoredRows, columns: Columns, config: FIM, vocabulary: Vocabulary) -> BrokenLaws:
    yield from segments(rows, columns, whole=False)
    yield from no_label_is_pad(columns, vocabulary)
    yield from unshifted(rows, columns)
    if config.loss == "middle":
        yield "label_missing", wrong_middles(columns, fim_ids(vocabulary))
        return
    silent = np.isin(columns["input_ids"], fim_ids(vocabulary)[:3]) & (not config.train_on_sentinels)
    wanted = covered_of(rows, columns) & ~silent
    yield "label_missing", ((columns["labels"] != IGNORED) != wanted).any(axis=1)


FILL_IN_MIDDLE = Kind(
    config=FIM,
    traits=_traits,
    widths=lambda _, seq_len: Widths(seq_len, seq_len, seq_len),
    special_names=lambda _: ("fim_prefix", "fim_middle", "fim_suffix"),
    draw=fill_in_middle,
    compiled=_compiled,
    restore=restore_fim,
    learning=lambda _: NEXT_TOKENS.model_copy(update={"max_ids": 1024}),
    questions=lambda _: Questions(Form.NEXT, Form.MIDDLE),
    epoch_draws=EpochDraws(draw=_draw_with, matches=_matches, count=_count),
    laws=_laws,
    draws=count_fim,
    category="text-generation",
    mixes=True,
)
