"""The kinds that draw rows by themselves: all but those that are put together of others."""

from typing import Never

from stages.objectives.kind import Kind
from stages.objectives.kinds.bart import DENOISING
from stages.objectives.kinds.clm import CLM
from stages.objectives.kinds.electra import ELECTRA
from stages.objectives.kinds.fim import FILL_IN_MIDDLE
from stages.objectives.kinds.mlm import MLM
from stages.objectives.kinds.prefix_lm import PREFIX_LM
from stages.objectives.kinds.sentence_pairs import NEXT_SENTENCE, SENTENCE_ORDER
from stages.objectives.kinds.simcse import SIMCSE
from stages.objectives.kinds.span_corruption import SPAN_CORRUPTION

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
