"""Extended tokenizers: as many new pieces as are wanted, each given by texts or part of one that is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError
from stages.tokenizer.extension.learning import NewPiece, PieceLearner, needed_pieces

_ROUNDS = 16
"""Times that pieces are dropped, and others learned in their place."""


@dataclass(frozen=True)
class Extension:
    """A tokenizer with further pieces."""

    data: bytes
    """Its file."""
    pieces: Sequence[NewPiece]
    """In the order of their ids."""
    uses: NDArray[np.int64]
    """(n,) how often the text that was learned from gives each."""
    dropped: int
    """Pieces that were learned, and that no text gave."""


def fit_pieces(
    learner: PieceLearner,
    wanted: int,
    *,
    made: Callable[[Sequence[NewPiece]], bytes],
    uses: Callable[[bytes, int], NDArray[np.int64]],
) -> Extension:
    """Return a tokenizer with so many pieces.

    Args:
        learner: gives pieces.
        wanted: how many.
        made: returns the file with some pieces appended.
        uses: returns how often text gives each of the last ids of a file.

    Raises:
        ConfigError: the text has fewer.
    """
    pieces, dropped = learner.learn(wanted), 0
    if len(pieces) < wanted:
        raise too_few(wanted, len(pieces))
    for _ in range(_ROUNDS):
        data = made(pieces)
        used = uses(data, len(pieces))
        given = [piece.symbol for piece, count in zip(pieces, used.tolist(), strict=True) if count]
        needed = needed_pieces(pieces, given)
        kept = [piece for piece in pieces if piece.symbol in needed]
        more = learner.learn(wanted - len(kept))
        dropped += len(pieces) - len(kept)
        if len(kept) == len(pieces) == wanted:
            return Extension(data, pieces, used, dropped)
        if len(kept) + len(more) < wanted:
            raise too_few(wanted, len(kept) + len(more))
        pieces = kept + more
    raise ConfigError(
        f"--pieces {wanted:,}: after {_ROUNDS} rounds, texts still do not give"
        f" {len(pieces) - len(kept):,} of the pieces that were learned; ask for fewer"
    )


def too_few(wanted: int, found: int) -> ConfigError:
    """Return the error that text does not give as many pieces as are wanted."""
    return ConfigError(
        f"--pieces {wanted:,}: the text gives {found:,} pieces that stand in it twice or more, are"
        " not in the vocabulary and change little old text; give more text, ask for fewer, or raise"
        " --max-drift"
    )
