"""Encoders: what turns texts into vectors for semantic deduplication.

`wordllama` is a package that carries static embeddings of 32,000 word pieces with 256 dimensions. Its
files are read here, without its code, so that nothing is fetched and sums are exact: embeddings are
rounded to whole numbers first, and the vector of a text is the sum of those of its pieces.

Scripts of which it has no words are spelled by pieces of one character or one byte. Sums of those are
nearly the same for all texts of a script: of 97% of the articles of the Universal Declaration of Human
Rights in Tamil the cosine with another article is over 0.97. So such texts have no vector, see `KNOWN`.
"""

import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stages.errors import ConfigError, DataError

EmbedTexts = Callable[[list[str]], NDArray[np.floating]]
_PACKAGE = "wordllama"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_SCALE = 1 << 12
"""Of an embedding when it is rounded; its components are below 8."""
MAX_CHARS = 1 << 16
"""Of the longest text that is embedded. What is behind the beginning of a longer one may be anything."""
KNOWN = (1, 2)
"""Least share of a text's characters in words that `wordllama` knows. It is 0.00 to 0.01 for Tamil,
Thai, Hindi, Hebrew and Greek, 0.39 for Vietnamese, 0.45 for Mongolian, over 0.9 for English."""
_BYTE = re.compile("<0x[0-9A-F]{2}>")
_OF_ONE = re.compile("[\u3400-\u9fff\uf900-\ufaff\uac00-\ud7a3]")
"""Characters that mean something alone: Han, syllables of Hangul."""


def open_encoder(name: str) -> EmbedTexts:
    """Return an encoder by its name in the run file.

    Raises:
        ConfigError: its package or module is not installed.
    """
    return _static() if name == _PACKAGE else _own(name)


def require_encoder(name: str) -> None:
    """Refuse an encoder that is not there.

    Raises:
        ConfigError: it is not.
    """
    if name == _PACKAGE:
        _folder()
    else:
        _own(name)


def _folder() -> Path:
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigError(
            "dedup.semantic.encoder = 'wordllama': the package is not installed; pip install"
            " 'shardmill[semantic]', or name a function of your own as 'package.module:encode'"
        )
    return Path(spec.origin).parent


def _static() -> EmbedTexts:
    from tokenizers import Tokenizer  # noqa: PLC0415  # of runs that need it

    folder = _folder()
    try:
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
        table = _weights(folder / _WEIGHTS)
        known = _known_characters(tokenizer.get_vocab(), len(table))
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(
            f"dedup.semantic.encoder = 'wordllama': {folder}: its files are not those of version 0.4"
            f" ({error}); pip install 'wordllama>=0.4,<0.5'"
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def encode(texts: list[str]) -> NDArray[np.floating]:
        found = np.zeros((len(texts), table.shape[1]), np.float64)
        for row, text in enumerate(texts):
            ids = np.array(tokenizer.encode(text, add_special_tokens=False).ids, np.int64)
            if KNOWN[1] * int(known[ids].sum()) < KNOWN[0] * len("".join(text.split())):
                continue
            for start in range(0, len(ids), _PIECES):
                found[row] += table[ids[start : start + _PIECES]].sum(axis=0)
        return found

    return encode


_PIECES = 1 << 12
"""Of a text that are added up at a time: 8 MiB."""


def _known_characters(vocabulary: Mapping[str, int], pieces: int) -> NDArray[np.int64]:
    """Return the characters of each piece that say what a text is about: (pieces,)."""
    known = np.zeros(pieces, np.int64)
    for piece, number in vocabulary.items():
        letters = sum(character.isalpha() for character in piece)
        if number < pieces and not _BYTE.fullmatch(piece):
            known[number] = letters if letters > 1 or _OF_ONE.search(piece) else 0
    return known


def _weights(path: Path) -> NDArray[np.float64]:
    """Return the rounded embeddings of a safetensors file: (pieces, dimensions), whole numbers."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    head = json.loads(data[8 : 8 + size])["embedding.weight"]
    start, end = (8 + size + place for place in head["data_offsets"])
    table = np.frombuffer(data[start:end], "<f2").reshape(head["shape"])
    whole: NDArray[np.float64] = np.rint(table.astype(np.float64) * _SCALE)
    return whole


def _own(name: str) -> EmbedTexts:
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"dedup.semantic.encoder = {name!r}: cannot be imported: {error}; it must be importable"
            " wherever a worker runs"
        ) from error

    def encode(texts: list[str]) -> NDArray[np.floating]:
        try:
            vectors = np.asarray(found(texts), np.float64)
        except Exception as error:  # the user's code may raise anything
            raise DataError(
                f"dedup.semantic.encoder: {name} raised {type(error).__name__}: {error}"
            ) from error
        if vectors.ndim != 2 or len(vectors) != len(texts):  # noqa: PLR2004
            raise DataError(
                f"dedup.semantic.encoder: {name} gave an array {vectors.shape} for {len(texts)} texts;"
                " it must be (texts, dimensions)"
            )
        return vectors

    return encode


def embedded(encode: EmbedTexts, texts: Sequence[str]) -> NDArray[np.floating]:
    """Return the vectors of texts: (N, D); of those over `MAX_CHARS` zeros."""
    whole = np.array([len(text) <= MAX_CHARS for text in texts], np.bool_)
    vectors = encode([text if own else "" for text, own in zip(texts, whole.tolist(), strict=True)])
    return np.where(whole[:, None], vectors, 0.0)
