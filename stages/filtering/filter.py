"""A filter as one value: what it asks of a document, its settings, and all reasons for which one goes.

    open(settings)      gives a judge, once a part of the input: lists are read, models loaded
    judge(document)     None if it stays as it is, `Removal`, or `Change`

A judge is pure: the same document always gets the same answer. `stages.filtering.table` lists the
filters that exist, and `stages.filtering.chain` asks those of a run in their order.

Libraries that judge texts for a filter: which version is installed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import Field, field_validator

from stages.config import Config
from stages.errors import ConfigError

Dropped = tuple[str, str] | None
"""The reason why a document goes and what was found, or None if it stays."""


class FilterConfig(Config):
    """The settings of one filter."""

    kind: str
    """Names the filter."""
    sources: tuple[str, ...] | None = Field(None, min_length=1)
    """The sources whose documents it looks at; all of them unless given."""

    @field_validator("sources")
    @classmethod
    def _each_source_once(cls, sources: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for name in sources or ():
            if sources is not None and sources.count(name) > 1:
                raise ValueError(f"names {name!r} twice; name it once")
        return sources


Settings_contra = TypeVar("Settings_contra", bound=FilterConfig, contravariant=True)


@dataclass(frozen=True)
class Document:
    """What a filter sees of a document."""

    text: bytes
    """Cleaned, in UTF-8; all of its sections."""
    characters: int
    """Of the text."""
    language: str | None = None
    """None if nothing names it."""
    values: Mapping[str, object] = field(default_factory=dict)
    """Of the columns that filters ask for, as its record has them; None is absent or null."""


@dataclass(frozen=True)
class Removal:
    """Why a document goes."""

    rule: str
    """One of the filter's rules."""
    detail: str
    """What was measured, and the bound."""
    excerpt: bytes | None = None
    """What may be shown of its text; by default its beginning."""


@dataclass(frozen=True)
class Change:
    """What a document becomes."""

    text: bytes | None = None
    """Its text, if that is another one."""
    language: str | None = None
    """Its language, if that is another one."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """How often each change was made."""


Judge = Callable[[Document], Removal | Change | None]


def no_columns(_: FilterConfig) -> tuple[str, ...]:
    """Ask for no column."""
    return ()


def no_files(_: FilterConfig) -> tuple[str, ...]:
    """Name no file."""
    return ()


def never(_: FilterConfig) -> bool:
    """Say no."""
    return False


def no_warning(_: FilterConfig) -> None:
    """Say nothing."""
    return


def nothing_outside(config: FilterConfig, _: Path, __: str) -> FilterConfig:
    """Return settings that rest on nothing outside of the run file."""
    return config


@dataclass(frozen=True)
class Filter(Generic[Settings_contra]):
    """One filter."""

    config: type[FilterConfig]
    rules: tuple[str, ...]
    """For which a document goes: those after the filter's name in the reason of a drop. One that may
    leave nothing of a text has `empty`, too, which the chain finds."""
    open: Callable[[Settings_contra], Judge]
    version: int = 1
    """Raised when its verdicts change for the same settings."""
    columns: Callable[[Settings_contra], tuple[str, ...]] = no_columns
    """Returns the columns of a record that it reads."""
    rewrites: Callable[[Settings_contra], bool] = never
    """Says whether it changes texts, so that no section of them may end within."""
    resolve: Callable[[Settings_contra, Path, str], FilterConfig] = nothing_outside
    """Returns the settings with the digest of what they rest on: files beside the run file, code, a
    model. Raises ConfigError if that is not there; takes the run file's folder, and the setting's name
    for messages."""
    files: Callable[[Settings_contra], tuple[str, ...]] = no_files
    """Returns the absolute paths of the files that a judge of resolved settings reads. It opens each at
    `stages.stores.given.given_path`: on another machine they are elsewhere."""
    warning: Callable[[Settings_contra], str | None] = no_warning
    """Says what of resolved settings has no effect, for people."""
    undecided: tuple[str, ...] = ()
    """Settings that decide no verdict once the others are resolved: where a file is."""
    memory_factor: int = 0
    """Bytes that a judge may take for each byte of a text."""
    memory: int = 0
    """Bytes that a judge holds."""

    @property
    def name(self) -> str:
        """The `kind` that its configs have."""
        return str(self.config.model_fields["kind"].default)

    @property
    def reasons(self) -> tuple[str, ...]:
        """All that it drops documents for, as the drops and the report have them."""
        return tuple(f"{self.name}.{rule}" for rule in self.rules)


def measured(rule: str, what: str, found: float, setting: str, bound: float) -> Removal:
    """Return a verdict that says what was measured and the bound of a setting.

    ("too_few_words", "words", 12, "min_words", 50) -> "words: 12; min_words = 50"
    """
    return Removal(rule, f"{what}: {_number(found)}; {setting} = {_number(bound)}")


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def installed(package: str, extra: str, *, what: str = "", otherwise: str = "") -> str:
    """Return the name and version of a library.

    Args:
        package: its name.
        extra: of this program, that brings it.
        what: needs it, for the message.
        otherwise: another way out, likewise.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError as error:
        need = f"{what} need {package}" if what else f"needs {package}"
        raise ConfigError(
            f"{need}, which is not installed; pip install 'shardmill[{extra}]'{otherwise}"
        ) from error
