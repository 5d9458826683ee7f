"""Whole pieces: what a text gives wherever it is written, before anything is merged.

    pieces   "<tag>"   "<tag>s"         the longest piece that begins at a place counts
    text     "a<tag>b"   ->   "a" | <tag> | "b"

At each place of a text, from left to right, the longest piece is taken. It merges with nothing.

N nodes of a trie: a node stands for the first bytes of some pieces.

Source: SentencePiece's user-defined symbols; its `model_interface.cc`, `PrefixMatcher`.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.kernels import lean_kernel
from stages.tokenizer.bpe.merging import MISSING, Merges, find_merge, merges_of


class WholePieces(NamedTuple):
    """Pieces as kernels look them up."""

    roots: NDArray[np.int32]
    """(256,) the node of each first byte, or `MISSING`."""
    nodes: Merges
    """A node and the byte behind it give the next node."""
    ids: NDArray[np.int32]
    """(N,) the id of the piece that ends at each node, or `MISSING`."""


def whole_pieces(pieces: Mapping[bytes, int]) -> WholePieces:
    """Return the trie of pieces, none of them empty, with their ids."""
    roots = np.full(256, MISSING, np.int32)
    steps: dict[tuple[int, int], int] = {}
    ids: list[int] = []
    for piece, number in pieces.items():
        node = int(roots[piece[0]])
        if node == MISSING:
            node = roots[piece[0]] = len(ids)
            ids.append(MISSING)
        for byte in piece[1:]:
            following = steps.setdefault((node, byte), len(ids))
            if following == len(ids):
                ids.append(MISSING)
            node = following
        ids[node] = number
    pairs = np.array(list(steps), np.int32).reshape(-1, 2)
    targets = np.array(list(steps.values()), np.int32)
    return WholePieces(roots, merges_of(pairs, targets, targets), np.array(ids, np.int32))


@lean_kernel
def next_whole(
    data: NDArray[np.uint8], place: int, end: int, whole: WholePieces
) -> tuple[np.int64, int, int]:
    """Return the id of the first piece from a place on, and where it begins and ends.

    If there is none, the id is `MISSING`, and both places are the end.
    """
    if len(whole.ids):
        for begin in range(place, end):
            if whole.roots[data[begin]] != MISSING:
                found, stop = find_whole(data, begin, end, whole)
                if found != MISSING:
                    return found, begin, stop
    return np.int64(MISSING), end, end


@lean_kernel
def find_whole(
    data: NDArray[np.uint8], place: int, end: int, whole: WholePieces
) -> tuple[np.int64, int]:
    """Return the id of the longest piece that begins at a place, and where it ends; or `MISSING`."""
    found, stop = np.int64(MISSING), place
    node = int(whole.roots[data[place]])
    while node != MISSING:
        place += 1
        if whole.ids[node] != MISSING:
            found, stop = np.int64(whole.ids[node]), place
        if place == end:
            break
        slot = find_merge(node, data[place], whole.nodes)
        node = MISSING if slot == MISSING else int(whole.nodes.results[slot, 1])
    return found, stop
