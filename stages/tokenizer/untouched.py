"""Untouched files: the ids that a file's own library gives, by the file as it is.

It is what a proof compares with: nothing is disarmed, and no text is cut or normalised apart.
Truncation, padding, dropout and what a file puts around texts are off, as they are in a run.
"""

from collections.abc import Callable, Sequence

import orjson
import sentencepiece
import tokenizers

from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.sentencepiece_model import ModelKind, SentencePieceModel

LibraryIds = Callable[[Sequence[str]], list[list[int] | None]]
"""Gives the ids of texts; None of those of which the library's choice may depend on their length."""
_LONGEST_OF_SUMS = 4_096
"""Characters up to which unigram's sums of 32-bit floats are taken over a text as a run takes them."""


def untouched(data: bytes, kind: TokenizerKind) -> LibraryIds:
    """Return what gives the ids of texts by a file as it is; it must be one that was described."""
    if kind is TokenizerKind.SENTENCEPIECE:
        return _by_sentencepiece(data)
    file = orjson.loads(data) | {"truncation": None, "padding": None, "post_processor": None}
    if "dropout" in file["model"]:
        file["model"]["dropout"] = None
    library = tokenizers.Tokenizer.from_str(orjson.dumps(file).decode())
    return lambda texts: [library.encode(text, add_special_tokens=False).ids for text in texts]


def _by_sentencepiece(data: bytes) -> LibraryIds:
    processor = sentencepiece.SentencePieceProcessor(model_proto=data)
    sums = SentencePieceModel(data).kind is ModelKind.UNIGRAM

    def ids_of(texts: Sequence[str]) -> list[list[int] | None]:
        return [
            None if sums and len(text) > _LONGEST_OF_SUMS else processor.encode(text) for text in texts
        ]

    return ids_of
