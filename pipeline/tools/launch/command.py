"""The commands of `shardmill launch`."""

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from pipeline.commands.options import Overrides, RunFileArgument, examples_of
from pipeline.tools.launch.options import (
    CpusOption,
    DryRunOption,
    MemoryOption,
    NodesOption,
    OutputOption,
    PartitionOption,
    RequeuesOption,
    SbatchOption,
    TimeOption,
    WorkersOption,
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
    output: OutputOption,
    nodes: NodesOption,
    workers: WorkersOption = None,
    time: TimeOption = None,
    partition: PartitionOption = None,
    cpus_per_node: CpusOption = None,
    memory_per_node: MemoryOption = None,
    requeues: RequeuesOption = 3,
    sbatch: SbatchOption = None,
    overrides: Overrides = None,
    dry_run: DryRunOption = False,  # noqa: FBT002  # typer's way
) -> None:
    """Submit a run as a job of Slurm: it starts Ray on its nodes, and continues after a stop."""
    from pipeline.tools.launch.batch_script import SlurmJob, batch_script
    from pipeline.tools.launch.submission import submit

    job = SlurmJob(
        python=Path(sys.executable),
        run=_run_arguments(run_file, output, workers, overrides or ()),
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


def _run_arguments(
    run_file: Path, output: Path, workers: int | None, settings: Sequence[str]
) -> tuple[str, ...]:
    """Return the arguments of `shardmill run`, if the run file has no mistake.

    Raises:
        ConfigError: it has one, which would otherwise be seen when the job starts.
    """
    from pipeline.run_file.load import load_run_file
    from stages.stores.url import StoreUrl, is_store_url

    load_run_file(run_file, settings)
    place = str(output)
    stored = is_store_url(place)
    place = str(StoreUrl.parse(place, key="--output") if stored else output.absolute())
    number = () if workers is None else ("--workers", str(workers))
    changed = (word for setting in settings for word in ("--set", setting))
    return (str(run_file.absolute()), "--output", place, *number, *changed)
