r"""Markup: the ids of dialogues, whose markup gives control ids and whose contents never do.

    section     <|im_start|>user\n     Say <|im_end|>         <|im_end|>\n
    is          markup                 content                markup
    ids         32000 1792 13          18 < | im _ end | >    32001 13

No token crosses a border of sections. In markup, what a tokenizer sets apart from text becomes its id;
the rest is encoded as any text is. A piece that the tokenizer lacks is text, too. A section has the
spaces that the tokenizer puts around a text only where no text is beside it (`stages.tokenizer.places`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stages.pieces import Pieces
from stages.tokenizer.existing import SPACE, RunTokenizer
from stages.tokenizer.framing import BEGIN
from stages.tokenizer.places import EVERY, WHOLE, Before, Place
from stages.tokenizer.texts import Encoded, JoinedTexts, joined_ids, joined_texts

_KEPT = ("eos", "bos", "cls", "sep", "reserved_")
"""Roles, or beginnings of them, whose ids markup may give: none that objectives write into rows."""
_MOST_KNOWN = 1 << 14
"""Pieces of markup whose ids are remembered; dialogues of a template have a few."""


_NONE = np.empty(0, np.int32)


class _Atom(NamedTuple):
    """A control piece, or text between two."""

    text: str
    number: int | None
    """The id of a control piece."""
    place: Place


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
        self._known: dict[tuple[str, Place], NDArray[np.integer]] = {}

    def encode(
        self,
        sections: Sequence[str],
        markup: NDArray[np.bool_],
        *,
        dtype: np.dtype[np.generic],
        first: NDArray[np.bool_] | None = None,
    ) -> Encoded:
        """Return the ids of sections, of `dtype`.

        Args:
            sections: S of them.
            markup: (S,) which are.
            dtype: of the ids.
            first: (S,) which begin a document; without it the first one alone.
        """
        places = self.places(sections, markup, first)
        found: list[NDArray[np.integer]] = [_NONE] * len(sections)
        contents: dict[int, list[int]] = {}
        for number, (text, is_markup) in enumerate(_zip(sections, markup)):
            if is_markup:
                found[number] = self._markup_ids(text, places[number])
            else:
                contents.setdefault(id(self._at(places[number])), []).append(number)
        for numbers in contents.values():
            texts = joined_texts([sections[number].encode() for number in numbers])
            encoded = self._at(places[numbers[0]]).encode_texts(texts, dtype=dtype)
            for number, ids in zip(numbers, encoded.parts(), strict=True):
                found[number] = ids
        return joined_ids(found, dtype)

    def encode_by_library(
        self,
        sections: Sequence[str],
        markup: NDArray[np.bool_],
        first: NDArray[np.bool_] | None = None,
    ) -> list[NDArray[np.integer]]:
        """Return the ids of each section from the library of the tokenizer's file alone."""
        places = self.places(sections, markup, first)
        return [
            np.concatenate(
                [self._atom_ids(atom, by_library=True) for atom in self._atoms(text, is_markup, place)]
            )
            for (text, is_markup), place in zip(_zip(sections, markup), places, strict=True)
        ]

    def normalised(
        self,
        sections: Sequence[str],
        markup: NDArray[np.bool_],
        first: NDArray[np.bool_] | None = None,
    ) -> list[str]:
        """Return sections as the tokenizer's normaliser leaves them; it leaves control pieces alone."""
        places = self.places(sections, markup, first)
        return [
            "".join(
                atom.text if atom.number is not None else self._at(atom.place).normalise(atom.text)
                for atom in self._atoms(text, is_markup, place)
            )
            for (text, is_markup), place in zip(_zip(sections, markup), places, strict=True)
        ]

    def places(
        self,
        sections: Sequence[str],
        markup: NDArray[np.bool_],
        first: NDArray[np.bool_] | None = None,
    ) -> list[Place]:
        """Return where in its document each section is."""
        if not self.varies:
            return [WHOLE] * len(sections)
        begins = [number == 0 for number in range(len(sections))] if first is None else first.tolist()
        begins.append(True)
        found = []
        for number in range(len(sections)):
            before = Before.START
            if not begins[number]:
                apart = self._ends_apart(sections[number - 1], bool(markup[number - 1]))
                before = Before.SPECIAL if apart else Before.TEXT
            ends = begins[number + 1] or self._begins_apart(
                sections[number + 1], bool(markup[number + 1])
            )
            found.append(Place(before, ends))
        return found

    def spell(self, ids: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Return the bytes that ids stand for, with control ids as their pieces."""
        return self._spelling.spell(ids)

    def bare(
        self,
        sections: Sequence[str],
        markup: NDArray[np.bool_],
        first: NDArray[np.bool_] | None = None,
    ) -> list[bytes]:
        """Return what the ids of sections spell, without the spaces that the tokenizer puts there."""
        places = self.places(sections, markup, first)
        found = []
        for (text, is_markup), place in zip(_zip(sections, markup), places, strict=True):
            parts = []
            for atom in self._atoms(text, is_markup, place):
                spelled = self.spell(self._atom_ids(atom)).tobytes()
                put = atom.number is None and self._at(atom.place).begins_with_space
                parts.append(spelled.removeprefix(SPACE.encode()) if put else spelled)
            found.append(b"".join(parts))
        return found

    def spelled_texts(
        self, texts: JoinedTexts, markup: NDArray[np.bool_], first: NDArray[np.bool_]
    ) -> JoinedTexts:
        """Return what the ids of texts spell if these come back as they are."""
        if not self.varies:
            return self.tokenizer.spelled_texts(texts)
        places = self.places(texts.strings(), markup, first)
        parts = zip(texts.parts(), places, strict=True)
        return joined_texts(
            [self._at(place).spelled_texts(joined_texts([part])).data.tobytes() for part, place in parts]
        )

    def decoded(
        self, texts: Sequence[str], markup: NDArray[np.bool_], ids: Sequence[NDArray[np.integer]]
    ) -> list[str]:
        """Return what the ids of the sections of one document spell."""
        places = self.places(texts, markup)
        return [self._at(place).decode([own])[0] for own, place in zip(ids, places, strict=True)]

    def _at(self, place: Place) -> RunTokenizer:
        return self.tokenizer.at(place)

    def _markup_ids(self, text: str, place: Place) -> NDArray[np.integer]:
        key = text, place
        found = self._known.get(key)
        if found is None:
            atoms = self._atoms(text, True, place)  # noqa: FBT003  # markup
            found = np.concatenate([self._atom_ids(atom) for atom in atoms])
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _atoms(self, text: str, is_markup: bool, place: Place) -> list["_Atom"]:  # noqa: FBT001
        """Return control pieces and what is between them, each with its place."""
        parts = self._split(text) if is_markup else [text]
        numbers = [self._controls.get(part) if is_markup else None for part in parts]
        atoms = []
        for n, (part, number) in enumerate(zip(parts, numbers, strict=True)):
            before = place.before if n == 0 else Before.SPECIAL
            ends = place.ends if n == len(parts) - 1 else True
            atoms.append(_Atom(part, number, Place(before, ends)))
        return atoms

    def _split(self, text: str) -> list[str]:
        return [*filter(None, self._pattern.split(text) if self._pattern else [text])]

    def _atom_ids(self, atom: "_Atom", *, by_library: bool = False) -> NDArray[np.integer]:
        if atom.number is not None:
            return np.array([atom.number], np.int32)
        tokenizer = self._at(atom.place)
        encode = tokenizer.encode_by_library if by_library else tokenizer.encode
        return encode([atom.text])[0]

    def _ends_apart(self, text: str, is_markup: bool) -> bool:  # noqa: FBT001
        """Say whether a section ends with a piece that is no text to the tokenizer."""
        if is_markup and self._split(text)[-1] in self._controls:
            return True
        words = self.tokenizer.by_words and text[-1:].isspace()
        return words or text.endswith(self.tokenizer.cuts_out)

    def _begins_apart(self, text: str, is_markup: bool) -> bool:  # noqa: FBT001
        if is_markup and self._split(text)[0] in self._controls:
            return True
        return text.startswith(self.tokenizer.cuts_out)

    @cached_property
    def varies(self) -> bool:
        """Whether ids of a text depend on where it is."""
        return any(self.tokenizer.at(place) is not self.tokenizer for place in EVERY)

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
