"""Function: a filter of the user's own, called with each document.

    def keep(text: str, columns: dict[str, object]) -> bool | str: ...

    True              the document stays
    False or a text   it goes, as `dropped`; the text says why

The function is trusted code: its module is imported and it is called in every worker, so it can do
whatever the user can. It must be importable wherever a worker runs, and give the same answer for the
same document, or the run's bytes are not determined. The digest of its module's source is part of the
fingerprint of ingest; that of modules which it imports is not, so raise `version` when they change.
"""

import importlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import xxhash
from pydantic import Field

from stages.errors import ConfigError, DataError
from stages.filtering.filter import Document, Filter, FilterConfig, Judge, Removal

KeepFunction = Callable[[str, dict[str, object]], bool | str]
_MOST_SAID = 200
"""Characters of what a function says in a detail."""


class UserFunction(FilterConfig):
    """A function of the user's own."""

    kind: Literal["function"] = "function"
    """Names the filter."""
    function: str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
    """The function as "package.module:keep". It is run as trusted code, in every worker."""
    columns: tuple[str, ...] = ()
    """Fields of the record that it is given besides the text; they may be inside of others."""
    version: int = Field(0, ge=0)
    """For you to raise when what the module imports changes, so that documents are asked again."""
    digest: str | None = None
    """XXH3-128 of the module's source; found when the run is planned. If it is set, another source is
    refused."""


def source_digest(module: str) -> str:
    """Return the XXH3-128 of a module's source, without importing it; packages above it are imported.

    Raises:
        ImportError: no such module, or one without a source.
    """
    try:
        spec = find_spec(module)
    except ImportError:
        raise
    except Exception as error:  # a package above it may raise anything
        raise ImportError(f"{type(error).__name__}: {error}") from error
    if spec is None:
        raise ImportError(f"No module named {module!r}")
    origin = Path(spec.origin or "")
    if origin.suffix != ".py" or not origin.is_file():
        raise ImportError(f"module {module!r} has no source in Python")
    return xxhash.xxh3_128_hexdigest(origin.read_bytes())


def load_function(name: str) -> KeepFunction:
    """Return the function that "package.module:keep" names.

    Raises:
        ImportError: there is no such module or function.
    """
    module, _, function = name.partition(":")
    try:
        home = importlib.import_module(module)
    except ImportError:
        raise
    except Exception as error:  # the module may raise anything
        raise ImportError(f"{type(error).__name__}: {error}") from error
    found: KeepFunction | None = getattr(home, function, None)
    if not callable(found):  # "no such function" is a failed import to whoever names it
        raise ImportError(  # noqa: TRY004
            f"module {module!r} has no function {function!r}"
        )
    return found


def _open(config: UserFunction) -> Judge:
    try:
        same = source_digest(config.function.partition(":")[0]) == config.digest
        function = load_function(config.function)
    except ImportError as error:
        raise ConfigError(f"filters: function = {config.function!r}: {_importing(error)}") from error
    if not same:
        raise DataError(
            f"filters: function = {config.function!r}: its source is not the one that the run was"
            " planned with; install the same on every node, and run again"
        )

    def judge(document: Document) -> Removal | None:
        columns = {name: document.values.get(name) for name in config.columns}
        try:
            answer = function(document.text.decode(), columns)
        except Exception as error:  # the user's code may raise anything
            raise DataError(
                f"filters: {config.function} raised {type(error).__name__}: {_line(error)}; correct it,"
                " and run again with --replace"
            ) from error
        if answer is True:
            return None
        if answer is False:
            return Removal("dropped", f"{config.function} returned False")
        if isinstance(answer, str):
            return Removal("dropped", _line(answer))
        raise DataError(
            f"filters: {config.function} returned {type(answer).__name__}; it must return True to keep"
            " the document, or False or a text that says why it goes"
        )

    return judge


def _line(said: object) -> str:
    return " ".join(str(said).split())[:_MOST_SAID]


def _importing(error: ImportError) -> str:
    return f"cannot be imported: {error}; it must be importable wherever a worker runs"


def _resolve(config: UserFunction, _: Path, key: str) -> UserFunction:
    try:
        digest = source_digest(config.function.partition(":")[0])
        load_function(config.function)
    except (ImportError, OSError) as error:
        shown = error if isinstance(error, ImportError) else ImportError(str(error))
        raise ConfigError(f"{key}: function = {config.function!r}: {_importing(shown)}") from error
    if config.digest not in (None, digest):
        raise ConfigError(
            f"{key}.digest = {config.digest!r}: the module's source has {digest!r}; set the one meant"
        )
    return config.model_copy(update={"digest": digest})


def _columns(config: UserFunction) -> tuple[str, ...]:
    return config.columns


FUNCTION = Filter(UserFunction, ("dropped",), _open, columns=_columns, resolve=_resolve)
