"""The commands of `shardmill tokenizer`: about a tokenizer's file alone, without a run."""

from pathlib import Path
from typing import Annotated

import typer

tokenizer_app = typer.Typer(
    name="tokenizer",
    help="Check a tokenizer's file.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@tokenizer_app.callback()
def tokenizer() -> None:
    """Check a tokenizer's file."""


@tokenizer_app.command()
def verify(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A SentencePiece .model, or a tokenizer.json.")
    ],
    texts: Annotated[
        list[Path] | None,
        typer.Option(
            "--text",
            metavar="PATH",
            help="A file that is one text, or JSON lines with 'text' (.jsonl); may be given again.",
        ),
    ] = None,
    special: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=PIECE", help="A special id, by piece or number: eos=</s>."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,  # noqa: FBT002  # typer's way
) -> None:
    """Prove that texts come back, ids are the library's, and no text gives a special id."""
    from pipeline.commands.tokenizer_verify import verify_tokenizer
    from pipeline.report.tokenizer_proof import print_proof, require_proof

    found = verify_tokenizer(model, special=special or (), texts=texts or ())
    print_proof(found, as_json=as_json)
    require_proof(found)
