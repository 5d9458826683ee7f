"""The strategies by which documents become rows: all that the program knows of each.

Packers are imported when rows are laid out: numba takes half a second, and the loader does without it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stages.packing.layout import Packer, Strategy


@dataclass(frozen=True, kw_only=True)
class Packing:
    """One strategy."""

    packer: Callable[[], Packer]
    """Imports what lays documents out."""
    sentences: bool = False
    """Whether it must know where sentences end."""


def _best_fit() -> Packer:
    from stages.packing.best_fit import pack_best_fit  # noqa: PLC0415

    return pack_best_fit


def _concat() -> Packer:
    from stages.packing.concat import pack_concat  # noqa: PLC0415

    return pack_concat


def _document() -> Packer:
    from stages.packing.document import pack_document  # noqa: PLC0415

    return pack_document


def _full() -> Packer:
    from stages.packing.full import pack_full  # noqa: PLC0415

    return pack_full


PACKINGS: Mapping[Strategy, Packing] = {
    Strategy.BEST_FIT: Packing(packer=_best_fit),
    Strategy.CONCAT: Packing(packer=_concat),
    Strategy.DOCUMENT: Packing(packer=_document),
    Strategy.FULL: Packing(packer=_full, sentences=True),
}
