"""UL2 compiled: the columns of `ul2.corrupt_ul2`, bit for bit."""

from stages.objectives.kernels.prefix_lm import split_prefixes
from stages.objectives.kernels.span_corruption import corrupt_spans
from stages.objectives.rows import Columns, StoredRows, Widths
from stages.objectives.ul2 import UL2, by_component
from stages.objectives.vocabulary import Vocabulary


def corrupt_ul2(rows: StoredRows, config: UL2, vocabulary: Vocabulary, widths: Widths) -> Columns:
    """Give the columns of an encoder-decoder and `objective_id` (N,) int32, each row by its denoiser.

    Raises:
        FormatError: a row of no denoiser, or one that its denoiser refuses.
    """
    return by_component(rows, config, vocabulary, widths, (corrupt_spans, split_prefixes))
