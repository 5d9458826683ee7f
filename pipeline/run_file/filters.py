"""What a run file names: filters, templates of dialogues and models, looked up when it is planned.

Chats of a run: templates that are files are read when it is planned, so workers need no file.

A tokenizer that the run trains can have the markup of all templates as control symbols, which are found
out here, too.
"""

from collections.abc import Sequence
from functools import partial
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pipeline.run_file.config import RunFile
from pipeline.run_file.faults import what_must_be
from pipeline.run_file.fingerprints import SomeSettings
from pipeline.run_file.source import Source
from pipeline.system.regular_files import read_regular
from stages.chat.config import JINJA, ChatConfig
from stages.chat.rendering import open_template, spelled_pieces
from stages.dedup.encoders import require_encoder
from stages.errors import ConfigError
from stages.filtering.filter import FilterConfig
from stages.filtering.table import filter_of
from stages.objectives.electra.generated import DECLARED, undeclared
from stages.tokenizer.special import special_pieces
from stages.tokenizer.train import TrainConfig


def resolve_filters(file: RunFile, base: Path) -> RunFile:
    """Return a run whose filters know the digest of all that they rest on besides their settings.

    Args:
        file: the run.
        base: folder that its paths are relative to.

    Raises:
        ConfigError: a file, a module or a model is not there, or is not what it must be.
    """
    if not file.filters:
        return file
    resolved = tuple(
        filter_of(one).resolve(one, base, f"filters.{number} (kind = {one.kind!r})")
        for number, one in enumerate(file.filters)
    )
    return file.model_copy(update={"filters": resolved})


def filter_warnings(filters: Sequence[FilterConfig]) -> list[str]:
    """Return what of resolved filters has no effect, as lines for people."""
    found = [(number, filter_of(one).warning(one)) for number, one in enumerate(filters)]
    return [
        f"filters.{number} (kind = {filters[number].kind!r}): {text}" for number, text in found if text
    ]


def decisive_filters(filters: Sequence[FilterConfig], source: str | None = None) -> dict[str, Any]:
    """Return what of filters decides which documents stay, by number; nothing of none.

    Args:
        filters: of the run, resolved.
        source: leaves out those that do not look at the documents of one source.
    """
    return {
        str(number): {
            "version": filter_of(one).version,
            "settings": SomeSettings(one, _decisive(one, source)),
        }
        for number, one in enumerate(filters)
        if source is None or one.sources is None or source in one.sources
    }


def _decisive(config: FilterConfig, source: str | None) -> set[str]:
    left_out = {*filter_of(config).undecided, *(() if source is None else ("sources",))}
    return set(type(config).model_fields) - left_out


def resolve_chats(file: RunFile, base: Path) -> RunFile:
    """Return a run whose sources hold the templates that they name.

    Args:
        file: the run.
        base: folder that its paths are relative to.

    Raises:
        ConfigError: a file is not there, or is no template.
    """
    if any(source.chat for source in file.sources):
        sources = tuple(_resolved(one, base) for one in file.sources)
        file = file.model_copy(update={"sources": sources})
    return _with_template_symbols(file)


def _with_template_symbols(file: RunFile) -> RunFile:
    """Return a run whose control symbols are named, those of its templates included."""
    train = file.tokenizer.train
    if not train.template_symbols:
        return file
    key = "tokenizer.train.template_symbols"
    if not any(source.chat for source in file.sources):
        raise ConfigError(f"{key} = true: no source has chat; set it to false, or name the symbols")
    pieces = [piece for one in file.sources if one.chat for piece in spelled_pieces(one.chat)]
    own = set(special_pieces().values())
    symbols = dict.fromkeys([*train.control_symbols, *(piece for piece in pieces if piece not in own)])
    named = {**train.model_dump(), "control_symbols": tuple(symbols), "template_symbols": False}
    try:
        trained = TrainConfig.model_validate(named)
    except ValidationError as error:
        raise ConfigError(f"{key} = true: {what_must_be(error.errors()[0])}") from error
    return file.model_copy(update={"tokenizer": file.tokenizer.model_copy(update={"train": trained})})


def _resolved(source: Source, base: Path) -> Source:
    chat = source.chat
    if chat is None:
        return source
    named = "jinja" if chat.path is None else f"template = {chat.path!r}"
    key = f"sources.{source.name}.chat.{named}"
    if chat.path is not None:
        text = _text_of(base / chat.path, key)
        chat = ChatConfig.model_validate({**chat.model_dump(), "template": JINJA, "jinja": text})
    try:
        open_template(chat)
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from error
    return source.model_copy(update={"chat": chat})


def _text_of(path: Path, key: str) -> str:
    try:
        text = read_regular(path, partial(_require_file, key)).decode()
    except FileNotFoundError as error:
        raise ConfigError(f"{key}: no such file in {path.parent.resolve()}") from error
    except OSError as error:
        raise ConfigError(f"{key}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{key}: not in UTF-8: {error}") from error
    if not text:
        raise ConfigError(f"{key}: is empty")
    return text


def _require_file(key: str, kind: str | None) -> None:
    if kind is not None:
        raise ConfigError(f"{key}: is {kind}, not a file; name a regular file")


_OF_PYTHON = ("built-in", "frozen")
"""Origins of modules that are compiled into Python itself, such as `os`."""


def require_generators(file: RunFile) -> None:
    """Refuse a run that would ask a model of which there is no module here, or that is no generator.

    Raises:
        ConfigError: no such module, or one that declares no generators.
    """
    for dataset in file.datasets:
        name = getattr(dataset.objective, "model", None)
        if name is None:
            continue
        who = f"dataset {dataset.name!r}: objective.model = {name!r}"
        spec = _spec(name.partition(":")[0], who)
        source = _source(spec)
        if spec.origin in _OF_PYTHON or (source is not None and DECLARED not in source):
            raise ConfigError(f"{who}: {undeclared(name)}")


def _spec(module: str, who: str) -> ModuleSpec:
    try:
        spec = find_spec(module)
    except Exception as error:  # the packages above it are imported, and may raise anything
        raise ConfigError(f"{who}: cannot be imported: {type(error).__name__}: {error}") from error
    if spec is None:
        raise ConfigError(
            f"{who}: no such module here; install it beside shardmill, wherever a worker runs"
        )
    return spec


def _source(spec: ModuleSpec) -> str | None:
    """Return a module's text, or None if it has none; then its worker looks at the module itself."""
    loader, read = spec.loader, getattr(spec.loader, "get_source", None)
    if loader is None or read is None:
        return None
    try:
        source = read(spec.name)
    except (ImportError, OSError, SyntaxError, UnicodeDecodeError):
        return None
    return source if isinstance(source, str) else None


def require_semantic_encoder(file: RunFile) -> None:
    """Refuse a run whose encoder is not installed here.

    Raises:
        ConfigError: it is not.
    """
    if file.dedup.semantic is not None:
        require_encoder(file.dedup.semantic.encoder)
