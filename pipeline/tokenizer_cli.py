"""The commands of `shardmill tokenizer`: about tokenizers alone, without a run."""

from pathlib import Path
from typing import Annotated

import typer

tokenizer_app = typer.Typer(
    name="tokenizer",
    help="Prove a tokenizer, or compare several.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@tokenizer_app.callback()
def tokenizer() -> None:
    """Prove a tokenizer, or compare several."""


@tokenizer_app.command("compare")
def compare_tokenizers(  # one parameter an option
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="A SentencePiece model, a tokenizer.json, a run's DIR, or NAME=PATH.",
        ),
    ],
    parallel: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of LANG.txt; line N of each is the same sentence. [default: the bundled"
            " declarations of human rights]",
        ),
    ] = None,
    reference: Annotated[
        str, typer.Option(metavar="LANG", help="The language that others are compared with.")
    ] = "en",
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of any texts: LANG.txt, or *.jsonl with text and lang."
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw parity by language.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,  # noqa: FBT002  # typer's way
) -> None:
    """Compare what texts of many languages take in tokens, tokenizer by tokenizer."""
    from pipeline.commands.tokenizer_compare import TokenizersRequest, compare_tokenizers
    from pipeline.report.tokenizers import print_tokenizers

    request = TokenizersRequest(tuple(models), parallel, reference, text, picture)
    print_tokenizers(compare_tokenizers(request), as_json=as_json)


@tokenizer_app.command("verify")
def verify_tokenizer_file(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A tokenizer's file, or a folder that holds one.")
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
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="What ranks of tiktoken are of, if they are not known."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,  # noqa: FBT002  # typer's way
) -> None:
    """Prove that texts come back, ids are the library's, and no text gives a special id."""
    from pipeline.commands.tokenizer_verify import verify_tokenizer
    from pipeline.report.tokenizer_proof import print_proof, require_proof

    found = verify_tokenizer(model, special=special or (), texts=texts or (), encoding=encoding)
    print_proof(found, as_json=as_json)
    require_proof(found)
