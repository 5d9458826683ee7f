"""BART's denoising, as the program knows it."""

from stages.objectives.bart.config import BART, add_noise, restore_bart, widths_bart
from stages.objectives.bart.permuted_sentences import permute_and_add_noise
from stages.objectives.kind import Draw, EpochDraws, Kind
from stages.objectives.laws.rows import BrokenLaws, targets
from stages.objectives.laws.targets import count_bart
from stages.objectives.learning import TARGET_TOKENS
from stages.objectives.material import Material
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.traits import TARGETS, Questions, Traits
from stages.objectives.vocabulary import Vocabulary


def _traits(config: BART) -> Traits:
    permuted = config.permute_probability > 0
    why = "sentences change places, and rows do not say where they end"
    return Traits(
        "encoder_decoder",
        TARGETS,
        single=not config.pack_rows,
        written_for=why if permuted else "",
        sentences=permuted,
        restates=True,
    )


def _compiled() -> Draw[BART]:
    from stages.objectives.bart import kernel  # noqa: PLC0415  # numba takes half a second

    return kernel.add_noise


def _draw_with(
    rows: StoredRows,
    config: BART,
    vocabulary: Vocabulary,
    widths: Widths,
    *,
    material: Material,
    plainly: bool,
) -> Columns:
    noise = DENOISING.drawn_by(plainly=plainly)
    return permute_and_add_noise(rows, config, vocabulary, widths, shard=material.shard, add_noise=noise)


def _laws(rows: StoredRows, columns: Columns, config: BART, vocabulary: Vocabulary) -> BrokenLaws:
    del config
    yield from targets(rows, columns, vocabulary)


DENOISING = Kind(
    config=BART,
    traits=_traits,
    widths=widths_bart,
    special_names=lambda _: ("bos", "mask"),
    draw=add_noise,
    compiled=_compiled,
    restore=restore_bart,
    learning=lambda _: TARGET_TOKENS.model_copy(update={"gated": False}),
    questions=lambda _: Questions(),
    epoch_draws=EpochDraws(draw=_draw_with),
    laws=_laws,
    draws=count_bart,
    category="text-generation",
    mixes=True,
)
