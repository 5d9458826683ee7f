"""What a tokenizer's file is: said by its content, never by its name.

    SentencePiece model      as it is
    tokenizer.json           as it is
    tekken.json              -> the tokenizer.json of the same ids
    ranks of tiktoken        -> the tokenizer.json of the same ids

Llama 3's `tokenizer.model` holds ranks, Mistral's `tokenizer.model.v3` is of SentencePiece.
"""

from typing import NamedTuple

from stages.errors import ConfigError, FormatError
from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.ranks.byte_level_file import byte_level_file
from stages.tokenizer.ranks.encodings import UNSAID, TiktokenConfig
from stages.tokenizer.ranks.tekken import is_tekken, read_tekken
from stages.tokenizer.ranks.tiktoken import is_ranks, read_tiktoken

READ = "SentencePiece models, tokenizer.json, tekken.json and ranks of tiktoken are read"
_OTHERS = {
    b"version https://git-lfs": "a pointer of Git LFS, not the file: run git lfs pull",
    b"#version": "merges.txt, which has no ids",
    b"PK\x03\x04": "a zip archive: unpack it",
    b"\x1f\x8b": "compressed by gzip: unpack it",
    b"<": "a page of the web: download the file itself",
    b"[PAD]": "vocab.txt, which does not say how texts are cut into words",
}
"""What is often named in place of a tokenizer, by its first bytes."""
_SAVE = "; save tokenizer.json with AutoTokenizer.from_pretrained(FOLDER).save_pretrained(OTHER)"
_WHITE = b" \t\r\n"


class RecognisedFile(NamedTuple):
    """A tokenizer's file of a kind that is opened."""

    kind: TokenizerKind
    data: bytes
    converted: str | None = None
    """What it was made from, if it is not the file itself."""


def tokenizer_file(data: bytes, *, name: str, tiktoken: TiktokenConfig = UNSAID) -> RecognisedFile:
    """Return the kind of a tokenizer's file, and the bytes of that kind.

    Args:
        data: the file.
        name: for messages.
        tiktoken: what ranks of tiktoken leave out.

    Raises:
        ConfigError: ranks of no well-known model, of which `tiktoken` says nothing; or it says something
            and the file is of another kind.
        FormatError: it is none of these files, or damaged.
    """
    ranks = not _is_object(data) and is_ranks(data)
    if tiktoken != UNSAID and not ranks:
        raise ConfigError(
            f"{name}: is no file of tiktoken's ranks, and tokenizer.tiktoken (with verify:"
            " --encoding) is for these alone; leave it out"
        )
    if _is_object(data):
        if not is_tekken(data):
            return RecognisedFile(TokenizerKind.HUGGING_FACE, data)
        return _converted(byte_level_file(read_tekken(data, name=name), name=name), "tekken.json")
    if ranks:
        found = byte_level_file(read_tiktoken(data, tiktoken, name=name), name=name)
        return _converted(found, "ranks of tiktoken")
    for begin, said in _OTHERS.items():
        if data.lstrip(_WHITE).startswith(begin):
            raise FormatError(f"{name}: is {said}; {READ}{_SAVE}")
    return RecognisedFile(TokenizerKind.SENTENCEPIECE, data)


def _converted(data: bytes, source: str) -> RecognisedFile:
    return RecognisedFile(TokenizerKind.HUGGING_FACE, data, source)


def _is_object(data: bytes) -> bool:
    """Say whether a file begins as a JSON object; what follows the brace tells it from a length."""
    begin = data[:64].lstrip(_WHITE)
    return begin.startswith(b"{") and begin[1:].lstrip(_WHITE)[:1] in (b'"', b"}", b"")
