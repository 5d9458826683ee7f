"""UL2: a mixture of denoisers, one for each document copy.

    tokens       The quick brown fox jumps over
    R  (short)   [R] The <X> fox jumps <Y> </s>    ->  <X> quick brown <Y> over </s>
    X  (extreme) [X] The <X> jumps <Y> </s>        ->  <X> quick brown fox <Y> over </s>
    S  (rest)    [S] The quick brown </s>          ->  fox jumps over </s>

R and X are span corruption (span_corruption.py), S is prefix language modelling without a sentinel
(prefix_lm.py); a mode token, one id, stands before the inputs of each.

    preset   name        mean span  density  weight
    ul2      r_3_15      3          .15      1/7
             r_8_15      8          .15      1/7
             s           prefix     .25      1/7
             x_3_50      3          .5       1/7
             x_8_50      8          .5       1/7
             x_64_15     64         .15      1/7
             x_64_50     64         .5       1/7
    ul2r     s           prefix     .25      1/2
             r_3_15      3          .15      1/4
             x_32_50     32         .5       1/4

Which denoiser a document copy has is laid out, not drawn: a hash of the copy, 64 bits, chooses the first
one whose T(cumulative weight) lies above it, T(p) = floor(p 2**64). Copies of one denoiser are packed
together, and every epoch draws with the same one. A row draws as its denoiser defines, under the same
tags: it has one denoiser, so no draw is used twice.

x_64_15 has one span, at the end, in bodies of up to 636 tokens: there it is a prefix and its rest, with
a sentinel between. x_3_50 needs a sentinel for every six tokens of its bodies: 128 at inputs of 512.

Source: Tay et al. 2022, "UL2: unifying language learning paradigms", section 3.1.2 and table 1 (arXiv
2205.05131); equal weights as in its appendix's code. The table gives S a mean span of a quarter of the
text, while that code splits at a uniform place, a density of .5: `s_density` chooses. `ul2r`: Tay et al.
2022, "Transcending scaling laws with 0.1% extra compute", section 3 (arXiv 2210.11399), half S and a
quarter each R and X; its extreme spans have a mean of 32 tokens or a density of up to .5, x_32_50 both.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from stages.config import Config
from stages.objectives.components import (
    Restored,
    choose_by_weight,
    draw_by_component,
    restore_by_component,
)
from stages.objectives.prefix_lm import PrefixLM, prefix_widths, restore_prefix_lm, split_prefixes
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.span_corruption import (
    ModeToken,
    SpanCorruption,
    corrupt_spans,
    refuse_sentinels,
    restore_span_corruption,
    span_lengths,
)
from stages.objectives.vocabulary import Vocabulary

_Row = tuple[str, ModeToken, float | None, float, float]
_PRESETS: dict[str, tuple[_Row, ...]] = {
    "ul2": (
        ("r_3_15", "mode_r", 3.0, 0.15, 1.0),
        ("r_8_15", "mode_r", 8.0, 0.15, 1.0),
        ("s", "mode_s", None, 0.25, 1.0),
        ("x_3_50", "mode_x", 3.0, 0.5, 1.0),
        ("x_8_50", "mode_x", 8.0, 0.5, 1.0),
        ("x_64_15", "mode_x", 64.0, 0.15, 1.0),
        ("x_64_50", "mode_x", 64.0, 0.5, 1.0),
    ),
    "ul2r": (
        ("s", "mode_s", None, 0.25, 2.0),
        ("r_3_15", "mode_r", 3.0, 0.15, 1.0),
        ("x_32_50", "mode_x", 32.0, 0.5, 1.0),
    ),
}
"""Name, mode token, mean span (None: prefix), density and weight of each denoiser."""


class UL2(Config):
    """A mixture of denoisers."""

    kind: Literal["ul2"] = "ul2"
    """Names the objective."""
    preset: Literal["ul2", "ul2r"] = "ul2"
    """ul2 has the seven denoisers of its paper; ul2r the three that continue the training of a model."""
    weights: tuple[float, ...] | None = None
    """How likely each denoiser of the preset is, in its order and in any unit; by default as its paper
    has it."""
    mode_tokens: bool = True
    """Whether a mode token stands before the inputs."""
    s_density: float = Field(0.25, gt=0.0, le=0.5)
    """Mean share of the text that the prefix denoiser leaves to be said."""
    pack_rows: bool = False
    """Draw whole packed rows, several documents together; else each document has rows of its own."""

    @model_validator(mode="after")
    def _weights_are_of_the_preset(self) -> "UL2":
        names = [row[0] for row in _PRESETS[self.preset]]
        if self.weights is None:
            return self
        if len(self.weights) != len(names):
            raise ValueError(
                f"weights = {list(self.weights)}: preset = {self.preset!r} has {len(names)} denoisers,"
                f" {', '.join(names)}; give a weight for each"
            )
        if min(self.weights) < 0.0 or sum(self.weights) == 0.0:
            raise ValueError(
                f"weights = {list(self.weights)}: none may be negative, and one must be above 0"
            )
        return self


@dataclass(frozen=True)
class Denoiser:
    """One of a mixture."""

    name: str
    weight: float
    """Share of the document copies; those of a mixture sum to 1."""
    objective: SpanCorruption | PrefixLM


def denoisers(config: UL2) -> tuple[Denoiser, ...]:
    """Give the denoisers of a mixture; a row's component is its place among them."""
    preset = _PRESETS[config.preset]
    weights = _weights(config)
    found = []
    for (name, mode, mean, density, _), weight in zip(preset, weights, strict=True):
        token = mode if config.mode_tokens else None
        objective: SpanCorruption | PrefixLM
        if mean is None:
            objective = PrefixLM(
                architecture="encoder_decoder",
                target_density=config.s_density,
                mode_token=token,
                pack_rows=config.pack_rows,
            )
        else:
            objective = SpanCorruption(
                noise_density=density,
                mean_noise_span_length=mean,
                mode_token=token,
                pack_rows=config.pack_rows,
            )
        found.append(Denoiser(name, weight / sum(weights), objective))
    return tuple(found)


