"""Options that several commands have."""

import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer


def local(parameter: typer.CallbackParam, value: Any) -> Any:
    """Return folders as they are given, if none of them is a URL."""
    from pipeline.planning.outputs import require_local

    name = parameter.opts[0] if parameter.opts[0].startswith("-") else str(parameter.metavar)
    for path in value if isinstance(value, list) else [value]:
        if path is not None:
            require_local(path, name)
    return value


RunFileArgument = Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run file.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change one key of the run file."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]


def progress(*, quiet: bool) -> TextIO | None:
    """Return where progress is shown."""
    return None if quiet else sys.stderr
