"""Chats of a run: templates that are files are read when it is planned, so workers need no file.

A tokenizer that the run trains can have the markup of all templates as control symbols, which are found
out here, too.
"""

from functools import partial
from pathlib import Path

from pydantic import ValidationError

from pipeline.run_file.config import RunFile
from pipeline.run_file.faults import what_must_be
from pipeline.run_file.source import Source
from pipeline.system.regular_files import read_regular
from stages.chat.config import JINJA, ChatConfig
from stages.chat.rendering import open_template, spelled_pieces
from stages.errors import ConfigError
from stages.tokenizer.special import special_pieces
from stages.tokenizer.train import TrainConfig


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
