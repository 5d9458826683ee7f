"""Contrastive learning of views, as the program knows it."""

from stages.objectives.kind import Documents, Draw, Kind, LaidOutRows, MatchedRows
from stages.objectives.laws.rows import BrokenLaws, views
from stages.objectives.learning import LearningSettings
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.simcse.config import (
    SimCSE,
    check_views,
    make_views,
    restore_simcse,
    widths_of_views,
)
from stages.objectives.simcse.laws import count_simcse
from stages.objectives.traits import PAIRS, Questions, Traits
from stages.objectives.vocabulary import Vocabulary
from stages.packing.sections import pack_side_by_side


def _traits(config: SimCSE) -> Traits:
    return Traits(
        "bidirectional",
        PAIRS,
        dynamic=config.views == "cropped" and config.crop_ratio < 1.0,
        single=True,
        sections=config.num_views if config.from_source else 0,
        takes_dialogues=not config.from_source,
    )


def _compiled() -> Draw[SimCSE]:
    from stages.objectives.simcse import kernel  # noqa: PLC0415  # numba takes half a second

    return kernel.make_views


def _matches(rows: StoredRows, columns: Columns, config: SimCSE, vocabulary: Vocabulary) -> MatchedRows:
    """Compare views with rows: those that are cropped need not tell a whole row."""
    if config.views == "identical":
        return rows.match(restore_simcse(columns, config, vocabulary))
    return check_views(rows, columns, config, vocabulary)


def _laws(rows: StoredRows, columns: Columns, config: SimCSE, vocabulary: Vocabulary) -> BrokenLaws:
    del rows, config
    yield from views(columns, vocabulary)


def _lay_out(documents: Documents, config: SimCSE, widths: Widths) -> LaidOutRows | None:
    """Lay out documents that hold their views: a row for each, with a segment for each section."""
    if documents.sections is None:
        return None
    layout = pack_side_by_side(
        documents.lengths,
        documents.sections,
        count=config.num_views,
        row_length=widths.inputs,
        stored=widths.stored,
    )
    return LaidOutRows(layout, {})


SIMCSE = Kind(
    config=SimCSE,
    traits=_traits,
    widths=widths_of_views,
    special_names=lambda _: (),
    draw=make_views,
    compiled=_compiled,
    restore=restore_simcse,
    learning=lambda _: LearningSettings(labelled_tokens=2_000, learning_rate=2e-3, gated=False),
    questions=lambda _: Questions(),
    laws=_laws,
    draws=count_simcse,
    category="sentence-similarity",
    matches=_matches,
    lay_out=_lay_out,
)
