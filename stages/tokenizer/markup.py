r"""Markup: the ids of dialogues, whose markup gives control ids and whose contents never do.

    section     <|im_start|>user\n     Say <|im_end|>         <|im_end|>\n
    is          markup                 content                markup
    ids         32000 1792 13          18 < | im _ end | >    32001 13

No token crosses a border of sections. In markup, what a tokenizer sets apart from text becomes its id;
the rest is encoded as any text is. A piece that the tokenizer lacks is text, too. A section has the
spaces that the tokenizer puts around a text only where no text is beside it (`stages.tokenizer.texts`).
"""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import TypedDict

from stages.pieces import Pieces
from stages.tokenizer.codec import SPACE, Tokenizer
from stages.tokenizer.texts import (
    EVERY,
    WHOLE,
    JoinedTexts,
    PrecedingText,
    TextIds,
    TextPlace,
    joined_ids,
    joined_texts,
)

_KEPT = ("eos", "bos", "cls", "sep", "reserved_")
"""Roles, or beginnings of them, whose ids markup may give: none that objectives write into rows."""
_MOST_KNOWN = 1 << 14
"""Pieces of markup whose ids are remembered; dialogues of a template have a few."""


_NONE = np.empty(0, np.int32)


class SpelledOut(TypedDict):
    """Pieces that contents of dialogues spell out, though the tokenizer finds them in other texts."""

    ids: dict[str, int]
    """By piece."""
    in_answers: bool
    """Whether contents of roles that are learned do so, too."""


class Sections(NamedTuple):
    """S sections, of one document or of several, and what each is."""

    texts: Sequence[str]
    markup: NDArray[np.bool_]
    """(S,) Which are markup."""
    first: NDArray[np.bool_] | None = None
    """(S,) Which begin a document; None is the first one alone."""
    by_itself: NDArray[np.bool_] | None = None
    """(S,) Which are encoded as texts by themselves; None is no one."""
    answers: NDArray[np.bool_] | None = None
    """(S,) Which are contents of roles that are learned; None is no one."""


class _Part(NamedTuple):
    """A section, with what encodes it."""

    text: str
    is_markup: bool
    place: TextPlace
    tokenizer: Tokenizer
    """For this place."""


class _Atom(NamedTuple):
    """A control piece, or text between two."""

    text: str
    number: int | None
    """The id of a control piece."""
    tokenizer: Tokenizer
    """For its place."""


class _Borders(NamedTuple):
    """Whether a section begins and ends with a piece that is no text."""

    begins_apart: bool
    ends_apart: bool


def control_pieces(special_ids: Mapping[str, int], pieces: Mapping[int, str]) -> dict[str, int]:
    """Return what markup gives control ids for: {"<|im_end|>": 32001, ...}.

    What begins documents is among them: a template may begin its turns with it, as that of Llama 2 does.

    Args:
        special_ids: of the tokenizer, by role.
        pieces: how the tokenizer writes each.
    """
    barred = {special_ids.get(role) for role in ("pad", "unk")} - {special_ids["eos"]}
    return {
        pieces[number]: number
        for role, number in special_ids.items()
        if role.startswith(_KEPT) and number not in barred and pieces[number]
    }


