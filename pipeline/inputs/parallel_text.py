"""Parallel text of a run: the folder that its run file names, or the declarations of the package.

It is read twice, as evaluation sets are: when the run is planned, so that a fault stops it before hours
of work, and by the task that measures the tokenizer. The other tokenizers that are named are read
likewise. All files are held to their digests.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import xxhash

from pipeline.inputs.languages import BUNDLED, bundled_declarations, parallel_files, parallel_lines
from pipeline.run_file.config import FairnessSection, RunFile
from pipeline.system.regular_files import read_regular
from stages.errors import ConfigError, DataError, FormatError
from stages.stores.given import given_path
from stages.tokenizer.existing import describe
from stages.tokenizer.parity import ParallelTexts, parallel_texts, require_reference
from stages.tokenizer.recognised import RecognisedFile, tokenizer_file
from stages.tokenizer.roles import TokenizerDescription

_KEY = "tokenizer.fairness"
_PARALLEL = f"{_KEY}.parallel ="


def resolve_fairness(file: RunFile, base: Path) -> RunFile:
    """Return a run that knows where its parallel text and the other tokenizers are, and their digests.

    Args:
        file: the run.
        base: folder that its paths are relative to.

    Raises:
        ConfigError: a file or the reference language is not there.
        DataError: texts that cannot be read, or are not parallel.
        FormatError: a file that is no tokenizer.
    """
    wanted = file.tokenizer.fairness
    placed = wanted.model_copy(
        update={
            "parallel": wanted.parallel and str((base / wanted.parallel).absolute()),
            "compare": tuple(
                f"{name}={(base / path).absolute()}" for name, path in wanted.others.items()
            ),
        }
    )
    if placed.parallel is not None or wanted.reference != FairnessSection().reference:
        read_parallel(placed)
    for name, read in read_others(placed).items():
        describe_other(read(), name)
    digests = _digests(placed)
    if wanted.digests not in (None, digests):
        raise ConfigError(
            f"{_KEY}.digests: the files have {digests}; set those that are meant, or leave it out"
        )
    fairness = placed.model_copy(update={"digests": digests or None})
    return file.model_copy(
        update={"tokenizer": file.tokenizer.model_copy(update={"fairness": fairness})}
    )


def read_parallel(fairness: FairnessSection) -> ParallelTexts:
    """Return the sentences of all languages, those of the reference among them.

    Raises:
        ConfigError: there are none of the reference language, or no folder.
        DataError: they cannot be read, or are not parallel.
    """
    folder = fairness.parallel
    lines = bundled_declarations() if folder is None else parallel_lines(Path(folder), name=_PARALLEL)
    name = BUNDLED if folder is None else f"{_PARALLEL} {folder}"
    require_reference(lines, fairness.reference, name=name, setting=f"{_KEY}.reference = ")
    return parallel_texts(lines, name=name)


def read_others(fairness: FairnessSection) -> Mapping[str, Callable[[], bytes]]:
    """Return what reads the file of each other tokenizer, by name; each may be large."""
    return {
        name: partial(_content, Path(path), f"{_KEY}.compare {name}")
        for name, path in fairness.others.items()
    }


def describe_other(data: bytes, name: str) -> tuple[RecognisedFile, TokenizerDescription]:
    """Return another tokenizer's file as it is opened, and what it says of itself.

    Raises:
        FormatError: it is no tokenizer.
    """
    key = f"{_KEY}.compare {name}"
    found = tokenizer_file(data, name=key)
    return found, describe(found.data, found.kind, name=key)


def require_unchanged(fairness: FairnessSection) -> None:
    """Refuse files that are others than when the run was planned.

    Raises:
        DataError: one is.
    """
    if (_digests(fairness) or None) != fairness.digests:
        raise DataError(f"{_KEY}: its files changed since the run was planned; run again")


def _digests(fairness: FairnessSection) -> dict[str, str]:
    """Return the digest of each file, by language and by name."""
    files: dict[str, Path] = {}
    if fairness.parallel is not None:
        found = parallel_files(Path(fairness.parallel), name=_PARALLEL)
        files = {f"parallel {language}": path for language, path in sorted(found.items())}
    files |= {f"compare {name}": Path(path) for name, path in fairness.others.items()}
    return {key: xxhash.xxh3_128_hexdigest(_content(path, _KEY)) for key, path in files.items()}


def _content(path: Path, key: str) -> bytes:
    try:
        return read_regular(given_path(path), partial(_require_file, f"{key} = {str(path)!r}"))
    except FileNotFoundError as error:
        raise ConfigError(f"{key} = {str(path)!r}: no such file") from error
    except OSError as error:
        raise FormatError(f"{key} = {str(path)!r}: cannot be read: {error.strerror}") from error


def _require_file(key: str, kind: str | None) -> None:
    if kind is not None:
        raise ConfigError(f"{key}: is {kind}, not a file; name a regular file")
