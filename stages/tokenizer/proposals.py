"""Proposals: pieces of a file that could have a role that no well-known piece has.

    eos         <|im_end|>                      what its name says
    fim_prefix  [PREFIX]                        likewise
    mask        <|reserved_special_token_0|>    a piece that is set apart and has no use yet
    sentinels   <unused{}>                      if <unused0> and <unused1> are there

Pieces are proposed for the roles that are asked for, and for no other: first those whose names say so,
then those that are free. They stand in messages alone: whoever is asked chooses.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

_FREE = ("unused", "reserved", "extra", "special", "hold")
_HINTS: Mapping[str, tuple[str, ...]] = {
    "bos": ("bos", "begin", "start", "<s>", "cls"),
    "eos": ("eos", "end_of_text", "endoftext", "</s>", "eot", "im_end", "end", "sep", "stop"),
    "pad": ("pad",),
    "cls": ("cls", "bos", "<s>", "begin", "start"),
    "sep": ("sep", "eos", "</s>", "end"),
    "mask": ("mask",),
    "fim_prefix": ("prefix", "fim\u2581begin", "<pre>", "_pre|"),
    "fim_middle": ("middle", "fim\u2581end", "<mid>", "_mid|"),
    "fim_suffix": ("suffix", "fim\u2581hole", "<suf>", "_suf|"),
}
"""What the names of pieces have in them, the likeliest first. With DeepSeek's pieces the text before the
hole stands behind `begin`, that after it behind `hole`, and the hole's own behind `end`."""
_OF_FIM = ("fim_prefix", "fim_middle", "fim_suffix")
_NAMES_OF_FIM = (
    *("prefix", "middle", "suffix", "fim"),
    *("<pre>", "<mid>", "<suf>", "_pre|", "_mid|", "_suf|"),
)
"""Names that say of a piece that it is none for another role, whatever else they say."""
_NUMBERED = re.compile(r"(.*\D|)0(\D*)", re.DOTALL)


def proposed_pieces(
    roles: Sequence[str], marks: Mapping[str, int], taken: Mapping[str, Collection[int]]
) -> dict[str, str]:
    """Return pieces that could have roles; a role for which there is none is left out.

    Args:
        roles: that are asked for.
        marks: pieces that are set apart from text, with their ids.
        taken: ids that each of the roles may not have.
    """
    found: dict[str, str] = {}
    given = set[int]()
    for search in (_named, _free, _any):
        for role in roles:
            if role in found or role == "sentinels":
                continue
            pieces = [piece for piece, number in marks.items() if number not in {*taken[role], *given}]
            piece = search(role, pieces if role in _OF_FIM else [*filter(_has_other_use, pieces)])
            if piece is not None:
                found[role] = piece
                given.add(marks[piece])
    if "sentinels" in roles:
        free = [piece for piece, number in marks.items() if number not in taken["sentinels"]]
        found.update(("sentinels", pattern) for pattern in [*_patterns(free)][:1])
    return found


def _named(role: str, pieces: Sequence[str]) -> str | None:
    """Return the piece whose name says the role."""
    return _first(_HINTS.get(role, ()), pieces)


def _free(_role: str, pieces: Sequence[str]) -> str | None:
    """Return a piece whose name says that it has no use yet."""
    return _first(_FREE, pieces)


def _any(_role: str, pieces: Sequence[str]) -> str | None:
    """Return any piece that is kept from text."""
    return next(iter(pieces), None)


def _has_other_use(piece: str) -> bool:
    """Say whether a piece is none of those that `fim` needs."""
    return not any(name in piece.lower() for name in _NAMES_OF_FIM)


def _first(hints: Sequence[str], pieces: Sequence[str]) -> str | None:
    return next((piece for hint in hints for piece in pieces if hint in piece.lower()), None)


def _patterns(pieces: Collection[str]) -> Iterator[str]:
    """Yield the names of numbered pieces, with {} for the number: <unused0> <unused1> -> <unused{}>."""
    for piece in pieces:
        found = _NUMBERED.fullmatch(piece)
        if found is not None and f"{found[1]}1{found[2]}" in pieces and "{" not in piece:
            yield f"{found[1]}{{}}{found[2]}"
