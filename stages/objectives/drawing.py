"""Drawing: the columns that a trainer gets of stored rows, and the stored rows they came from.

Where numba is installed the compiled kernels draw, else the plain functions: the same bits.
"""

from functools import cache
from importlib.util import find_spec
from typing import assert_never

from stages.objectives import clm, mlm
from stages.objectives.clm import CausalLM
from stages.objectives.mlm import MaskedLM
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.table import Objective
from stages.objectives.vocabulary import Vocabulary


def draw_columns(
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Give the columns that a trainer gets of some rows, each (N, ...), in the dtypes of the disk."""
    if _compiled():
        return _draw_compiled(rows, objective, vocabulary, widths)
    return draw_plainly(rows, objective, vocabulary, widths)


@cache
def _compiled() -> bool:
    """Say whether kernels can be compiled here."""
    return find_spec("numba") is not None


def draw_plainly(
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Give the same columns by numpy alone."""
    match objective:
        case CausalLM():
            return clm.label_causally(rows, objective)
        case MaskedLM():
            return mlm.mask_tokens(rows, objective, vocabulary, widths)
        case _:
            assert_never(objective)


def _draw_compiled(
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    from stages.objectives.kernels import mlm as masks  # noqa: PLC0415  # numba takes long to import

    match objective:
        case CausalLM():
            return clm.label_causally(rows, objective)
        case MaskedLM():
            return masks.mask_tokens(rows, objective, vocabulary, widths)
        case _:
            assert_never(objective)
