"""The kinds that draw rows by themselves: all but those that are put together of others."""

from typing import Never

from stages.objectives.bart.kind import DENOISING
from stages.objectives.clm.kind import CLM
from stages.objectives.electra.kind import ELECTRA
from stages.objectives.fim.kind import FILL_IN_MIDDLE
from stages.objectives.kind import Kind
from stages.objectives.mlm.kind import MLM
from stages.objectives.prefix_lm.kind import PREFIX_LM
from stages.objectives.sentence_pairs.kind import NEXT_SENTENCE, SENTENCE_ORDER
from stages.objectives.simcse.kind import SIMCSE
from stages.objectives.span_corruption.kind import SPAN_CORRUPTION

SIMPLE_KINDS: tuple[Kind[Never], ...] = (
    DENOISING,
    CLM,
    ELECTRA,
    FILL_IN_MIDDLE,
    MLM,
    NEXT_SENTENCE,
    PREFIX_LM,
    SIMCSE,
    SENTENCE_ORDER,
    SPAN_CORRUPTION,
)
"""A kind that is not here cannot be drawn; one with `mixes` may be a component of a mixture."""
