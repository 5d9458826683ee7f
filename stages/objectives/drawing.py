"""Drawing: the columns that a trainer gets of stored rows, and the stored rows they came from.

Where numba is installed the compiled kernels draw, else the plain functions: the same bits.
"""

from functools import cache
from importlib.util import find_spec
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from stages.objectives import bart, clm, electra, fim, mlm, prefix_lm, simcse, span_corruption, ul2
from stages.objectives.bart import BART
from stages.objectives.clm import CausalLM
from stages.objectives.electra import ReplacedTokens
from stages.objectives.fim import FIM
from stages.objectives.mixture import Mixture, draw_mixture, restore_mixture
from stages.objectives.mlm import MaskedLM
from stages.objectives.prefix_lm import PrefixLM
from stages.objectives.rows import Columns, StoredRows, Widths, bodies
from stages.objectives.simcse import SimCSE
from stages.objectives.span_corruption import SpanCorruption
from stages.objectives.table import TARGETS, Objective, traits_of
from stages.objectives.ul2 import UL2
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


def draw_plainly(  # noqa: C901, PLR0911  # one for each objective
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
        case PrefixLM():
            return prefix_lm.split_prefixes(rows, objective, vocabulary, widths)
        case UL2():
            return ul2.corrupt_ul2(rows, objective, vocabulary, widths)
        case BART():
            return bart.add_noise(rows, objective, vocabulary, widths)
        case SimCSE():
            return simcse.make_views(rows, objective, vocabulary, widths)
        case ReplacedTokens():
            return electra.replace_tokens(rows, objective, vocabulary, widths)
        case Mixture():
            return draw_mixture(
                rows, objective, lambda some, part: draw_plainly(some, part, vocabulary, widths)
            )
        case _:
            assert_never(objective)


def _draw_compiled(  # noqa: C901, PLR0911  # one for each objective
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    from stages.objectives.kernels import (  # noqa: PLC0415  # numba is heavy
        bart,
        electra,
        fim,
        mlm,
        prefix_lm,
        simcse,
        span_corruption,
        ul2,
    )

    match objective:
        case CausalLM():
            return clm.label_causally(rows, objective)
        case MaskedLM():
            return mlm.mask_tokens(rows, objective, vocabulary, widths)
        case FIM():
            return fim.fill_in_middle(rows, objective, vocabulary, widths)
        case SpanCorruption():
            return span_corruption.corrupt_spans(rows, objective, vocabulary, widths)
        case PrefixLM():
            return prefix_lm.split_prefixes(rows, objective, vocabulary, widths)
        case UL2():
            return ul2.corrupt_ul2(rows, objective, vocabulary, widths)
        case BART():
            return bart.add_noise(rows, objective, vocabulary, widths)
        case SimCSE():
            return simcse.make_views(rows, objective, vocabulary, widths)
        case ReplacedTokens():
            return electra.replace_tokens(rows, objective, vocabulary, widths)
        case Mixture():
            return draw_mixture(
                rows, objective, lambda some, part: _draw_compiled(some, part, vocabulary, widths)
            )
        case _:
            assert_never(objective)


def given_back(
    rows: StoredRows, columns: Columns, objective: Objective, vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Say of which rows the columns, put together again, give the stored tokens: (N,) bool.

    Nothing may be missing and nothing added: the body of a row where inputs and targets have an EOS of
    their own, all of its tokens elsewhere.
    """
    if isinstance(objective, SimCSE) and objective.views == "cropped":
        return simcse.check_views(rows, columns, objective, vocabulary)
    ids, lengths = _restored(columns, objective, vocabulary)
    targets = traits_of(objective).label_convention == TARGETS
    wanted = bodies(rows, vocabulary.named("eos")) if targets else rows.filled
    width = min(rows.input_ids.shape[1], ids.shape[1])
    inside = np.arange(width) < np.minimum(wanted, width)[:, None]
    differ = ((ids[:, :width] != rows.input_ids[:, :width]) & inside).any(axis=1)
    same: NDArray[np.bool_] = (lengths == wanted) & ~differ
    return same


def _restored(  # noqa: C901, PLR0911  # one for each objective
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
        case PrefixLM():
            return prefix_lm.restore_prefix_lm(columns, objective, vocabulary)
        case UL2():
            return ul2.restore_ul2(columns, objective, vocabulary)
        case BART():
            return bart.restore_bart(columns, objective, vocabulary)
        case SimCSE():
            return simcse.restore_simcse(columns, objective, vocabulary)
        case ReplacedTokens():
            return electra.restore_electra(columns, objective, vocabulary)
        case Mixture():
            return restore_mixture(
                columns,
                objective,
                lambda some, part: _restored(some, part, vocabulary),
                pad=vocabulary.named("pad"),
            )
        case _:
            assert_never(objective)