def widths_by_denoiser(config: UL2, seq_len: int) -> tuple[Widths, ...]:
    """Give the widths of each denoiser: `stored` bounds the rows that are packed for it.

    Raises:
        ConfigError: inputs are too short for one of them.
    """
    return tuple(
        prefix_widths(each.objective, seq_len)
        if isinstance(each.objective, PrefixLM)
        else span_lengths(each.objective, seq_len)
        for each in denoisers(config)
    )


def widths_ul2(config: UL2, seq_len: int) -> Widths:
    """Give the widths that hold the rows of every denoiser.

    ul2 of 512 -> stored 1004, inputs 512, labels 512

    Raises:
        ConfigError: inputs are too short for one of them.
    """
    each = widths_by_denoiser(config, seq_len)
    return Widths(max(w.stored for w in each), seq_len, max(w.labels for w in each))


def refuse_sentinels_ul2(config: UL2, seq_len: int, num_sentinels: int) -> None:
    """Refuse rows with more spans than the tokenizer has sentinels, whichever denoiser has them.

    Raises:
        ConfigError: says how many spans there are, and what fits.
    """
    for each in denoisers(config):
        if isinstance(each.objective, SpanCorruption):
            refuse_sentinels(each.objective, seq_len, num_sentinels)


def choose_denoiser(hashed: int, config: UL2) -> int:
    """Give the denoiser of a document copy by its hash below 2**64, as likely as its weight."""
    return choose_by_weight(hashed, _weights(config))


def _weights(config: UL2) -> tuple[float, ...]:
    return config.weights or tuple(row[-1] for row in _PRESETS[config.preset])


Corrupt = Callable[[StoredRows, SpanCorruption, Vocabulary, Widths], Columns]
Split = Callable[[StoredRows, PrefixLM, Vocabulary, Widths], Columns]


def corrupt_ul2(rows: StoredRows, config: UL2, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Give the columns of an encoder-decoder and `objective_id` (N,) int32, each row by its denoiser.

    Raises:
        FormatError: a row of no denoiser, or one that its denoiser refuses.
    """
    return by_component(rows, config, vocabulary, widths, (corrupt_spans, split_prefixes))


def by_component(
    rows: StoredRows,
    config: UL2,
    vocabulary: Vocabulary,
    widths: Widths,
    ways: tuple[Corrupt, Split],
) -> Columns:
    """Give each row's columns by its denoiser, with these ways to corrupt spans and to split prefixes.

    Raises:
        FormatError: a row of no denoiser, or one that its denoiser refuses.
    """
    corrupt, split = ways
    mixture = denoisers(config)

    def draw(component: int, some: StoredRows) -> Columns:
        objective = mixture[component].objective
        if isinstance(objective, PrefixLM):
            return split(some, objective, vocabulary, widths)
        return corrupt(some, objective, vocabulary, widths)

    return draw_by_component(rows, len(mixture), draw)


def restore_ul2(
    columns: Columns, config: UL2, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Give the bodies of the rows back, each by the denoiser that `objective_id` names.

    Returns:
        (N, W) ids, padded, and (N,) int64 lengths; an EOS that ended a stored row is not among them.
    """
    mixture = denoisers(config)

    def restore(component: int, some: Columns) -> Restored:
        objective = mixture[component].objective
        if isinstance(objective, PrefixLM):
            return restore_prefix_lm(some, objective, vocabulary)
        return restore_span_corruption(some, objective, vocabulary)

    return restore_by_component(columns, len(mixture), restore, pad=vocabulary.named("pad"))
