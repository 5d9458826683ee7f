"""Libraries that judge texts for a filter: which version is installed."""

from importlib.metadata import PackageNotFoundError, version

from stages.errors import ConfigError


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
