"""Row methods: what the rows of new ids hold at the start; computed in `new_rows`."""

from enum import StrEnum


class RowMethod(StrEnum):
    """What the rows of new ids hold at the start."""

    MEAN = "mean"
    PIECES = "pieces"
    NORMAL = "normal"
    RANDOM = "random"
