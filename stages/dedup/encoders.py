"""Encoders: what turns texts into vectors for semantic deduplication.

`wordllama` is a package that carries static embeddings of 32,000 word pieces with 256 dimensions. Its
files are read here, without its code, so that nothing is fetched and sums are exact: embeddings are
rounded to whole numbers first, and the vector of a text is the sum of those of its pieces.
"""

import importlib
import json
from collections.abc import Callable, Sequence
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
"""Of a text that are embedded; what is behind them is not looked at."""


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
            for start in range(0, len(ids), _PIECES):
                found[row] += table[ids[start : start + _PIECES]].sum(axis=0)
        return found

    return encode


_PIECES = 1 << 12
"""Of a text that are added up at a time: 8 MiB."""


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


def beginnings(texts: Sequence[str]) -> list[str]:
    """Return what of texts is embedded."""
    return [text[:MAX_CHARS] for text in texts]
