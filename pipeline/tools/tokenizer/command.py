"""The commands of `shardmill tokenizer`: about tokenizers alone, without a run."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import (
    AsJson,
    Overrides,
    Quiet,
    RunFileArgument,
    examples_of,
    local,
    no_url,
    progress,
    share,
    whole,
)
from pipeline.tools.tokenizer.options import (
    AlphasOption,
    EncodingOption,
    LossTextOption,
    NewTextOption,
    OldTextOption,
    ParallelOption,
    ReferenceOption,
    RowsOption,
    SpecialOption,
    TensorOption,
    TextsRunOption,
)
from stages.resize.row_method import RowMethod

tokenizer_app = typer.Typer(
    name="tokenizer",
    help="Prove, compare, choose, extend and export tokenizers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@tokenizer_app.callback()
def tokenizer() -> None:
    """Prove, compare, choose, extend and export tokenizers."""


@tokenizer_app.command("compare", epilog=examples_of("tokenizer compare"))
def compare_tokenizers(  # one parameter an option
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="A tokenizer's file, a folder that holds one, or a run's DIR. NAME=PATH also names it"
            " in the tables.",
            callback=no_url,
        ),
    ],
    parallel: ParallelOption = None,
    reference: ReferenceOption = "en",
    text: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of any texts: LANG.txt, or *.jsonl with text and lang.",
            callback=no_url,
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw parity by language, as SVG.", callback=local),
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Compare tokenizers on text of many languages.

    Parity is the tokens of a language divided by those of --reference for the same sentences. Without
    --parallel and --text, the text is the bundled Universal Declaration of Human Rights.
    """
    from pipeline.tools.tokenizer.compare import compare_tokenizers, print_tokenizers

    compared = compare_tokenizers(
        models, parallel=parallel, reference=reference, text=text, picture=picture
    )
    print_tokenizers(compared, as_json=as_json)


@tokenizer_app.command("verify", epilog=examples_of("tokenizer verify"))
def verify_tokenizer_file(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A tokenizer's file, a folder that holds one, or a run's DIR.",
            callback=no_url,
        ),
    ],
    texts: Annotated[
        list[Path] | None,
        typer.Option(
            "--text",
            metavar="PATH",
            help="A file that is one text, or JSON lines with 'text' (.jsonl); may be given again.",
            callback=no_url,
        ),
    ] = None,
    special: SpecialOption = None,
    encoding: EncodingOption = None,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Prove what a tokenizer's file does to text.

    Thousands of texts are encoded: all come back, their ids are the library's, and none gives a special
    id. Exit code 3 if a check fails.
    """
    from pipeline.tools.tokenizer.verify import print_proof, require_proof, verify_tokenizer

    found = verify_tokenizer(model, special=special or (), texts=texts or (), encoding=encoding)
    print_proof(found, as_json=as_json)
    require_proof(found)


def _numbers(text: str) -> tuple[float, ...]:
    """Return numbers that commas part: 0.3,1."""
    try:
        return tuple(float(part) for part in text.split(",") if part.strip())
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: write numbers with commas between them") from error


@tokenizer_app.command("sweep", epilog=examples_of("tokenizer sweep"))
def sweep_tokenizer_settings(  # noqa: PLR0913  # one parameter an option
    run_file: RunFileArgument,
    sizes: Annotated[
        str, typer.Option(metavar="N,...", help="Vocabulary sizes to try.")
    ] = "16000,32000,64000",
    alphas: AlphasOption = "0.3,0.5,1.0",
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="tokenizer.train.model. [default: that of the run file]"),
    ] = None,
    folder: TextsRunOption = None,
    parallel: ParallelOption = None,
    reference: ReferenceOption = "en",
    picture: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw tokens against parity, as SVG.", callback=local),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the tokenizers and the report here.", callback=local),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            parser=whole(0), metavar="N", help="Ray actors; 0 works in this process. [default: cores]"
        ),
    ] = None,
    overrides: Overrides = None,
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Train tokenizers of several sizes and alphas.

    They are trained on the texts of a run. The table says how many tokens each needs for the same text
    in many languages, and which settings are worth it.
    """
    from pipeline.commands.api import request_of, worker_count
    from pipeline.tools.tokenizer.sweep import SweptSettings, sweep_tokenizers
    from pipeline.tools.tokenizer.sweep_tables import print_sweep

    wanted = SweptSettings(_numbers(sizes), _numbers(alphas), model)
    swept = sweep_tokenizers(
        request_of(run_file, folder or Path(), overrides or (), workers=worker_count(workers)),
        wanted,
        has_texts=folder is not None,
        parallel=parallel,
        reference=reference,
        picture=picture,
        save=save,
        stream=progress(quiet=quiet),
    )
    print_sweep(swept, as_json=as_json)