class MarkupEncoder:
    """Encodes sections of which some are markup.

    Args:
        tokenizer: of the run.
        guard: the same, but that no text gives it the pieces that a template names; it encodes contents
            of roles that are not learned. None is the tokenizer itself.
        guards_answers: whether it encodes those of all roles.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        guard: Tokenizer | None = None,
        *,
        guards_answers: bool = False,
    ) -> None:
        self.tokenizer = tokenizer
        self._guard = tokenizer if guard is None else guard
        self._guards_answers = guards_answers
        self._known: dict[tuple[str, TextPlace], NDArray[np.integer]] = {}

    def encode(self, sections: Sections, *, dtype: np.dtype[np.generic]) -> TextIds:
        """Return the ids of sections, of `dtype`."""
        found: list[NDArray[np.integer]] = [_NONE] * len(sections.texts)
        contents: dict[int, list[tuple[int, _Part]]] = {}
        for number, part in enumerate(self._parts(sections)):
            if part.is_markup:
                found[number] = self._markup_ids(part)
            else:
                contents.setdefault(id(part.tokenizer), []).append((number, part))
        for own in contents.values():
            texts = joined_texts([part.text.encode() for _, part in own])
            encoded = own[0][1].tokenizer.encode_texts(texts, dtype=dtype)
            for (number, _), ids in zip(own, encoded.parts(), strict=True):
                found[number] = ids
        return joined_ids(found, dtype)

    def encode_by_library(self, sections: Sections) -> list[NDArray[np.integer]]:
        """Return the ids of each section from the library of the tokenizer's file alone."""
        return [
            np.concatenate([_ids_of(atom, by_library=True) for atom in self._atoms(part)])
            for part in self._parts(sections)
        ]

    def normalised(self, sections: Sections) -> list[str]:
        """Return sections as the tokenizer's normaliser leaves them; it leaves control pieces alone."""
        return [
            "".join(
                atom.text if atom.number is not None else atom.tokenizer.normalise(atom.text)
                for atom in self._atoms(part)
            )
            for part in self._parts(sections)
        ]

    def spell(self, ids: NDArray[np.integer]) -> NDArray[np.uint8]:
        """Return the bytes that ids stand for, with control ids as their pieces."""
        return self._spelling.spell(ids)

    def bare(self, sections: Sections) -> list[bytes]:
        """Return what the ids of sections spell, without the spaces that the tokenizer puts there."""
        found = []
        for part in self._parts(sections):
            parts = []
            for atom in self._atoms(part):
                spelled = self.spell(_ids_of(atom)).tobytes()
                put = atom.number is None and atom.tokenizer.begins_with_space
                parts.append(spelled.removeprefix(SPACE.encode()) if put else spelled)
            found.append(b"".join(parts))
        return found

    def spelled_texts(self, texts: JoinedTexts, sections: Sections) -> JoinedTexts:
        """Return what the ids of texts spell if these come back as they are."""
        if not self.varies:
            return self.tokenizer.spelled_texts(texts)
        parts = zip(texts.parts(), self._parts(sections), strict=True)
        return joined_texts(
            [own.tokenizer.spelled_texts(joined_texts([text])).data.tobytes() for text, own in parts]
        )

    def decoded(self, sections: Sections, ids: Sequence[NDArray[np.integer]]) -> list[str]:
        """Return what the ids of sections spell."""
        parts = self._parts(sections)
        return [part.tokenizer.decode([own])[0] for own, part in zip(ids, parts, strict=True)]

    def places(self, sections: Sections) -> list[TextPlace]:
        """Return where in its document each section is."""
        return [part.place for part in self._parts(sections)]

    def _parts(self, sections: Sections) -> list[_Part]:
        """Return sections with their places, and what encodes each."""
        size = len(sections.texts)
        markup = sections.markup.tolist()
        answers = [False] * size if sections.answers is None else sections.answers.tolist()
        guarded = [
            not is_markup and (self._guards_answers or not answer)
            for is_markup, answer in zip(markup, answers, strict=True)
        ]
        tokenizers = [self._guard if one else self.tokenizer for one in guarded]
        if not self.varies:
            return [
                _Part(*one)
                for one in zip(sections.texts, markup, [WHOLE] * size, tokenizers, strict=True)
            ]
        begins = [n == 0 for n in range(size)] if sections.first is None else sections.first.tolist()
        by_itself = [False] * size if sections.by_itself is None else sections.by_itself.tolist()
        borders = [*map(self._borders, sections.texts, markup, tokenizers)]
        found = []
        for n, (text, is_markup, tokenizer) in enumerate(
            zip(sections.texts, markup, tokenizers, strict=True)
        ):
            before = PrecedingText.START
            if not begins[n] and not by_itself[n]:
                before = PrecedingText.SPECIAL if borders[n - 1].ends_apart else PrecedingText.TEXT
            ends = n + 1 == size or begins[n + 1] or borders[n + 1].begins_apart
            place = TextPlace(before, ends)
            found.append(_Part(text, is_markup, place, tokenizer.at(place)))
        return found

    def _borders(self, text: str, is_markup: bool, tokenizer: Tokenizer) -> _Borders:  # noqa: FBT001
        """Say whether a section begins and ends with a piece that is no text to the tokenizer."""
        pieces = self._split(text) if is_markup else [text]
        begins = is_markup and pieces[0] in self._apart
        ends = is_markup and pieces[-1] in self._apart
        ends_in_space = tokenizer.by_words and text[-1:].isspace()
        return _Borders(
            begins or text.startswith(tokenizer.cuts_out),
            ends or ends_in_space or text.endswith(tokenizer.cuts_out),
        )

    def _markup_ids(self, part: _Part) -> NDArray[np.integer]:
        key = part.text, part.place
        found = self._known.get(key)
        if found is None:
            found = np.concatenate([_ids_of(atom) for atom in self._atoms(part)])
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[key] = found
        return found

    def _atoms(self, part: _Part) -> list[_Atom]:
        """Return control pieces and what is between them, each with its place."""
        if not part.is_markup:
            return [_Atom(part.text, None, part.tokenizer)]
        texts = self._split(part.text)
        atoms = []
        for n, text in enumerate(texts):
            before, ends = part.place
            if n > 0:
                before = PrecedingText.SPECIAL if texts[n - 1] in self._apart else PrecedingText.TEXT
            if n < len(texts) - 1:
                ends = texts[n + 1] in self._apart
            tokenizer = self.tokenizer.at(TextPlace(before, ends))
            atoms.append(_Atom(text, self._controls.get(text), tokenizer))
        return atoms

    def _split(self, text: str) -> list[str]:
        return [*filter(None, self._pattern.split(text) if self._pattern else [text])]

    @cached_property
    def varies(self) -> bool:
        """Whether ids of a text depend on where it is."""
        return any(self.tokenizer.at(place) is not self.tokenizer for place in EVERY)

    @cached_property
    def _controls(self) -> dict[str, int]:
        ids = self.tokenizer.special_ids
        numbers = sorted(set(ids.values()))
        return control_pieces(ids, dict(zip(numbers, self.tokenizer.codec.pieces(numbers), strict=True)))

    @cached_property
    def _apart(self) -> set[str]:
        """Control pieces that are no text to the library."""
        inline = self.tokenizer.inline
        return {piece for piece, number in self._controls.items() if number not in inline}

    @cached_property
    def _pattern(self) -> "re.Pattern[str] | None":
        pieces = sorted(self._controls, key=lambda piece: (-len(piece), piece))
        return re.compile(f"({'|'.join(map(re.escape, pieces))})") if pieces else None

    @cached_property
    def _spelling(self) -> Pieces:
        spelled = self.tokenizer.codec.piece_bytes()
        for piece, number in self._controls.items():
            spelled[number] = piece.encode()
        return Pieces(spelled)


def _ids_of(atom: _Atom, *, by_library: bool = False) -> NDArray[np.integer]:
    if atom.number is not None:
        return np.array([atom.number], np.int32)
    encode = atom.tokenizer.encode_by_library if by_library else atom.tokenizer.encode
    return encode([atom.text])[0]
