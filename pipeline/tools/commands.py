"""The commands of all tools, which the command line adds to those of a run."""

import typer

from pipeline.commands.options import examples_of
from pipeline.tools.compare.command import compare
from pipeline.tools.export.command import export, quick
from pipeline.tools.init.command import init
from pipeline.tools.launch.command import launch_app
from pipeline.tools.tokenizer.command import tokenizer_app

_SHORT = {
    "export": "Write a dataset in the file format of a trainer.",
    "quick": "Tokenize texts for a trainer, without deduplication.",
}
"""Of commands whose help begins with a long sentence."""


def add_tools(app: typer.Typer) -> None:
    """Add the commands of all tools."""
    for command in (init, export, quick, compare):
        name = command.__name__
        app.command(name, short_help=_SHORT.get(name), epilog=examples_of(name))(command)
    app.add_typer(tokenizer_app)
    app.add_typer(launch_app)
