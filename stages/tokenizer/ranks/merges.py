"""The merges that a file of ranks stands for.

tiktoken joins two neighbours whenever their bytes together are a piece: those of the lowest rank first,
the leftmost of equal ones. A `tokenizer.json` lists pairs instead. Each piece needs only one pair:

    ranks    a 0, b 1, c 2, bc 3, abc 4      abc   ->   a b c   ->   a bc   ->   the pair (a, bc)

While all joins happen inside the bytes of a piece, the text around them changes nothing. So before a
text joins two neighbours to `abc`, these bytes are in the state that `abc` alone comes to just before
its last join. No other pair of neighbours ever gives it, whatever the order of the ranks is.

Some pieces are never joined: the ranks stop at three parts or more (588 of Llama 3's 128,000). They are
found only as whole words, for which the files have `ignore_merges`.

Source: tiktoken, `src/lib.rs`, `_byte_pair_merge` and `Encoding.encode_ordinary`.
"""

from collections.abc import Iterable, Mapping


def merges_of_ranks(ranks: Mapping[bytes, int]) -> list[tuple[bytes, bytes]]:
    """Return the pair that each piece is joined from, in the order of the ranks.

    Args:
        ranks: of the pieces; all 256 bytes are among them.
    """
    pairs = (_last_pair(piece, ranks) for piece in _by_rank(ranks) if len(piece) > 1)
    return [pair for pair in pairs if pair is not None]


def _by_rank(ranks: Mapping[bytes, int]) -> Iterable[bytes]:
    return sorted(ranks, key=ranks.__getitem__)


def _last_pair(piece: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """Join the bytes of a piece until two parts are left; return these, or None if more stay."""
    parts = [piece[place : place + 1] for place in range(len(piece))]
    last = 2
    while len(parts) > last:
        best, at = None, 0
        for place in range(len(parts) - 1):
            rank = ranks.get(parts[place] + parts[place + 1])
            if rank is not None and (best is None or rank < best):
                best, at = rank, place
        if best is None:
            return None
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts[0], parts[1]
