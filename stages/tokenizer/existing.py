"""Files of tokenizers: a SentencePiece model, trained by a run or elsewhere, or a tokenizer.json."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from pathlib import Path

from stages.errors import FormatError, is_of_the_system
from stages.tokenizer.codec import Codec, Tokenizer
from stages.tokenizer.encode import load_trained
from stages.tokenizer.framing import are_own
from stages.tokenizer.huggingface_file import HuggingFaceFile, describe_huggingface
from stages.tokenizer.roles import TokenizerDescription
from stages.tokenizer.sentencepiece_file import SentencePieceFile, describe_sentencepiece
from stages.tokenizer.special import num_reserved


class TokenizerKind(StrEnum):
    """What a tokenizer's file is; its value is the file's name in a run."""

    SENTENCEPIECE = "tokenizer.model"
    HUGGING_FACE = "tokenizer.json"


def describe(data: bytes, kind: TokenizerKind, *, name: str) -> TokenizerDescription:
    """Say what a tokenizer's file says of its ids.

    Raises:
        FormatError: the file is not of its kind.
    """
    if kind is TokenizerKind.SENTENCEPIECE:
        return describe_sentencepiece(data, name=name)
    return describe_huggingface(data, name=name)


def open_file(data: bytes, kind: TokenizerKind, special: Collection[int], *, name: str) -> Codec:
    """Return the codec of a file's content, of which some ids are given by no text.

    Raises:
        FormatError: the file is not of its kind.
    """
    if kind is TokenizerKind.SENTENCEPIECE:
        return SentencePieceFile.open(data, special, name=name)
    return HuggingFaceFile.open(data, special, name=name)


def existing_tokenizer(
    data: bytes, kind: TokenizerKind, special: Mapping[str, int], *, name: str
) -> Tokenizer:
    """Return a tokenizer that was trained elsewhere from its file's content.

    Raises:
        FormatError: the file is not of its kind.
    """
    return Tokenizer(open_file(data, kind, set(special.values()), name=name), special)


def is_trained(data: bytes, special: Mapping[str, int]) -> bool:
    """Say whether a SentencePiece model with these special ids is one that a run trained.

    What its file finds in texts, and the templates of a run keep from them, makes it a taken one.
    """
    if not are_own(special):
        return False
    further = [number for number in special.values() if number >= num_reserved()]
    return not further or {*further} <= describe_sentencepiece(data, name="").controls


def tokenizer_in(
    path: Path, data: bytes, kind: TokenizerKind, special: Mapping[str, int], *, name: str
) -> Tokenizer:
    """Return the tokenizer of a file that a run may have trained.

    A model whose ids are those of a run is one: it is known to give every text back.

    Args:
        path: of the file.
        data: its content.
        kind: of the file.
        special: its special ids.
        name: for messages.

    Raises:
        FormatError: the file is not of its kind.
    """
    if kind is TokenizerKind.SENTENCEPIECE and is_trained(data, special):
        return load_trained(path, special)
    return existing_tokenizer(data, kind, special, name=name)


def open_tokenizer(path: Path, special: Mapping[str, int]) -> Tokenizer:
    """Return the tokenizer of a run from its file and its special ids.

    Raises:
        FormatError: the file is gone, or not of its kind.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        if is_of_the_system(error):
            raise
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from error
    return tokenizer_in(path, data, TokenizerKind(path.name), special, name=str(path))
