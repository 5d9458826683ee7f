"""Drawing: the columns that a trainer gets of stored rows, and the stored rows they came from.

Where numba is installed the compiled kernels draw, else the plain functions: the same bits.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TypeVar, assert_never

import numpy as np
from numpy.typing import NDArray

from stages.errors import FormatError
from stages.objectives import (
    bart,
    clm,
    electra,
    fim,
    mlm,
    prefix_lm,
    sentence_pairs,
    simcse,
    span_corruption,
    ul2,
)
from stages.objectives.bart import BART
from stages.objectives.clm import CausalLM
from stages.objectives.electra import ReplacedTokens
from stages.objectives.fim import FIM
from stages.objectives.mixture import Mixture, draw_mixture, restore_mixture
from stages.objectives.mlm import MaskedLM
from stages.objectives.prefix_lm import PrefixLM
from stages.objectives.rows import Columns, StoredRows, Widths, bodies
from stages.objectives.sentence_pairs import NextSentence, SentenceOrder
from stages.objectives.simcse import SimCSE
from stages.objectives.span_corruption import SpanCorruption
from stages.objectives.table import TARGETS, Objective, traits_of
from stages.objectives.ul2 import UL2
from stages.objectives.vocabulary import Vocabulary

_Config = TypeVar("_Config")
Way = Callable[[StoredRows, _Config, Vocabulary, Widths], Columns]
"""How rows of one kind are drawn."""


@dataclass(frozen=True)
class Ways:
    """How rows of each kind are drawn: all of them plainly, or all of them compiled."""

    mlm: Way[MaskedLM]
    fim: Way[FIM]
    span_corruption: Way[SpanCorruption]
    prefix_lm: Way[PrefixLM]
    ul2: Way[UL2]
    bart: Way[BART]
    simcse: Way[SimCSE]
    electra: Way[ReplacedTokens]


PLAIN = Ways(
    mlm=mlm.mask_tokens,
    fim=fim.fill_in_middle,
    span_corruption=span_corruption.corrupt_spans,
    prefix_lm=prefix_lm.split_prefixes,
    ul2=ul2.corrupt_ul2,
    bart=bart.add_noise,
    simcse=simcse.make_views,
    electra=electra.replace_tokens,
)


@cache
def compiled_ways() -> Ways:
    """Give the kernels; numba is imported here and no sooner."""
    from stages.objectives.kernels import (  # noqa: PLC0415  # numba takes half a second
        bart,
        electra,
        fim,
        mlm,
        prefix_lm,
        simcse,
        span_corruption,
        ul2,
    )

    return Ways(
        mlm=mlm.mask_tokens,
        fim=fim.fill_in_middle,
        span_corruption=span_corruption.corrupt_spans,
        prefix_lm=prefix_lm.split_prefixes,
        ul2=ul2.corrupt_ul2,
        bart=bart.add_noise,
        simcse=simcse.make_views,
        electra=electra.replace_tokens,
    )


def draw_columns(
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Give the columns that a trainer gets of some rows, each (N, ...), in the dtypes of the disk."""
    return _draw(rows, objective, vocabulary, widths, usual_ways())


def usual_ways() -> Ways:
    """Give the kernels where they can be compiled, else the plain functions."""
    return compiled_ways() if _compiled() else PLAIN


@cache
def _compiled() -> bool:
    """Say whether kernels can be compiled here."""
    return find_spec("numba") is not None


def draw_plainly(
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths
) -> Columns:
    """Give the same columns by numpy alone."""
    return _draw(rows, objective, vocabulary, widths, PLAIN)


def _draw(  # noqa: C901, PLR0911  # one for each objective
    rows: StoredRows, objective: Objective, vocabulary: Vocabulary, widths: Widths, ways: Ways
) -> Columns:
    refuse_to_draw(objective)
    match objective:
        case NextSentence() | SentenceOrder():
            raise AssertionError(objective.kind)
        case CausalLM():
            return clm.label_causally(rows, objective)
        case MaskedLM():
            return ways.mlm(rows, objective, vocabulary, widths)
        case FIM():
            return ways.fim(rows, objective, vocabulary, widths)
        case SpanCorruption():
            return ways.span_corruption(rows, objective, vocabulary, widths)
        case PrefixLM():
            return ways.prefix_lm(rows, objective, vocabulary, widths)
        case UL2():
            return ways.ul2(rows, objective, vocabulary, widths)
        case BART():
            return ways.bart(rows, objective, vocabulary, widths)
        case SimCSE():
            return ways.simcse(rows, objective, vocabulary, widths)
        case ReplacedTokens():
            return ways.electra(rows, objective, vocabulary, widths)
        case Mixture():
            return draw_mixture(
                rows, objective, lambda some, part: _draw(some, part, vocabulary, widths, ways)
            )
        case _:
            assert_never(objective)


def refuse_to_draw(objective: Objective) -> None:
    """Refuse kinds of which only epochs on disk can be opened.

    Raises:
        FormatError: says why.
    """
    beyond = traits_of(objective).beyond
    if beyond:
        raise FormatError(
            f"{objective.kind}: rows of this kind cannot be drawn when they are read, for {beyond}; open"
            " an epoch that stands on disk, or set materialized_epochs higher and run again"
        )


def given_back(
    rows: StoredRows, columns: Columns, objective: Objective, vocabulary: Vocabulary
) -> NDArray[np.bool_]:
    """Say of which rows the columns, put together again, give the stored tokens: (N,) bool.

    Nothing may be missing and nothing added: the body of a row where inputs and targets have an EOS of
    their own, all of its tokens elsewhere.
    """
    if isinstance(objective, SimCSE) and objective.views != "identical":
        return simcse.check_views(rows, columns, objective, vocabulary)
    ids, lengths = _restored(columns, objective, vocabulary)
    targets = traits_of(objective).label_convention == TARGETS
    wanted = bodies(rows, vocabulary.named("eos")) if targets else rows.filled
    width = min(rows.input_ids.shape[1], ids.shape[1])
    inside = np.arange(width) < np.minimum(wanted, width)[:, None]
    differ = ((ids[:, :width] != rows.input_ids[:, :width]) & inside).any(axis=1)
    same: NDArray[np.bool_] = (lengths == wanted) & ~differ
    if isinstance(objective, PrefixLM) and rows.prompt is not None:
        same &= prefix_lm.keeps_prompts(rows, columns, objective, vocabulary)
    return same


def _restored(  # noqa: C901, PLR0911  # one for each objective
    columns: Columns, objective: Objective, vocabulary: Vocabulary
) -> tuple[NDArray[np.integer], NDArray[np.int64]]:
    """Give the clean tokens of every row, (N, W), and how many, (N,)."""
    match objective:
        case NextSentence() | SentenceOrder():
            return sentence_pairs.restore_pairs(columns, objective, vocabulary)
        case CausalLM():
            ids, pad = columns["input_ids"], vocabulary.named("pad")
            filled = columns["segment_ids"] >= 0 if pad == vocabulary.named("eos") else ids != pad
            return ids, np.count_nonzero(filled, axis=1)
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
