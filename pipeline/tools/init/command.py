"""The command `shardmill init`: asks little, and writes a run file."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import AsJson, local, no_url


def init(  # noqa: PLR0913  # one parameter an option
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER...", help="Folders of texts.", callback=no_url)
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="RUN.toml", help="The run file that is written.", callback=local
        ),
    ] = Path("run.toml"),
    task: Annotated[
        str | None,
        typer.Option(
            metavar="TASK", help="pretrain, code, chat, embedding, seq2seq or continue. [default: asked]"
        ),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="An existing tokenizer, instead of training one.", callback=no_url
        ),
    ] = None,
    licence: Annotated[
        str | None, typer.Option("--license", metavar="TEXT", help="Licence of the texts.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; take what is likely.")] = False,  # noqa: FBT002  # typer's way
    replace: Annotated[bool, typer.Option("--replace", help="Write over a run file.")] = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Write a run file for folders of texts, with its reasons."""
    from pipeline.tools.init.init import init_run_file, print_init

    ask = _ask if sys.stdin.isatty() and sys.stderr.isatty() and not yes and not as_json else None
    written = init_run_file(
        folders, output, task=task, tokenizer=tokenizer, licence=licence, replace=replace, ask=ask
    )
    print_init(written, as_json=as_json)


def _ask(question: str, likely: str, choices: tuple[str, ...]) -> str:
    """Ask a question in the terminal, again until the answer is one of the choices."""
    while True:
        answer = str(typer.prompt(question, default=likely, show_default=bool(likely), err=True)).strip()
        if not choices or answer in choices:
            return answer
        typer.echo(f"one of {', '.join(choices)}", err=True)
