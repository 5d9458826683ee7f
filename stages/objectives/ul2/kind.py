"""UL2: a mixture of denoisers, one for each document copy.

    tokens       The quick brown fox jumps over
    R  (short)   [R] The <X> fox jumps <Y> </s>    ->  <X> quick brown <Y> over </s>
    X  (extreme) [X] The <X> jumps <Y> </s>        ->  <X> quick brown fox <Y> over </s>
    S  (rest)    [S] The quick brown </s>          ->  fox jumps over </s>

R and X are span corruption (`span_corruption/`), S is prefix language modelling without a sentinel
(`prefix_lm/`); a mode token, one id, stands before the inputs of each.

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

UL2's mixtures of denoisers, as the program knows them.
"""

from functools import cache
from typing import Literal

from pydantic import Field, model_validator

from stages.objectives.components import WeightedObjective
from stages.objectives.kind import Composite
from stages.objectives.prefix_lm.config import PrefixLM
from stages.objectives.span_corruption.config import ModeToken, SpanCorruption
from stages.objectives.traits import Form, Objective, Questions

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


class UL2(Objective):
    """A mixture of denoisers."""

    kind: Literal["ul2"] = "ul2"
    """Names the objective."""
    preset: Literal["ul2", "ul2r"] = "ul2"
    """ul2 has the seven denoisers of its paper; ul2r the three that continue the training of a model."""
    weights: tuple[float, ...] | None = None
    """How likely each denoiser of the preset is, in its order and in any unit; by default as its paper
    has it."""
    mode_tokens: bool = True
    """Whether the inputs begin with a mode token."""
    s_density: float = Field(0.25, gt=0.0, le=0.5)
    """Mean share of the text that the prefix denoiser leaves to be said."""
    pack_rows: bool = False
    """Draw packed rows, which hold several documents. Without it, each document has its own rows."""

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


@cache
def denoisers(config: UL2) -> tuple[WeightedObjective, ...]:
    """Return the denoisers of a mixture; a row's component is its place among them."""
    preset = _PRESETS[config.preset]
    weights = config.weights or tuple(row[-1] for row in preset)
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
        found.append(WeightedObjective(name, weight, objective))
    return tuple(found)


DENOISERS = Composite(
    config=UL2,
    components=denoisers,
    category="text-generation",
    questions=Questions(Form.SPAN, Form.SPAN),
)
