"""Views of `simcse`: rows, sections of documents or crops. Nothing that is drawn shows in their columns.

Not counted: where crops begin, which columns do not say.
"""

import numpy as np

from stages.objectives.laws.draws import Draws
from stages.objectives.laws.shown import ShownRows
from stages.objectives.rows import Columns
from stages.objectives.simcse.config import SimCSE


def count_simcse(draws: Draws, config: SimCSE, rows: ShownRows) -> None:
    """Count views of another length or of another text."""
    filled = rows.stored.filled
    for columns in rows.epochs:
        views, lengths = columns["input_ids"], columns["input_length"]
        shown = np.arange(views.shape[2]) < lengths[:, :, None]
        beyond = ~shown & (views != rows.vocabulary.named("pad"))
        draws.exact("views are padded", beyond.any(axis=(1, 2)))
        if config.from_source:
            _count_sections(draws, rows, columns)
            continue
        ratio = 1.0 if config.views == "identical" else config.crop_ratio
        wanted = np.ceil(ratio * filled).astype(np.int64)
        draws.exact("tokens of a view", (lengths != wanted[:, None]).any(axis=1))
        if ratio == 1.0:
            differ = (views != rows.stored.input_ids[:, None]).any(axis=(1, 2))
            draws.exact("views are the row", differ)


def _count_sections(draws: Draws, rows: ShownRows, columns: Columns) -> None:
    """Count rows whose views are not their texts, or their only one twice, an EOS behind each."""
    stored, views = rows.stored, columns["input_ids"]
    counts = np.diff(stored.segment_ptr)
    eos, pad = rows.vocabulary.named("eos"), rows.vocabulary.named("pad")
    place = np.arange(views.shape[2])
    wrong = (counts != 1) & (counts != views.shape[1])
    ends = np.concatenate([[0], np.cumsum(stored.segment_length)])
    row_begin = ends[stored.segment_ptr[:-1]]
    for view in range(views.shape[1]):
        single = counts == 1
        segment = stored.segment_ptr[:-1] + np.where(single, 0, np.minimum(view, counts - 1))
        begin = ends[segment] - row_begin
        length = np.minimum(ends[segment + 1] - row_begin, rows.lengths_without_eos) - begin
        length = np.where(single & (view > 1), 0, length)
        at = np.minimum(begin[:, None] + place, stored.input_ids.shape[1] - 1)
        text = np.take_along_axis(stored.input_ids, at, axis=1)
        wanted = np.where(place < length[:, None], text, pad)
        wanted[(place == length[:, None]) & (length[:, None] > 0)] = eos
        wrong |= (views[:, view] != wanted).any(axis=1)
        wrong |= columns["input_length"][:, view] != length + (length > 0)
    draws.exact("views are the document's sections", wrong)
