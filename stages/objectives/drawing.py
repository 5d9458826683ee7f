"""Drawing: the columns that a trainer gets of stored rows, and the stored rows they came from.

Where numba is installed the compiled kernels draw, else the plain functions: the same bits.
"""

from functools import cache
from importlib.util import find_spec
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from stages.objectives import clm, fim, mlm, span_corruption
from stages.objectives.clm import CausalLM
from stages.objectives.fim import FIM
from stages.objectives.mlm import MaskedLM
from stages.objectives.rows import Columns, StoredRows, Widths, bodies
from stages.objectives.span_corruption import SpanCorruption
from stages.objectives.table import TARGETS, Objective, traits_of
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
        case FIM():
            return fim.fill_in_middle(rows, objective, vocabulary, widths)
        case SpanCorruption():
            return span_corruption.corrupt_spans(rows, objective, vocabulary, widths)
        case _:
            assert_never(objective)


def _draw_compiled(
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    from stages.objectives.kernels import fim, mlm, span_corruption  # noqa: PLC0415  # numba is heavy

    match objective:
        case CausalLM():
            return clm.label_causally(rows, objective)
        case MaskedLM():
            return mlm.mask_tokens(rows, objective, vocabulary, widths)
        case FIM():
            return fim.fill_in_middle(rows, objective, vocabulary, widths)
        case SpanCorruption():
            return span_corruption.corrupt_spans(rows, objective, vocabulary, widths)
        case _:
            assert_never(objective)


def given_back(
    rows: StoredRows, columns: Columns, objective: Objective, vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Say of which rows the columns, put together again, give the stored tokens: (N,) bool.

    Nothing may be missing and nothing added: the body of a row where inputs and targets have an EOS of
    their own, all of its tokens elsewhere.
    """
    ids, lengths = _restored(columns, objective, vocabulary)
    targets = traits_of(objective).label_convention == TARGETS
    wanted = bodies(rows, vocabulary.named("eos")) if targets else rows.filled
    width = min(rows.input_ids.shape[1], ids.shape[1])
    inside = np.arange(width) < np.minimum(wanted, width)[:, None]
    differ = ((ids[:, :width] != rows.input_ids[:, :width]) & inside).any(axis=1)
    same: NDArray[np.bool_] = (lengths == wanted) & ~differ
    return same


def _restored(
    columns: Columns, objective: Objective, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Give the clean tokens of every row, (N, W), and how many, (N,)."""
    match objective:
        case CausalLM():
            ids = columns["input_ids"]
            return ids, np.count_nonzero(ids != vocabulary.named("pad"), axis=1)
        case MaskedLM():
            return mlm.restore_mlm(columns, objective, vocabulary)
        case FIM():
            return fim.restore_fim(columns, objective, vocabulary)
        case SpanCorruption():
            return span_corruption.restore_span_corruption(columns, objective, vocabulary)
        case _:
            assert_never(objective)
