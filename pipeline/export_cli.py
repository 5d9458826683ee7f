"""The command `shardmill export`: a dataset, stages, or the kept texts."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import AsJson, Quiet, integer, local, progress

FORMATS_HELP = "The trainer's format: docs/exports.md."


def export(  # noqa: PLR0913  # one parameter an option
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run.", callback=local)],
    to: Annotated[Path, typer.Option(metavar="PATH", help="Folder of the export.", callback=local)],
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
    from pipeline.commands import api_exports
    from pipeline.commands.chosen import no_format, only_dataset, refuse_with_texts
    from pipeline.report.exported import print_export, print_stages
    from stages.export.texts import TEXT_FORMATS

    if format_ is None:
        raise no_format()
    if format_ in TEXT_FORMATS:
        refuse_with_texts(format_, dataset=datasets, split=split, epoch=epoch, columns=columns)
        texts = api_exports.export_texts(folder, format_, to, stream=progress(quiet=quiet))
        print_export(texts, as_json=as_json)
        return
    names = datasets or [only_dataset(folder)]
    chosen = tuple(name.strip() for name in columns.split(",") if name.strip())
    shown = progress(quiet=quiet)
    if len(names) > 1:
        staged = api_exports.export_stages(
            folder, names, format_, to, split=split, epoch=epoch, columns=chosen, stream=shown
        )
        print_stages(staged, as_json=as_json)
        return
    written = api_exports.export(
        folder, names[0], format_, to, split=split, epoch=epoch, columns=chosen, stream=shown
    )
    print_export(written, as_json=as_json)
