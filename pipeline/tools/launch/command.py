"""The commands of `shardmill launch`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.options import (
    Overrides,
    RunFileArgument,
    examples_of,
    placed,
    whole,
)

launch_app = typer.Typer(
    name="launch",
    help="Make a run as a job of a cluster.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@launch_app.callback()
def launch() -> None:
    """Make a run as a job of a cluster."""


@launch_app.command("slurm", epilog=examples_of("launch slurm"))
def slurm(  # noqa: PLR0913  # one parameter an option
    run_file: RunFileArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR",
            help="Folder of the run that all nodes see, or s3://BUCKET/RUN.",
            callback=placed,
        ),
    ],
    nodes: Annotated[int, typer.Option(parser=whole(1), metavar="N", help="Nodes of the job.")],
    workers: Annotated[
        int | None,
        typer.Option(parser=whole(1), metavar="W", help="Ray actors on all nodes. [default: the run's]"),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(metavar="T", help="Time limit: 12:00:00. [default: the partition's]"),
    ] = None,
    partition: Annotated[
        str | None, typer.Option(metavar="P", help="The partition. [default: the cluster's]")
    ] = None,
    cpus_per_node: Annotated[
        int | None,
        typer.Option(parser=whole(1), metavar="C", help="Cores of each node. [default: whole nodes]"),
    ] = None,
    memory_per_node: Annotated[
        str | None, typer.Option(metavar="M", help="Memory of each node: 64G. [default: all]")
    ] = None,
    requeues: Annotated[
        int,
        typer.Option(
            parser=whole(0), metavar="K", help="How often a stopped job is put into the queue again."
        ),
    ] = 3,
    sbatch: Annotated[
        list[str] | None,
        typer.Option("--sbatch", metavar="OPTION", help="One more of sbatch: --sbatch=--account=lab."),
    ] = None,
    overrides: Overrides = None,
    dry_run: Annotated[  # noqa: FBT002  # typer's way
        bool, typer.Option("--dry-run", help="Print the batch script, and submit nothing.")
    ] = False,
) -> None:
    """Submit a run as a job of Slurm: it starts Ray on its nodes, and continues after a stop."""
    from pipeline.run_file.load import load_run_file
    from pipeline.tools.launch.batch_script import SlurmJob, batch_script
    from pipeline.tools.launch.submission import submit

    load_run_file(run_file, overrides or ())  # a mistake is seen now, not when the job starts
    place = str(output) if ":" in str(output) else str(output.absolute())
    run = [str(run_file.absolute()), "--output", place]
    run += [] if workers is None else ["--workers", str(workers)]
    for setting in overrides or ():
        run += ["--set", setting]
    job = SlurmJob(
        python=Path(sys.executable),
        run=tuple(run),
        folder=Path.cwd(),
        nodes=nodes,
        requeues=requeues,
        time=time,
        partition=partition,
        cpus_per_node=cpus_per_node,
        memory_per_node=memory_per_node,
        options=tuple(sbatch or ()),
    )
    if dry_run:
        typer.echo(batch_script(job), nl=False)
        return
    number = submit(batch_script(job))
    typer.echo(f"job {number}; its output is in slurm-{number}.out")
