"""The commands of `shardmill tokenizer`: about tokenizers alone, without a run."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

tokenizer_app = typer.Typer(
    name="tokenizer",
    help="Prove a tokenizer, compare several, or choose the settings of a new one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@tokenizer_app.callback()
def tokenizer() -> None:
    """Prove a tokenizer, compare several, or choose the settings of a new one."""


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


def _numbers(text: str) -> tuple[float, ...]:
    """Return numbers that commas part: 0.3,1."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: write numbers with commas between them") from error


@tokenizer_app.command("sweep")
def sweep_tokenizer_settings(  # noqa: PLR0913  # one parameter an option
    run_file: Annotated[Path, typer.Argument(metavar="RUN.toml", help="The run file.")],
    sizes: Annotated[
        str, typer.Option(metavar="N,...", help="Vocabulary sizes to try.")
    ] = "16000,32000,64000",
    alphas: Annotated[
        str, typer.Option(metavar="A,...", help="Exponents of the balance over languages to try.")
    ] = "0.3,0.5,1.0",
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="tokenizer.train.model. [default: that of the run file]"),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--run",
            metavar="DIR",
            help="Folder of a run of this file that got as far as its kept texts; only read."
            " [default: a run in a temporary folder]",
        ),
    ] = None,
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
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Draw tokens against parity.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the tokenizers and the report here.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Ray actors; 0 works in this process. [default: cores]"),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change one key of the run file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False,  # noqa: FBT002  # typer's way
) -> None:
    """Train a tokenizer of each size and alpha on a run's texts, and show what each costs whom."""
    from pipeline.commands.tokenizer_sweep import SweptSettings, sweep_request, sweep_tokenizers
    from pipeline.report.sweep import print_sweep

    wanted = SweptSettings(_numbers(sizes), _numbers(alphas), model)
    request = sweep_request(run_file, folder, wanted, workers=workers, overrides=overrides or ())
    request = replace(request, parallel=parallel, reference=reference, picture=picture, save=save)
    print_sweep(sweep_tokenizers(request, stream=sys.stderr), as_json=as_json)
