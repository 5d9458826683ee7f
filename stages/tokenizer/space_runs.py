r"""Space runs: runs of 2 to 16 spaces as units of plain BPE, so that pieces can be learned over them.

    if x:\n        return        trained on   if x:\nRreturn         R: one character for 8 spaces
    :\nR                         learned, and written as ":\n" and 8 spaces

SentencePiece lets no piece hold a space behind anything else, so that line feeds and the indentation
behind them are at least two tokens. Here each run is one character while pieces are learned. Afterwards
it is written as spaces again, and the runs get scores above all that is learned. So the spaces of a run
merge before anything else does, and the same merges follow as in training.

A run of more than 16 is as many of 16 as it has, and the rest behind them:

    37   ->   16 16 5

Runs of 2, 4, 8 and 16 have the best scores, in this order, so that a run falls into powers of two, the
greatest first. The others follow by length and join what is behind those of 16. So each run is one
piece.

The characters are counting rods (U+1D360 to U+1D36E): they count as signs, as spaces and brackets do,
and hardly any text has them. What a text itself has of them is not learned, and is written in bytes.
"""

import re

from stages.tokenizer.sampling import SPACE_SYMBOL

LONGEST_RUN = 16
_FIRST_UNIT = 0x1D360
_UNITS = {size: chr(_FIRST_UNIT + size - 2) for size in range(2, LONGEST_RUN + 1)}
_SIZES = {unit: size for size, unit in _UNITS.items()}
UNITS = "".join(_UNITS.values())
"""A character for each run."""
_POWERS = [size for size in _UNITS if size & (size - 1) == 0]
_ORDER = [*_POWERS, *(size for size in _UNITS if size not in _POWERS)]
_RUN = re.compile(f" {{2,}}|[{UNITS}]")
_UNIT = re.compile(f"[{UNITS}]")


def with_units(text: str) -> str:
    """Return a text with a character for each run of spaces, and without those that it has itself."""
    return _RUN.sub(_units_of, text)


def _units_of(run: re.Match[str]) -> str:
    if run[0] in _SIZES:
        return ""
    whole, rest = divmod(len(run[0]), LONGEST_RUN)
    return _UNITS[LONGEST_RUN] * whole + (_UNITS[rest] if rest > 1 else " " * rest)


def without_units(text: str) -> str:
    """Return a text without the characters that stand for runs."""
    return _UNIT.sub("", text)


def spelled_runs(piece: str) -> str:
    """Return a piece with U+2581 for the spaces that its characters stand for."""
    return _UNIT.sub(lambda unit: SPACE_SYMBOL * _SIZES[unit[0]], piece)


def run_scores() -> dict[str, float]:
    """Return the score of each run, by its character."""
    return {_UNITS[size]: float(len(_ORDER) - place) for place, size in enumerate(_ORDER)}
