"""The command line: parses, calls one function; `pipeline.commands.boundary` makes one line of an error.

Exit codes: 0 done; 1 unexpected error; 2 usage, config or input; 3 a check or gate failed; 75 stopped,
run again to resume; 130 Ctrl-C, likewise; 137 killed by the system, likewise.
"""

from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import CommandInfo

from pipeline.commands.options import (
    EXAMPLES,
    AsJson,
    Overrides,
    Quiet,
    RunFileArgument,
    Verbose,
    Workers,
    examples_of,
    integer,
    opened,
    placed,
    progress,
    some_share,
    whole,
)
from stages.errors import VerificationError

if TYPE_CHECKING:
    from pipeline.report.report import Report, RunReport
    from pipeline.steps.verify.step import VerdictRecord

app = typer.Typer(
    name="shardmill",
    help="Turns a raw text corpus into verified, memory-mapped training shards, on Ray.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["--help", "-h"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
Output = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="DIR", help="Folder of the run, or s3://BUCKET/RUN.", callback=placed
    ),
]
Folder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Folder of a run, or s3://BUCKET/RUN.", callback=opened),
]
VerifiedFolder = Annotated[
    Path,
    typer.Argument(metavar="DIR", help="Folder of a run, or s3://BUCKET/RUN.", callback=placed),
]
Address = Annotated[str | None, typer.Option("--address", help="Join the Ray cluster there, or 'auto'.")]


@app.command(epilog=examples_of("plan"))
def plan(
    run_file: RunFileArgument,
    output: Output,
    sample: Annotated[
        float | None,
        typer.Option(
            parser=some_share,
            metavar="SHARE",
            help="Forecast removals, tokens, time, memory and disk from a share of the inputs: 0.01.",
        ),
    ] = None,
    overrides: Overrides = None,
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Show what a run would do, and why; change nothing."""
    from pipeline.commands import api
    from pipeline.report.terminal import print_plan

    if sample is None or not as_json:
        print_plan(api.plan(run_file, output, settings=overrides or ()), as_json=as_json)
    if sample is not None:
        from pipeline.tools.forecast.forecast import forecast
        from pipeline.tools.forecast.terminal import print_forecast, require_room

        settings, shown = overrides or (), progress(quiet=quiet)
        found = forecast(run_file, output, share=sample, settings=settings, stream=shown)
        print_forecast(found, as_json=as_json)
        require_room(found)


@app.command(epilog=examples_of("run"))
def run(  # noqa: PLR0913  # one parameter an option
    run_file: RunFileArgument,
    output: Output,
    workers: Workers = None,
    address: Address = None,
    until: Annotated[
        str | None, typer.Option(metavar="STEP", help="Stop after this step, such as dedup.")
    ] = None,
    replace: Annotated[  # noqa: FBT002  # typer's way
        bool, typer.Option("--replace", help="Redo what was made with other settings or is damaged.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            parser=whole(1), metavar="N", help="A trial: read the first N documents of each source."
        ),
    ] = None,
    overrides: Overrides = None,
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    verbose: Verbose = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Run, or resume: what is committed is not done again."""
    from pipeline.commands import api

    report = api.run(
        run_file,
        output,
        workers=workers,
        address=address,
        until=until,
        replace=replace,
        limit=limit,
        settings=overrides or (),
        stream=progress(quiet=quiet),
        verbose=verbose,
    )
    _show_report(report, as_json=as_json)


@app.command(epilog=examples_of("status"))
def status(
    folder: Folder,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Show how far a run is."""
    from pipeline.report.status import print_status
    from pipeline.session.session import known_steps
    from pipeline.steps.run_folder import RunFolder
    from pipeline.system.disk_faults import disk_faults

    with disk_faults(folder):
        folders = [folder, *RunFolder(folder).generations()]
        print_status({one: known_steps(one) for one in folders}, as_json=as_json)


@app.command(epilog=examples_of("verify"))
def verify(
    folder: VerifiedFolder,
    workers: Workers = None,
    address: Address = None,
    full: Annotated[bool, typer.Option("--full", help="Train further models: verify.full.")] = False,  # noqa: FBT002  # typer's way
    quiet: Quiet = False,  # noqa: FBT002  # typer's way
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Check the datasets of a finished run again, from their files."""
    from pipeline.commands import api

    report = api.verify(
        folder, workers=workers, address=address, full=full, stream=progress(quiet=quiet)
    )
    _show_report(report, as_json=as_json)


@app.command(
    short_help="Show a row, or the largest clusters of duplicates.", epilog=examples_of("inspect")
)
def inspect(  # noqa: PLR0913  # one parameter an option
    folder: Folder,
    dataset: Annotated[
        str | None, typer.Option(metavar="NAME", help="The dataset of the row. [default: the only one]")
    ] = None,
    row: Annotated[int, typer.Option(parser=integer, metavar="N", help="The row, in stored order.")] = 0,
    split: Annotated[str, typer.Option(metavar="SPLIT", help="train or validation.")] = "train",
    epoch: Annotated[
        int, typer.Option(parser=integer, metavar="E", help="The epoch it is drawn for.")
    ] = 0,
    clusters: Annotated[  # noqa: FBT002  # typer's way
        bool,
        typer.Option("--clusters", help="Show the largest clusters of duplicates instead of a row."),
    ] = False,
    document: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Say what became of a document: its id, or PATH:LINE of a record."
        ),
    ] = None,
    as_json: AsJson = False,  # noqa: FBT002  # typer's way
) -> None:
    """Show a row in readable form, the largest clusters of duplicates, or the fate of a document."""
    from pipeline.commands.api import only_dataset
    from pipeline.report.clusters import duplicates, print_clusters
    from pipeline.report.fate import find_document, print_fate
    from pipeline.report.inspection import inspect, print_row

    if document is not None and clusters:
        raise typer.BadParameter("give --clusters or --document, not both", param_hint="--clusters")
    if document is not None:
        print_fate(find_document(folder, document), as_json=as_json)
        return
    if clusters:
        print_clusters(duplicates(folder), as_json=as_json)
        return
    chosen = dataset or only_dataset(folder, also=", or give --clusters or --document")
    print_row(inspect(folder, chosen, split=split, row=row, epoch=epoch), as_json=as_json)


