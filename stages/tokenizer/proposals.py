"""Proposals: pieces of a file that could have a role that no well-known piece has.

    eos    <|im_end|>                      what its name says
    mask   <|reserved_special_token_0|>    a piece that is set apart and has no use yet
    sentinels                              <unused{}>, if <unused0> and <unused1> are there

They stand in messages alone: whoever is asked chooses.
"""

import re
from collections.abc import Collection, Iterator, Mapping

_FREE = ("unused", "reserved", "extra", "special", "hold")
_HINTS: Mapping[str, tuple[str, ...]] = {
    "bos": ("bos", "begin", "start", "<s>", "cls"),
    "eos": ("eos", "end_of_text", "endoftext", "</s>", "eot", "im_end", "end", "sep", "stop"),
    "pad": ("pad", *_FREE),
    "cls": ("cls", "bos", "<s>", "begin", "start", *_FREE),
    "sep": ("sep", "eos", "</s>", "end", *_FREE),
    "mask": ("mask", *_FREE),
    "fim_prefix": ("prefix", *_FREE),
    "fim_middle": ("middle", *_FREE),
    "fim_suffix": ("suffix", *_FREE),
    "mode_r": _FREE,
    "mode_x": _FREE,
    "mode_s": _FREE,
}
"""What the names of pieces have in them, the likeliest first."""
_NUMBERED = re.compile(r"(.*\D|)0(\D*)", re.DOTALL)


def proposed_piece(role: str, marks: Mapping[str, int], taken: Collection[int]) -> str | None:
    """Return a piece that could have a role; None if there is none.

    Args:
        role: that is asked for.
        marks: pieces that are set apart from text, with their ids.
        taken: ids that it may not have.
    """
    free = {piece: number for piece, number in marks.items() if number not in taken}
    if role == "sentinels":
        return next(_patterns(free), None)
    for hint in _HINTS[role]:
        for piece in free:
            if hint in piece.lower():
                return piece
    return next(iter(free), None)  # it is kept from text too


def _patterns(pieces: Collection[str]) -> Iterator[str]:
    """Yield the names of numbered pieces, with {} for the number: <unused0> <unused1> -> <unused{}>."""
    for piece in pieces:
        found = _NUMBERED.fullmatch(piece)
        if found is not None and f"{found[1]}1{found[2]}" in pieces and "{" not in piece:
            yield f"{found[1]}{{}}{found[2]}"
