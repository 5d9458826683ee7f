"""Tokenizer files where they are: a file, or a folder that holds one, and what their content is."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from pipeline.steps.tokenizer.load import FOLDER
from pipeline.system.regular_files import read_regular
from stages.errors import ConfigError
from stages.store.folders import entries
from stages.tokenizer.existing import TokenizerKind
from stages.tokenizer.ranks.encodings import UNSAID, TiktokenConfig
from stages.tokenizer.recognised import RecognisedFile, tokenizer_file

_NAMES = (
    *(kind.value for kind in TokenizerKind),
    *("tekken.json", "tekken_*.json", "*.model", "*.tiktoken", "*.model.v*"),
)
"""What files are called in folders, the likeliest first."""


class FoundTokenizer(NamedTuple):
    """A tokenizer's file, read."""

    path: Path
    content: RecognisedFile


def read_tokenizer_file(
    path: Path, key: str, *, base: Path, tiktoken: TiktokenConfig = UNSAID
) -> FoundTokenizer:
    """Return what a tokenizer's file holds.

    Args:
        path: of the file, or of a folder that holds it.
        key: names it in messages.
        base: the folder that it is looked for in, likewise.
        tiktoken: what ranks of tiktoken leave out.

    Raises:
        ConfigError: there is none, or it cannot be read.
        FormatError: it is no tokenizer.
    """
    try:
        place = _file_in(path, key) if path.is_dir() else path
        data = read_regular(place, partial(_require_file, key))
    except FileNotFoundError as error:
        raise ConfigError(f"{key}: no such file or folder in {base.resolve()}") from error
    except OSError as error:
        raise ConfigError(f"{key}: cannot be read: {error.strerror}") from error
    return FoundTokenizer(place, tokenizer_file(data, name=key, tiktoken=tiktoken))


def _file_in(folder: Path, key: str) -> Path:
    """Return the tokenizer's file in a folder, or in the folder of a run."""
    places = [place for one in (folder, folder / FOLDER) for place in entries(one)]
    for name in _NAMES:
        found = [place for place in places if place.match(name) and place.is_file()]
        if len(found) > 1:
            names = ", ".join(place.name for place in found)
            raise ConfigError(f"{key}: this folder has {names}; name the file that is meant")
        if found:
            return found[0]
    raise ConfigError(
        f"{key}: this folder has no {' or '.join(TokenizerKind)}, nor tekken.json, *.model or *.tiktoken"
        "; name a tokenizer's file, or the folder of a run that has made its tokenizer"
    )


def _require_file(key: str, kind: str | None) -> None:
    """Refuse a FIFO, which may wait for ever, and a device, which may never end."""
    if kind is not None:
        raise ConfigError(f"{key}: is {kind}, not a file; name a regular file")