@app.command(epilog=examples_of("schema"))
def schema(
    as_json: AsJson = False,  # noqa: ARG001, FBT002  # it is JSON in any case
) -> None:
    """Print the JSON schema of the run file."""
    from pipeline.report.plain import print_json
    from pipeline.run_file.load import run_file_schema

    print_json(run_file_schema())


def _version(value: bool) -> None:  # noqa: FBT001  # typer's way
    if value:
        typer.echo(f"shardmill {version('shardmill')}")
        raise typer.Exit


@app.callback()
def root(
    show_version: Annotated[  # noqa: FBT002  # typer's way
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Turns a raw text corpus into verified, memory-mapped training shards, on Ray."""


def _show_report(report: "RunReport", *, as_json: bool) -> None:
    """Print the report of a run, and fail if it has failed."""
    from pipeline.report.report import Report
    from pipeline.report.terminal import print_report

    print_report(report, as_json=as_json)
    _require_pass(Report.model_validate(report))


def _require_pass(report: "Report") -> None:
    for later in report.generations.values():
        _require_pass(later)
    failed = [
        f"{name}{_suspicion(verdict)}" for name, verdict in report.verify.items() if not verdict.passed
    ]
    if report.audit is not None and report.audit.findings:
        failed = ["files of the run (run again with --replace to repair them)", *failed]
    if failed:
        raise VerificationError(f"verify: FAIL: {', '.join(failed)}; see the findings above")


def _suspicion(verdict: "VerdictRecord") -> str:
    """Say of a verdict that no exact check failed, if it is a loss that alike documents may give."""
    from pipeline.report.verdicts import LEAK, failed_gates, learning_of

    learning = learning_of(verdict)
    if verdict.findings or learning is None:
        return ""
    failed = [gate.name for gate in failed_gates(learning)]
    if failed == [LEAK]:
        return f" (the exact checks passed, but the loss is so low that the gate {LEAK} failed)"
    return ""


if find_spec("pipeline.tools") is not None:  # a run needs none of them
    from pipeline.tools.commands import add_tools

    add_tools(app)


def _place(command: CommandInfo) -> int:
    """Return where a command stands in the help."""
    assert command.callback is not None
    return list(EXAMPLES).index(command.name or command.callback.__name__)


app.registered_commands.sort(key=_place)
