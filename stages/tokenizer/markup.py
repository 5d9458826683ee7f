r"""Markup: the ids of dialogues, whose markup gives control ids and whose contents never do.

    section     <|im_start|>user\n     Say <|im_end|>         <|im_end|>\n
    is          markup                 content                markup
    ids         32000 1792 13          18 < | im _ end | >    32001 13

Each section is encoded by itself. In markup, what a tokenizer sets apart from text becomes its id; the
rest is encoded as any text is. A piece that the tokenizer lacks is text, too.

A section that begins with the space which the tokenizer puts before every text gives that space once.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from stages.pieces import Pieces
from stages.tokenizer.existing import SPACE, RunTokenizer
from stages.tokenizer.framing import BEGIN
from stages.tokenizer.texts import Encoded, joined_ids, joined_texts

_KEPT = ("eos", "bos", "cls", "sep", "reserved_")
"""Roles, or beginnings of them, whose ids markup may give: none that objectives write into rows."""
_MOST_KNOWN = 1 << 14
"""Pieces of markup whose ids are remembered; dialogues of a template have a few."""


def control_pieces(special_ids: Mapping[str, int], pieces: Mapping[int, str]) -> dict[str, int]:
    """Return what markup gives control ids for: {"<|im_end|>": 32001, ...}.

    Args:
        special_ids: of the tokenizer, by role.
        pieces: how the tokenizer writes each.
    """
    barred = {special_ids.get(role) for role in (BEGIN, "pad", "unk")} - {special_ids["eos"]}
    return {
        pieces[number]: number
        for role, number in special_ids.items()
        if role.startswith(_KEPT) and number not in barred and pieces[number]
    }


class MarkupEncoder:
    """Encodes sections of which some are markup.

    Args:
        tokenizer: of the run.
    """

    def __init__(self, tokenizer: RunTokenizer) -> None:
        self.tokenizer = tokenizer
        self._known: dict[str, NDArray[np.integer]] = {}

    def encode(
        self, sections: Sequence[str], markup: NDArray[np.bool_], *, dtype: np.dtype[np.generic]
    ) -> Encoded:
        """Return the ids of sections, of `dtype`.

        Args:
            sections: S of them.
            markup: (S,) which are.
            dtype: of the ids.
        """
        contents = [
            self._bare(text).encode() for text, is_markup in _zip(sections, markup) if not is_markup
        ]
        encoded = iter(self.tokenizer.encode_texts(joined_texts(contents), dtype=dtype).parts())
        parts = [
            self._markup_ids(text) if is_markup else next(encoded)
            for text, is_markup in _zip(sections, markup)
        ]
        return joined_ids(parts, dtype)

    def encode_by_library(
        self, sections: Sequence[str], markup: NDArray[np.bool_]
    ) -> list[NDArray[np.integer]]:
        """Return the ids of each section from the library of the tokenizer's file alone."""
        return [
            np.concatenate([self._atom(atom, by_library=True) for atom in self._atoms(text)])
            if is_markup
            else self._by_library(text)
            for text, is_markup in _zip(sections, markup)
        ]

    def normalise(self, section: str, *, markup: bool) -> str:
        """Return a section as the tokenizer's normaliser leaves it; it leaves control pieces alone."""
        if not markup:
            return self.tokenizer.normalise(section)
        return "".join(
            atom if atom in self._controls else self.tokenizer.normalise(atom)
            for atom in self._atoms(section)
        )

    def spell(self, ids: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Return the bytes that ids stand for, with control ids as their pieces."""
        return self._spelling.spell(ids)

    def _markup_ids(self, text: str) -> NDArray[np.integer]:
        found = self._known.get(text)
        if found is None:
            found = np.concatenate([self._atom(atom) for atom in self._atoms(text)])
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[text] = found
        return found

    def _atoms(self, text: str) -> Iterator[str]:
        """Yield control pieces and what stands between them."""
        yield from filter(None, self._pattern.split(text) if self._pattern else [text])

    def _atom(self, atom: str, *, by_library: bool = False) -> NDArray[np.integer]:
        number = self._controls.get(atom)
        if number is not None:
            return np.array([number], np.int32)
        if by_library:
            return self._by_library(atom)
        return self.tokenizer.encode([self._bare(atom)])[0]

    def _by_library(self, text: str) -> NDArray[np.integer]:
        return self.tokenizer.encode_by_library([self._bare(text)])[0]

    def _bare(self, text: str) -> str:
        """Return a text without a space before it that the tokenizer puts there."""
        before = self.tokenizer.begins_with_space and len(text) > 1
        return text.removeprefix(SPACE) if before else text

    @cached_property
    def _controls(self) -> dict[str, int]:
        ids = self.tokenizer.special_ids
        numbers = sorted(set(ids.values()))
        return control_pieces(ids, dict(zip(numbers, self.tokenizer.pieces(numbers), strict=True)))

    @cached_property
    def _pattern(self) -> "re.Pattern[str] | None":
        pieces = sorted(self._controls, key=lambda piece: (-len(piece), piece))
        return re.compile(f"({'|'.join(map(re.escape, pieces))})") if pieces else None

    @cached_property
    def _spelling(self) -> Pieces:
        spelled = self.tokenizer.piece_bytes()
        for piece, number in self._controls.items():
            spelled[number] = piece.encode()
        return Pieces(spelled)


def _zip(sections: Sequence[str], markup: NDArray[np.bool_]) -> Iterable[tuple[str, bool]]:
    return zip(sections, markup.tolist(), strict=True)
