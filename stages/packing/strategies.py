"""The strategies by which documents become rows: all that the program knows of each."""

from collections.abc import Mapping
from dataclasses import dataclass

from stages.packing.best_fit import pack_best_fit
from stages.packing.concat import pack_concat
from stages.packing.document import pack_document
from stages.packing.full import pack_full
from stages.packing.layout import Packer, Strategy


@dataclass(frozen=True, kw_only=True)
class Packing:
    """One strategy."""

    pack: Packer
    sentences: bool = False
    """Whether it must know where sentences end."""


PACKINGS: Mapping[Strategy, Packing] = {
    Strategy.BEST_FIT: Packing(pack=pack_best_fit),
    Strategy.CONCAT: Packing(pack=pack_concat),
    Strategy.DOCUMENT: Packing(pack=pack_document),
    Strategy.FULL: Packing(pack=pack_full, sentences=True),
}
