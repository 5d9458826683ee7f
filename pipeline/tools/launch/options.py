"""Options of `shardmill launch`."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import placed, whole

OutputOption = Annotated[
    Path,
    typer.Option(
        "--output",
        "-o",
        metavar="DIR",
        help="Folder of the run that all nodes see, or s3://BUCKET/RUN.",
        callback=placed,
    ),
]
NodesOption = Annotated[int, typer.Option(parser=whole(1), metavar="N", help="Nodes of the job.")]
WorkersOption = Annotated[
    int | None,
    typer.Option(parser=whole(1), metavar="W", help="Ray actors on all nodes. [default: the run's]"),
]
TimeOption = Annotated[
    str | None,
    typer.Option(metavar="T", help="Time limit: 12:00:00. [default: the partition's]"),
]
PartitionOption = Annotated[
    str | None, typer.Option(metavar="P", help="The partition. [default: the cluster's]")
]
CpusOption = Annotated[
    int | None,
    typer.Option(parser=whole(1), metavar="C", help="Cores of each node. [default: whole nodes]"),
]
MemoryOption = Annotated[
    str | None, typer.Option(metavar="M", help="Memory of each node: 64G. [default: all]")
]
RequeuesOption = Annotated[
    int,
    typer.Option(
        parser=whole(0), metavar="K", help="How often a stopped job is put into the queue again."
    ),
]
SbatchOption = Annotated[
    list[str] | None,
    typer.Option("--sbatch", metavar="OPTION", help="One more of sbatch: --sbatch=--account=lab."),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the batch script, and submit nothing.")
]
