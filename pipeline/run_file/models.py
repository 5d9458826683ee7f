"""Models that a run file names, looked up when the run is planned; nothing is called."""

from importlib.machinery import ModuleSpec
from importlib.util import find_spec

from pipeline.run_file.config import RunFile
from stages.dedup.encoders import require_encoder
from stages.errors import ConfigError
from stages.objectives.generated import DECLARED, undeclared

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
