"""tokenizer.json files in compiled code: byte-level BPE, to the ids that the library gives.

    text    normalised by the library unless it is so already, cut, merged

Python may know a later version of Unicode than the library. A text that is normalised by the later one
is so by the earlier one too: characters that this does not know compose with none, and what stands
between them is normalised alike by all versions (Unicode Standard Annex 15, section 3).

A piece that was added to the vocabulary and is not special, such as <tool_call>, is one token where a
text writes it out. Compiled code finds these pieces if there is no normaliser, and if none of them takes
white space with it or must be a word by itself. Otherwise the library encodes each text that has one.
"""

from collections.abc import Callable
from typing import Literal, cast, get_args
from unicodedata import is_normalized

import numpy as np
import tokenizers
from numpy.typing import NDArray

from stages.tokenizer.bpe.byte_level import byte_tables_of
from stages.tokenizer.bpe.encoder import BpeEncoder
from stages.tokenizer.codec import EncodeTexts
from stages.tokenizer.huggingface_content import AddedPiece, ReadFile, is_disarmed, types_in
from stages.tokenizer.texts import JoinedTexts, TextIds, joined_ids, joined_texts

UnicodeForm = Literal["NFC", "NFD", "NFKC", "NFKD"]
_FORMS = frozenset(get_args(UnicodeForm))
"""Normalisers that are known here: they leave ASCII as it is."""


class CompiledFile:
    """A tokenizer.json of byte-level BPE.

    Args:
        encoder: of normalised texts.
        library: of the same file.
        file: its content.
        by_library: gives the ids of a text from the library alone.
    """

    def __init__(
        self,
        encoder: BpeEncoder,
        library: tokenizers.Tokenizer,
        file: ReadFile,
        by_library: Callable[[str], NDArray[np.integer]],
    ) -> None:
        self._encoder, self._by_library = encoder, by_library
        self._normaliser = library.normalizer
        forms = types_in(file["normalizer"])
        self._form = cast("UnicodeForm", forms.pop()) if len(forms) == 1 else None
        added = set() if _cut_out(file) else set(_added_pieces(file))
        if self._normaliser is not None:
            added |= set(map(self._normaliser.normalize_str, added))
        self._added = [content.encode() for content in sorted(added) if content]

    def encode(self, texts: JoinedTexts, dtype: np.dtype[np.generic]) -> TextIds:
        """Return the ids of texts, of `dtype`."""
        normalised = self._normalised(texts)
        encoded = self._encoder.encode(normalised, dtype=dtype)
        others = self._with_added(texts) | self._with_added(normalised)
        if not others:
            return encoded
        parts, strings = encoded.parts(), texts.parts()
        for number in others:
            parts[number] = self._by_library(strings[number].decode())
        return joined_ids(parts, dtype)

    def _normalised(self, texts: JoinedTexts) -> JoinedTexts:
        if self._normaliser is None:
            return texts
        return joined_texts([part if part.isascii() else self._form_of(part) for part in texts.parts()])

    def _form_of(self, part: bytes) -> bytes:
        text = part.decode()
        if self._form is not None and is_normalized(self._form, text):
            return part
        return str(self._normaliser.normalize_str(text)).encode()

    def _with_added(self, texts: JoinedTexts) -> set[int]:
        """Return the numbers of the texts in which a piece is written out that was added."""
        data = texts.data.tobytes() if self._added else b""
        found = set[int]()
        for content in self._added:
            place = data.find(content)
            while place >= 0:
                number = int(np.searchsorted(texts.offsets, place, side="right")) - 1
                found.add(number)
                place = data.find(content, int(texts.offsets[number + 1]))
        return found


def compiled_file(
    file: ReadFile, library: tokenizers.Tokenizer, by_library: Callable[[str], NDArray[np.integer]]
) -> EncodeTexts | None:
    """Return what encodes texts as a file that the library has; None if the library encodes them all."""
    if not types_in(file["normalizer"]) <= _FORMS:
        return None
    tables = byte_tables_of(file, _cut_out(file))
    if tables is None:
        return None
    return CompiledFile(BpeEncoder(tables, by_library), library, file, by_library).encode


def _added_pieces(file: ReadFile) -> dict[str, AddedPiece]:
    """Return what was added to the vocabulary and texts can write out, by its content."""
    added = {token["content"]: token for token in file["added_tokens"] or []}
    return {content: token for content, token in added.items() if content and not is_disarmed(content)}


def _cut_out(file: ReadFile) -> dict[bytes, int]:
    """Return the ids of what compiled code can cut out of texts; nothing if it cannot cut out all.

    The library cuts out first what is not to be normalised, so all have to be of one sort.
    """
    added = _added_pieces(file)
    bound = any(one["single_word"] or one["lstrip"] or one["rstrip"] for one in added.values())
    sorts = {one["normalized"] for one in added.values()}
    if file["normalizer"] is not None or bound or len(sorts) > 1:
        return {}
    return {content.encode(): token["id"] for content, token in added.items()}
