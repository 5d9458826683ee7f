"""The commands `shardmill export`, of a dataset, stages or the kept texts, and `shardmill quick`."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import (
    AsJson,
    Quiet,
    Workers,
    integer,
    local,
    no_url,
    opened,
    placed,
    progress,
    share,
    whole,
)
from stages.errors import ConfigError

FORMATS_HELP = "The trainer's format: docs/exports.md."
FramingOption = Annotated[
    str | None,
    typer.Option(metavar="PRESET", help="What stands around documents: gpt2, llama, bert, tokenizer."),
]


def export(  # noqa: PLR0913  # one parameter an option
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of a run, or s3://BUCKET/RUN.", callback=opened),
    ],
    to: Annotated[
        Path,
        typer.Option(
            metavar="PATH", help="Folder of the export, or s3://BUCKET/EXPORT.", callback=placed
        ),
    ],
    format_: Annotated[
        str | None, typer.Option("--format", metavar="FORMAT", help=f"{FORMATS_HELP} [required]")
    ] = None,
    datasets: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            metavar="NAME",
            help="The dataset; several are stages, in order. [default: the only one]",
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(metavar="SPLIT", help="One split. [default: all]")] = None,
    epoch: Annotated[
        int, typer.Option(parser=integer, metavar="E", help="The epoch that rows are drawn for.")
    ] = 0,
    columns: Annotated[
        str,
        typer.Option(metavar="NAME,...", help="Columns of rows. [default: all]", show_default=False),
    ] = "",
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Write a dataset, stages or the kept texts in the files of a trainer; run again to resume."""
    from pipeline.commands.api import only_dataset
    from pipeline.tools.export import dataset, stages
    from pipeline.tools.export.terminal import print_export, print_stages
    from pipeline.tools.export.texts import export_texts
    from stages.export.texts import TEXT_FORMATS

    if format_ is None:
        raise _no_format()
    if format_ in TEXT_FORMATS:
        _refuse_with_texts(format_, dataset=datasets, split=split, epoch=epoch, columns=columns)
        texts = export_texts(folder, format_, to, stream=progress(quiet=quiet))
        print_export(texts, as_json=as_json)
        return
    names = datasets or [only_dataset(folder)]
    chosen = tuple(name.strip() for name in columns.split(",") if name.strip())
    shown = progress(quiet=quiet)
    if len(names) > 1:
        staged = stages.export_stages(
            folder, names, format_, to, split=split, epoch=epoch, columns=chosen, stream=shown
        )
        print_stages(staged, as_json=as_json)
        return
    written = dataset.export(
        folder, names[0], format_, to, split=split, epoch=epoch, columns=chosen, stream=shown
    )
    print_export(written, as_json=as_json)


def _no_format() -> ConfigError:
    """Return the error of an export without a format: it lists them."""
    from stages.export.table import FORMATS
    from stages.export.texts import TEXT_FORMATS

    names = ", ".join((*FORMATS, *TEXT_FORMATS))
    return ConfigError(f"--format: name the trainer's, one of {names}; docs/exports.md")


def _refuse_with_texts(name: str, **given: object) -> None:
    """Refuse options about a dataset, where texts are exported.

    Raises:
        ConfigError: one was given.
    """
    for option, value in given.items():
        if value:
            raise ConfigError(
                f"--{option}: {name} holds the texts that the run kept, not a dataset; leave it out"
            )


def quick(  # noqa: PLR0913  # one parameter an option
    paths: Annotated[
        list[str], typer.Argument(metavar="FILES...", help="Files or globs of texts, or URLs.")
    ],
    tokenizer: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="A SentencePiece .model, or a tokenizer.json.", callback=no_url
        ),
    ],
    format_: Annotated[str, typer.Option("--format", metavar="FORMAT", help=FORMATS_HELP)],
    to: Annotated[Path, typer.Option(metavar="PATH", help="Folder of the export.", callback=local)],
    text_column: Annotated[str, typer.Option(metavar="NAME", help="The field of the text.")] = "text",
    seq_len: Annotated[
        int | None,
        typer.Option(parser=whole(2), metavar="N", help="Tokens in a row, of formats that hold rows."),
    ] = None,
    validation: Annotated[
        float,
        typer.Option(parser=share, metavar="SHARE", help="Share of the documents that is held out."),
    ] = 0.01,
    special: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=PIECE", help="A special id, by piece or number: eos=</s>."),
    ] = None,
    framing: FramingOption = None,
    work: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the run. [default: PATH.work]", callback=local),
    ] = None,
    workers: Workers = None,
    replace: Annotated[  # noqa: FBT002  # typer's way
        bool, typer.Option("--replace", help="Redo what other texts or options made.")
    ] = False,
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Tokenize texts with an existing tokenizer and write a trainer's files, without deduplication."""
    from pipeline.commands.api import worker_count
    from pipeline.tools.export.quick import quick_export, quick_run_file
    from pipeline.tools.export.terminal import print_quick

    file = quick_run_file(
        paths,
        tokenizer,
        text_column=text_column,
        seq_len=seq_len,
        validation=validation,
        special=special or (),
        framing=framing,
    )
    count = worker_count(workers)
    made = quick_export(
        file, to, format=format_, work=work, workers=count, replace=replace, stream=progress(quiet=quiet)
    )
    print_quick(made, as_json=as_json)