@tokenizer_app.command("extend", epilog=examples_of("tokenizer extend"))
def extend_tokenizer_file(  # noqa: PLR0913  # one parameter an option
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A SentencePiece model or a byte-level file, a folder that holds one, or a run's DIR.",
            callback=no_url,
        ),
    ],
    text: NewTextOption,
    pieces: Annotated[
        int, typer.Option(parser=whole(1), metavar="N", help="How many pieces to append.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="The extended tokenizer; must not be there: *.model, or *.json.",
            callback=local,
        ),
    ],
    language: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LANG", help="A language of the text to learn; may be given again. [default: all]"
        ),
    ] = None,
    old_text: OldTextOption = None,
    max_drift: Annotated[
        float,
        typer.Option(
            parser=share, metavar="SHARE", help="Share of the tokens of old text that may change."
        ),
    ] = 0.005,
    special: SpecialOption = None,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Learn pieces from new text and append them.

    Every old id keeps its piece. `tokenizer resize` gives the model rows for the new ids.
    """
    from pipeline.tools.tokenizer.extend import extend_tokenizer
    from pipeline.tools.tokenizer.extension_measures import print_extension

    extended = extend_tokenizer(
        model,
        text,
        pieces=pieces,
        output=output,
        languages=language or (),
        old_text=old_text or (),
        max_drift=max_drift,
        special=special or (),
    )
    print_extension(extended, as_json=as_json)


@tokenizer_app.command("resize", epilog=examples_of("tokenizer resize"))
def resize_to_tokenizer(  # noqa: PLR0913  # one parameter an option
    checkpoint: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="A torch state dict, a .safetensors file, or a folder of transformers.",
            callback=no_url,
        ),
    ],
    old: Annotated[
        Path, typer.Option(metavar="MODEL", help="The tokenizer of the checkpoint.", callback=no_url)
    ],
    new: Annotated[
        Path,
        typer.Option(
            metavar="MODEL", help="The extended one, in which old ids are unchanged.", callback=no_url
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(metavar="PATH", help="The checkpoint to write, a file or folder.", callback=local),
    ],
    rows: RowsOption = RowMethod.PIECES,
    multiple_of: Annotated[
        int, typer.Option(parser=whole(1, 1 << 20), metavar="N", help="Pad the rows to a multiple of N.")
    ] = 1,
    seed: Annotated[
        int,
        typer.Option(parser=whole(0, (1 << 64) - 1), metavar="N", help="Of --rows normal and random."),
    ] = 0,
    tensor: TensorOption = None,
    text: LossTextOption = None,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Add rows for new ids to a model's checkpoint.

    The embeddings, the head and its bias get a row for each id that --new has and --old has not. Old
    rows keep their bytes. The checkpoint itself is not changed.
    """
    from pipeline.tools.tokenizer.resize import resize_checkpoint
    from pipeline.tools.tokenizer.resize_tables import print_resizing

    resizing = resize_checkpoint(
        checkpoint,
        output,
        old=old,
        new=new,
        method=rows,
        multiple_of=multiple_of,
        seed=seed,
        tensors=tensor or (),
        texts=text or (),
    )
    print_resizing(resizing, as_json=as_json)


@tokenizer_app.command("export", epilog=examples_of("tokenizer export"))
def export_tokenizer_folder(  # one parameter an option
    model: Annotated[
        Path,
        typer.Argument(metavar="MODEL", help="A run's DIR, or a tokenizer's file.", callback=no_url),
    ],
    to: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder to write; must not be there.", callback=local)
    ],
    framing: Annotated[
        str | None,
        typer.Option(
            metavar="PRESET",
            help="What add_special_tokens puts around a text: a preset of [framing], or none."
            " [default: the framing of the run, or what the file says]",
        ),
    ] = None,
    special: SpecialOption = None,
    split_special: Annotated[  # noqa: FBT002  # typer's way
        bool, typer.Option(help="Take special tokens for text where a text writes them out.")
    ] = False,
    texts: Annotated[
        list[Path] | None,
        typer.Option(
            "--text",
            metavar="PATH",
            help="Compare ids on it too: a file that is one text, or JSON lines with 'text' (.jsonl);"
            " may be given again.",
            callback=no_url,
        ),
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Write a folder that AutoTokenizer loads.

    It has the same ids and the same special ids, which is proved before the folder gets its name.
    """
    from pipeline.tools.tokenizer.export import export_tokenizer, print_export

    found = export_tokenizer(
        model, to, framing=framing, special=special or (), split_special=split_special, texts=texts or ()
    )
    print_export(found, as_json=as_json)
