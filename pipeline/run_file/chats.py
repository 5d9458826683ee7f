"""Chats of a run: templates that are files are read when it is planned, so workers need no file."""

from functools import partial
from pathlib import Path

from pipeline.run_file.config import RunFile, Source
from pipeline.system.regular_files import read_regular
from stages.chat.config import JINJA, ChatConfig
from stages.chat.rendering import open_template
from stages.errors import ConfigError


def resolve_chats(file: RunFile, base: Path) -> RunFile:
    """Return a run whose sources hold the templates that they name.

    Args:
        file: the run.
        base: folder that its paths are relative to.

    Raises:
        ConfigError: a file is not there, or is no template.
    """
    if not any(source.chat for source in file.sources):
        return file
    return file.model_copy(update={"sources": tuple(_resolved(one, base) for one in file.sources)})


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
