"""Special ids by objective: which of them its rows cannot do without, EOS and padding apart."""

from typing import assert_never

from stages.objectives.bart import BART
from stages.objectives.clm import CausalLM
from stages.objectives.electra import Generator, ReplacedTokens
from stages.objectives.fim import FIM
from stages.objectives.mixture import Mixture
from stages.objectives.mlm import MaskedLM
from stages.objectives.prefix_lm import PrefixLM
from stages.objectives.sentence_pairs import NextSentence, SentenceOrder
from stages.objectives.simcse import SimCSE
from stages.objectives.span_corruption import SpanCorruption
from stages.objectives.table import Objective, components_of
from stages.objectives.ul2 import UL2


def special_names(objective: Objective) -> tuple[str, ...]:  # noqa: PLR0911  # one for each kind
    """Name the special ids that an objective writes into its rows, some perhaps twice.

    mlm -> mask; span_corruption -> sentinel_0, of how many there must be `refuse_impossible` knows
    """
    match objective:
        case CausalLM() | SimCSE():
            return ()
        case MaskedLM():
            return ("mask",)
        case FIM():
            return ("fim_prefix", "fim_middle", "fim_suffix")
        case BART():
            return ("bos", "mask")
        case NextSentence() | SentenceOrder():
            return ("cls", "sep", "mask")
        case ReplacedTokens():
            return ("mask",) if objective.generator is Generator.MODEL else ()
        case PrefixLM():
            return (objective.mode_token,) if objective.mode_token else ()
        case SpanCorruption():
            return ("sentinel_0", *([objective.mode_token] if objective.mode_token else []))
        case UL2() | Mixture():
            return tuple(name for part in components_of(objective) for name in special_names(part))
        case _:
            assert_never(objective)
